"""Splits that must not be chosen: the answer is the best of all others, by comparison with all of them."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from precice_xml_helpers import coupling

from precice_lb.exceptions import InfeasibleError
from precice_lb.schedule import Schedule
from precice_lb.split import Constraints, near_optimal_splits, optimize_split, tradeoff_curve

CHAIN = coupling("ABC", ("serial-explicit", "AB"), ("parallel-explicit", "BC"))
SCHEDULES = [
    Schedule.parallel("AB"), Schedule.serial("AB"), Schedule.parallel("ABC"), Schedule.serial("ABC"), CHAIN
]  # fmt: skip

Excluded = list[dict[str, int]]


def allowed(schedule: Schedule, budget: int, excluded: Excluded) -> list[tuple[int, ...]]:
    """All splits that may be chosen."""
    names = schedule.participants
    every = [s for s in product(range(1, budget + 1), repeat=len(names)) if sum(s) <= budget]
    return [
        s for s in every
        if not any(all(s[names.index(name)] == ranks for name, ranks in split.items()) for split in excluded)
    ]  # fmt: skip


def windows(schedule: Schedule, times: dict[str, np.ndarray], splits: list[tuple[int, ...]]) -> np.ndarray:
    """Seconds per window of splits."""
    columns = np.array(splits).T
    costs = {n: times[n][p - 1] for n, p in zip(schedule.participants, columns, strict=True)}
    return np.asarray(schedule.window_seconds(costs))


@st.composite
def instances(draw: st.DrawFn) -> tuple[Schedule, dict[str, np.ndarray], int, Excluded]:
    schedule = draw(st.sampled_from(SCHEDULES))
    names = schedule.participants
    budget = draw(st.integers(len(names), len(names) + 6))
    values = {name: draw(st.lists(st.integers(1, 12), min_size=budget, max_size=budget)) for name in names}
    times = {name: np.array(seconds, dtype=float) for name, seconds in values.items()}
    excluded: Excluded = []
    for _ in range(draw(st.integers(0, 4))):
        chosen = draw(st.lists(st.sampled_from(names), min_size=1, max_size=len(names), unique=True))
        excluded.append({name: draw(st.integers(1, budget - len(names) + 1)) for name in chosen})
    return schedule, times, budget, excluded


@given(instances())
def test_the_best_of_all_others_is_found(instance: tuple[Schedule, dict[str, np.ndarray], int, Excluded]) -> None:
    schedule, times, budget, excluded = instance
    words = {"coupling": schedule, "constraints": Constraints(excluded=excluded)}
    splits = allowed(schedule, budget, excluded)
    if not splits:
        for door in (optimize_split, near_optimal_splits, tradeoff_curve):
            with pytest.raises(InfeasibleError, match="found none within the bounds and the budget"):
                door(times, budget, **words)
        return
    seconds = windows(schedule, times, splits)
    found = optimize_split(times, budget, **words)
    assert tuple(found.split.values()) in splits
    assert found.window_seconds == pytest.approx(seconds.min(), rel=1e-9)
    near = near_optimal_splits(times, budget, within=0.3, count=1000, **words)
    assert near[0].window_seconds == pytest.approx(seconds.min(), rel=1e-9)
    listed = [tuple(each.split.values()) for each in near]
    assert len(set(listed)) == len(listed)
    assert set(listed) <= set(splits)
    points = tradeoff_curve(times, budget, **words).points
    assert all(tuple(point.split.values()) in splits for point in points)
    for point in points:
        best = seconds[[sum(split) <= point.budget for split in splits]].min()
        assert point.window_seconds == pytest.approx(best, rel=1e-9)
    assert points[-1].window_seconds == pytest.approx(seconds.min(), rel=1e-9)


def test_a_hundred_thousand_ranks_without_some() -> None:
    ranks = np.arange(1, 100_001)
    times = {"A": 9e5 / ranks, "B": 3e5 / ranks}
    best = optimize_split(times, 100_000, coupling=Schedule.serial("AB")).split
    excluded = [best, {"A": best["A"] - 1}]
    found = optimize_split(times, 100_000, coupling=Schedule.serial("AB"), constraints=Constraints(excluded=excluded))
    first = np.arange(1, 100_000)
    seconds = times["A"][first - 1] + times["B"][100_000 - first - 1]
    free = (first != best["A"]) & (first != best["A"] - 1)
    assert found.window_seconds == pytest.approx(seconds[free].min(), rel=1e-12)
    assert found.gap <= 1e-6
    assert "2 sets of splits" in found.bound


@pytest.mark.parametrize(
    ("excluded", "expected"),
    [({"D": 2}, "found one of 'D', not in the coupling"), ({"A": 0}, "expected greater than or equal to 1, found 0")],
)
def test_nonsense_is_refused(excluded: dict[str, int], expected: str) -> None:
    times = {"A": np.ones(4), "B": np.ones(4)}
    with pytest.raises(InfeasibleError, match=expected):
        optimize_split(times, 4, coupling=SCHEDULES[0], constraints=Constraints(excluded=[excluded]))
