"""All ranks of one launch store one id: broadcast where there is a common communicator, else through a file."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from record_helpers import SOLVER, python, run_pair

from precice_lb.dataset import load_runs
from precice_lb.record.launch import launch_id
from precice_lb.store.reader import find_stores, read_store


def _metadata(rank: int, **more: Any) -> dict[str, Any]:
    common = {"participant": "A", "size": 2, "configuration_hash": "0" * 64, "working_directory": "/case"}
    return {"rank": rank, **common, **more}


@pytest.mark.mpi
def test_two_launches_of_one_split_at_once_into_one_directory(tmp_path: Path, mpiexec: str) -> None:
    def run(case: str) -> None:
        results = run_pair(
            tmp_path / case,
            "parallel-explicit",
            launch=[mpiexec, "-n", "2"],
            arguments=["2"],
            PRECICE_LB_BACKEND="embedded",
            PRECICE_LB_DIR=str(tmp_path / "store"),
        )
        assert all(result.returncode == 0 for result in results.values()), results

    with ThreadPoolExecutor() as pool:
        list(pool.map(run, ("one", "two")))
    runs = load_runs([tmp_path / "store"])
    assert [{name: part.ranks for name, part in run.participants.items()} for run in runs] == [{"A": 2, "B": 2}] * 2
    assert not any(run.grouping for run in runs)
    stores = [read_store(path) for path in find_stores([tmp_path / "store"])]
    launches = {(store.metadata["launch"], store.metadata["working_directory"]) for store in stores}
    assert len(launches) == 4
    assert len({launch for launch, _ in launches}) == 4


@pytest.mark.mpi
def test_a_rank_that_is_not_recorded_does_not_hold_the_others(tmp_path: Path, mpiexec: str) -> None:
    solver = SOLVER.replace("import precice\n", "import precice, os\n").replace(
        "participant = precice", "if rank == 0: os.environ['PRECICE_LB_RECORD'] = '0'\nparticipant = precice"
    )
    launch = [mpiexec, "-n", "2"]
    results = run_pair(tmp_path, "parallel-explicit", solver=solver, launch=launch, arguments=["2"])
    assert all(result.returncode == 0 for result in results.values()), results
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


def test_a_participant_of_one_rank_needs_nobody(tmp_path: Path) -> None:
    results = run_pair(tmp_path, PRECICE_LB_BACKEND="embedded")
    assert all(result.returncode == 0 for result in results.values()), results
    stores = [read_store(path) for path in find_stores([tmp_path / "precice-lb-store"])]
    assert len({store.metadata["launch"] for store in stores}) == 2
    assert not list((tmp_path / "precice-lb-store").glob(".*"))


def test_recording_loads_no_mpi_for_it(tmp_path: Path) -> None:
    code = "import sys, precice_lb.record.launch; assert 'mpi4py' not in sys.modules"
    assert python(tmp_path, "-c", code).returncode == 0
