"""Costs of features: planted ones are found again, and what does not explain the seconds is told."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from inside_helpers import FEATURES, SECONDS, only, planted

from precice_lb.inside import RankLoad, fit_costs


@pytest.mark.parametrize(("sizes", "noise"), [((16,), 0.01), ((4, 8, 16, 32), 0.01), ((64, 64), 0.03)])
def test_planted_costs_are_found_within_five_percent(sizes: tuple[int, ...], noise: float) -> None:
    for seed in range(10):
        costs = fit_costs(planted(np.random.default_rng(seed), sizes, noise))
        assert costs.problem == ""
        assert costs.constant == 0
        assert costs.seconds == pytest.approx(SECONDS, rel=0.05)
        assert costs.unexplained == pytest.approx(noise, rel=0.6)


def test_standard_errors_are_those_of_repeated_fits() -> None:
    generator = np.random.default_rng(1)
    truth = planted(generator, (8, 16), 0.0)
    found, errors = [], []
    for _ in range(300):
        noisy = [replace(each, seconds=each.seconds * generator.normal(1, 0.02, len(each.seconds))) for each in truth]
        costs = fit_costs(noisy)
        found.append(costs.seconds)
        errors.append(costs.standard_errors)
    assert np.sqrt(np.mean(np.square(errors), axis=0)) == pytest.approx(np.std(found, axis=0), rel=0.15)


def test_a_constant_of_every_rank_is_told_from_the_features() -> None:
    costs = fit_costs(planted(np.random.default_rng(2), (2, 4, 8, 16), 0.01, constant=4e-3))
    assert costs.problem == ""
    assert costs.constant == pytest.approx(4e-3, rel=0.05)
    assert costs.seconds == pytest.approx(SECONDS, rel=0.05)
    assert costs.predict(RankLoad("", FEATURES, np.zeros((1, 3)), np.ones(1))) == pytest.approx(costs.constant)
    # Ranks that all hold as many cells cannot tell one.
    equal = [RankLoad("a", ("cells",), np.full((8, 1), 100.0), np.full(8, 2.0))]
    assert (fit_costs(equal).constant, fit_costs(equal).seconds[0]) == (0, pytest.approx(0.02))


@pytest.mark.parametrize(("factor", "constant"), [(1.51, 1.0), (1.49, 0.0)])
def test_a_constant_needs_ranks_that_hold_half_as_much_again(factor: float, constant: float) -> None:
    """A rank takes 1 s and 10 ms per cell; those of the second run hold some times as many cells."""
    cells = np.array([[90.0], [110.0], [90.0], [110.0]])
    loads = [RankLoad(f"{part}", ("cells",), part * cells, 1.0 + 0.01 * part * cells[:, 0]) for part in (1.0, factor)]

    assert fit_costs(loads).constant == pytest.approx(constant)


def test_a_feature_of_no_cost_says_what_it_may_cost() -> None:
    loads = planted(np.random.default_rng(5), (16, 32), 0.02, seconds=np.array([1e-6, 4e-6, 0.0]))
    costs = fit_costs(loads)
    assert costs.problem == ""
    assert 0 <= costs.seconds[2] <= 3 * costs.standard_errors[2]
    assert 0 < costs.standard_errors[2] < 2e-7
    lazy = [replace(each, seconds=each.seconds - 1e-7 * each.counts[:, 2]) for each in loads]
    bound = fit_costs(lazy)
    assert bound.seconds[2] == 0
    assert 0 < bound.standard_errors[2] < 2e-7


# At noise of 3.5 % each of two tests refuses one fit in 200; of less noise hardly any.
@pytest.mark.parametrize(("noise", "most"), [(0.01, 2), (0.03, 2), (0.035, 6)])
def test_few_right_fits_are_refused(noise: float, most: int) -> None:
    sizes = [(8,), (4, 8), (1, 2, 4, 8), (16,), (64,)]
    fits = [fit_costs(planted(np.random.default_rng(seed), sizes[seed % 5], noise)) for seed in range(200)]
    # Of those that are, all for errors of a cost, which eight ranks alone may not know.
    assert sum("unexplained" in fit.problem for fit in fits) <= most


@pytest.mark.parametrize(("difference", "is_known"), [(0.052, True), (0.043, False)])
def test_a_share_is_not_known_with_a_standard_error_above_15_percent(difference: float, is_known: bool) -> None:
    """Two ranks hold a little more of a, two a little more of b, and seconds differ by 2 % within each pair."""
    more, less = 1 + difference, 1 - difference
    counts = np.array([[more, less], [more, less], [less, more], [less, more]])
    seconds = np.array([1.02, 0.98, 1.02, 0.98])

    problem = fit_costs([RankLoad("run", ("a", "b"), counts, seconds)]).problem

    # The variance of residuals of 0.02 is twice 0.02^2, as two of four values are left; that of each cost is this times
    # (1 + difference^2) / 16 / difference^2. Seconds and counts sum to the same: 13.6 % and 16.5 %.
    assert problem.startswith("" if is_known else "the share of all seconds is not known for a (± 16%), b (± 16%)")
    assert (problem == "") == is_known


@pytest.mark.parametrize(("missing", "most"), [("cells", 4), ("porous", 4), ("monitor", 4)])
def test_a_missing_feature_is_found_out(missing: str, most: int) -> None:
    there = [name for name in FEATURES if name != missing]
    silent = 0
    for seed in range(100):
        sizes = [(8,), (4, 8), (16,), (64,)][seed % 4]
        costs = fit_costs(only(planted(np.random.default_rng(seed), sizes, (0.01, 0.03)[seed % 2]), *there))
        silent += costs.problem == ""
        if "unexplained" in costs.problem:
            assert costs.unexplained > 0.03
            assert "count what else costs time there" in costs.problem
    assert silent <= most


def test_a_wrong_feature_is_found_out_and_its_ranks_are_named() -> None:
    (load,) = planted(np.random.default_rng(3), (32,), 0.01)
    wrong = replace(load, counts=np.column_stack([load.counts[:, :2], np.roll(load.counts[:, 2], 5)]))
    assert "unexplained" in fit_costs([wrong]).problem
    slow = load.seconds.copy()
    slow[7] *= 1.3
    costs = fit_costs([replace(load, seconds=slow)])
    assert "rank 7 of run 32-0 is" in costs.problem
    assert int(np.argmax(np.abs(slow - costs.predict(load)))) == 7


def test_repeated_runs_tell_noise_from_missing_features() -> None:
    generator = np.random.default_rng(4)
    (load,) = planted(generator, (64,), 0.0)
    noisy = [
        replace(load, run=str(n), seconds=load.seconds * (1 + 0.08 * generator.standard_normal(64))) for n in range(6)
    ]
    assert "unexplained" in fit_costs(noisy[:1]).problem
    assert fit_costs(noisy).problem == ""
    assert fit_costs(noisy).seconds == pytest.approx(SECONDS, rel=0.05)
    # What a rank does in all of them is no noise.
    assert "unexplained" in fit_costs(only(noisy, "cells", "monitor")).problem


def test_features_that_cannot_be_told_apart_are_named() -> None:
    (load,) = planted(np.random.default_rng(6), (16,), 0.01)
    both = np.column_stack([load.counts, load.counts[:, 0] - load.counts[:, 1]])
    costs = fit_costs([replace(load, features=(*FEATURES, "free"), counts=both)])
    assert costs.problem.startswith("cells, porous, free cannot be told apart")
    assert np.isinf(costs.standard_errors[[0, 1, 3]]).any()
    nearly = np.column_stack([load.counts, load.counts[:, 1] * np.random.default_rng(7).normal(1, 0.002, 16)])
    costs = fit_costs([replace(load, features=(*FEATURES, "resin"), counts=nearly)])
    assert "the share of all seconds is not known for porous (± " in costs.problem
    assert "resin" in costs.problem


def test_runs_that_say_nothing_of_a_feature() -> None:
    (load,) = planted(np.random.default_rng(8), (16,), 0.01)
    nowhere = replace(load, features=(*FEATURES, "resin"), counts=np.column_stack([load.counts, np.zeros(16)]))
    assert fit_costs([nowhere]).problem.startswith("no rank of these runs holds resin")
    few = replace(load, counts=load.counts[:3], seconds=load.seconds[:3])
    assert fit_costs([few]).problem.startswith("3 busy seconds of ranks are too few for the costs of 3 features")
    # A run that counted less has nothing of the rest, and ranks without seconds are left out.
    less = RankLoad("less", ("cells",), np.full((4, 1), 1e3), np.array([1e-3, 1e-3, np.nan, 1e-3]))
    costs = fit_costs([load, less])
    assert (costs.problem, costs.features) == ("", FEATURES)
    assert costs.seconds == pytest.approx(SECONDS, rel=0.05)


@given(
    st.lists(st.lists(st.floats(0, 1e6), min_size=3, max_size=3), min_size=1, max_size=8),
    st.lists(st.floats(0, 1e3), min_size=8, max_size=8),
)
def test_whatever_is_given_costs_are_numbers_from_zero(counts: list[list[float]], seconds: list[float]) -> None:
    busy = np.array(seconds[: len(counts)])
    busy[0] += 1e-3
    costs = fit_costs([RankLoad("", FEATURES, np.array(counts), busy)])
    assert (costs.seconds >= 0).all()
    assert np.isfinite(costs.seconds).all()
    assert costs.constant >= 0
    assert not np.isnan(costs.standard_errors).any()
