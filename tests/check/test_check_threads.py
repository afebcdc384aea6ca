"""Solvers that ignore the threads they were told, or take more: planted numbers, and threads that really work."""

from __future__ import annotations

from pathlib import Path

import pytest
from record_helpers import SOLVER, run_pair
from store_helpers import row, write_store

from precice_lb.check import IDLE, CheckResult, check_runs
from precice_lb.dataset import load_runs

# What a rank does in a window: hashing lets go of Python's lock, so that threads really use several cores.
BUSY = SOLVER.replace(
    "import sys\n",
    """import sys, hashlib, threading
BLOCK = bytes(1 << 20)
def work(times):
    for _ in range(times): hashlib.sha256(BLOCK).digest()
def busy(threads):
    team = [threading.Thread(target=work, args=(4,)) for _ in range(threads)]
    for each in team: each.start()
    for each in team: each.join()
""",
).replace("    participant.advance(dt)", "    busy(THREADS if name == 'A' else 1)\n    participant.advance(dt)")


def plant(directory: Path, threads: int | None, busy: list[float], **more: object) -> CheckResult:
    """Check ranks that solve for 0.5 s per window and keep so many cores busy, after a first window of 9 cores."""
    if threads is not None:
        more["threads"] = threads
    for rank, cores in enumerate(busy):
        table = [row(window, 0.5, 0.1, 0.1) for window in range(1, 12)]
        cpu = [(window, 0.5 * (cores if window > 1 else 9.0)) for window in range(1, 12)]
        write_store(directory, table, "A", rank, len(busy), cpu=cpu, **more)
    write_store(directory, [row(window, 0.1, 0.5, 0.5) for window in range(1, 12)], "B")
    return check_runs(load_runs([directory]))


def found(result: CheckResult) -> list[str]:
    return [f"{each.participant}: {each.text}" for each in result.findings if each.kind == "threads"]


@pytest.mark.parametrize(
    ("threads", "busy", "said"),
    [
        (8, [1.02], "A: told to use 8 threads, the busiest rank kept 1 cores busy"),
        (1, [3.9], "A: told to use 1 thread, the busiest rank kept 3.9 cores busy"),
        (None, [1.0, 2.5], "A: told to use 1 thread, the busiest rank kept 2.5 cores busy"),
        (4, [0.03, 0.04], ""),
        (2, [1.4, 0.9], ""),
        (1, [1.3], ""),
        (None, [0.1], ""),
    ],
)
def test_planted_use_of_threads_is_judged(tmp_path: Path, threads: int | None, busy: list[float], said: str) -> None:
    texts = found(plant(tmp_path, threads, busy))
    assert len(texts) == bool(said)
    assert "".join(texts).startswith(said)


def test_loads_of_sleeps_and_stores_without_cpu_time_are_not_judged(tmp_path: Path) -> None:
    assert found(plant(tmp_path / "sleeps", 8, [0.01], emulated_load=True)) == []
    for name in "AB":
        write_store(tmp_path / "old", [row(w, 0.5, 0.1, 0.1) for w in range(1, 12)], name, threads=8)
    assert found(check_runs(load_runs([tmp_path / "old"]))) == []


def test_a_solver_that_ignores_its_threads_is_seen_in_a_real_run(tmp_path: Path) -> None:
    run_pair(tmp_path, solver=BUSY.replace("THREADS", "1"), windows=30, PRECICE_LB_THREADS="4")
    (run,) = load_runs([tmp_path / "precice-lb-store"], warmup=2)
    part = run.participants["A"]
    assert (part.threads, part.cores, str(part.layout)) == (4, 4, "1 x 4 threads")
    # However busy the machine is, one thread keeps no more than one core busy.
    assert 0 < part.rank_busy_cores[0] < 1.1
    # On a machine that leaves it less than half a core, nothing is known.
    told = any(text.startswith("A: told to use 4 threads") for text in found(check_runs([run])))
    assert told == (part.rank_busy_cores[0] >= IDLE)
