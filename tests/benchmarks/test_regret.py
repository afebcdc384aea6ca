"""The regret benchmark: families as stated, decisions by brute force, an oracle that nobody beats."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import regret as benchmark
from conftest import FULL_COUNTS
from regret_parts.archive import Archive
from regret_parts.contest import Contest
from regret_parts.decide import LEVEL, Split, choose, decide, proportional, regret, score
from regret_parts.evaluate import evaluate
from regret_parts.families import FAMILIES
from regret_parts.levels import planted_levels
from regret_parts.oracle import Oracle
from regret_parts.peers import ExtraP
from regret_parts.readings import DESIGNS, draw_pair, read
from regret_parts.simulate import Result, simulate
from regret_parts.statistics import describe, paired_ratio
from regret_parts.unseen import UNSEEN

from precice_lb.recommend import recommend_split

DIFFUSIVE, GRANULAR, STEPPED = FAMILIES
RANKS = np.arange(1.0, 513.0)
PAIRS = 12 if FULL_COUNTS else 2


def uniform_in(values: np.ndarray, low: float, high: float) -> bool:
    """Whether quantiles are those of a uniform distribution, to four standard errors."""
    assert ((values >= low) & (values <= high)).all()
    levels = np.array([0.1, 0.25, 0.5, 0.75, 0.9])
    away = np.abs((values[:, None] <= low + levels * (high - low)).mean(axis=0) - levels)
    return bool((away <= 4 * np.sqrt(levels * (1 - levels) / len(values))).all())


def test_pairs_have_the_stated_works_and_unknowns() -> None:
    pairs = [draw_pair(DIFFUSIVE, 3, index) for index in range(1500)]
    works = np.array([[solver.work for solver in pair.solvers] for pair in pairs])
    assert uniform_in(np.log10(works[:, 0]), 2, 3)
    assert uniform_in(np.log(works[:, 1] / works[:, 0]) / np.log(8), -1, 1)
    errors = np.log(np.array([pair.unknowns for pair in pairs]) / works).ravel()
    assert abs(errors.mean()) < 0.04
    assert errors.std() == pytest.approx(0.5, rel=0.06)
    points = np.array([solver.point for pair in pairs for solver in pair.solvers])
    assert all(uniform_in(column, 0, 1) for column in points.T)


def test_the_same_numbers_give_the_same_pair_and_others_another() -> None:
    first, again, other = draw_pair(GRANULAR, 1, 4), draw_pair(GRANULAR, 1, 4), draw_pair(GRANULAR, 1, 5)
    np.testing.assert_array_equal(first.solvers[1](RANKS), again.solvers[1](RANKS))
    np.testing.assert_array_equal(read(first, 5, 0.05)[1], read(again, 5, 0.05)[1])
    assert not np.allclose(first.solvers[1](RANKS), other.solvers[1](RANKS))


def test_families_are_the_stated_formulas() -> None:
    p = np.array([1.0, 8.0, 100.0])
    s, at = 10 ** (-4 + 2 * 0.25), 2 ** (6 + 6 * 0.5)
    # a + b/p + c log2 p + d p^(-2/3)
    d = 10 ** (-3 + 2 * 0.75)
    b = 1 - s - d
    c = np.log(2) * at * (b / at**2 + 2 / 3 * d * at ** (-5 / 3))
    expected = s + b / p + c * np.log2(p) + d * p ** (-2 / 3)
    np.testing.assert_allclose(DIFFUSIVE.shape(np.array([[0.25, 0.5, 0.75]]), p)[0], expected)
    # W(s + (1-s) p^-α granularity + g p^β)
    alpha, beta, elements = 0.7 + 0.35 * 0.2, 0.3 + 0.7 * 0.4, 2**14
    g = (1 - s) * alpha * at ** (-alpha - 1) / (beta * at ** (beta - 1))
    grain = np.ceil(elements / p) / (elements / p)
    expected = s + (1 - s) * p**-alpha * grain + g * p**beta
    np.testing.assert_allclose(GRANULAR.shape(np.array([[0.25, 0.5, 0.2, 0.4, 0.25]]), p)[0], expected)
    # W(s + (1-s)/p (1 + k/(1 + (p/pc)²)) + g log2² p)
    k, cached = 0.3, 2**5
    values = STEPPED.shape(np.array([[0.25, 0.5, 0.6, 0.25]]), p)[0]
    rise = values - s - (1 - s) / p * (1 + k / (1 + (p / cached) ** 2))
    np.testing.assert_allclose(rise[1:] / np.log2(p[1:]) ** 2, rise[2] / np.log2(100) ** 2)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_the_rise_puts_the_minimum_where_stated(family: object) -> None:
    rng = np.random.default_rng(8)
    points = rng.random((20, family.dimensions))  # type: ignore[attr-defined]
    for point in points:
        at = 2 ** (6 + 6 * point[1])
        near = at * np.geomspace(0.8, 1.25, 401)
        if family is GRANULAR:
            # At divisors of the elements granularity is 1: what is left is smooth.
            point[4], near = 1.0, 2.0 ** np.arange(2, 17)
        values = family.shape(point[None], near)[0]  # type: ignore[attr-defined]
        found = near[np.argmin(values)]
        assert abs(np.log2(found / at)) <= (0.8 if family is GRANULAR else 0.01)


@pytest.mark.parametrize("family", [*FAMILIES, *UNSEEN], ids=lambda family: family.name)
def test_every_solver_is_positive_and_starts_at_its_work(family: object) -> None:
    points = np.random.default_rng(2).random((60, family.dimensions))  # type: ignore[attr-defined]
    values = family.shape(points, RANKS)  # type: ignore[attr-defined]
    assert (np.isfinite(values) & (values > 0)).all()
    # Published curves are anchored at 8 ranks, and do not scale ideally down to one.
    assert (values[:, 0] > (0.2 if family is UNSEEN[2] else 0.9)).all()
    assert (values[:, 0] < (8 if family is UNSEEN[2] else 2.2)).all()


def test_a_node_more_makes_faster_and_a_doubling_costs() -> None:
    # 16 cores per node, minimum at 64 ranks, memory fully shared.
    point = np.array([[0.0, 0.0, 1.0, 0.0]])
    p = np.array([16.0, 17.0])
    values = UNSEEN[0].shape(point, p)[0]
    s, h = 1e-4, (1 - 1e-4) * np.log(2) / 64
    np.testing.assert_allclose(values, [s + (1 - s) / 16 * 1.6, s + (1 - s) / 17 * (1 + 0.6 * 17 / 32) + h])


def test_readings_have_the_stated_noise() -> None:
    pairs = [draw_pair(STEPPED, 4, index) for index in range(400)]
    ratios = []
    for pair in pairs:
        ranks, seconds = read(pair, 5, 0.05)
        assert tuple(ranks) == DESIGNS[5]
        truth = np.array([solver(ranks) for solver in pair.solvers])
        ratios.append(seconds / truth)
        # Less noise scales the same errors down.
        np.testing.assert_allclose(read(pair, 5, 0.02)[1] / truth - 1, 0.4 * (ratios[-1] - 1), atol=1e-12)
        np.testing.assert_allclose(read(pair, 5, 0.0)[1], truth)
    errors = np.array(ratios) - 1
    assert errors.std() == pytest.approx(0.05, rel=0.05)
    assert abs(errors.mean()) < 0.003


def test_stragglers_are_late_as_often_as_stated() -> None:
    family = UNSEEN[3]
    late = []
    for index in range(400):
        pair = draw_pair(family, 4, index)
        ranks, seconds = read(pair, 7, 0.0)
        late.append(seconds / np.array([solver(ranks) for solver in pair.solvers]) - 1)
    delays = np.array(late)
    assert (delays > 1e-9).mean() == pytest.approx(family.stragglers, rel=0.15)
    assert uniform_in(delays[delays > 1e-9], 0.1, 0.5)


def test_regret_and_choice_are_those_of_trying_all_splits() -> None:
    pair = draw_pair(GRANULAR, 9, 1)
    first, second = (solver(RANKS) for solver in pair.solvers)
    windows = {p: max(first[p - 1], second[40 - p - 1]) for p in range(2, 39)}
    for p in (2, 17, 38):
        expected = windows[p] / min(windows.values()) - 1
        assert regret(pair.solvers, Split((p, 40 - p)), 40, (2, 38)) == pytest.approx(expected)
    best = min(windows, key=windows.__getitem__)
    split = choose(first[None], second[None], 40, (2, 38))
    assert split == Split((best, 40 - best))
    assert regret(pair.solvers, split, 40, (2, 38)) == 0


def test_the_best_split_may_leave_ranks_unused() -> None:
    def solver(ranks: np.ndarray) -> np.ndarray:
        return 10 / ranks + np.maximum(ranks - 5, 0)

    assert regret((solver, solver), Split((5, 5)), 20, (2, 18)) == pytest.approx(0)
    assert regret((solver, solver), Split((5, 5)), 20, (2, 12)) == pytest.approx(0)
    assert regret((solver, solver), Split((10, 10)), 20, (2, 18)) == pytest.approx(6 / 2 - 1)
    assert regret((solver, solver), Split((10, 10)), 20, (8, 12)) == pytest.approx(6 / (10 / 8 + 3) - 1)
    assert regret((solver, solver), Split((2, 2)), 20, (2, 3)) == pytest.approx(5 / (10 / 3) - 1)


def test_choice_is_by_the_mean_over_curves_with_their_interval() -> None:
    rng = np.random.default_rng(6)
    first, second = (rng.uniform(1, 2, (7, 18)) / np.arange(1, 19) for _ in range(2))
    windows = {p: np.maximum(first[:, p - 1], second[:, 20 - p - 1]) for p in range(2, 19)}
    best = min(windows, key=lambda p: windows[p].mean())
    split = choose(first, second, 20, (2, 18))
    assert split is not None
    assert split.ranks == (best, 20 - best)
    assert split.interval == pytest.approx(np.quantile(windows[best], [0.1, 0.9]))
    first[:, :4] = np.inf
    split = choose(first, second, 20, (2, 18))
    assert split is not None
    assert split.ranks[0] >= 5
    assert choose(np.full((1, 18), np.inf), second, 20, (2, 18)) is None


def test_learners_decide_as_users_do() -> None:
    ranks, seconds = read(draw_pair(STEPPED, 2, 1), 5, 0.05)
    (split,) = decide("bayes", ranks, seconds, [64], [(3, 50)])
    measured = {name: np.column_stack([ranks, row]) for name, row in zip("AB", seconds, strict=True)}
    wanted = recommend_split(measured, 64, learner="bayes", minimum_ranks=14)
    assert split == Split((wanted.split["A"], wanted.split["B"]), wanted.interval)


def test_scores_are_of_true_windows() -> None:
    solvers = (lambda ranks: 8 / ranks, lambda ranks: 8 / ranks)
    splits = [Split((2, 6), (3.0, 5.0)), Split((4, 4), (3.0, 5.0)), None]
    scores = score(solvers, [8, 8, 8], [(2, 6)] * 3, lambda: splits)
    np.testing.assert_allclose(scores.regrets, [1, 0, 0])
    np.testing.assert_array_equal(scores.covered, [1, 0, np.nan])
    np.testing.assert_array_equal(scores.refused, [False, False, True])


def test_proportional_split_keeps_the_least() -> None:
    assert proportional((3.0, 1.0), 32).ranks == (24, 8)
    assert proportional((1e6, 1.0), 32).ranks == (30, 2)
    assert proportional((1.0, 1e6), 32).ranks == (2, 30)


@pytest.mark.parametrize("noise", [0.05, 0.0])
def test_the_oracle_knows_the_truth_it_was_given(noise: float) -> None:
    ranks = np.array(DESIGNS[7], dtype=np.float64)
    oracle = Oracle(ranks, 512)
    for family in FAMILIES:
        pair = draw_pair(family, 12, 3)
        curves = oracle.curves(read(pair, 7, noise)[1][1], noise, True, np.random.default_rng(0))
        error = np.abs(curves / pair.solvers[1](RANKS) - 1)
        # At the measured ranks to what seven readings tell; without noise nearly exactly.
        assert error[:, 7:128].mean() < (0.05 if noise else 0.003)
        if not noise:
            assert error[:, 255].mean() < 0.02


@pytest.fixture(scope="module")
def small() -> Result:
    contestants = ("bayes", "line", "equal", "dof-proportional", "oracle")
    return simulate(FAMILIES, contestants, pairs=PAIRS, points=5, noise=0.05, budgets=(128, 512), seed=1)


@pytest.mark.slow("statistics")
def test_nobody_beats_the_oracle(small: Result) -> None:
    outcomes = [outcome for each in small.outcomes.values() for outcome in each]
    means = {name: np.mean([outcome[name].regrets for outcome in outcomes]) for name in small.contestants}
    # 36 pairs: a learner as good as the oracle may come out a little better.
    assert all(means["oracle"] <= 1.1 * means[name] for name in small.contestants)
    assert means["oracle"] < 0.03
    assert means["line"] > 0.03
    assert means["equal"] > 0.05


@pytest.mark.slow("statistics")
def test_the_oracle_covers_what_it_claims(small: Result) -> None:
    covered = np.array([outcome["oracle"].covered for each in small.outcomes.values() for outcome in each])
    # 36 pairs, the two budgets of one pair hang together.
    assert abs(covered.mean() - LEVEL) < 0.15


@pytest.mark.slow("a benchmark in several processes")
def test_processes_and_company_change_nothing(small: Result) -> None:
    alone = simulate(FAMILIES[:1], ("bayes",), pairs=2, points=5, noise=0.05, budgets=(128, 512), seed=1, jobs=2)
    for mine, other in zip(alone.outcomes["diffusive"], small.outcomes["diffusive"][:2], strict=True):
        np.testing.assert_array_equal(mine["bayes"].regrets, other["bayes"].regrets)


def test_an_archive_is_continued_and_joined(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "outcomes")
    options: dict[str, Any] = {"points": 3, "noise": 0.05, "budgets": (128, 512), "seed": 1}
    contestants = ("bayes", "pmnf", "equal")
    simulate(FAMILIES[:1], ("bayes",), pairs=2, archive=archive, **options)
    path = archive.path("bayes", "diffusive", 3, 0.05, (128, 512), 1, 1)
    known = archive.load(path)
    known[1].regrets[:] = 7.0
    archive.save(path, known)
    joined = simulate(FAMILIES[:1], contestants, pairs=3, archive=archive, **options).outcomes["diffusive"]
    plain = simulate(FAMILIES[:1], contestants, pairs=3, **options).outcomes["diffusive"]
    # What is in the archive is not computed again.
    np.testing.assert_array_equal(joined[1]["bayes"].regrets, 7.0)
    for mine, other in zip(joined[::2], plain[::2], strict=True):
        assert set(mine) == set(other) == set(contestants)
        for name in contestants:
            for column in ("regrets", "covered", "refused"):
                np.testing.assert_array_equal(getattr(mine[name], column), getattr(other[name], column))
    assert len(simulate(FAMILIES[:1], ("bayes",), pairs=1, archive=archive, **options).outcomes["diffusive"]) == 1


def test_learners_that_refuse_get_the_equal_split() -> None:
    outcome = Contest(("pmnf", "equal"), (32, 128), 1, None).run(DIFFUSIVE, 3, 0.05, 0)
    assert outcome["pmnf"].refused.all()
    np.testing.assert_array_equal(outcome["pmnf"].regrets, outcome["equal"].regrets)
    assert np.isnan(outcome["pmnf"].covered).all()


def test_statistics_of_known_regrets() -> None:
    regrets = np.array([0.0, 0.02, 0.04, 0.02] * 25)
    found = describe(regrets)
    assert found["mean"] == pytest.approx(2.0)
    assert found["p95"] == pytest.approx(4.0)
    half = 1.96 * 100 * regrets.std() / 10
    assert found["low"] == pytest.approx(2 - half, abs=0.06)
    assert found["high"] == pytest.approx(2 + half, abs=0.06)
    # In pairs, twice the regret is twice the regret in every resample.
    assert paired_ratio(2 * regrets, regrets) == pytest.approx({"ratio": 2.0, "low": 2.0, "high": 2.0})


def test_the_command_writes_what_it_prints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "regret.json"
    arguments = ["--pairs", "2", "--learners", "bayes", "oracle", "--families", "unseen", "--output", str(output)]
    benchmark.main([*arguments, "--noise", "0.05", "0.02", "--budgets", "32"])
    printed = capsys.readouterr().out
    results = json.loads(output.read_text(encoding="utf-8"))
    assert [each["noise"] for each in results] == [0.05, 0.02]
    # The oracle does not know these families.
    assert set(results[0]["regret_percent"]["pooled"]) == {"bayes"}
    assert f"{results[1]['regret_percent']['nodes']['bayes']['32']['mean']:.2f} [" in printed


def test_extra_p_is_asked_with_negative_exponents() -> None:
    python = os.environ.get("EXTRAP_PYTHON")
    if python is None:
        pytest.skip("EXTRAP_PYTHON does not name a Python that has extrap 4.2.5")
    ranks = np.array(DESIGNS[5], dtype=np.float64)
    with ExtraP(python) as peer:
        for seconds in (0.3 + 100 / ranks, 2 + 40 * ranks**-0.5 / np.log2(ranks)):
            np.testing.assert_allclose(peer.curve(ranks, seconds, 128)[0, ranks.astype(int) - 1], seconds, rtol=1e-3)


def test_planted_levels_are_those_of_the_thesis() -> None:
    X, y, truth = planted_levels()
    assert X.shape == (220, 2)
    assert len(np.unique(X, axis=0)) == 220
    assert sorted(set(X[:, 1])) == [3, 4, 5, 6, 7, 8]
    assert {28, 84} & set(X[X[:, 1] == 8, 0]) == set()
    assert 196 in X[X[:, 1] == 8, 0]
    assert (X[:, 0] <= 8 ** X[:, 1]).all()
    assert np.log(y / truth).std() == pytest.approx(0.03, rel=0.15)


def test_a_learner_is_judged_by_what_it_had_not_seen() -> None:
    ranks = np.array([4.0, 8.0, 16.0, 32.0, 64.0, 128.0])
    seconds = 0.5 + 60 / ranks
    good = evaluate("bayes", ranks[:, None], seconds, ranks >= 64)
    assert good.smape < 15
    assert (good.coverage, good.not_positive) == (1.0, 0)
    assert evaluate("bayes", ranks[:, None], np.where(ranks >= 64, 60.0, seconds), ranks >= 64).coverage == 0


@pytest.mark.slow("statistics")
def test_an_unseen_level_is_predicted_better_than_by_the_neural_network() -> None:
    X, y, _ = planted_levels()
    bayes, neural = (evaluate(name, X, y, X[:, 1] == 8) for name in ("bayes", "neural"))
    assert bayes.not_positive == 0
    assert bayes.smape <= 6
    assert bayes.smape < neural.smape
