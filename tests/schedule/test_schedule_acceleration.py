"""Acceleration that partners wait for, predicted from what was recorded."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from schedule_cases import Case, Scheme
from store_helpers import row, write_store

from precice_lb.case import parse_configuration
from precice_lb.dataset import load_runs
from precice_lb.ingest.profiling import enrich
from precice_lb.recommend import load_sources
from precice_lb.schedule import Schedule, replay_residuals

ITERATIONS = """<max-iterations value="4" />
    <acceleration:IQN-ILS>
      <data name="FromA" mesh="A-Mesh" />
      <data name="FromB" mesh="B-Mesh" />
      <initial-relaxation value="0.5" />
      <max-used-iterations value="8" />
      <time-windows-reused value="2" />
      <preconditioner type="residual-sum" />
    </acceleration:IQN-ILS>"""
CONFIGURATION = (
    Case("accelerated", (Scheme("parallel-implicit", "AB"),), math.nan)
    .configuration(max_time=1.2)
    .replace('<profiling mode="off" />', "")
    .replace('<max-iterations value="2" />', ITERATIONS)
)


def test_planted_acceleration_is_waited_for(tmp_path: Path) -> None:
    """B accelerates at the end of each of four iterations, when A's data has come, and A waits for it."""
    solve, accelerating, transfer = {"A": 0.04, "B": 0.01}, 0.02, 1e-4
    wait = {"A": accelerating + transfer, "B": solve["A"] - solve["B"] + transfer}
    for name in "AB":
        advance = solve["A"] - solve[name] + accelerating + transfer
        table = [
            row(window, solve[name], advance, wait[name], 0.0, iteration=iteration, complete=iteration == 4)
            for window in range(1, 13)
            for iteration in range(1, 5)
        ]
        write_store(tmp_path / name, table, name, configuration=CONFIGURATION)
    measured = load_sources([tmp_path])
    assert measured.iterations == {"A": 4.0, "B": 4.0}
    (run,) = load_runs([tmp_path], complete=enrich)
    compute = {
        name: float(np.median(part.compute_seconds[run.steady(name)])) for name, part in run.participants.items()
    }
    window = float(np.median(run.participants["A"].window_seconds[run.steady("A")]))
    assert window == pytest.approx(4 * (solve["A"] + accelerating + transfer))
    configuration = parse_configuration(CONFIGURATION)
    schedule = Schedule.from_config(configuration, measured.iterations, measured.overhead)
    # B spends most of its compute time on accelerating, and A waits for that.
    assert measured.overhead["B"] > 0.3
    assert schedule.critical_cycle(compute) == ("A", "B")
    predicted = float(replay_residuals(schedule, compute, measured.recorded))
    assert predicted == pytest.approx(window, rel=0.005)
    # Without it the window would be that of A alone.
    without = Schedule.from_config(configuration, measured.iterations)
    assert float(without.window_seconds(compute)) < 0.9 * predicted
