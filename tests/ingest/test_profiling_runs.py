"""Real runs, recorded and joined with the profiling files they left: an import of these says the same."""

from __future__ import annotations

import signal
from pathlib import Path

import numpy as np
import pytest
from profiling_helpers import event_totals
from record_helpers import BACKENDS, SOLVER, rank_stores, run_pair

from precice_lb.ingest.profiling import enrich, find_profiles, import_profiling, read_profile
from precice_lb.store import RankFile, read_store

SECONDS = {"A": 0.002, "B": 0.005}
WORKING = SOLVER.replace("import sys\n", "import os, sys, time\n").replace(
    "    value = np.cos",
    f"""    participant.start_profiling_section("work")
    time.sleep({SECONDS}[name])
    participant.stop_last_profiling_section()
    value = np.cos""",
)


def joined(directory: Path) -> dict[str, RankFile]:
    stores = rank_stores(directory)
    return {f"{name}-{rank}": store for (name, rank), store in zip(stores, enrich(list(stores.values())), strict=True)}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("kind", "profiling", "arguments"),
    [
        ("serial-explicit", "", []),
        ("serial-implicit", '<profiling mode="all" directory="deep/er"/>', []),
        ("parallel-implicit", '<profiling mode="api" flush-every="1"/>', ["1", "subcycle"]),
        ("parallel-explicit", '<profiling flush-every="7"/>', ["1", "subcycle"]),
    ],
)
def test_every_window_is_split_and_the_import_says_the_same(
    tmp_path: Path, backend: str, kind: str, profiling: str, arguments: list[str]
) -> None:
    run_pair(tmp_path / "case", kind, head=profiling, solver=WORKING, arguments=arguments, backend=backend)
    stores = joined(tmp_path / "case")
    result = import_profiling([tmp_path / "case"], tmp_path / "imported")
    assert result.notes == []
    assert len(result.stores) == 2
    for again in map(read_store, result.stores):
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
        assert store.metadata["receives_data"] is again.metadata["finished"] is True
    if kind == "serial-explicit":
        assert stores["B-0"].initialize["wait_ns"][0] > stores["A-0"].initialize["wait_ns"][0] == 0
    assert "solver.advance/work" in event_totals(read_profile(find_profiles([tmp_path / "case"])[0][0].path))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_killed_run_keeps_what_reached_the_disk(tmp_path: Path, backend: str) -> None:
    killed = WORKING.replace("    log.append", "    if len(log) == 200: os.kill(os.getpid(), 9)\n    log.append")
    more = {"windows": 1000, "backend": backend, "fails": True}
    results = run_pair(tmp_path / "case", "parallel-explicit", solver=killed, **more)
    assert {result.returncode for result in results.values()} == {-signal.SIGKILL}
    stores = joined(tmp_path / "case")
    assert set(stores) == {"A-0", "B-0"}
    for store in stores.values():
        assert (store.advances["wait_ns"] >= 0).sum() >= 8
        assert store.metadata["timing_source"] == "precice-profiling fundamental"
    imported = import_profiling([tmp_path / "case"], tmp_path / "imported").stores
    assert len(imported) == 2
    for store in map(read_store, imported):
        assert store.metadata["finished"] is False
        assert len(store.advances) >= 8


@pytest.mark.mpi
@pytest.mark.parametrize("backend", BACKENDS)
def test_ranks_without_vertices_are_known(tmp_path: Path, mpiexec: str, backend: str) -> None:
    one = WORKING.replace("[rank::ranks]", "[: None if rank == 0 else 0]")
    run_pair(tmp_path, "parallel-explicit", solver=one, mpiexec=mpiexec, backend=backend)
    stores = joined(tmp_path)
    assert sorted(stores) == ["A-0", "A-1", "B-0", "B-1"]
    for name, store in stores.items():
        assert store.metadata["receives_data"] is name.endswith("-0")
        assert store.metadata["timing_source"] == "precice-profiling fundamental"
    assert len(import_profiling([tmp_path], tmp_path / "imported").stores) == 4
