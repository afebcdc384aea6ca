"""Killed at any time, on any rank: the store opens, and every time window before the last flush is in it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from conftest import FULL_COUNTS
from record_helpers import BACKENDS, SOLVER, configuration, environment, rank_stores

from precice_lb.record.recorder import flush_after

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
    for attempt in range(repeats if FULL_COUNTS else 2):
        where = tmp_path / str(attempt)
        where.mkdir()
        (where / "precice-config.xml").write_text(configuration("serial-explicit", 10**6))
        (where / "solver.py").write_text(TELLING)
        launch = [mpiexec, "-n", str(ranks)] if ranks > 1 else []
        started = [
            subprocess.Popen(
                [*launch, sys.executable, "-m", "precice_lb", "run", "solver.py", *names, str(ranks)],
                cwd=where,
                env=environment(PRECICE_LB_BACKEND=backend),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            for names in ("AB", "BA")
        ]
        logs = {(name, rank): where / f"{name}-{rank}.log" for name in "AB" for rank in range(ranks)}
        limit = time.monotonic() + 300
        while any(len(_told(path)) < 2 for path in logs.values()):
            assert time.monotonic() < limit
            time.sleep(0.01)
        # Some while windows are flushed one by one, some later.
        time.sleep(generator.uniform(0.0, 0.3) ** 2 / 0.3)
        for path in generator.permutation([str(path) for path in logs.values()]):
            _kill(_told(Path(path))[0])
            time.sleep(generator.uniform(0.0, 0.01))
        for process in started:
            assert process.wait(timeout=300) != 0
        stores = rank_stores(where)
        assert set(stores) == set(logs)
        for key, store in stores.items():
            done = max(_told(logs[key])[1:])
            # The window that was being flushed when the kill came may be missing.
            flushed = 0
            while flush_after(flushed) < done:
                flushed = flush_after(flushed)
            assert len(store.advances) >= flushed
            assert store.advances["window"].tolist() == list(range(1, len(store.advances) + 1))
            assert store.metadata["finished"] is False


def _kill(process: int) -> None:
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        # The launcher ended it when another rank died.
        return
