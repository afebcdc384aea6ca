"""Ranks that exchange data through preCICE end with the same bytes whether they are recorded or not."""

from __future__ import annotations

from pathlib import Path

import pytest
from record_helpers import run_pair

from precice_lb.dataset import load_runs
from precice_lb.ingest.profiling import enrich

RANKS = 2


@pytest.mark.precice
@pytest.mark.mpi
@pytest.mark.parametrize("kind", ["parallel-explicit", "serial-implicit"])
def test_an_mpi_parallel_pair_gives_the_same_bytes(tmp_path: Path, mpiexec: str, kind: str) -> None:
    results = []
    for recorded in (False, True):
        directory = tmp_path / ("recorded" if recorded else "plain")
        launch = [mpiexec, "-n", str(RANKS)]
        finished = run_pair(directory, kind, recorded=recorded, launch=launch, arguments=[str(RANKS)])
        assert {name: process.returncode for name, process in finished.items()} == {"A": 0, "B": 0}, finished
        results.append({path.name: path.read_bytes() for path in directory.glob("*.npy")})
        results[-1] |= {path.name: path.read_bytes() for path in directory.glob("precice-*.log")}
        # Ranks speak at the same time.
        results[-1] |= {name: "".join(sorted(process.stdout)).encode() for name, process in finished.items()}
    assert {f"{name}-{rank}.npy" for name in "AB" for rank in range(RANKS)} < set(results[0])
    assert results[1] == results[0]
    (found,) = load_runs([tmp_path / "recorded"], complete=enrich)
    assert {name: (part.ranks, part.compute_measured) for name, part in found.participants.items()} == {
        "A": (RANKS, True),
        "B": (RANKS, True),
    }
