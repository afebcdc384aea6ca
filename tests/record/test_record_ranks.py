"""Ranks that are killed leave what was flushed, launches are told apart, and ranks' results are the same bytes."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from conftest import FULL_COUNTS
from record_helpers import BACKENDS, SOLVER, configuration, environment, finish, rank_stores, run_pair, start

from precice_lb.dataset import load_runs
from precice_lb.ingest.profiling import enrich
from precice_lb.record import flush_after
from precice_lb.record.launch import launch_id
from precice_lb.store import find_stores, read_store

# Every rank tells its process, and the time windows that it is done with.
TELLING = SOLVER.replace(
    "value, log, saved",
    "import os\ntold = open(f'{name}-{rank}.log', 'w', 1)\nprint(os.getpid(), file=told)\nvalue, log, saved",
).replace("log.append(read.copy())", "log.append(0)\n    print(len(log), file=told)")


def _told(path: Path) -> list[int]:
    """Numbers of the lines that are whole."""
    return [int(line) for line in path.read_text().split("\n")[:-1]] if path.exists() else []


@pytest.mark.mpi
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("ranks", "repeats"), [(1, 25), (2, 50)])
def test_killed_solvers_leave_every_window_before_the_last_flush(
    tmp_path: Path, mpiexec: str, backend: str, ranks: int, repeats: int
) -> None:
    """With full counts 50 kills of single processes, and 200 of two participants' two ranks each."""
    generator = np.random.default_rng(ranks)
    launch = [mpiexec, "-n", str(ranks)] if ranks > 1 else []
    command = [*launch, sys.executable, "-m", "precice_lb", "run", "solver.py"]
    variables = dict.fromkeys("AB", environment(PRECICE_LB_BACKEND=backend))
    for attempt in range(repeats if FULL_COUNTS else 1):
        where = tmp_path / str(attempt)
        where.mkdir()
        (where / "precice-config.xml").write_text(configuration("serial-explicit", 10**6))
        (where / "solver.py").write_text(TELLING)
        started = start(where, {names[0]: [*command, *names, str(ranks)] for names in ("AB", "BA")}, variables)
        logs = {(name, rank): where / f"{name}-{rank}.log" for name in "AB" for rank in range(ranks)}
        limit = time.monotonic() + 300
        while any(len(_told(path)) < 2 for path in logs.values()):
            assert time.monotonic() < limit
            time.sleep(0.01)
        # Some while windows are flushed one by one, some later.
        time.sleep(generator.uniform(0.0, 0.3) ** 2 / 0.3)
        for path in generator.permutation([str(path) for path in logs.values()]):
            # The launcher may have ended it when another rank died.
            with contextlib.suppress(ProcessLookupError):
                os.kill(_told(Path(path))[0], signal.SIGKILL)
            time.sleep(generator.uniform(0.0, 0.01))
        assert all(result.returncode != 0 for result in finish(started).values())
        stores = rank_stores(where)
        assert set(stores) == set(logs)
        for key, store in stores.items():
            done, flushed = max(_told(logs[key])[1:]), 0
            # The window that was being flushed when the kill came may be missing.
            while flush_after(flushed) < done:
                flushed = flush_after(flushed)
            assert len(store.advances) >= flushed
            assert store.advances["window"].tolist() == list(range(1, len(store.advances) + 1))
            assert store.metadata["finished"] is False


def _metadata(rank: int, **more: Any) -> dict[str, Any]:
    common = {"participant": "A", "size": 2, "configuration_hash": "0" * 64, "working_directory": "/case"}
    return {"rank": rank, **common, **more}


@pytest.mark.mpi
def test_two_launches_of_one_split_at_once_into_one_directory(tmp_path: Path, mpiexec: str) -> None:
    store = tmp_path / "store"
    run = functools.partial(run_pair, kind="parallel-explicit", mpiexec=mpiexec, PRECICE_LB_DIR=str(store))
    with ThreadPoolExecutor() as pool:
        list(pool.map(run, (tmp_path / "one", tmp_path / "two")))
    runs = load_runs([store])
    assert [{name: part.ranks for name, part in run.participants.items()} for run in runs] == [{"A": 2, "B": 2}] * 2
    assert not any(run.grouping for run in runs)
    launches = {
        (rank.metadata["launch"], rank.metadata["working_directory"]) for rank in map(read_store, find_stores([store]))
    }
    assert len(launches) == len({launch for launch, _ in launches}) == 4


@pytest.mark.mpi
def test_a_rank_that_is_not_recorded_does_not_hold_the_others(tmp_path: Path, mpiexec: str) -> None:
    solver = SOLVER.replace("import precice\n", "import precice, os\n").replace(
        "participant = precice", "if rank == 0: os.environ['PRECICE_LB_RECORD'] = '0'\nparticipant = precice"
    )
    run_pair(tmp_path, "parallel-explicit", solver=solver, mpiexec=mpiexec)
    stores = [read_store(path) for path in find_stores([tmp_path / "precice-lb-store"])]
    assert [(store.metadata["rank"], "launch" in store.metadata) for store in stores] == [(1, False)] * 2


def test_without_a_communicator_rank_0_leaves_the_id_in_the_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mpi4py.MPI", SimpleNamespace(Is_initialized=lambda: False))
    unknown, later = launch_id(_metadata(1), tmp_path / "store", None)
    assert unknown is None
    assert later() is None
    made, same = launch_id(_metadata(0), tmp_path / "store", None)
    assert made is not None
    assert later() == same() == made
    _, elsewhere = launch_id(_metadata(1, working_directory="/other"), tmp_path / "store", None)
    assert elsewhere() is None


@pytest.mark.precice
@pytest.mark.mpi
@pytest.mark.parametrize("kind", ["parallel-explicit", "serial-implicit"])
def test_an_mpi_parallel_pair_gives_the_same_bytes(tmp_path: Path, mpiexec: str, kind: str) -> None:
    results = []
    for recorded in (False, True):
        directory = tmp_path / str(recorded)
        ended = run_pair(directory, kind, recorded=recorded, mpiexec=mpiexec, backend="libprecice")
        files = [*directory.glob("*.npy"), *directory.glob("precice-*.log")]
        # Ranks speak at the same time.
        outputs = {name: "".join(sorted(process.stdout)).encode() for name, process in ended.items()}
        results.append({path.name: path.read_bytes() for path in files} | outputs)
    assert {f"{name}-{rank}.npy" for name in "AB" for rank in range(2)} < set(results[0])
    assert results[1] == results[0]
    (run,) = load_runs([tmp_path / "True"], complete=enrich)
    assert {name: (part.ranks, part.compute_measured) for name, part in run.participants.items()} == {
        "A": (2, True),
        "B": (2, True),
    }
