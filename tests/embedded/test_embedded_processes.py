"""The embedded backend between real processes: rank counts, fields by brute force, partners that die or never come."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from clock_helpers import emulated_clock
from embedded_helpers import case, end_all, finish, points, start, write_configuration
from numpy.typing import NDArray
from slurm_helpers import wait_until

from precice_lb.ingest.profiling import read_profile

pytestmark = pytest.mark.mpi


@pytest.fixture(autouse=True)
def _none_left_running() -> Iterator[None]:
    yield
    end_all()


ROLES: dict[str, dict[str, Any]] = {
    "A": {"writes": ["Heat"], "reads": ["Force"]},
    "B": {"writes": ["Force"], "reads": ["Heat"]},
}


def prepare(
    tmp_path: Path, kind: str, *, dimensions: int = 2, roles: dict[str, dict[str, Any]] | None = None, **others: Any
) -> tuple[Path, dict[str, dict[str, Any]]]:
    others.setdefault("exchanges", [(kind, "A", "B", "Heat:A>B Force:B>A")])
    configuration = write_configuration(
        tmp_path / "precice-config.xml",
        participants={"A": [], "B": []},
        dimensions=dimensions,
        vector=["Force"],
        **others,
    )
    merged = {
        name: {"points": points(count, dimensions, count), **ROLES[name], **(roles or {}).get(name, {})}
        for name, count in (("A", 31), ("B", 19))
    }
    return case(tmp_path, configuration, merged), merged


def end_well(started: Iterable[subprocess.Popen[str]]) -> None:
    """Start all of them, and wait for their good end."""
    for process in list(started):
        code, output = finish(process)
        assert code == 0, output


def profiled(directory: Path, participant: str, rank: int, size: int) -> NDArray[np.void]:
    """Read what a rank's profiling file says of its calls of advance."""
    return read_profile(directory / "precice-profiling" / f"{participant}-{rank}-{size}.txt").calls


def test_waits_for_a_slow_partner_are_told(tmp_path: Path, mpiexec: str) -> None:
    case_file, _ = prepare(tmp_path, "parallel-explicit", roles={"B": {"sleep": 1.2}})
    clock = emulated_clock({"PYTHONPATH": str(Path(__file__).resolve().parents[2])})
    end_well(start(mpiexec, case_file, name, ranks, clock) for name, ranks in (("A", 2), ("B", 1)))
    for rank in range(2):
        calls = profiled(tmp_path, "A", rank, 2)
        np.testing.assert_allclose(calls["wait_us"], 1.2e6, atol=100)
        assert (calls["mapping_us"] == 0).all()
    assert (profiled(tmp_path, "B", 0, 1)["wait_us"] < 100).all()


def test_an_upstream_participant_runs_ahead(tmp_path: Path, mpiexec: str) -> None:
    case_file, _ = prepare(
        tmp_path,
        "serial-explicit",
        exchanges=[("serial-explicit", "A", "B", "Heat:A>B")],
        roles={"A": {"reads": [], "points": points(200_000, 2, 1)}, "B": {"writes": [], "sleep": 0.4}},
    )
    end_well(start(mpiexec, case_file, name, ranks) for name, ranks in (("A", 2), ("B", 1)))
    assert (profiled(tmp_path, "A", 0, 2)["wait_us"] == 0).all()


def test_a_killed_partner_is_an_error_on_all_ranks_soon(tmp_path: Path, mpiexec: str) -> None:
    case_file, _ = prepare(tmp_path, "parallel-explicit", roles={"A": {"mark": True}, "B": {"sleep": 600.0}})
    a = start(mpiexec, case_file, "A", 2)
    b = start(mpiexec, case_file, "B", 2)
    wait_until(lambda: len([*tmp_path.glob("A-*.initialized")]) == 2)
    # Time for A to reach its wait for what B computes; before that, it finds B gone a little later.
    time.sleep(1.0)
    assert a.poll() is None
    os.killpg(b.pid, signal.SIGKILL)
    # Long before B would have come to its end.
    code, output = finish(a, 300)
    assert code != 0
    assert output.count('CouplingError: partner "B" is gone: "A" lost its connection') == 2
    finish(b)


def test_a_partner_that_kills_itself_is_an_error_for_a_pure_sender(tmp_path: Path, mpiexec: str) -> None:
    case_file, _ = prepare(
        tmp_path,
        "parallel-explicit",
        exchanges=[("parallel-explicit", "A", "B", "Heat:A>B")],
        end='<max-time-windows value="100000" />',
        roles={"A": {"reads": [], "sleep": 0.05}, "B": {"writes": [], "kill_at": 2}},
    )
    a, b = start(mpiexec, case_file, "A", 2), start(mpiexec, case_file, "B", 1)
    code, output = finish(a)
    assert code != 0
    assert output.count('CouplingError: partner "B" is gone') == 2
    assert finish(b)[0] == -signal.SIGKILL


def test_a_partner_that_never_comes_is_an_error_on_all_ranks(tmp_path: Path, mpiexec: str) -> None:
    case_file, _ = prepare(tmp_path, "serial-explicit")
    for name in "AB":
        code, output = finish(start(mpiexec, case_file, name, 2, {"PRECICE_LB_TIMEOUT": "0.5"}))
        partner = "B" if name == "A" else "A"
        assert code != 0
        assert output.count(f'"{name}" waited 0.5 s for its partner "{partner}"') == 2
        assert str(tmp_path) in output


def test_after_a_killed_run_the_next_one_works(tmp_path: Path, mpiexec: str) -> None:
    case_file, _ = prepare(tmp_path, "parallel-explicit")
    lonely = start(mpiexec, case_file, "A", 1)
    published = tmp_path / "precice-lb-run" / "A-B.json"
    wait_until(published.exists)
    os.killpg(lonely.pid, signal.SIGKILL)
    finish(lonely)
    assert published.exists()
    end_well(start(mpiexec, case_file, name, 1) for name in "BA")
    assert len(np.load(tmp_path / f"{case_file.stem}-B-0.npz")["Heat@1.0"]) == 3
    assert not published.exists()
