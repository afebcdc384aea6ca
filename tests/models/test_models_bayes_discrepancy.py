"""What curves leave unexplained over sizes: the integrals against brute force, and intervals that stay honest."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import multivariate_normal

from precice_lb.models.bayes import BayesRegressor
from precice_lb.models.bayes_family import Prior, Sizes
from precice_lb.models.bayes_likelihood import SizeLikelihood, discrepancy_levels, fourier_features, spectrum

Array = NDArray[np.float64]
ROWS = np.array([(p, n) for n in (1e4, 4e4, 16e4) for p in (8.0, 16, 32, 64, 128)])


def features() -> tuple[Array, Sizes]:
    sizes = Sizes.of(ROWS, ROWS[:, 1] / ROWS[:, 0], (True,))
    return fourier_features(spectrum(sizes, Prior()), ROWS, sizes), sizes


def test_features_have_the_covariance_that_is_stated() -> None:
    sizes = Sizes.of(ROWS, ROWS[:, 1] / ROWS[:, 0], (True,))
    ranks = 8.0 * Prior().ranks_alike ** np.array([0.0, 0.3, 1.0, 2.0])
    found = fourier_features(spectrum(sizes, Prior()), np.column_stack([ranks, np.full(4, 16e4)]), sizes)
    away = np.sqrt(3.0) * np.array([0.0, 0.3, 1.0, 2.0])
    np.testing.assert_allclose(found @ found[0], (1 + away) * np.exp(-away), atol=0.15)
    np.testing.assert_allclose((found**2).sum(axis=1), 1)


def test_the_marginal_likelihood_is_that_of_the_covariance() -> None:
    values, _ = features()
    rng = np.random.default_rng(0)
    seconds = 5.0 * np.exp(0.1 * rng.standard_normal(15))
    errors = 0.03 * seconds * rng.random(15)
    shapes = np.exp(0.1 * rng.standard_normal((2, 15)))
    likelihood = SizeLikelihood(seconds, errors, (0.05, 1.0), values, Prior())
    scales = np.linspace(0, 3, 2001)
    total = np.zeros(2)
    relative = 1 + (errors / seconds / 0.05) ** 2
    priors = dict(zip(*discrepancy_levels(Prior()), strict=True))
    for noise, size in zip(likelihood.noise, likelihood.size, strict=True):
        covariance = noise**2 * np.diag(relative) + size**2 * values @ values.T
        weight = np.exp(priors[size] - 0.5 * np.log(noise / 0.05) ** 2)
        for k in range(2):
            gap = np.log(seconds / shapes[k]) - scales[:, None]
            total[k] += weight * multivariate_normal(np.zeros(15), covariance, allow_singular=True).pdf(gap).sum()
    found = likelihood(shapes)
    assert found[0] - found[1] == pytest.approx(np.log(total[0] / total[1]), abs=0.02)


def test_discrepancies_are_drawn_from_what_the_measurements_leave() -> None:
    values, sizes = features()
    rng = np.random.default_rng(1)
    planted = 0.1 * values @ rng.standard_normal(values.shape[1])
    likelihood = SizeLikelihood(7.0 * np.exp(planted), np.zeros(15), (0.004, 0.1), values, Prior())
    scale, _, weights = likelihood.draw(np.ones((500, 15)), rng)
    drawn = scale[:, None] + weights @ values.T
    np.testing.assert_allclose(drawn.mean(axis=0), np.log(7.0) + planted, atol=0.006)
    assert drawn.std(axis=0).max() < 0.01
    # Where nothing was measured, a discrepancy is only known to be as large as elsewhere.
    far = fourier_features(spectrum(sizes, Prior()), np.array([[32.0, 16e4 * 16.0**30]]), sizes)
    assert (weights @ far.T).std() > 0.04


def test_intervals_for_an_unseen_mesh_allow_for_what_the_family_cannot_be() -> None:
    """A solver with a sudden step of 30 % where parts leave the cache, and collectives in log² p, well measured."""

    def truth(rows: Array) -> Array:
        part = rows[:, 1] / rows[:, 0]
        return 1e-4 * part * (1 + 0.3 * (part > 2000)) + 1e-2 * np.log2(rows[:, 0]) ** 2 + 0.02

    rng = np.random.default_rng(2)
    rows = np.repeat(ROWS, 4, axis=0)
    model = BayesRegressor().fit(rows, truth(rows) * np.exp(0.01 * rng.standard_normal(len(rows))))
    low, high = model.predict_interval(ROWS)
    assert np.mean((low <= truth(ROWS)) & (truth(ROWS) <= high)) >= 0.6
    unseen = np.array([[32.0, 64e4], [64.0, 64e4], [128.0, 64e4]])
    low, high = model.predict_interval(unseen)
    # Sixty measurements of 1 % do not make a guess beyond them as certain.
    assert (np.log(high / low) > 0.06).all()
    np.testing.assert_allclose(model.predict(unseen), truth(unseen), rtol=0.2)
    assert model.formula().text() == model.formula([16e4]).text()
