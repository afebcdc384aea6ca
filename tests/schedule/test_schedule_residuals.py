"""Window times under noise and changing load: replay of recorded windows, resampled in blocks."""

from __future__ import annotations

import numpy as np
import pytest
from precice_xml_helpers import coupling

from precice_lb.exceptions import ScheduleError
from precice_lb.schedule import replay_residuals
from precice_lb.schedule.graph import resampled_residuals


def noisy(names: str, windows: int, spread: float = 0.1, seed: int = 5) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    return {name: 0.1 * (1 + spread * generator.standard_normal(windows)) for name in names}


def test_constant_costs_give_the_steady_window_time() -> None:
    schedule = coupling("ABC", ("serial-implicit", "AB"), ("serial-explicit", "BC"))
    recorded = [{name: np.full(40, cost) for name, cost in (("A", 0.2), ("B", 0.1), ("C", 0.2))}]
    costs = {"A": np.array([0.2, 0.5]), "B": np.array([[0.1], [0.3]]), "C": np.array(0.2)}
    seconds = replay_residuals(schedule, costs, recorded)
    np.testing.assert_allclose(seconds, schedule.window_seconds(costs))
    # It scales with the costs.
    half = {name: 0.5 * cost for name, cost in costs.items()}
    np.testing.assert_allclose(replay_residuals(schedule, half, recorded), 0.5 * seconds)


def test_blocks_keep_windows_in_order_and_together() -> None:
    schedule = coupling("AB", ("parallel-explicit", "AB"))
    rising = 1.0 + np.arange(40.0)
    residuals = resampled_residuals(schedule, [{"A": rising, "B": 2 * rising}], windows=100, block=10)
    np.testing.assert_allclose(2 * residuals["A"], residuals["B"])
    steps = np.diff(residuals["A"])
    inside = np.arange(1, 100) % 10 != 0
    np.testing.assert_allclose(steps[inside], 1.0)
    assert len(residuals["A"]) == 100


def test_too_little_recorded_is_refused() -> None:
    schedule = coupling("AB", ("parallel-explicit", "AB"))
    with pytest.raises(ScheduleError, match="8 recorded time windows or more, found 5"):
        replay_residuals(schedule, {"A": 1.0, "B": 1.0}, [noisy("AB", 5)])
    with pytest.raises(ScheduleError, match="none of B"):
        replay_residuals(schedule, {"A": 1.0, "B": 1.0}, [noisy("A", 50)])
    gaps = noisy("AB", 20)
    gaps["A"][3:] = np.nan
    with pytest.raises(ScheduleError, match="found 3"):
        replay_residuals(schedule, {"A": 1.0, "B": 1.0}, [gaps])


def test_a_run_is_drawn_as_often_as_it_is_long() -> None:
    runs = [{name: np.full(windows, value) for name in "AB"} for windows, value in ((30, 1.0), (10, 2.0))]
    residuals = resampled_residuals(coupling("AB", ("parallel-explicit", "AB")), runs, windows=20_000, block=5)
    # Of 4,000 blocks a quarter is of the shorter run; the standard deviation of that is 0.7 %.
    assert np.mean(residuals["A"] == 2.0) == pytest.approx(0.25, abs=0.03)
