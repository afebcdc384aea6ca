"""Ask and tell: what is measured next, when it ends, and what the recommendation is worth."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
from conftest import FULL_COUNTS
from emulation import CostLaw
from hypothesis import given, settings
from hypothesis import strategies as st

from precice_lb.campaign import CalibrationDesign
from precice_lb.exceptions import CalibrationError, DataError, InfeasibleError, PreciceLBError, ScheduleError
from precice_lb.schedule import Schedule
from precice_lb.split import optimize_split

LAWS = {
    "Inner": CostLaw(0.005, 1.8, 0.09, 0.006),
    "Outer": CostLaw(0.005, 0.6, 0.05, 0.006),
    "Third": CostLaw(0.002, 1.0, 0.02, 0.003),
    "Fourth": CostLaw(0.010, 0.3, 0.01, 0.001),
    "Fifth": CostLaw(0.001, 4.0, 0.05, 0.002),
}


# Goes on while runs are allowed.
GREEDY = {"target_regret": -1.0}


def seconds_of(split: dict[str, int], rng: np.random.Generator, noise: float) -> dict[str, float]:
    """What a run would tell: the law's seconds with noise."""
    return {name: float(LAWS[name].seconds(p)) * math.exp(noise * rng.standard_normal()) for name, p in split.items()}


def campaign(
    names: tuple[str, ...], budget: int, runs: int, *, noise: float = 0.02, seed: int = 0, **more: object
) -> tuple[CalibrationDesign, list[dict[str, int]], float]:
    """A whole campaign on the laws; the design, its splits and the true regret of its recommendation."""
    design = CalibrationDesign(names, budget, **more)  # type: ignore[arg-type]
    rng = np.random.default_rng(seed)
    splits = []
    while len(splits) < runs and (split := design.ask()) is not None:
        splits.append(split)
        design.tell(split, seconds_of(split, rng, noise))
    return design, splits, regret(design, budget)


def regret(design: CalibrationDesign, budget: int) -> float:
    split = design.recommendation().split
    ranks = np.arange(1, budget + 1)
    best = optimize_split({n: LAWS[n].seconds(ranks) for n in design.names}, budget, coupling=design.schedule)
    true = {name: float(LAWS[name].seconds(p)) for name, p in split.items()}
    return float(design.schedule.window_seconds(true)) / best.window_seconds - 1


@pytest.mark.parametrize(
    ("names", "budget"),
    [
        (("Inner", "Outer"), 16),
        (("Inner", "Outer"), 128),
        (("Inner", "Outer", "Third"), 48),
        pytest.param(("Inner", "Outer", "Third", "Fourth"), 96, marks=pytest.mark.slow("many decisions for four")),
        pytest.param(tuple(LAWS), 256, marks=pytest.mark.slow("many decisions for five")),
    ],
)
@pytest.mark.parametrize("seed", range(20 if FULL_COUNTS else 1))
def test_the_pulse_with_more_participants_too_is_within_two_percent_after_five_runs(
    names: tuple[str, ...], budget: int, seed: int
) -> None:
    _design, splits, lost = campaign(names, budget, 5, seed=seed)
    assert len(splits) <= 5
    assert lost <= 0.02
    assert all(sum(split.values()) <= budget and min(split.values()) >= 1 for split in splits)
    assert all(list(split) == list(names) for split in splits)


def test_it_ends_when_another_run_is_not_worth_it() -> None:
    # Three runs are made even where two leave no doubt, each participant at three counts.
    design, splits, _ = campaign(("Inner", "Outer"), 6, 20, target_regret=0.5)
    assert len(splits) == 3
    assert all(len({split[name] for split in splits}) == 3 for name in design.names)
    # With nothing but noise left to learn, the defaults end too.
    design, splits, lost = campaign(("Inner", "Outer"), 16, 50)
    assert len(splits) < 50
    assert lost <= 0.02


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 100)), min_size=1, max_size=4), st.integers(0, 300))
@settings(max_examples=200 if FULL_COUNTS else 10)
def test_the_first_split_spends_what_bounds_allow(bounds: list[tuple[int, int]], spare: int) -> None:
    low = {name: least for name, (least, _) in zip("ABCD", bounds, strict=False)}
    high = {name: least + more for name, (least, more) in zip("ABCD", bounds, strict=False)}
    budget = sum(low.values()) + spare
    split = CalibrationDesign([*low], budget, minimum=low, maximum=high).ask()
    assert split is not None
    assert all(low[name] <= count <= high[name] for name, count in split.items())
    assert sum(split.values()) == min(budget, sum(high.values()))


@given(st.integers(1, 4), st.integers(0, 12), st.integers(0, 100), st.sampled_from(["parallel", "serial"]))
@settings(max_examples=100 if FULL_COUNTS else 2)
def test_any_small_budget_is_asked_about(number: int, spare: int, seed: int, coupling: str) -> None:
    names = tuple(LAWS)[:number]
    budget = number + spare
    _design, splits, lost = campaign(names, budget, 4, seed=seed, coupling=coupling, **GREEDY, noise=0.05)
    # Where there is one split only, nothing can be regretted.
    assert 1 <= len(splits) <= 4
    assert all(sum(split.values()) <= budget for split in splits)
    assert lost < 0.5


def test_a_large_budget_costs_no_more() -> None:
    # It begins at many times as many ranks as these laws can use, and comes down from there.
    budget, runs = (100_000, 7) if FULL_COUNTS else (5_000, 4)
    _, splits, lost = campaign(("Inner", "Outer", "Third"), budget, runs)
    assert all(sum(split.values()) <= budget for split in splits)
    assert lost < 0.05
    assert sum(splits[-1].values()) < budget / 6


def test_only_allowed_rank_counts_are_asked_for_and_recommended() -> None:
    allow = {"Inner": [4, 12, 24, 36, 60], "Outer": list(range(2, 65, 2))}
    design, splits, _ = campaign(("Inner", "Outer"), 64, 6, allow=allow, **GREEDY)
    assert len(splits) >= 3
    for split in (*splits, design.recommendation().split):
        assert all(split[name] in counts for name, counts in allow.items())
        assert sum(split.values()) <= 64
    with pytest.raises(InfeasibleError, match=r"at least 80 ranks .*, found 64"):
        CalibrationDesign(("Inner", "Outer"), 64, allow={"Inner": [40], "Outer": [40, 50]})


@pytest.mark.parametrize(
    ("names", "ranks", "more", "error", "problem"),
    [
        ("AA", 8, {}, ScheduleError, "expected different names of participants, found A, A"),
        ("AB", 8, {"minimum": 5}, InfeasibleError, "at least 10 ranks"),
        (
            "AB",
            8,
            {"coupling": Schedule.parallel(["A", "C"])},
            ScheduleError,
            "participants of the coupling (A, C), found A, B",
        ),
        ("AB", 2.5, {}, InfeasibleError, "budget as a whole number of at least 1, found 2.5"),
    ],
)
def test_a_design_refuses_input_that_makes_no_sense(
    names: str, ranks: float, more: dict[str, Any], error: type[PreciceLBError], problem: str
) -> None:
    with pytest.raises(error, match=re.escape(problem)):
        CalibrationDesign([*names], ranks, **more)  # type: ignore[arg-type]


def test_a_design_recommends_nothing_without_a_run() -> None:
    with pytest.raises(CalibrationError, match="at least one run"):
        CalibrationDesign(("A", "B"), 8).recommendation()


@pytest.mark.parametrize(
    ("split", "seconds", "problem"),
    [
        ({"A": 1}, {"A": 1.0, "B": 1.0}, "expected ranks of A, B, found A"),
        ({"A": 1, "B": 2}, {"A": 1.0}, "expected seconds of A, B, found A"),
        ({"A": 1, "B": 2}, {"A": 1.0, "B": -1.0}, "seconds per time window above 0, found 2 and -1"),
        ({"A": 0, "B": 2}, {"A": 1.0, "B": 1.0}, "whole number of ranks from 1"),
    ],
)
def test_a_design_refuses_runs_that_cannot_be(split: dict[str, int], seconds: dict[str, float], problem: str) -> None:
    design = CalibrationDesign(("A", "B"), 8)

    with pytest.raises(DataError, match=re.escape(problem)):
        design.tell(split, seconds)

    assert design.runs == 0
