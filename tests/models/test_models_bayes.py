"""The posterior learner: its integrals and its sampler against brute force, and what it must find and never do."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import multivariate_normal

from precice_lb.exceptions import ModelError
from precice_lb.models import DEFAULT_LEARNER, LEARNERS, make_learner
from precice_lb.models.bayes import BayesRegressor
from precice_lb.models.bayes_family import ONE_SIZE, Prior, Shapes, Sizes, prior_sample
from precice_lb.models.bayes_likelihood import (
    Discrepancy,
    RankLikelihood,
    bend,
    discrepancy_levels,
    fourier_features,
    spectrum,
)
from precice_lb.models.bayes_sampler import mix, sample_posterior

Array = NDArray[np.float64]
FAR = np.unique(np.geomspace(1, 1e6, 60).astype(int)).astype(float)
RANKS = np.array([8.0, 16, 32, 64, 128])
NO_SIZES = Sizes(np.zeros(0, dtype=bool), *np.zeros((4, 0)))


def noisy(values: Array, noise: float, seed: int) -> Array:
    return values * np.exp(noise * np.random.default_rng(seed).standard_normal(len(values)))


def test_it_is_the_default() -> None:
    assert LEARNERS[DEFAULT_LEARNER] is BayesRegressor


def test_the_prior_is_spread_evenly() -> None:
    prior = prior_sample(4096, 9)
    assert prior.shape == (4096, 9)
    np.testing.assert_allclose(prior.mean(axis=0), 0, atol=0.01)
    np.testing.assert_allclose(prior.std(axis=0), 1, atol=0.02)
    assert np.abs(np.corrcoef(prior.T) - np.eye(9)).max() < 0.05


def test_every_member_is_positive_and_finite() -> None:
    z = 3.0 * np.random.default_rng(0).standard_normal((2000, ONE_SIZE))
    curves = Shapes(z, 128.0, NO_SIZES, Prior())(FAR[:, None])
    assert np.isfinite(curves).all()
    assert (curves > 0).all()


def featured(ranks: Array) -> Array:
    """Random Fourier features of the discrepancy at some numbers of ranks."""
    return fourier_features(spectrum(NO_SIZES, Prior()), ranks[:, None], NO_SIZES)


@pytest.mark.parametrize("straggling", [0.0, 0.1])
def test_the_marginal_likelihood_is_the_integral_over_scale_noise_and_discrepancy(straggling: float) -> None:
    # The second and the third are repeats, of which one is known better.
    ranks, seconds, errors = (
        np.array([8.0, 16, 16, 64]),
        np.array([5.0, 2.4, 2.5, 0.8]),
        np.array([0.0, 0.1, 0.0, 0.02]),
    )
    features = featured(np.unique(ranks))
    shapes = np.array([[4.0, 2.0, 0.7], [4.0, 2.3, 0.8]])
    exact = RankLikelihood(ranks, seconds, errors, (0.04, 0.6), straggling, features, Prior())(shapes)
    noises = np.exp(np.linspace(np.log(0.003), np.log(0.15), 40))
    scales = np.linspace(-1, 3, 4001)
    at = np.array([0, 1, 1, 2])
    total = np.zeros(2)
    for noise, (size, prior) in itertools.product(noises, zip(*discrepancy_levels(Prior()), strict=True)):
        usual = noise**2 + (errors / seconds) ** 2
        weight = np.exp(prior - 0.5 * (np.log(noise / 0.04) / 0.6) ** 2)
        for late in range(-1, 4 if straggling else 0):
            variance = usual.copy()
            if late >= 0:
                variance[late] += max(4 * noise, 0.15) ** 2
            covariance = np.diag(variance) + size**2 * (features @ features.T)[np.ix_(at, at)]
            density = multivariate_normal(np.zeros(4), covariance)
            for k in range(2):
                gap = np.log(seconds) - np.log(shapes[k])[at] - scales[:, None]
                total[k] += weight * (straggling if late >= 0 else 1.0) * density.pdf(gap).sum()
    # The unit of the integral is free; the ratio of two shapes is not. The grid of stragglers' noise is coarse.
    assert exact[0] - exact[1] == pytest.approx(np.log(total[0] / total[1]), abs=0.1 if straggling else 0.05)


def test_scale_noise_and_discrepancy_are_drawn_from_what_is_left() -> None:
    rng = np.random.default_rng(1)
    ranks = np.tile(RANKS, 40)
    planted = 0.1 * np.sin(np.log(RANKS))
    seconds = 3.0 * np.exp(np.tile(planted, 40) + 0.05 * rng.standard_normal(200))
    features = featured(RANKS)
    likelihood = RankLikelihood(ranks, seconds, np.zeros(200), (0.04, 0.6), 0.02, features, Prior())
    scale, noise, weights = likelihood.draw(np.ones((4000, 5)), rng)
    drawn = scale[:, None] + weights @ features.T
    np.testing.assert_allclose(drawn.mean(axis=0), np.log(3.0) + planted, atol=0.02)
    np.testing.assert_allclose(drawn.std(axis=0), 0.05 / np.sqrt(40), rtol=0.2)
    assert noise.mean() == pytest.approx(0.05, rel=0.15)


@pytest.mark.parametrize("width", [1.0, 0.1, 0.003])
def test_the_sampler_follows_a_likelihood_however_sharp(width: float) -> None:
    at = np.array([0.5, -1.0, 1.5])
    moves = (3, 20)

    def log_likelihood(z: Array) -> Array:
        return np.asarray(-0.5 * (((z[:, :3] - at) / width) ** 2).sum(axis=1))

    z, evidence = sample_posterior(log_likelihood, prior_sample(4096, 5), 512, moves, np.random.default_rng(0))
    variance = width**2 / (1 + width**2)
    np.testing.assert_allclose(z[:, :3].mean(axis=0), at / (1 + width**2), atol=0.15 * np.sqrt(variance))
    np.testing.assert_allclose(z[:, :3].std(axis=0), np.sqrt(variance), rtol=0.15)
    np.testing.assert_allclose(z[:, 3:].std(axis=0), 1, rtol=0.15)
    exact = 1.5 * np.log(variance) - 0.5 * (at @ at) / (1 + width**2)
    assert evidence == pytest.approx(exact, abs=1.0)
    # Hardly any particle is the twin of another one.
    assert len(np.unique(z[:, 0])) > 450


def test_mixing_takes_particles_wherever_they_belong() -> None:
    # Ten variables of which two sums are known well: a thin sheet. Particles begin as copies of few, in a corner of it.
    sums = np.array([[1.0] * 5 + [0.0] * 5, [0.0] * 5 + [1.0] * 5])

    def log_likelihood(z: Array) -> Array:
        return np.asarray(-0.5 * np.square((z @ sums.T - 1) / 0.1).sum(axis=1))

    begin = np.repeat(0.2 + 0.3 * prior_sample(32, 10), 16, axis=0)
    z = mix(begin, log_likelihood, np.random.default_rng(0))
    covariance = np.linalg.inv(np.eye(10) + sums.T @ sums / 0.01)
    np.testing.assert_allclose(z.mean(axis=0), covariance @ sums.T @ np.ones(2) / 0.01, atol=0.15)
    np.testing.assert_allclose(z.std(axis=0), np.sqrt(np.diag(covariance)), rtol=0.15)
    np.testing.assert_allclose((z @ sums.T).std(axis=0), 0.1, rtol=0.2)


@pytest.mark.parametrize("straggling", [0.0, 0.02])
def test_the_posterior_is_that_of_a_huge_weighted_sample_of_the_prior(straggling: float) -> None:
    seconds = noisy(800 / RANKS + 0.5 + 0.05 * RANKS**0.5, 0.05, 3)
    at = np.array([12.0, 100.0, 512.0])
    z = prior_sample(150_000, ONE_SIZE)
    likelihood = RankLikelihood(RANKS, seconds, np.zeros(5), (0.04, 1.0), straggling, featured(RANKS), Prior())
    at_measured = Shapes(z, 128.0, NO_SIZES, Prior())(RANKS[:, None])
    log = likelihood(at_measured)
    weights = np.exp(log - log.max())
    rng = np.random.default_rng(0)
    chosen = rng.choice(len(z), 4000, p=weights / weights.sum())
    scale, _, weights = likelihood.draw(at_measured[chosen], rng)
    logs = Discrepancy(spectrum(NO_SIZES, Prior()), weights)(at[:, None], NO_SIZES)
    logs += bend(rng.standard_normal(4000), np.log2(np.maximum(at / 128, 1.0)), Prior())
    curves = np.exp(scale)[:, None] * np.exp(logs) * Shapes(z[chosen], 128.0, NO_SIZES, Prior())(at[:, None])
    model = BayesRegressor(straggling=straggling).fit(RANKS, seconds)
    low, high = np.quantile(curves, [0.1, 0.9], axis=0)
    width = high - low
    found_low, found_high = model.predict_interval(at, 0.8)
    np.testing.assert_array_less(np.abs(found_low - low), 0.15 * width)
    np.testing.assert_array_less(np.abs(found_high - high), 0.15 * width)
    np.testing.assert_array_less(np.abs(model.predict(at) - curves.mean(axis=0)), 0.1 * width)


@settings(max_examples=25)
@given(
    st.lists(st.tuples(st.integers(1, 5000), st.floats(1e-6, 1e6)), min_size=1, max_size=9),
    st.integers(0, 100),
)
def test_whatever_was_measured_curves_are_positive_and_finite(rows: list[tuple[int, float]], seed: int) -> None:
    model = BayesRegressor(particles=64).fit([p for p, _ in rows], [y for _, y in rows])
    curves = np.vstack([model.predict(FAR), model.draw(20, seed)(FAR), model.formula()(FAR)])
    assert np.isfinite(curves).all()
    assert (curves > 0).all()


@pytest.mark.parametrize(
    "truth",
    [
        lambda p: 40 / p,
        lambda p: 40 / p + 0.5,
        lambda p: 40 * p**-0.875 + 0.01 * p**0.5,
        lambda p: 40 / p + 0.3 * (1 + np.log2(p)),
        lambda p: 40 / p * (1 + 0.4 / (1 + (p / 32) ** 2)) + 0.02 * np.log2(p) ** 2,
        lambda p: 30 / p + 4 * p ** (-2 / 3),
        lambda p: np.full_like(p, 3.0),
    ],
    ids=["ideal", "serial share", "root", "logarithm", "cache and square", "surface", "flat"],
)
def test_planted_curves_are_found_without_noise_by_many_members(truth: Callable[[Array], Array]) -> None:
    p = np.array([4.0, 8, 16, 32, 64, 128, 256])
    model = BayesRegressor().fit(p, truth(p))
    np.testing.assert_allclose(model.predict(p), truth(p), rtol=0.03)
    more = np.array([3.0, 48.0, 400.0])
    np.testing.assert_allclose(model.predict(more), truth(more), rtol=0.08)
    # A weighted sample of the prior of the same cost keeps one or two.
    assert len(np.unique(model.z_[:, 0])) > 0.6 * model.particles


@pytest.mark.parametrize("stretch", [16, 1000])
def test_no_number_of_ranks_but_one_means_anything(stretch: int) -> None:
    seconds = noisy(800 / RANKS + 0.5 + 0.05 * RANKS**0.5, 0.03, 0)
    at = np.array([8.0, 24.0, 128.0, 512.0])
    small, large = BayesRegressor().fit(RANKS, seconds), BayesRegressor().fit(stretch * RANKS, seconds)
    # What grows with ranks has grown from one rank on: nothing to speak of.
    np.testing.assert_allclose(large.predict(stretch * at), small.predict(at), rtol=0.03)


def test_superlinear_falls_are_followed() -> None:
    ranks = np.array([640.0, 960, 1280, 1920, 2560])
    model = BayesRegressor().fit(ranks, noisy(1e5 * ranks**-1.3, 0.02, 1))
    found = np.log(model.predict([2560])[0] / model.predict([640])[0]) / np.log(4)
    assert found == pytest.approx(-1.3, abs=0.06)


def test_a_solver_that_only_gets_slower_is_not_expected_to_scale() -> None:
    model = BayesRegressor().fit([2, 4, 8, 16], [1.0, 1.3, 1.8, 2.9])
    assert model.predict([32])[0] > 2.9


def test_a_single_measurement_means_nearly_ideal_scaling_with_a_wide_interval() -> None:
    model = BayesRegressor().fit([8], [1.0])
    assert model.predict([8])[0] == pytest.approx(1.0, rel=0.02)
    assert 0.8 / 8 < np.median(model.draw(512)([64])) < 2 / 8
    low, high = model.predict_interval([64])
    assert low[0] < 1.2 / 8 < high[0]
    assert high[0] > 1.3 * low[0]


@pytest.mark.slow("statistics")
def test_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    """Curves from outside of the family, at three noise levels.

    Three points do not tell the noise, so levels are taken together there.
    """
    at = np.array([12.0, 48.0, 128.0, 256.0, 512.0])
    rng = np.random.default_rng(5)
    for ranks in ([8, 32, 128], [8, 16, 32, 64, 128], [8, 12, 20, 32, 50, 80, 128]):
        p = np.array(ranks, dtype=float)
        inside = []
        for k in range(120):
            share, lowest, cache = 10 ** rng.uniform(-4, -2), 2 ** rng.uniform(6, 12), rng.uniform(0, 0.5)
            where, surface = 2 ** rng.uniform(4, 8), rng.uniform(0, 0.1)
            grow = np.log(2) / (2 * np.log2(lowest)) / lowest

            def truth(
                p: Array,
                share: float = share,
                cache: float = cache,
                where: float = where,
                surface: float = surface,
                grow: float = grow,
            ) -> Array:
                step = 1 + cache / (1 + (p / where) ** 2)
                return share + step * ((1 - surface) / p + surface * p ** (-2 / 3)) + grow * np.log2(p) ** 2

            y = noisy(truth(p), (0.02, 0.035, 0.05)[k % 3], k)
            low, high = BayesRegressor().fit(p, y).predict_interval(at, 0.8)
            inside.append((low <= truth(at)) & (truth(at) <= high))
        # Three readings do not tell what else a curve could do: intervals are too wide rather than too narrow.
        most = 0.92 if len(ranks) > 3 else 0.97
        assert 0.72 <= np.mean(inside) <= most, (ranks, np.mean(inside, axis=0))
        if len(ranks) > 3:
            little, much = (np.mean(inside[k::3]) for k in (0, 2))
            assert abs(little - much) <= 0.2, (ranks, little, much)


def test_noise_widens_the_interval_and_repeated_measurements_narrow_it() -> None:
    def width(repeats: int, noise: float) -> float:
        ranks = np.tile(RANKS, repeats)
        signs = np.random.default_rng(1).choice([-1.0, 1.0], len(ranks))
        low, high = BayesRegressor().fit(ranks, 100 / ranks * (1 + noise * signs)).predict_interval([40])
        return float((high - low)[0])

    assert width(1, 0.15) > 1.5 * width(1, 0.01)
    assert width(10, 0.05) < 0.6 * width(1, 0.05)


def test_a_measurement_counts_as_much_as_its_standard_error_allows() -> None:
    y = 100 / RANKS
    y[2] *= 1.2
    plain = BayesRegressor().fit(RANKS, y).predict([32])[0]
    doubtful = BayesRegressor().fit(RANKS, y, standard_error=np.where(RANKS == 32, 0.3 * y, 0.0)).predict([32])[0]
    unknown = BayesRegressor().fit(RANKS, y, standard_error=np.full(5, np.nan)).predict([32])[0]
    assert abs(doubtful - 100 / 32) < abs(plain - 100 / 32)
    assert unknown == plain


def test_a_straggler_is_not_followed() -> None:
    p = np.array([8.0, 12, 20, 32, 50, 80, 128])
    y = noisy(100 / p, 0.01, 0)
    y[3] *= 1.4
    robust = BayesRegressor(straggling=0.05).fit(p, y).predict([32])[0]
    trusting = BayesRegressor(straggling=0.0).fit(p, y).predict([32])[0]
    assert abs(robust - 100 / 32) < 0.5 * abs(trusting - 100 / 32)
    assert robust == pytest.approx(100 / 32, rel=0.05)


def grid_of_meshes() -> Array:
    """Ranks and refinement levels, 220 rows, as in section 5.2 of Schröder 2019."""
    rows = [(p, level) for level in range(3, 9) for p in range(28, 561, 14) if level < 8 or p >= 224]
    return np.array(rows, dtype=float)[:220]


@pytest.mark.parametrize("seed", [0, 2])
def test_small_meshes_tell_what_an_unseen_one_costs(seed: int) -> None:
    rows = grid_of_meshes()
    p, elements = rows[:, 0], 8.0 ** rows[:, 1]
    truth = 2e-6 * elements / p + 4e-6 * (elements / p) ** (2 / 3) + 1e-3 + 2e-4 * np.log2(p)
    y = noisy(truth, 0.03, 0)
    seen = rows[:, 1] < 8
    model = BayesRegressor(random_state=seed).fit(rows[seen], y[seen])
    found, real = model.predict(rows[~seen]), y[~seen]
    assert 100 * np.mean(2 * np.abs(found - real) / (found + real)) < 6
    # Refinement multiplies: the level itself, not its logarithm, is the exponent.
    assert not model.sizes_.logarithmic[0]
    np.testing.assert_allclose(
        model.formula([7.0])(np.array([56.0, 280.0])), model.predict([[56, 7], [280, 7]]), rtol=0.1
    )


def test_cheap_runs_on_a_small_mesh_inform_the_target() -> None:
    """Totounferoush 2022, section 3.4: many runs of a small mesh, few of the target's."""

    def truth(p: Array, unknowns: Array) -> Array:
        return 1e-4 * unknowns / p + 0.02 + 0.002 * np.log2(p)

    small = np.column_stack([RANKS, np.full(5, 1e5)])
    few = np.array([[64.0, 8e5], [128.0, 8e5]])
    rows = np.vstack([small, few])
    y = noisy(truth(*rows.T), 0.02, 4)
    at = np.array([[32.0, 8e5], [96.0, 8e5], [512.0, 8e5]])
    both = BayesRegressor().fit(rows, y)
    alone = BayesRegressor().fit(few[:, 0], y[5:])
    width = [np.ptp(m.predict_interval(x), axis=0) for m, x in ((both, at), (alone, at[:, :1]))]
    # What no measurement tells of 512 ranks stays.
    assert (width[0] < [0.7, 0.7, 0.85] * width[1]).all()
    np.testing.assert_allclose(both.predict(at), truth(*at.T), rtol=0.25)


def test_the_same_seed_draws_the_same_curves_at_any_ranks() -> None:
    model = BayesRegressor().fit([8, 16, 32], [4.0, 2.2, 1.3])
    full = model.draw(50, 3)([8, 16, 32, 64])
    assert full.shape == (50, 4)
    np.testing.assert_allclose(model.draw(50, 3)([[64]])[:, 0], full[:, 3])
    assert not np.allclose(model.draw(50, 4)([64])[:, 0], full[:, 3])
    assert model.draw(2000)([8]).shape == (2000, 1)
    again = BayesRegressor().fit([8, 16, 32], [4.0, 2.2, 1.3])
    np.testing.assert_array_equal(again.predict(FAR), model.predict(FAR))


def test_the_formula_is_short_and_near_the_prediction() -> None:
    model = BayesRegressor().fit(RANKS, noisy(800 / RANKS + 0.5, 0.03, 1))
    near = np.array([4.0, 8, 24, 128, 300])
    np.testing.assert_allclose(model.formula()(near), model.predict(near), rtol=0.04)
    assert len(model.formula().terms) <= 3
    assert all(term.coefficient > 0 for term in model.formula().terms)


def test_seconds_or_milliseconds_make_no_difference() -> None:
    y = noisy(100 / RANKS, 0.05, 0)
    a, b = BayesRegressor().fit(RANKS, y), BayesRegressor().fit(RANKS, 1000 * y)
    np.testing.assert_allclose(b.predict(FAR), 1000 * a.predict(FAR), rtol=1e-3)


@pytest.mark.parametrize(
    ("parameters", "X", "errors", "words"),
    [
        ({"noise": 0.0}, [8, 16], None, "noise above 0"),
        ({"noise_scale": -1.0}, [8, 16], None, "noise_scale above 0"),
        ({"straggling": 1.0}, [8, 16], None, "straggling from 0"),
        ({"particles": 4}, [8, 16], None, "particles from 16"),
        ({}, [[8, np.nan], [16, 2]], None, "finite parameters"),
        ({}, [8, 16], [0.1], "standard error"),
        ({}, [8, 16], [-0.1, 0.1], "standard error"),
    ],
)
def test_bad_input_is_refused(parameters: dict[str, object], X: object, errors: object, words: str) -> None:
    with pytest.raises(ModelError, match=words):
        BayesRegressor(**parameters).fit(X, [2.0, 1.0], standard_error=errors)  # type: ignore[arg-type]


def test_what_was_not_learned_is_refused() -> None:
    with pytest.raises(ModelError, match="call fit first"):
        BayesRegressor().predict([8])
    rows = np.array([[8.0, 1e5], [16, 1e5], [32, 4e5], [16, 4e5]])
    model = BayesRegressor(particles=64).fit(rows, [4.0, 2.2, 1.3, 8.0])
    with pytest.raises(ModelError, match=r"shape \(n, 2\)"):
        model.predict([[8.0]])
    with pytest.raises(ModelError, match="positive values in column 2"):
        model.predict([[8.0, -1.0]])


def test_earlier_names_of_parameters_are_read() -> None:
    model = make_learner("bayes", members=64, noise_spread=0.8)
    assert (model.particles, model.noise_scale) == (64, 0.8)
