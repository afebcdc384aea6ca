"""PMNF and EPMNF: a plain loop over scikit-learn, the published winners and evaluation, planted functions, texts."""

from __future__ import annotations

import csv
import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import FULL_COUNTS
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import KFold, LeaveOneOut

from precice_lb.exceptions import ModelError
from precice_lb.models import make_learner
from precice_lb.models.base import Formula
from precice_lb.models.published.normal_form import EPMNFRegressor, PMNFRegressor, smape

Array = NDArray[np.float64]
Terms = dict[tuple[tuple[float, float], ...], float]
DATA = Path(__file__).parents[1] / "data"
NONE = (0.0, 0.0)
# Equation 2.7 of Schröder 2019, after Calotoiu et al.: rising terms only.
RISING = {"exponents": tuple(k / 4 for k in range(13)), "log_exponents": (0.0, 1.0, 2.0)}
VALUES = 2.0 ** np.arange(2, 7)
GRID = np.array(list(itertools.product(VALUES, VALUES)))


def terms_of(model: PMNFRegressor) -> Terms:
    """Coefficients by the exponents of each column; without the constant."""
    pairs = [tuple(map(tuple, term)) for term in model.formula_.exponents[1:].tolist()]
    return dict(zip(pairs, model.formula_.coefficients[1:].tolist(), strict=True))


def features(ranks: Array, hypothesis: Any) -> Array:
    return np.column_stack([ranks**i * np.log2(ranks) ** j for i, j in hypothesis])


@pytest.mark.parametrize(
    ("n_terms", "folds", "ridge"),
    [(1, None, 0.0), (3, None, 0.0), (2, None, 5e-4), (1, 3, 0.0), (2, 3, 0.0), (3, 3, 1e-2), (2, 2, 1.0)],
)
def test_same_winner_and_loss_as_a_plain_loop_over_scikit_learn(n_terms: int, folds: int | None, ridge: float) -> None:
    rng = np.random.default_rng([n_terms, int(1e4 * ridge)])
    ranks = np.array([8.0, 12, 20, 32, 50, 80, 128])
    y = (0.2 + 30 / ranks + 0.01 * np.log2(ranks)) * (1 + 0.05 * rng.standard_normal(len(ranks)))
    words: dict[str, Any] = {"exponents": (-1.5, -1.0, -0.5, 0.0), "log_exponents": (0.0, 1.0)}
    model = PMNFRegressor(n_terms=n_terms, folds=folds, ridge=ridge, **words).fit(ranks, y)
    regressor = Ridge(alpha=ridge) if ridge else LinearRegression()
    splitter = LeaveOneOut() if folds is None else KFold(folds)
    best, least = None, math.inf
    for hypothesis in itertools.combinations(itertools.product(*words.values()), n_terms):
        columns = features(ranks, hypothesis)
        losses = [
            smape(y[test], clone(regressor).fit(columns[train], y[train]).predict(columns[test]))
            for train, test in splitter.split(columns)
        ]
        if np.mean(losses) < least:
            best, least = hypothesis, float(np.mean(losses))
    assert tuple(pair for (pair,) in terms_of(model)) == best
    assert model.loss_ == pytest.approx(least, rel=1e-6)
    regressor.fit(features(ranks, best), y)
    more = np.array([2.0, 64.0, 1000.0])
    np.testing.assert_allclose(model.predict(more), regressor.predict(features(more, best)), rtol=1e-6)


@pytest.mark.parametrize("scale", [1.0, 1000.0], ids=["seconds", "milliseconds"])
@pytest.mark.parametrize(
    ("participant", "published"),
    [("Inner", {(-1.5, 2.0), (-1.0, 2.0)}), ("Outer", {(-0.25, 2.0), (0.0, 1.0)})],
)
def test_the_published_winners_of_schroeder_figures_5_2_and_5_3(
    participant: str, published: set[tuple[float, float]], scale: float
) -> None:
    with (DATA / "schroeder2019.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["participant"] == participant]
    ranks, seconds = np.array([[float(row["ranks"]), float(row["seconds"])] for row in rows]).T
    model = PMNFRegressor(folds=2, ridge=5e-4).fit(ranks, scale * seconds)
    assert {pair for (pair,) in terms_of(model)} == published


def test_planted_functions_are_found_again() -> None:
    p = np.array([4.0, 8, 16, 32, 64, 128, 256])
    for first, second in [((1.0, 0.0), (0.5, 1.0)), ((0.25, 2.0), (2.0, 0.0))]:
        y = 3.0 + features(p, [first, second]) @ [0.7, 0.05]
        model = PMNFRegressor(**RISING).fit(p, y)
        assert terms_of(model) == {(first,): pytest.approx(0.7), (second,): pytest.approx(0.05)}
        assert model.formula_.coefficients[0] == pytest.approx(3.0)


def test_terms_of_very_different_size_do_not_spoil_each_other() -> None:
    p = np.array([100.0, 1e3, 3e3, 1e4, 3e4, 1e5])
    y = 1e-9 + 5e3 * p**-2.0 + 2e-12 * p**2.75 * np.log2(p) ** 2
    model = PMNFRegressor().fit(p, y)
    assert set(terms_of(model)) == {((-2.0, 0.0),), ((2.75, 2.0),)}
    np.testing.assert_allclose(model.predict(p), y, rtol=1e-9)


def test_terms_that_are_infinite_at_a_measurement_are_left_out() -> None:
    p = np.array([1.0, 2, 4, 8, 16, 32])
    np.testing.assert_allclose(PMNFRegressor(n_terms=1).fit(p, 1 + 9 / p).predict(p), 1 + 9 / p, rtol=1e-9)
    levels = GRID - [0.0, 4.0]
    model = EPMNFRegressor().fit(levels, 3 + 2 * levels[:, 1])
    assert set(terms_of(model)) == {(NONE, (1.0, 0.0))}
    np.testing.assert_allclose(model.predict([[100.0, 0.0]]), 3.0)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"n_terms": 4}, r"'n_terms' parameter of PMNFRegressor .* range \[1, 3\]. Got 4"),
        ({"n_terms": 3}, "needs 4 rank counts in every training set .* found 3; measure more"),
        ({"folds": 1}, "folds"),
        ({"folds": 9}, "at least 9 measurements, found 4"),
        ({"ridge": -1.0}, "ridge"),
        ({"exponents": ()}, "2 usable terms, found 0"),
        ({"exponents": tuple(np.linspace(-2, 2, 300)), "n_terms": 3}, "at most 50,000,000 hypotheses, found"),
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


def draw(rng: np.random.Generator) -> Terms:
    """Equation 3 of Calotoiu et al. without its constant; equal terms added up."""
    (i, k), (j, m) = rng.choice(RISING["exponents"], 2), rng.choice(RISING["log_exponents"], 2)
    terms: Terms = {}
    for coefficient in rng.uniform(0, 100, 2):
        of_x, of_y = rng.integers(0, 2, 2)
        key = ((float(i), float(j)) if of_x else NONE, (float(k), float(m)) if of_y else NONE)
        terms[key] = terms.get(key, 0.0) + coefficient
    return terms


def value(terms: Terms, points: Array) -> Array:
    x, y = points.T
    parts = [c * x**i * np.log2(x) ** j * y**k * np.log2(y) ** m for ((i, j), (k, m)), c in terms.items()]
    return np.sum(parts, axis=0)


def test_leading_terms_and_optimal_models_are_found() -> None:
    """The evaluation of Calotoiu et al. 2016, section V-A."""
    count, rng, optimal = 2000 if FULL_COUNTS else 100, np.random.default_rng(2016), 0
    for _ in range(count):
        terms, constant = draw(rng), float(rng.uniform(0, 100))
        planted = {key: coefficient for key, coefficient in terms.items() if key != (NONE, NONE)}
        model = EPMNFRegressor(**RISING).fit(GRID, constant + value(terms, GRID))
        hits = [key for key, c in terms_of(model).items() if key in planted and abs(c / planted[key] - 1) < 1e-3]
        if planted:
            assert max(planted, key=lambda key: value({key: planted[key]}, GRID[-1:])[0]) in hits
        optimal += set(hits) == set(planted) == set(terms_of(model))
    assert optimal >= 0.95 * count


def test_planted_functions_of_three_parameters_are_found_again_despite_noise() -> None:
    rng = np.random.default_rng(3)
    x = np.array(list(itertools.product([8.0, 16, 32, 64, 128], [1.0, 2, 4, 8, 16], [10.0, 20, 40, 80, 160])))
    y = 0.1 + 40 * x[:, 1] ** 1.5 / x[:, 0] * np.log2(x[:, 2])
    model = EPMNFRegressor().fit(x, y * np.exp(0.01 * rng.standard_normal(len(x))))
    # Of the third parameter a logarithm and other slow growth look the same with this noise.
    assert {((-1.0, 0.0), (1.5, 0.0))} == {key[:2] for key in terms_of(model)}
    far = np.array([[256.0, 32.0, 320.0]])
    assert model.predict(far)[0] == pytest.approx(0.1 + 40 * 32**1.5 / 256 * np.log2(320), rel=0.1)


def test_noise_does_not_make_terms() -> None:
    rng = np.random.default_rng(8)
    models = [EPMNFRegressor().fit(GRID, 3.0 * np.exp(0.05 * rng.standard_normal(len(GRID)))) for _ in range(20)]
    assert sum(not terms_of(model) for model in models) >= 10


def test_without_a_full_grid_slices_are_used() -> None:
    x = GRID[(GRID[:, 1] == 16) | (GRID[:, 0] == 8)]
    words = {"exponents": (-1.0, -0.5, 0.0, 0.5, 1.0), "log_exponents": (0.0, 1.0)}
    model = EPMNFRegressor(**words).fit(x, 3 + 50 * x[:, 1] / x[:, 0])
    assert set(terms_of(model)) == {((-1.0, 0.0), (1.0, 0.0))}
    np.testing.assert_allclose(model.predict(GRID), 3 + 50 * GRID[:, 1] / GRID[:, 0], rtol=1e-6)
    with pytest.raises(
        ModelError, match=r"column 0 of X measured with all other columns alike, found 1; measure along it"
    ):
        EPMNFRegressor().fit(np.column_stack([VALUES, VALUES]), VALUES)


def test_formulas_are_written_and_evaluated() -> None:
    one = Formula(np.array([0.5, -31.25, 2e-5, 3.0]), np.array([[NONE], [(-0.75, 0)], [(0.5, 2)], [(1, 1)]]))
    assert one.text() == "0.5 - 31.25·p^-0.75 + 2e-05·p^0.5·log2(p)^2 + 3·p·log2(p)"
    assert Formula(np.array([-1.0]), np.array([[(0.0, 1.0)]])).text() == "-1·log2(p)"
    assert Formula(np.zeros(0), np.zeros((0, 1, 2))).text() == "0"
    exponents = [[NONE] * 3, [(-1, 0), (1.5, 0), (0, 1)], [(0.5, 0), (0, 2), NONE]]
    three = Formula(np.array([0.5, 3.0, -2e-3]), np.array(exponents, dtype=float))
    assert three.text() == "0.5 + 3·p^-1·x1^1.5·log2(x2) - 0.002·p^0.5·log2(x1)^2"
    assert three([[4.0, 9.0, 16.0]])[0] == pytest.approx(0.5 + 3 / 4 * 27 * 4 - 2e-3 * 2 * math.log2(9) ** 2)


def test_losses_of_the_thesis_by_hand() -> None:
    y, f = np.array([1.0, 2.0]), np.array([1.5, 1.0])
    expected = 100 / 2 * (2 * 0.5 / 2.5 + 2 * 1.0 / 3.0)
    assert smape(y, np.stack([f, y, -y])).tolist() == pytest.approx([expected, 0.0, 200.0])
