from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from precice_xml_helpers import coupling

from precice_lb.exceptions import InfeasibleError, ModelError
from precice_lb.schedule import Schedule
from precice_lb.split import near_optimal_splits, optimize, tradeoff_curve

CHAIN = coupling("ABC", ("serial-explicit", "AB"), ("serial-explicit", "BC"))
SCHEDULES = [Schedule.parallel("ABC"), Schedule.serial("ABC"), CHAIN]


def jagged(seed: int, length: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    ranks = np.arange(1, length + 1)
    return {name: random.uniform(5, 40) / ranks * random.uniform(1, 1.4, length) + 0.02 * ranks for name in "ABC"}


def windows(times: dict[str, np.ndarray], budget: int, schedule: Schedule) -> dict[tuple[int, ...], float]:
    splits = [s for s in product(range(1, budget), repeat=3) if sum(s) <= budget]
    columns = np.array(splits).T
    seconds = schedule.window_seconds({n: times[n][p - 1] for n, p in zip("ABC", columns, strict=True)})
    return dict(zip(splits, seconds.tolist(), strict=True))


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda schedule: schedule.description)
@pytest.mark.parametrize("seed", [1, 2])
def test_the_list_is_that_of_all_splits(schedule: Schedule, seed: int) -> None:
    times = jagged(seed, 20)
    found = near_optimal_splits(times, 20, coupling=schedule, within=0.08, count=12)
    # Counts that are faster than all fewer ones.
    fast = {n: {p for p in range(1, 21) if t[p - 1] < min([np.inf, *t[: p - 1]])} for n, t in times.items()}
    every = {
        s: w
        for s, w in windows(times, 20, schedule).items()
        if all(p in fast[n] for n, p in zip("ABC", s, strict=True))
    }
    best = min(every.values())
    expected = sorted(w for w in every.values() if w <= best * 1.08)[:12]
    assert [r.window_seconds for r in found] == pytest.approx(expected, rel=1e-9)
    assert len({tuple(r.split.values()) for r in found}) == len(found)
    for result in found:
        assert every[tuple(result.split.values())] == pytest.approx(result.window_seconds, rel=1e-9)
        assert result.gap == pytest.approx(result.window_seconds / best - 1, abs=1e-9)
        assert result.bound == "all better ones are listed"


def test_lists_of_nonsense_are_refused() -> None:
    times = jagged(1, 9)
    for arguments in ({"within": -0.1}, {"within": float("nan")}, {"count": 0}):
        with pytest.raises(ModelError, match="within of at least 0"):
            near_optimal_splits(times, 9, coupling=SCHEDULES[0], **arguments)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda schedule: schedule.description)
def test_the_curve_is_the_best_of_every_budget(schedule: Schedule) -> None:
    times = jagged(5, 22)
    curve = tradeoff_curve(times, 22, coupling=schedule)
    every = windows(times, 22, schedule)
    for budget in range(3, 23):
        best = min(w for s, w in every.items() if sum(s) <= budget)
        point = [p for p in curve.points if p.budget <= budget][-1]
        assert point.window_seconds == pytest.approx(best, rel=1e-9)
        assert every[tuple(point.split.values())] == pytest.approx(best, rel=1e-9)
    for point in curve.points:
        assert point.budget == point.cores == sum(point.split.values())
        assert point.core_hours == pytest.approx(point.cores * point.window_seconds / 3600)
        assert point.efficiency == pytest.approx(min(p.core_hours for p in curve.points) / point.core_hours)


def test_choosing_between_time_and_cost() -> None:
    ranks = np.arange(1, 401)
    # Amdahl: from some point on cores buy little.
    times = {"A": 1.0 + 100.0 / ranks, "B": 0.5 + 50.0 / ranks}
    curve = tradeoff_curve(times, 400, coupling=Schedule.parallel("AB"))
    fast, cheap = curve.choose("time"), curve.choose("cost")
    assert fast == curve.choose(1.0) == curve.points[-1]
    assert cheap == curve.choose(0.0) == min(curve.points, key=lambda point: point.core_hours)
    chosen = [curve.choose(weight).cores for weight in (0.0, 0.3, 0.5, 0.7, 1.0)]
    assert chosen == sorted(chosen)
    assert chosen[0] < chosen[2] < chosen[4]
    # With T = 1 + 150/p in all, T squared times p is least at p = 150: half the time is scalable.
    assert curve.choose(0.5).cores == pytest.approx(150, rel=0.05)
    assert curve.knee is not None
    assert cheap.cores < curve.knee.cores < fast.cores
    for prefer in (-0.1, 1.1, "speed", float("nan")):
        with pytest.raises(ModelError, match="preference"):
            curve.choose(prefer)  # type: ignore[arg-type]


def test_budgets_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    times = {name: 1e5 / np.arange(1, 5001) for name in "AB"}
    curve = tradeoff_curve(times, 5000, coupling=Schedule.parallel("AB"), budgets=[200, 5000])
    assert [point.budget for point in curve.points] == [200, 5000]
    # Too many to look at all of them.
    monkeypatch.setattr(optimize, "BUDGETS", 8)
    ladder = tradeoff_curve(times, 5000, coupling=Schedule.serial("AB")).points
    assert len(ladder) == 8
    assert (ladder[0].budget, ladder[-1].budget) == (2, 5000)
    with pytest.raises(InfeasibleError, match="budgets from 2 to 5000, found"):
        tradeoff_curve(times, 5000, coupling=Schedule.parallel("AB"), budgets=[1])
