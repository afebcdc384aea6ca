"""What a run is worth, what runs have cost, and when a campaign ends, by hand: a few possible truths, in fractions."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction as F
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from decision_cases import DIGITS, Law, ask_with, conclusion_of_campaign, recommended, value_of_runs

from precice_lb import CalibrationDesign, recommend_split
from precice_lb.campaign import NextRun, PosteriorSplits, Prospects, next_runs
from precice_lb.case import AcceptedRanks, RankBound
from precice_lb.dataset import MeasuredRun, Measurements, Samples
from precice_lb.schedule import Schedule

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
    reached = design(target_regret=regret)
    assert ask(reached) is None
    assert reached.reason == "the expected regret of 9.59 % is below 9.6 %"
    # A run saves all of the regret, or with noise of many times the difference nothing; a tenth of the target counts.
    below = math.nextafter(regret, 0.0)
    assert ask(design(target_regret=below)) == {"A": 2, "B": 1}
    ended = design(target_regret=below)
    assert ask(ended, noise=1e6) is None
    stable = "the answer is stable: another run is expected to lower the regret of 9.59 % by less than 0.96 %"
    assert ended.reason == stable
    # Two runs show no noise: neither counts before the third.
    assert ask(design(2, target_regret=1.0)) == {"A": 2, "B": 1}
    # Where none saves anything the cheapest one.
    assert ask(design(2, target_regret=below), noise=1e6) == {"A": 2, "B": 1}


def test_what_a_recommendation_says_of_further_runs() -> None:
    """Each at new counts of both, most saved per core-second first."""
    found = recommended(laws(2), {"A": [1], "B": [3]}, BUDGET, maximum=HIGHEST)
    regret = pytest.approx(REGRET, rel=DIGITS)
    runs = [NextRun({"A": a, "B": b}, regret, 0.0) for a, b in ((2, 1), (3, 1), (2, 2))]
    prospects = next_runs(found)
    assert prospects == Prospects(regret, tuple(runs), True)
    assert next_runs(found, prospects.regret) == Prospects(prospects.regret)


def test_noise_of_a_run_is_that_between_runs_and_the_median_of_that_within() -> None:
    measured = {"A": Samples([1, 2, 3], [12, 6, 4], standard_error=[0.12, 0.12, 0.48]), "B": Samples([3], [4])}
    found = recommended(laws(1), Measurements(measured), BUDGET, maximum=HIGHEST)
    assert PosteriorSplits(found).noise == pytest.approx({"A": math.hypot(0.05, 0.02), "B": 0.05}, rel=DIGITS)
    told = PosteriorSplits(found, {"A": 0.0, "B": 0.12}).noise
    assert told == pytest.approx({"A": 0.05, "B": 0.13}, rel=DIGITS)


@pytest.mark.parametrize(
    ("work", "budget", "words", "best", "nodes"),
    [
        ((11, 33), 44, {}, (11, 33), 1),
        ((6, 12, 24), 14, {}, (2, 4, 8), 1),
        ((10, 30), 24, {"cores_per_node": 4}, (6, 18), 4),
        ((125, 375), 500, {}, (125, 375), 1),
        ((25, 50, 100), 175, {}, (25, 50, 100), 1),
    ],
)
def test_splits_in_question(
    work: tuple[int, ...], budget: int, words: dict[str, Any], best: tuple[int, ...], nodes: int
) -> None:
    """Beside the best one those in which one has other ranks, all of less by halves, and one who takes what is left."""

    def drawn(total: int) -> list[Law]:
        return [lambda ranks: F(total, ranks)] * 2

    def other(split: tuple[int, ...], place: int, count: int) -> tuple[int, ...]:
        return (*split[:place], count, *split[place + 1 :])

    names = "ABC"[: len(work)]
    curves = {name: drawn(total) for name, total in zip(names, work, strict=True)}
    measured = dict.fromkeys(names, (1, 2, 3))
    posterior = PosteriorSplits(recommended(curves, measured, budget, **words))
    places = range(len(work))
    # Of many in geometric steps.
    highest, most = budget - len(work) + 1, (384, 85)[len(work) - 2]
    steps = {int(highest ** (step / (most - 1)) + 1e-9) for step in range(most)}
    counts = range(1, highest + 1) if highest <= most else steps
    begun = [other(best, place, count) for place in places for count in counts]
    tried = [tuple(max(count - count % nodes, 1) for count in split) for split in begun] if nodes > 1 else []
    if len(work) > 2:
        begun += [tuple(max(count >> halves, 1) for count in best) for halves in range(8)]
    tried += begun + [other(split, k, budget - sum(split) + split[k]) for split in begun for k in places]
    splits = sorted({split for split in tried if min(split) > 0 and sum(split) <= budget})
    assert [tuple(split) for split in posterior.splits.tolist()] == splits
    # Judged are twelve over the range, the best one, and that most like it of each octave of ranks.
    judged = {splits[round(part * (len(splits) - 1) / 11)] for part in range(12)} | {best}
    if len(work) > 2:
        for _, alike in itertools.groupby(sorted(splits, key=sum), key=lambda split: int(math.log2(sum(split)))):
            ratios = [([math.log(count / most) for count, most in zip(s, best, strict=True)], s) for s in alike]
            judged.add(min(ratios, key=lambda pair: (round(max(pair[0]) - min(pair[0]), 9), pair[1]))[1])
    assert {tuple(split) for split in posterior.splits[posterior.candidates()].tolist()} == judged
    # Of whom fewer than three counts were measured, others than these.
    few = PosteriorSplits(recommended(curves, measured | {"B": (best[1], 1)}, budget, **words))
    new = {split for split in judged if split[1] not in (best[1], 1)}
    assert {tuple(split) for split in few.splits[few.candidates()].tolist()} == new


def test_the_best_split_of_each_truth_comes_into_question() -> None:
    """Though it shares no count with the recommended one, and a quarter of the truths have it."""
    work = {"A": (6, 24), "B": (12, 6), "C": (24, 12)}
    curves: dict[str, list[Law]] = {
        name: [lambda n, b=b: F(b, n)] * 5 + [lambda n, a=a: F(a, n)] * 14 for name, (a, b) in work.items()
    }
    found = recommended(curves, dict.fromkeys("ABC", (1, 2, 3)), 14)
    assert not found.split.items() & {"A": 8, "B": 2, "C": 4}.items()
    assert [8, 2, 4] in PosteriorSplits(found).splits.tolist()


def test_what_is_told_is_what_is_learned_from() -> None:
    """Sorted by ranks and seconds; the window of the coupling counts as measured."""
    told = CalibrationDesign(["A", "B"], BUDGET, coupling="serial", seed=3)
    told.tell({"B": 3, "A": 1}, {"A": 12.0, "B": 4.0}, standard_errors={"B": 0.5})
    told.tell({"A": 2, "B": 1}, {"A": 6.0, "B": 9.0})
    table = told.measurements()
    rows = {
        name: np.column_stack([frame.cores, frame.seconds, frame.standard_error]).tolist()
        for name, frame in table.frames.items()
    }
    nan = pytest.approx(math.nan, nan_ok=True)
    assert rows == {"A": [[1, 12, nan], [2, 6, nan]], "B": [[1, 9, nan], [3, 4, 0.5]]}
    unknown = {"A": math.nan, "B": math.nan}
    assert list(map(repr, table.runs)) == [
        repr(MeasuredRun("run 1", {"A": 1, "B": 3}, {"A": 16.0, "B": 16.0}, unknown, {"A": 12.0, "B": 4.0}, {})),
        repr(MeasuredRun("run 2", {"A": 2, "B": 1}, {"A": 15.0, "B": 15.0}, unknown, {"A": 6.0, "B": 9.0}, {})),
    ]
    assert told.recommendation().split == {"A": 2, "B": 2}
    told.skip({"A": 2, "B": 2})
    found = told.recommendation()
    again = recommend_split(table, BUDGET, coupling="serial", seed=3, failed=[{"A": 2, "B": 2}])
    assert (found.split, found.window_seconds, found.interval) == (again.split, again.window_seconds, again.interval)


def test_the_first_split_is_even_as_far_as_it_may_be_asked_for() -> None:
    """Of all ranks, half of them, and so on; on whole nodes where that is possible."""
    begun = CalibrationDesign(["A", "B"], 16)
    assert (begun.ask(), begun.reason) == ({"A": 8, "B": 8}, "the even split, since nothing is measured yet")
    begun.admits = lambda split: sum(split.values()) <= 7
    assert begun.ask() == {"A": 2, "B": 2}
    begun.admits = lambda split: False
    assert begun.ask() is None
    assert begun.reason == "every split that comes into question failed, or is above the budget"
    coupling = Schedule.parallel(["A", "B"])
    coupling.accepted_ranks = {"B": AcceptedRanks(most=RankBound(1))}
    bound = CalibrationDesign(["A", "B"], 16, coupling=coupling, multiple={"A": 4})
    assert bound.ask() == {"A": 12, "B": 1}
    nodes = CalibrationDesign(["A", "B"], 16, cores_per_node=8)
    nodes.skip({"A": 8, "B": 8})
    assert nodes.ask() == {"A": 7, "B": 8}
    for budget, each in ((48, 24), (40, 16), (12, 6)):
        assert CalibrationDesign(["A", "B"], budget, cores_per_node=8).ask() == {"A": each, "B": each}


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
