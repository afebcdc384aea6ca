"""Windows of measured splits are data, and what must not change a decision does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from coupled_runs import coupled_run

from precice_lb.dataset import CoupledRun, measurements_from_runs
from precice_lb.recommend import Recommendation, recommend_split
from precice_lb.schedule import Schedule

BUDGET = 48


def ran(name: str, first: int, factor: float, seed: int = 0) -> CoupledRun:
    """A run of A and B whose windows took so much longer than its work."""
    rng = np.random.default_rng([seed, first])
    ranks = {"A": first, "B": BUDGET - first}
    own = {n: w / ranks[n] * np.exp(0.02 * rng.standard_normal(40)) for n, w in (("A", 60.0), ("B", 30.0))}
    run = coupled_run(name, ranks, own, np.ones(40), serial=False)
    for part in run.participants.values():
        part.window_seconds[:] *= factor
    return run


def recommended(runs: list[CoupledRun], **bounds: Any) -> Recommendation:
    return recommend_split(measurements_from_runs(runs), BUDGET, coupling=Schedule.parallel(["A", "B"]), **bounds)


def test_a_measured_split_is_thought_to_take_what_it_took() -> None:
    # By its own work 32 + 16 would be the best, but its windows took a half longer: something is in its way.
    slow = recommended([ran("a", 24, 1.0), ran("b", 28, 1.0), ran("c", 32, 1.5), ran("d", 40, 1.0)])
    there = float(slow.expected.expected([{"A": 32, "B": 16}])[0])
    measured = next(each for each in slow.comparisons if each.split["A"] == 32)
    assert measured.predicted == pytest.approx(60 / 32, rel=0.05)
    assert there == pytest.approx(measured.measured, rel=0.1)
    assert slow.split["A"] != 32
    # Without that, it is chosen, or one beside it.
    usual = recommended([ran("a", 24, 1.0), ran("b", 28, 1.0), ran("c", 32, 1.0), ran("d", 40, 1.0)])
    assert abs(usual.split["A"] - 32) <= 1


def test_a_measured_split_beyond_the_bounds_is_not_recommended_however_fast_it_was() -> None:
    runs = [ran("a", 20, 1.0), ran("b", 24, 1.0), ran("c", 32, 0.5), ran("d", 40, 1.0)]
    assert recommended(runs).split == {"A": 32, "B": 16}
    assert recommended(runs, maximum={"A": 30}).split["A"] <= 30
    assert recommended(runs, minimum={"A": 34}).split["A"] >= 34


def test_what_all_windows_have_beside_the_work_makes_no_split_that_never_ran_better() -> None:
    fair = recommended([ran("a", 20, 1.0), ran("b", 32, 1.0), ran("c", 40, 1.0)])
    longer = recommended([ran("a", 20, 2.0), ran("b", 32, 2.0), ran("c", 40, 2.0)])
    assert abs(longer.split["A"] - fair.split["A"]) <= 1
    assert longer.window_seconds == pytest.approx(2 * fair.window_seconds, rel=0.05)
    best = min(each.measured for each in longer.comparisons)
    assert longer.window_seconds <= best * 1.05


def test_work_that_sums_to_more_than_the_windows_is_cut_to_them_and_said_so() -> None:
    """Both share cores and wait for each other in turn: waiting looks like work."""
    runs = [ran(f"{index}", first, factor) for index, (first, factor) in enumerate([(24, 0.6), (32, 0.6), (40, 0.6)])]
    found = recommended(runs)
    assert sum(found.split.values()) <= BUDGET
    best = min(each.measured for each in found.comparisons)
    assert found.window_seconds == pytest.approx(best, rel=0.1)
    assert max(found.compute_seconds.values()) <= found.window_seconds * 1.001
    assert [warning.code for warning in found.warnings].count("shared-cores") == 1
    # A twentieth may be noise.
    fair = recommended([ran("a", 24, 0.95), ran("b", 32, 0.95), ran("c", 40, 0.95)])
    assert "shared-cores" not in [warning.code for warning in fair.warnings]


@pytest.mark.parametrize("seed", range(3))
def test_the_recommended_split_is_never_worse_than_the_best_measured_one_beyond_noise(seed: int) -> None:
    """Windows that the work does not explain, by up to a third and differently for each split."""
    rng = np.random.default_rng(seed)
    runs = [ran(f"{p}", p, float(np.exp(rng.uniform(0, 0.3))), seed) for p in (16, 24, 28, 30, 34, 38)]
    found = recommended(runs)
    best = min(found.comparisons, key=lambda each: each.measured)
    assert found.window_seconds <= best.measured * (1 + 2 * best.standard_error)
    assert float(found.expected.expected([best.split])[0]) >= found.window_seconds * (1 - 1e-9)


def test_the_level_of_the_interval_never_changes_the_split() -> None:
    rng = np.random.default_rng(1)
    ranks = np.array([2.0, 4, 8, 16])
    data = {
        name: np.column_stack([ranks, (work / ranks + 0.3) * np.exp(0.1 * rng.standard_normal(4))])
        for name, work in (("A", 60.0), ("B", 20.0))
    }
    runs = [ran("a", 24, 1.0), ran("b", 32, 1.3)]
    for given in (data, measurements_from_runs(runs)):
        found = [recommend_split(given, 96, level=level) for level in (0.01, 0.5, 0.8, 0.999)]
        assert len({tuple(each.split.items()) for each in found}) == 1
        assert len({each.window_seconds for each in found}) == 1
        assert found[0].interval != found[-1].interval
