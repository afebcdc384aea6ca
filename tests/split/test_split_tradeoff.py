"""Lists of near splits and curves of budgets, with and without splits that must not be chosen, by all splits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from split_cases import CHAIN, SCHEDULES, Array, every_window

from precice_lb.exceptions import InfeasibleError, ModelError
from precice_lb.schedule import Schedule
from precice_lb.split import Constraints, near_optimal_splits, optimize_split, tradeoff_curve

OF_THREE = [Schedule.parallel(list("ABC")), Schedule.serial(list("ABC")), CHAIN]
Excluded = list[dict[str, int]]


def jagged(seed: int, length: int) -> dict[str, Array]:
    random = np.random.default_rng(seed)
    ranks = np.arange(1, length + 1)
    return {name: random.uniform(5, 40) / ranks * random.uniform(1, 1.4, length) + 0.02 * ranks for name in "ABC"}


@pytest.mark.parametrize("schedule", OF_THREE, ids=lambda schedule: schedule.description)
@pytest.mark.parametrize("seed", [1, 2])
def test_the_list_is_that_of_all_splits(schedule: Schedule, seed: int) -> None:
    times = jagged(seed, 20)
    results = near_optimal_splits(times, 20, coupling=schedule, within=0.08, count=12)
    # Counts that are faster than all fewer ones.
    fast = [{p for p in range(1, 21) if t[p - 1] < min([np.inf, *t[: p - 1]])} for t in times.values()]
    windows = every_window(schedule, times, 20)
    every = {s: w for s, w in windows.items() if all(p in counts for p, counts in zip(s, fast, strict=True))}
    best = min(every.values())
    expected = sorted(w for w in every.values() if w <= best * 1.08)[:12]
    assert [r.window_seconds for r in results] == pytest.approx(expected, rel=1e-9)
    assert len({tuple(r.split.values()) for r in results}) == len(results)
    for result in results:
        assert every[tuple(result.split.values())] == pytest.approx(result.window_seconds, rel=1e-9)
        assert result.gap == pytest.approx(result.window_seconds / best - 1, abs=1e-9)
        assert result.proof == "boxes"


def test_lists_of_nonsense_are_refused() -> None:
    for arguments in ({"within": -0.1}, {"within": float("nan")}, {"count": 0}):
        with pytest.raises(ModelError, match="within of at least 0"):
            near_optimal_splits(jagged(1, 9), 9, **arguments)


def test_tradeoff_curve_looks_at_each_of_64_budgets_and_at_some_of_more() -> None:
    def budgets(most: int) -> list[int]:
        times = {name: 1e3 / np.arange(1, most + 1) for name in "AB"}
        return [point.budget for point in tradeoff_curve(times, most, coupling="serial").points]

    assert budgets(65) == list(range(2, 66))
    some_budgets = budgets(200)
    assert (some_budgets[0], some_budgets[-1]) == (2, 200)
    assert 32 < len(some_budgets) <= 64


@st.composite
def instances(draw: st.DrawFn) -> tuple[Schedule, dict[str, Array], int, Excluded]:
    schedule = SCHEDULES[
        draw(st.sampled_from([name for name in SCHEDULES if "four" not in name and "order" not in name]))
    ]
    names = schedule.participants
    budget = draw(st.integers(len(names), len(names) + 6))
    values = {name: draw(st.lists(st.integers(1, 12), min_size=budget, max_size=budget)) for name in names}
    excluded: Excluded = []
    for _ in range(draw(st.integers(0, 4))):
        chosen = draw(st.lists(st.sampled_from(names), min_size=1, max_size=len(names), unique=True))
        excluded.append({name: draw(st.integers(1, budget - len(names) + 1)) for name in chosen})
    return schedule, {name: np.array(seconds, dtype=float) for name, seconds in values.items()}, budget, excluded


@given(instances())
def test_the_best_of_all_others_is_found(instance: tuple[Schedule, dict[str, Array], int, Excluded]) -> None:
    schedule, times, budget, excluded = instance
    names, words = schedule.participants, {"coupling": schedule, "constraints": Constraints(excluded=excluded)}
    every = {
        split: seconds for split, seconds in every_window(schedule, times, budget).items()
        if not any(all(split[names.index(name)] == ranks for name, ranks in other.items()) for other in excluded)
    }  # fmt: skip
    if not every:
        for door in (optimize_split, near_optimal_splits, tradeoff_curve):
            with pytest.raises(InfeasibleError, match="found none; give wider bounds"):
                door(times, budget, **words)
        return
    least = pytest.approx(min(every.values()), rel=1e-9)
    best = optimize_split(times, budget, **words)
    assert list(best.split) == list(names)
    assert every[tuple(best.split.values())] == best.window_seconds == least
    assert best.compute_seconds == {name: times[name][ranks - 1] for name, ranks in best.split.items()}
    assert best.gap == 0.0
    assert set(best.critical_cycle) <= set(names)
    if not excluded:
        assert best.proof == ("bisection" if schedule.is_maximum else "boxes")
        # Ranks left over would make nobody faster.
        left = budget - sum(best.split.values())
        assert all(times[n][: p + left].min() == times[n][p - 1] for n, p in best.split.items())
    near = near_optimal_splits(times, budget, within=0.3, count=1000, **words)
    assert near[0].window_seconds == least
    listed = {tuple(result.split.values()) for result in near}
    assert len(listed) == len(near)
    assert listed <= every.keys()
    points = tradeoff_curve(times, budget, **words).points
    assert {tuple(point.split.values()) for point in points} <= every.keys()
    for most in range(min(map(sum, every)), budget + 1):
        within = [seconds for split, seconds in every.items() if sum(split) <= most]
        point = [point for point in points if point.budget <= most][-1]
        assert point.window_seconds == pytest.approx(min(within), rel=1e-9)
    for point in points:
        assert point.budget == point.cores == sum(point.split.values())
        assert point.core_hours == pytest.approx(point.cores * point.window_seconds / 3600)
        assert point.efficiency == pytest.approx(min(p.core_hours for p in points) / point.core_hours)
        assert point.gap == pytest.approx(0.0, abs=1e-9)
    assert points[-1].window_seconds == least


def test_a_hundred_thousand_ranks_without_some() -> None:
    ranks = np.arange(1, 100_001)
    times = {"A": 9e5 / ranks, "B": 3e5 / ranks}
    best = optimize_split(times, 100_000, coupling="serial").split
    excluded = [best, {"A": best["A"] - 1}]
    result = optimize_split(times, 100_000, coupling="serial", constraints=Constraints(excluded=excluded))
    first = np.arange(1, 100_000)
    seconds = times["A"][first - 1] + times["B"][100_000 - first - 1]
    free = (first != best["A"]) & (first != best["A"] - 1)
    assert result.window_seconds == pytest.approx(seconds[free].min(), rel=1e-12)
    assert result.gap <= 1e-6
    assert result.proof == "programme"


@pytest.mark.parametrize(
    ("excluded", "expected"),
    [({"D": 2}, "found one of 'D', not in the coupling"), ({"A": 0}, "expected greater than or equal to 1, found 0")],
)
def test_no_such_split_can_be_left_out(excluded: dict[str, int], expected: str) -> None:
    times = {"A": np.ones(4), "B": np.ones(4)}
    with pytest.raises(InfeasibleError, match=expected):
        optimize_split(times, 4, constraints=Constraints(excluded=[excluded]))
