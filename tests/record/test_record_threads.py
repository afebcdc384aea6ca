"""Threads and CPU time in stores: told by whoever starts the run, taken within solve, kept by merging."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from record_helpers import assert_fine, rank_stores, run_pair
from store_helpers import PARALLEL, metadata, row, write_store

from precice_lb.dataset import load_runs
from precice_lb.export import export_merged
from precice_lb.record import recorder as module
from precice_lb.record.recorder import Recorder
from precice_lb.store.reader import find_stores, read_store
from precice_lb.store.spool import StoreWriter


def test_only_our_own_variable_tells_threads(tmp_path: Path) -> None:
    told = {"": 1, "6": 6}
    for text, threads in told.items():
        where = tmp_path / (text or "none")
        variables = {"PRECICE_LB_THREADS": text, "OMP_NUM_THREADS": "3"}
        assert_fine(run_pair(where, PRECICE_LB_BACKEND="embedded", **variables))
        assert {store.metadata["threads"] for store in rank_stores(where).values()} == {threads}


def test_cpu_time_within_solve_is_taken_by_window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that is set: windows of two calls, of which one goes over a flush."""
    clock = [0]
    monkeypatch.setattr(module.time, "process_time_ns", lambda: clock[0])
    recorder = Recorder(StoreWriter(tmp_path, metadata(), PARALLEL))
    clock[0] = 1000
    recorder.initialized(0, 10)
    for at, complete in ((1500, False), (2700, True), (4000, False)):
        recorder.take((at, at + 5, 0.1, complete, at, at + 300))
    clock[0] = 5000
    recorder.flush()
    recorder.take((5100, 5200, 0.1, True, 5100, 5150))
    recorder.close(finished=True)
    (path,) = find_stores([tmp_path])
    rows = read_store(path).rows("cpu")
    assert rows["window"].tolist() == [1, 2, 2]
    # 500 and 900; 1000; and 100 after the flush, whose own time does not count.
    assert rows["cpu_ns"].tolist() == [1400, 1000, 100]


def test_merging_keeps_threads_and_cpu_time(tmp_path: Path) -> None:
    for rank in range(3):
        cpu = [(window, 0.1 * window + rank) for window in range(1, 6)]
        calls = [row(window, 0.5, 0.1, 0.1) for window in range(1, 6)]
        write_store(tmp_path, calls, "A", rank, 3, cpu=cpu, threads=4)
    (before,) = load_runs([tmp_path], warmup=1)
    assert len(export_merged([tmp_path], tmp_path / "merged")) == 1
    (after,) = load_runs([tmp_path / "merged"], warmup=1)
    for part in (before.participants["A"], after.participants["A"]):
        assert (part.ranks, part.threads, part.cores) == (3, 4, 12)
        np.testing.assert_allclose(part.rank_cpu, 0.35 + np.arange(3))
        np.testing.assert_allclose(part.rank_busy_cores, part.rank_cpu / 0.5)
