"""Real runs on libprecice, recorded and joined with the profiling files they left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from record_helpers import configuration, environment

from precice_lb.ingest.profiling import enrich, find_profiles, import_profiling, read_profile
from precice_lb.store.reader import find_stores, read_store
from precice_lb.store.records import RankFile

pytestmark = pytest.mark.precice

SECONDS = {"A": 0.02, "B": 0.05}
SOLVER = """
import sys, time
import numpy as np
import precice

name, partner, ranks = sys.argv[1], sys.argv[2], int(sys.argv[3])
rank, world = 0, None
if ranks > 1:
    from mpi4py import MPI
    world, rank = MPI.COMM_WORLD, MPI.COMM_WORLD.Get_rank()
participant = precice.Participant(name, "precice-config.xml", rank, ranks)
x = np.linspace(0.0, 1.0, 11) if rank == 0 else np.empty(0)
mesh = f"{name}-Mesh"
ids = participant.set_mesh_vertices(mesh, np.stack([x, np.zeros_like(x)], axis=1))
participant.requires_initial_data()
participant.initialize()
step = 0
while participant.is_coupling_ongoing():
    participant.requires_writing_checkpoint()
    dt = min(participant.get_max_time_step_size(), 0.1 / int(sys.argv[4]))
    participant.read_data(mesh, f"{partner}-Data", ids, dt)
    participant.start_profiling_section("work")
    time.sleep({"A": 0.02, "B": 0.05}[name])
    participant.stop_last_profiling_section()
    participant.write_data(mesh, f"{name}-Data", ids, 0.5 * x + (step % 3 == 0))
    step += 1
    participant.advance(dt)
    participant.requires_reading_checkpoint()
participant.finalize()
"""


def start(
    directory: Path,
    kind: str,
    profiling: str = "",
    *,
    windows: int = 5,
    launch: tuple[str, ...] = (),
    subcycles: int = 1,
) -> list[subprocess.Popen[str]]:
    directory.mkdir()
    text = configuration(kind, windows).replace("<log ", f"{profiling}<log ")
    (directory / "precice-config.xml").write_text(text)
    (directory / "solver.py").write_text(SOLVER)
    run = [sys.executable, "-m", "precice_lb", "run", "solver.py"]
    ranks = launch[-1] if launch else "1"
    return [
        subprocess.Popen(
            [*launch, *run, name, partner, ranks, str(subcycles)],
            cwd=directory,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for name, partner in ("AB", "BA")
    ]


def finish(processes: list[subprocess.Popen[str]]) -> None:
    for process in processes:
        output = process.communicate(timeout=300)[0]
        assert process.returncode == 0, output


def joined(directory: Path) -> dict[str, RankFile]:
    stores = enrich([read_store(path) for path in find_stores([directory / "precice-lb-store"])])
    return {f"{store.metadata['participant']}-{store.metadata['rank']}": store for store in stores}


@pytest.mark.parametrize(
    ("kind", "profiling", "subcycles"),
    [
        ("serial-explicit", "", 1),
        ("serial-implicit", '<profiling mode="all" directory="deep/er"/>', 1),
        ("parallel-implicit", '<profiling mode="api" flush-every="1"/>', 2),
        ("parallel-explicit", '<profiling flush-every="7"/>', 3),
    ],
)
def test_every_window_is_split_and_the_import_says_the_same(
    tmp_path: Path, kind: str, profiling: str, subcycles: int
) -> None:
    case = tmp_path / "case"
    finish(start(case, kind, profiling, subcycles=subcycles))
    stores = joined(case)
    result = import_profiling([case], tmp_path / "imported")
    assert result.notes == []
    for path in result.stores:
        again = read_store(path)
        name = again.metadata["participant"]
        store = stores[f"{name}-0"]
        assert "timing_problem" not in store.metadata
        rows, other = store.advances, again.advances
        for column in ("window", "iteration", "window_complete", "wait_ns", "mapping_ns"):
            np.testing.assert_array_equal(rows[column], other[column])
        for column in ("wait_ns", "mapping_ns"):
            np.testing.assert_array_equal(store.initialize[column], again.initialize[column])
        # preCICE's interval lies within the recorder's; microseconds are rounded down at both ends.
        assert (rows["advance_ns"] - other["advance_ns"] > -2000).all()
        assert (rows["solve_ns"] >= SECONDS[name] * 1e9).all()
        assert (rows["wait_ns"] + rows["mapping_ns"] <= rows["advance_ns"]).all()
        assert store.metadata["receives_data"] is True
        assert again.metadata["finished"] is True
    if kind == "serial-explicit":
        assert stores["B-0"].initialize["wait_ns"][0] > 0
        assert stores["A-0"].initialize["wait_ns"][0] == 0
    assert "solver.advance/work" in read_profile(find_profiles([case])[0][0].path).totals


def test_a_killed_run_keeps_what_reached_the_disk(tmp_path: Path) -> None:
    case = tmp_path / "case"
    processes = start(case, "parallel-explicit", windows=100_000)
    try:
        deadline = time.monotonic() + 300
        log = case / "precice-profiling" / "A-0-1.txt"
        while (not log.exists() or log.read_text().count("\nB") < 200) and time.monotonic() < deadline:
            time.sleep(0.05)
    finally:
        for process in processes:
            os.kill(process.pid, signal.SIGKILL)
            process.communicate()
    for store in joined(case).values():
        measured = store.advances["wait_ns"] >= 0
        assert measured.sum() >= 8
        assert store.metadata["timing_source"] == "precice-profiling fundamental"
    for path in import_profiling([case], tmp_path / "imported").stores:
        assert read_store(path).metadata["finished"] is False
        assert len(read_store(path).advances) >= 8


@pytest.mark.mpi
def test_ranks_without_vertices_are_known(tmp_path: Path, mpiexec: str) -> None:
    case = tmp_path / "case"
    finish(start(case, "parallel-explicit", launch=(mpiexec, "-n", "2")))
    stores = joined(case)
    assert sorted(stores) == ["A-0", "A-1", "B-0", "B-1"]
    for name, store in stores.items():
        assert store.metadata["receives_data"] is name.endswith("-0")
        assert store.metadata["timing_source"] == "precice-profiling fundamental"
    assert len(import_profiling([case], tmp_path / "imported").stores) == 4
