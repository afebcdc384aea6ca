"""Gaussian process: planted power laws, uncertainty that grows away from the data, drawn curves, printers."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor as ScikitProcess
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct

from precice_lb.exceptions import ModelError
from precice_lb.models.gaussian_process import LEVEL, GaussianProcessRegressor

RANKS = np.array([4.0, 8, 16, 32, 64, 128, 256])


def test_a_power_law_is_continued() -> None:
    rng = np.random.default_rng(1)
    model = GaussianProcessRegressor().fit(RANKS, 30 * RANKS**-0.8 * np.exp(0.01 * rng.standard_normal(7)))
    far = np.array([1.0, 1024.0])
    np.testing.assert_allclose(model.predict(far), 30 * far**-0.8, rtol=0.25)


def test_predictions_are_those_of_scikit_learn_with_the_same_hyperparameters() -> None:
    y = 0.2 + 30 / RANKS * np.exp(0.05 * np.random.default_rng(2).standard_normal(7))
    model = GaussianProcessRegressor().fit(RANKS, y, 0.02 * y)
    given = model.hyperparameters_
    kernel = ConstantKernel(given["smooth"]) * RBF(given["lengths"]) + ConstantKernel(given["slope"]) * DotProduct(
        math.sqrt(LEVEL)
    )
    reference = ScikitProcess(kernel, alpha=model.noise_, optimizer=None).fit(model.points_, model.targets_)
    at = np.array([2.0, 11, 50, 700])
    mean, deviation = reference.predict((np.log(at) - model.centre_)[:, None], return_std=True)
    np.testing.assert_allclose(model.predict(at), np.exp(mean + model.level_) / at, rtol=1e-6)
    low, high = model.predict_interval(at, 0.6826894921370859)
    np.testing.assert_allclose(np.log(high / low) / 2, deviation, rtol=1e-4)


def test_doubt_grows_away_from_the_measurements_and_shrinks_with_repeats() -> None:
    y = 1 + 30 / RANKS
    model = GaussianProcessRegressor().fit(RANKS, y)
    low, high = model.predict_interval([16, 512, 4096])
    assert (np.diff(high / low) > 0).all()
    rng = np.random.default_rng(5)
    many = np.repeat(RANKS, 10)
    noisy = (1 + 30 / many) * np.exp(0.05 * rng.standard_normal(70))
    few_low, few_high = (
        GaussianProcessRegressor().fit(many[::10], noisy[::10], 0.05 * noisy[::10]).predict_interval([16])
    )
    many_low, many_high = GaussianProcessRegressor().fit(many, noisy).predict_interval([16])
    assert many_high / many_low < few_high / few_low


def test_drawn_curves_have_the_quantiles_of_the_interval() -> None:
    model = GaussianProcessRegressor().fit(RANKS[:5], 1 + 30 / RANKS[:5])
    at = np.array([2.0, 12, 64, 300])
    curves = model.draw(3000, random_state=0)(at)
    low, high = model.predict_interval(at, 0.8)
    np.testing.assert_allclose(np.log(np.quantile(curves, [0.1, 0.9], axis=0)), np.log([low, high]), atol=0.05)
    np.testing.assert_allclose(np.log(np.median(curves, axis=0)), np.log(model.predict(at)), atol=0.03)


def test_printers() -> None:
    rows = np.array(list(itertools.product([8.0, 16, 32], [10.0, 20])))
    model = GaussianProcessRegressor().fit(rows, rows[:, 1] / rows[:, 0] + 0.01 * rows[:, 1])
    formula = model.formula()
    value = eval(formula.python(), {"math": math, "p": 12.0, "x1": 15.0})
    assert value == pytest.approx(model.predict([[12.0, 15.0]])[0], rel=1e-10)
    assert "exp(sum of 6 bumps" in formula.text()
    assert formula.latex().startswith(r"\frac{1}{p} \exp(")


def test_levels_from_zero_on_and_bad_parameters_are_refused() -> None:
    with pytest.raises(ModelError, match="count them from 1"):
        GaussianProcessRegressor().fit([[8.0, 0.0], [16.0, 1.0]], [2.0, 1.0])
    with pytest.raises(ModelError, match="restarts of 0 or more"):
        GaussianProcessRegressor(restarts=-1).fit([8.0], [2.0])
