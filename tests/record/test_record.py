"""Recording: the same results as without, the right windows and iterations, and nothing of ours ever hurts the run."""

from __future__ import annotations

import itertools
import json
import re
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
from calibrate_helpers import refusals
from record_helpers import (
    BACKENDS,
    SOLVER,
    StandIn,
    assert_whole,
    configuration,
    new_recorder,
    only_store,
    program,
    rank_stores,
    run_pair,
    stand_in,
    warnings_of,
)
from store_helpers import PARALLEL, metadata

from precice_lb.record import recorder as module
from precice_lb.record.launch import at_end_action
from precice_lb.store import StoreWriter, find_stores


@pytest.mark.parametrize("ending", ["raise RuntimeError('diverged')", "sys.exit(7)"])
def test_a_solver_that_dies_leaves_an_unfinished_store_and_its_own_exit_code(tmp_path: Path, ending: str) -> None:
    solver = SOLVER.replace("    log.append", f"    if len(log) == 4: {ending}\n    log.append")
    results = run_pair(tmp_path, solver=solver, fails=True, PRECICE_LB_TIMEOUT="10")
    assert results["A"].returncode == (7 if "exit" in ending else 1)
    assert ("RuntimeError: diverged" in results["A"].stderr) == ("raise" in ending)
    store = rank_stores(tmp_path)["A", 0]
    assert store.metadata["finished"] is False
    assert "ended_unix_ns" in store.metadata
    assert store.advances["window"].tolist() == [1, 2, 3, 4, 5]


# More levels than Python goes down.
DEEP = 10_000 * '{"a":' + "1" + 10_000 * "}"


@pytest.mark.parametrize(
    "block", [*refusals("settings-ignored.txt"), f"METADATA {DEEP}\nPRECICE_LB_METADATA is ignored"]
)
def test_wrong_settings_are_one_warning(
    tmp_path: Path, block: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    setting, words = block.split("\n")
    name, value = setting.split(" ", 1)
    monkeypatch.setattr(module, "_warned", set())
    monkeypatch.setenv("PRECICE_LB_DIR", str(tmp_path))
    monkeypatch.setenv(f"PRECICE_LB_{name}", value)
    # Only our own variable tells threads.
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    (tmp_path / "precice-config.xml").write_text(configuration("serial-explicit"))
    participant = stand_in(StandIn, "A", str(tmp_path / "precice-config.xml"), 0, 1)
    participant.initialize()
    participant.finalize()
    (warning,) = capfd.readouterr().err.splitlines()
    assert words in warning
    if name != "DIR":
        store = only_store(tmp_path)
        assert (store.path.suffix, store.metadata["threads"], "parameters" in store.metadata) == (".h5", 1, False)


# Files may not grow over the limit, which is what a full disk or a quota does to writes.
FULL_DISK = """import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (BYTES, BYTES))
"""


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_full_disk_is_one_warning_and_the_results_are_the_same(tmp_path: Path, backend: str) -> None:
    # preCICE's own files have to fit too.
    solver = SOLVER.replace("participant.initialize()", "participant.initialize()\n" + FULL_DISK) + "print('end')\n"
    solver = solver.replace("BYTES", "int(sys.argv[3])").replace('np.save(f"{name}-{rank}.npy", np.array(log))', "")
    solver = solver.replace("int(sys.argv[3]) if len(sys.argv) > 3 else 1", "1")
    kind, windows = "parallel-explicit", 900
    assert len(configuration(kind, windows)) < 2_000

    def run(limit: str, switch: str) -> Any:
        place, more = tmp_path / f"{limit}-{switch}", {"backend": backend, "PRECICE_LB_RECORD": switch}
        return run_pair(place, kind, windows=windows, solver=solver, arguments=[limit], **more)

    plain = run("50000", "0")
    for limit, least in (("2000", 0), ("50000", 256)):
        for name, ours in run(limit, "1").items():
            assert ours.stdout == plain[name].stdout
            (warning,) = warnings_of(ours)
            assert "File too large" in warning
        stores = rank_stores(tmp_path / f"{limit}-1")
        assert set(stores) == {("A", 0), ("B", 0)}
        for store in stores.values():
            assert store.metadata["finished"] is False
            assert least <= len(store.advances) < windows
            assert store.advances["window"].tolist() == list(range(1, len(store.advances) + 1))


@pytest.mark.parametrize("backend", BACKENDS)
def test_only_what_recording_needs_is_loaded(tmp_path: Path, backend: str) -> None:
    heavy = {"h5py", "scipy", "sklearn", "pandas", "matplotlib", "cyclopts", "rich", "pydantic", "lxml"}
    shown = f"print('loaded', sorted({heavy} & set(sys.modules)))\nparticipant.finalize()"
    for result in run_pair(tmp_path, solver=SOLVER.replace("participant.finalize()", shown), backend=backend).values():
        (loaded,) = [line for line in result.stdout.splitlines() if line.startswith("loaded")]
        assert loaded == "loaded []" or (backend == "embedded" and loaded == "loaded ['scipy']")


def test_spools_stay_where_they_are_wanted(tmp_path: Path) -> None:
    variables = {"PRECICE_LB_STORE": "spool", "PRECICE_LB_METADATA": '{"run": "r7", "parameters": {"order": 3}}'}
    run_pair(tmp_path, PRECICE_LB_THREADS="6", OMP_NUM_THREADS="3", **variables)
    files = sorted(path.relative_to(tmp_path).as_posix() for path in find_stores([tmp_path]))
    assert files == [f"precice-lb-store/{name}-1/{name}-0-1.spool" for name in "AB"]
    assert_whole(tmp_path)
    for store in rank_stores(tmp_path).values():
        assert [store.metadata[key] for key in ("run", "parameters", "threads")] == ["r7", {"order": 3}, 6]


@pytest.mark.parametrize(
    ("value", "announced_file"), [("recommend", "recommendation.json"), ("summary", "summary.txt")]
)
def test_the_primary_rank_starts_what_is_written_at_the_end_in_a_session_of_its_own(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    value: str,
    announced_file: str,
) -> None:
    # In place of Python: its arguments, its session and process, the variables that it is not to inherit.
    count_variables = 'env | grep -c -E "^(PMI_|PRECICE_LB_AT_END)"'
    lines = ["#!/bin/sh", 'echo "$@"', "echo $(ps -o sid= -p $$) $$", count_variables, "echo done", ""]
    program(tmp_path / "python", "\n".join(lines))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    primary_rank = {"rank": 0, "participant": "Fluid", "configuration_path": "/case/precice-config.xml"}
    other_rank = primary_rank | {"rank": 1}
    assert at_end_action(primary_rank, tmp_path) is None
    monkeypatch.setenv("PRECICE_LB_AT_END", value)
    monkeypatch.setenv("PMI_RANK", "0")

    assert at_end_action(other_rank, tmp_path) is None
    start = at_end_action(primary_rank, tmp_path)
    assert start is not None
    start()

    log = tmp_path / "at-end-Fluid.log"
    assert capsys.readouterr().out == (
        f"precice-lb: when the last participant has finished, /case/{announced_file} will be written (log: {log})\n"
    )
    limit = time.monotonic() + 300
    while "done" not in (log.read_text() if log.exists() else "") and time.monotonic() < limit:
        time.sleep(0.02)
    command, session_and_process, variable_count, _ = log.read_text().splitlines()
    assert command == f"-m precice_lb at-end /case --store={tmp_path} --participant=Fluid --write={value}"
    session, process = session_and_process.split()
    assert session == process
    assert variable_count == "0"


def test_a_run_with_a_summary_at_its_end_writes_the_file_that_it_announced(tmp_path: Path) -> None:
    results = run_pair(tmp_path, PRECICE_LB_AT_END="summary")

    announced = [
        re.search(r"when the last participant has finished, (\S+) will be written", result.stdout)
        for result in results.values()
    ]
    assert [match and match[1] for match in announced] == [str(tmp_path / "summary.txt")] * 2
    # Written by a process that outlives both solvers: a file is put in place whole.
    summary = tmp_path / "summary.json"
    limit = time.monotonic() + 300
    while not summary.exists() and time.monotonic() < limit:
        time.sleep(0.02)
    (run,) = json.loads(summary.read_text())
    assert set(run["participants"]) == {"A", "B"}
    assert "mean time per time window" in (tmp_path / "summary.txt").read_text()


class Flushes(NamedTuple):
    """Time windows after which a rank flushed, and the seconds from each flush to the next."""

    windows: list[int]
    seconds_between: list[float]


def flushes_of_rank(directory: Path, monkeypatch: pytest.MonkeyPatch, milliseconds: float, windows: int) -> Flushes:
    """Record windows on a clock that is set; they take 2, 3 and 1 times these milliseconds in turn."""
    now = 10**9
    monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter_ns=lambda: now, process_time_ns=lambda: 0))
    recorder = module.Recorder(StoreWriter(directory, metadata(), PARALLEL))
    recorder.initialized(now, now)
    flushed_windows: list[int] = []
    flush_times = [now]
    window = 0
    next_flush = 1
    while window < windows:
        window += 1
        now += round(milliseconds * 10**6) * (1 + window % 3)
        recorder.take((now - 10, now, 0.1, True, 0, 0))
        if window == next_flush:
            next_flush = window + recorder.flush_due()
            flushed_windows.append(window)
            flush_times.append(now)
    recorder.close(finished=True)
    seconds_between = [(later - earlier) * 1e-9 for earlier, later in itertools.pairwise(flush_times)]
    return Flushes(flushed_windows, seconds_between)


# Sixteen flushes in the first 16 windows and eight in each further doubling; from window 4096 on every 512th.
QUICK_FLUSHES = [
    *range(1, 16), *range(16, 32, 2), *range(32, 64, 4), *range(64, 128, 8), *range(128, 256, 16),
    *range(256, 512, 32), *range(512, 1024, 64), *range(1024, 2048, 128), *range(2048, 4096, 256),
    *range(4096, 10_001, 512),
]  # fmt: skip


@pytest.mark.parametrize("milliseconds", [0.001, 1.0])
def test_ranks_with_quick_windows_flush_after_the_same_windows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, milliseconds: float
) -> None:
    assert flushes_of_rank(tmp_path, monkeypatch, milliseconds, 10_000).windows == QUICK_FLUSHES


# 256 windows of 20 ms on average are 5.1 s, 64 of 0.1 s are 6.4 s, and 4 of 2 s are 8 s; twice as many are too many.
@pytest.mark.parametrize(
    ("milliseconds", "windows", "largest_step"), [(10, 10_000, 256), (50, 10_000, 64), (1000, 300, 4)]
)
def test_a_rank_with_slower_windows_flushes_before_ten_seconds_of_them_are_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, milliseconds: float, windows: int, largest_step: int
) -> None:
    flushes = flushes_of_rank(tmp_path, monkeypatch, milliseconds, windows)

    assert max(flushes.seconds_between) <= 10.0
    steps = np.diff(flushes.windows)
    assert steps.max() == largest_step
    # Whenever a quicker rank flushes, this one does too: no rank waits for another one's disk alone.
    quick_flushes = {window for window in QUICK_FLUSHES if window <= windows}
    assert quick_flushes <= set(flushes.windows)


def test_a_rank_flushes_after_each_window_that_is_longer_than_ten_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushes = flushes_of_rank(tmp_path, monkeypatch, milliseconds=10_001, windows=100)
    assert flushes.windows == list(range(1, 101))


def test_a_window_of_many_small_steps_is_kept_whole(tmp_path: Path) -> None:
    recorder, advance = new_recorder(tmp_path)
    for step in range(1, 10_001):
        advance(step * 10, step * 10 + 5, step == 10_000)
        if step % 1000 == 0:
            recorder.repeated()
            recorder.repeated()
    recorder.close(finished=False)
    store = only_store(tmp_path)
    assert store.metadata["finished"] is False
    assert store.advances["begin_ns"].tolist() == list(range(10, 100_001, 10))
    assert store.advances["iteration"].tolist() == np.repeat(np.arange(1, 11), 1000).tolist()
    assert (store.advances["window"] == 1).all()
