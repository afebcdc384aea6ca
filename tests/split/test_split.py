"""The best split by all splits, by arithmetic, and with bounds; what is refused."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from precice_xml_helpers import configuration, scheme

from precice_lb.exceptions import InfeasibleError, ModelError, ScheduleError
from precice_lb.schedule import Schedule
from precice_lb.split import Constraints, near_optimal_splits, optimize_split, solve, tradeoff_curve

RANKS = np.arange(1, 101)


def test_the_slowest_are_made_as_fast_as_possible_one_after_the_other() -> None:
    times = {"A": np.full(20, 8.0), "B": 12.0 / np.arange(1, 21), "C": 6.0 / np.arange(1, 21)}
    result = optimize_split(times, 10, coupling=Schedule.parallel(list("ABC")))
    # A gains nothing; B and C share the other nine ranks as if they were alone.
    assert result.split == {"A": 1, "B": 6, "C": 3}
    assert (result.window_seconds, result.critical_cycle) == (8.0, ("A",))
    assert result.waits == {"A": 0.0, "B": 6.0, "C": 6.0}


def falling(weights: dict[str, float]) -> dict[str, Any]:
    return {name: (lambda p, w=weight: w / p) for name, weight in weights.items()}


def test_many_ranks_have_the_analytic_optimum() -> None:
    # Minimal a/p + b/q + c/r with p + q + r = budget: ranks in proportion to the square roots.
    serial = optimize_split(falling({"A": 900.0, "B": 400.0, "C": 100.0}), 60_000, coupling="serial")
    assert serial.split == {"A": 30_000, "B": 20_000, "C": 10_000}
    assert serial.window_seconds == pytest.approx(0.03 + 0.02 + 0.01)
    assert serial.critical_cycle == ("A", "B", "C")
    assert serial.proof == "programme"
    parallel = optimize_split(falling({f"P{i}": i + 1.0 for i in range(8)}), 100_000)
    assert sum(parallel.split.values()) == 100_000
    assert 36 / 100_000 <= parallel.window_seconds <= 36 / 100_000 * 1.001


def test_bounds_and_array_lengths_are_kept() -> None:
    times = {"A": 8.0 / np.arange(1, 5), "B": lambda ranks: 8.0 / ranks}
    assert optimize_split(times, 20).split == {"A": 4, "B": 16}
    bounded = optimize_split(times, 20, constraints=Constraints(minimum={"B": 3}, maximum={"A": 2, "B": 9}))
    assert bounded.split == {"A": 2, "B": 9}
    assert optimize_split(times, np.int64(9), constraints=Constraints(minimum=np.int64(4))).split["A"] == 4
    assert optimize_split({"A": times["A"]}, 3).split == {"A": 3}


ONES = {"A": np.ones(9), "B": np.ones(9)}


@pytest.mark.parametrize(
    ("times", "budget", "words", "message"),
    [
        (ONES, 1, {}, "at least 2 ranks for 2 participants"),
        (ONES, 6, {"minimum": {"A": 6}}, "at least 7 ranks"),
        (
            ONES,
            9,
            {"minimum": 3, "maximum": {"B": 2}},
            r'of ranks of "B" .*: 3 at least \(minimum\); 2 at most \(maximum\); change one of them$',
        ),
        (ONES, 9, {"minimum": {"C": 2}}, "imum of A, B, found one of 'C', not in the coupling"),
        (ONES, 9, {"maximum": {"C": 2}}, "imum of A, B, found one of 'C', not in the coupling"),
        (ONES, 9.5, {}, "budget as a whole number"),
        (ONES, float("nan"), {}, "budget as a whole number"),
        (ONES, True, {}, "budget as a whole number"),
        (ONES, 9, {"minimum": 0}, "minimum: expected greater than or equal to 1, found 0"),
        ({"A": np.ones(3), "B": np.ones(0)}, 4, {}, r": 0 at most \(times known\); change"),
    ],
)
def test_infeasible_problems_are_refused(times: Any, budget: Any, words: dict[str, Any], message: str) -> None:
    with pytest.raises(InfeasibleError, match=message):
        optimize_split(times, budget, constraints=Constraints(**words))


@pytest.mark.parametrize("bad", [np.nan, np.inf, 0.0, -1.0])
def test_unusable_times_are_refused(bad: float) -> None:
    times = {"A": np.array([1.0, 2.0, bad, 1.0]), "B": np.ones(9)}
    with pytest.raises(ModelError, match=r'of "A", found .* at 3 ranks'):
        optimize_split(times, 6)
    # Times that no split can use do not matter.
    assert optimize_split(times, 3).window_seconds == 1.0


def test_missing_times_are_refused() -> None:
    with pytest.raises(ModelError, match="expected times of A, B"):
        optimize_split({"A": np.ones(3)}, 4, coupling=Schedule.parallel(list("AB")))
    with pytest.raises(ModelError, match=r"shape \(\)"):
        optimize_split({"A": np.ones(3), "B": lambda ranks: np.float64(1.0)}, 4)
    samples = {"A": np.ones((7, 12)), "B": np.ones(12)}
    for door in (optimize_split, near_optimal_splits, tradeoff_curve):
        with pytest.raises(ModelError, match="found 7 samples; give their means"):
            door(samples, 12)
    with pytest.raises(ModelError, match="as many samples"):
        optimize_split(samples | {"B": np.ones((3, 12))}, 12)


def test_with_too_many_boxes_the_gap_is_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(1)
    times = {name: 100.0 / RANKS * generator.uniform(1.0, 1.5, 100) for name in "ABC"}
    best = optimize_split(times, 100, coupling="serial")
    assert best.gap == 0
    for limit in ("MAXIMUM_BOXES", "MAXIMUM_SUMS", "DIRECT_SPLITS"):
        monkeypatch.setattr(solve, limit, 0)
    result = optimize_split(times, 100, coupling="serial")
    assert result.proof == "relaxation"
    assert 0 < result.gap < 0.05
    # The best split may be shorter by the gap and no more.
    assert result.window_seconds / (1 + result.gap) <= best.window_seconds * (1 + 1e-9)
    assert best.window_seconds <= result.window_seconds * (1 + 1e-9)


def test_a_relaxation_that_fails_does_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(2)
    times = {name: 100.0 / RANKS * generator.uniform(1.0, 1.5, 100) for name in "ABC"}
    expected = optimize_split(times, 60, coupling="serial")
    monkeypatch.setattr(solve, "DIRECT_SPLITS", 0)
    monkeypatch.setattr("scipy.optimize.linprog", lambda *_, **__: SimpleNamespace(status=4))
    assert optimize_split(times, 60, coupling="serial").window_seconds == expected.window_seconds


@pytest.mark.parametrize("kind", ["parallel", "serial"])
def test_a_coupling_is_a_name_a_path_or_a_schedule(tmp_path: Path, kind: str) -> None:
    times = {"A": 3.0 / np.arange(1, 9), "B": 1.0 / np.arange(1, 9)}
    schedule = getattr(Schedule, kind)(["A", "B"])
    path = tmp_path / "precice-config.xml"
    path.write_text(configuration("AB", [scheme(f"{kind}-explicit", "AB", [("A", "B"), ("B", "A")])]))
    for door in (optimize_split, near_optimal_splits, tradeoff_curve):
        expected = door(times, 8, coupling=schedule)
        assert door(times, 8, coupling=schedule) == door(times, 8, coupling=kind) == expected
        assert door(times, 8, coupling=path) == door(times, 8, coupling=str(path)) == expected
    assert (optimize_split(times, 8) == optimize_split(times, 8, coupling=kind)) == (kind == "parallel")


def test_another_coupling_is_refused() -> None:
    with pytest.raises(ScheduleError, match=r'"parallel", "serial" or the path of a configuration, found .sequential'):
        optimize_split({"A": np.ones(4)}, 4, coupling="sequential")
