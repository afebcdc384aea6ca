"""Exhaustive PMNF against a plain loop over scikit-learn, planted functions and the published winners."""

from __future__ import annotations

import csv
import itertools
import math
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import KFold, LeaveOneOut

from precice_lb.exceptions import ModelError
from precice_lb.models import make_learner
from precice_lb.models.published.normal_form import LOSSES, PMNFRegressor

Array = NDArray[np.float64]
DATA = Path(__file__).parents[1] / "data"
SMALL_I = (-1.5, -1.0, -0.5, 0.0)
SMALL_J = (0.0, 1.0)
# Equation 2.7 of Schröder 2019, after Calotoiu et al.: rising terms only.
RISING_I, RISING_J = tuple(k / 4 for k in range(13)), (0.0, 1.0, 2.0)


def schroeder(participant: str) -> tuple[Array, Array]:
    with (DATA / "schroeder2019.csv").open(newline="") as file:
        rows = [
            (float(r["ranks"]), float(r["seconds"])) for r in csv.DictReader(file) if r["participant"] == participant
        ]
    table = np.array(rows)
    return table[:, :1], table[:, 1]


def pairs_of(model: PMNFRegressor) -> list[tuple[float, float]]:
    """Exponents of each term, that of the constant too."""
    return [(i, j) for i, j in model.formula_.exponents[:, 0].tolist()]


def features(X: Array, hypothesis: tuple[tuple[float, float], ...]) -> Array:
    return np.column_stack([X[:, 0] ** i * np.log2(X[:, 0]) ** j for i, j in hypothesis])


def plain_loop(model: PMNFRegressor, X: Array, y: Array) -> tuple[tuple[tuple[float, float], ...], float]:
    """The search as the papers describe it, one scikit-learn fit at a time."""
    regressor = (
        Ridge(alpha=model.ridge, fit_intercept=model.constant)
        if model.ridge
        else LinearRegression(fit_intercept=model.constant)
    )
    splitter = LeaveOneOut() if model.folds is None else KFold(model.folds)
    loss = LOSSES[model.loss]
    best, least = None, math.inf
    for hypothesis in itertools.combinations(itertools.product(model.exponents, model.log_exponents), model.n_terms):
        columns = features(X, hypothesis)
        losses = [
            float(loss(y[test], clone(regressor).fit(columns[train], y[train]).predict(columns[test])))
            for train, test in splitter.split(columns)
        ]
        if np.mean(losses) < least:
            best, least = hypothesis, float(np.mean(losses))
    assert best is not None
    return best, least


@pytest.mark.parametrize("n_terms", [1, 2, 3])
@pytest.mark.parametrize(
    ("folds", "loss", "ridge", "constant"),
    [
        (None, "smape", 0.0, True),
        (None, "mape", 5e-4, True),
        (None, "mse", 0.0, False),
        (3, "smape", 1e-2, False),
        (3, "mse", 5e-4, True),
        (2, "mape", 1.0, True),
    ],
)
def test_same_winner_and_loss_as_a_plain_loop_over_scikit_learn(
    n_terms: int, folds: int | None, loss: str, ridge: float, constant: bool
) -> None:
    rng = np.random.default_rng([n_terms, int(1e4 * ridge)])
    ranks = np.array([8.0, 12, 20, 32, 50, 80, 128])
    y = (0.2 + 30 / ranks + 0.01 * np.log2(ranks)) * (1 + 0.05 * rng.standard_normal(len(ranks)))
    X = ranks[:, None]
    model = PMNFRegressor(
        n_terms=n_terms,
        exponents=SMALL_I,
        log_exponents=SMALL_J,
        folds=folds,
        loss=loss,
        ridge=ridge,
        constant=constant,
    ).fit(X, y)
    winner, least = plain_loop(model, X, y)
    assert tuple(pairs_of(model)[constant:]) == winner
    assert model.loss_ == pytest.approx(least, rel=1e-6)
    reference = Ridge(alpha=ridge, fit_intercept=constant) if ridge else LinearRegression(fit_intercept=constant)
    reference.fit(features(X, winner), y)
    more = np.array([[2.0], [64.0], [1000.0]])
    np.testing.assert_allclose(model.predict(more), reference.predict(features(more, winner)), rtol=1e-6)


@pytest.mark.parametrize("scale", [1.0, 1000.0], ids=["seconds", "milliseconds"])
@pytest.mark.parametrize(
    ("participant", "published"),
    [("Inner", {(-1.5, 2.0), (-1.0, 2.0)}), ("Outer", {(-0.25, 2.0), (0.0, 1.0)})],
)
def test_the_published_winners_of_schroeder_figures_5_2_and_5_3(
    participant: str, published: set[tuple[float, float]], scale: float
) -> None:
    X, y = schroeder(participant)
    model = PMNFRegressor(folds=2, ridge=5e-4).fit(X, scale * y)
    assert set(pairs_of(model)[1:]) == published


def test_planted_functions_are_found_again() -> None:
    p = np.array([4.0, 8, 16, 32, 64, 128, 256])
    log = np.log2(p)
    for (i1, j1), (i2, j2) in [((1.0, 0.0), (0.5, 1.0)), ((0.25, 2.0), (2.0, 0.0))]:
        y = 3.0 + 0.7 * p**i1 * log**j1 + 0.05 * p**i2 * log**j2
        model = PMNFRegressor(exponents=RISING_I, log_exponents=RISING_J).fit(p, y)
        found = dict(zip(pairs_of(model), model.formula_.coefficients, strict=True))
        assert set(found) == {(0.0, 0.0), (i1, j1), (i2, j2)}
        np.testing.assert_allclose([found[i1, j1], found[i2, j2], found[0.0, 0.0]], [0.7, 0.05, 3.0], rtol=1e-6)


def test_terms_of_very_different_size_do_not_spoil_each_other() -> None:
    p = np.array([100.0, 1e3, 3e3, 1e4, 3e4, 1e5])
    y = 5e3 * p**-2.0 + 2e-12 * p**2.75 * np.log2(p) ** 2
    model = PMNFRegressor(constant=False).fit(p, y)
    assert set(pairs_of(model)) == {(-2.0, 0.0), (2.75, 2.0)}
    np.testing.assert_allclose(model.predict(p), y, rtol=1e-9)


def test_one_rank_among_the_measurements_leaves_terms_out_that_are_infinite_there() -> None:
    p = np.array([1.0, 2, 4, 8, 16, 32])
    model = PMNFRegressor(n_terms=1).fit(p, 1 + 9 / p)
    np.testing.assert_allclose(model.predict(p), 1 + 9 / p, rtol=1e-9)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"n_terms": 4}, r"'n_terms' parameter of PMNFRegressor .* range \[1, 3\]. Got 4"),
        ({"n_terms": 3}, "measure more"),
        ({"folds": 1}, "folds"),
        ({"folds": 9}, "at least 9 measurements for cross-validation, found 4"),
        ({"loss": "rmse"}, "loss"),
        ({"ridge": -1.0}, "ridge"),
        ({"ridge": "much"}, "ridge"),
        ({"exponents": ()}, "at least 2 usable terms, found 0"),
        ({"exponents": (0.5,), "log_exponents": (0.0,), "n_terms": 2}, "at least 2 usable terms"),
    ],
)
def test_bad_parameters_are_refused(parameters: dict[str, object], words: str) -> None:
    with pytest.raises(ModelError, match=words):
        make_learner("pmnf", **parameters).fit([8, 16, 32, 64], [4.0, 2.0, 1.0, 0.5])


def test_unknown_learners_and_parameters_are_refused() -> None:
    with pytest.raises(ModelError, match=r"learner out of .*pmnf.*, found 'magic'"):
        make_learner("magic")
    with pytest.raises(ModelError, match=r"parameter of bayes out of .* found 'ridge'"):
        make_learner("bayes", ridge=1.0)


def test_searches_too_large_to_end_are_refused() -> None:
    model = PMNFRegressor(n_terms=3, exponents=tuple(np.linspace(-2, 2, 300)))
    with pytest.raises(ModelError, match="at most 50,000,000 hypotheses, found"):
        model.fit([8, 16, 32, 64, 128], [16.0, 8, 4, 2, 1])
