"""What a run is worth, what runs have cost, and when a campaign ends, by hand: a few possible truths, in fractions."""

from __future__ import annotations

import math
from fractions import Fraction as F
from pathlib import Path
from statistics import NormalDist

import pytest
from decision_cases import DIGITS, Law, ask_with, conclusion_of_campaign, value_of_runs

from precice_lb import CalibrationDesign

BUDGET = 4
HIGHEST = {"A": 3, "B": 3}
SPLITS = [{"A": 1, "B": 3}, {"A": 2, "B": 2}, {"A": 3, "B": 1}]
# Seconds on 1, 2 and 3 ranks, as two truths have it. Windows of the splits: 12, 6, 4 by the first, 12, 9, 12 by the
# second, and a run at the first split cannot tell which is true.
FIRST = {"A": (12, 6, 4), "B": (4, 4, 4)}
SECOND = {"A": (12, 9, 8), "B": (12, 6, 4)}
# The first is twice as probable: geometric means 12, 6.9, 5.8, so that 3:1 is recommended. It loses nothing, or, as the
# logarithm of a ratio, ln(12 / 9).
REGRET = math.log(12 / 9) / 3


def law(seconds: tuple[int, ...]) -> Law:
    return lambda ranks: F(seconds[ranks - 1])


def laws(copies: int) -> dict[str, list[Law]]:
    """The truths as draws: twice as many of the first."""
    return {name: [law(FIRST[name])] * 2 * copies + [law(SECOND[name])] * copies for name in "AB"}


def test_a_run_that_tells_the_truth_saves_all_regret_and_one_that_tells_nothing_none() -> None:
    regret, saved = value_of_runs(laws(2), 0.01, BUDGET, HIGHEST, SPLITS)
    assert regret == pytest.approx(REGRET, rel=DIGITS)
    assert saved == [0.0, pytest.approx(REGRET, rel=DIGITS), pytest.approx(REGRET, rel=DIGITS)]
    # Noise of many times the difference leaves everything as it was.
    _, saved = value_of_runs(laws(2), 1e6, BUDGET, HIGHEST, SPLITS)
    assert saved == [0.0, 0.0, 0.0]


def test_a_noisy_run_saves_what_bayes_leaves_of_two_truths() -> None:
    """At 2:2 both participants differ by the same ratio, 9 / 6 and 6 / 4: together two standard deviations here."""
    distance = 2.0
    noise = math.log(1.5) * math.sqrt(2) / distance
    saved = [value_of_runs(laws(60), noise, BUDGET, HIGHEST, SPLITS[1:2], seed)[1][0] for seed in range(40)]
    # 2:2 loses ln(6 / 4) if the first truth holds, 3:1 ln(12 / 9) if the second does: 2:2 is taken where the second is
    # more probable by the ratio of these, before which it is half as probable.
    first, second = math.log(6 / 4), math.log(12 / 9)
    bound = math.log(2 * first / second) / distance + distance / 2
    wrongly_second, wrongly_first = NormalDist().cdf(-bound), NormalDist().cdf(bound - distance)
    left = 2 / 3 * first * wrongly_second + second * wrongly_first / 3
    assert sum(saved) / len(saved) == pytest.approx(REGRET - left, abs=0.006)


def design(runs: int = 3, **words: float) -> CalibrationDesign:
    """One that was told runs at 1:3."""
    begun = CalibrationDesign(["A", "B"], BUDGET, **words)  # type: ignore[arg-type]
    for _ in range(runs):
        begun.tell({"A": 1, "B": 3}, {"A": 12.0, "B": 4.0})
    return begun


def ask(asked: CalibrationDesign, noise: float = 0.01) -> dict[str, int] | None:
    return ask_with(asked, laws(2), noise, HIGHEST)


def test_the_next_run_saves_most_per_core_hour() -> None:
    # 2:1, 2:2 and 3:1 save the same, and cost 3 · 7.6, 4 · 6.9 and 4 · 5.8 core-seconds per window.
    asked = design()
    assert ask(asked) == {"A": 2, "B": 1}
    assert asked.reason == "a split: expected regret 9.59 %, after this run 0.00 %"


def test_a_campaign_ends_at_its_target_or_where_nothing_is_saved() -> None:
    regret, _ = value_of_runs(laws(2), 0.01, BUDGET, HIGHEST, SPLITS)
    assert ask(design(target_regret=regret)) is None
    # A run saves all of the regret, or with noise of many times the difference nothing; a tenth of the target counts.
    below = math.nextafter(regret, 0.0)
    assert ask(design(target_regret=below)) == {"A": 2, "B": 1}
    ended = design(target_regret=below)
    assert ask(ended, noise=1e6) is None
    stable = "the answer is stable: another run is expected to lower the regret of 9.59 % by less than 0.96 %"
    assert ended.reason == stable
    # Two runs show no noise: neither counts before the third.
    assert ask(design(2, target_regret=1.0)) is not None
    assert ask(design(2, target_regret=below), noise=1e6) is not None


def test_as_many_runs_as_allowed() -> None:
    assert ask(design(3, maximum_runs=4)) is not None
    ended = design(3, maximum_runs=3)
    assert ended.ask() is None
    assert ended.reason == "3 runs made, as many as allowed"


@pytest.mark.parametrize(
    ("limit", "conclusion"),
    [
        ("core_hours = 0.75", "the runs took 0.75 core-hours, of 0.75 allowed"),
        ("maximum = 1", "1 run made, as many as runs.maximum allows"),
    ],
)
def test_a_campaign_counts_the_core_hours_of_failed_runs_too(tmp_path: Path, limit: str, conclusion: str) -> None:
    # (600 s · 3 ranks + 300 s · 3 ranks) / 3600, though the second one failed.
    runs = [({"Left": 2, "Right": 1}, 600.0, "finished"), ({"Left": 1, "Right": 2}, 300.0, "failed")]
    assert conclusion_of_campaign(tmp_path, limit, runs) == f"calibration ends after 1 finished run: {conclusion}"
