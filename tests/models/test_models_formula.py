"""Formulas and their text, losses, and least squares by the thousand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from precice_lb.models.published.formula import Formula
from precice_lb.models.published.normal_form import Hypotheses, factorize, mape, mse, smape


def formula(*terms: tuple[float, list[tuple[float, float]]], bases: tuple[float, ...]) -> Formula:
    """A sum of terms of a coefficient and exponents i and j of ranks and each parameter."""
    exponents = np.array([pairs for _, pairs in terms]).reshape(len(terms), len(bases), 2)
    return Formula(np.array([coefficient for coefficient, _ in terms]), exponents, np.array(bases))


def test_text() -> None:
    terms = [(0.5, [(0.0, 0.0)]), (-31.25, [(-0.75, 0.0)]), (2e-5, [(0.5, 2.0)]), (3.0, [(1.0, 1.0)])]
    assert formula(*terms, bases=(0.0,)).text() == "0.5 - 31.25·p^-0.75 + 2e-05·p^0.5·log2(p)^2 + 3·p·log2(p)"
    assert formula((-1.0, [(0.0, 1.0)]), bases=(0.0,)).text() == "-1·log2(p)"
    assert formula(bases=(0.0,)).text() == "0"


def test_terms_of_several_parameters() -> None:
    none = (0.0, 0.0)
    found = formula(
        (0.5, [none] * 3),
        (3.0, [(-1.0, 0.0), (1.5, 0.0), (0.0, 1.0)]),
        (-2e-3, [(0.5, 0.0), (0.0, 2.0), none]),
        bases=(0.0, 0.0, 0.0),
    )
    assert found.text() == "0.5 + 3·p^-1·x1^1.5·log2(x2) - 0.002·p^0.5·log2(x1)^2"
    rows = np.array([[4.0, 9.0, 16.0], [8.0, 2.0, 2.0]])
    assert found(rows)[0] == pytest.approx(0.5 + 3 / 4 * 27 * 4 - 2e-3 * 2 * math.log2(9) ** 2)


def test_losses_of_the_thesis_by_hand() -> None:
    y, f = np.array([1.0, 2.0]), np.array([1.5, 1.0])
    assert smape(y, f) == pytest.approx(100 / 2 * (2 * 0.5 / 2.5 + 2 * 1.0 / 3.0))
    assert mape(y, f) == pytest.approx(100 / 2 * (0.5 + 0.5))
    assert mse(y, f) == pytest.approx((0.25 + 1.0) / 2)
    assert smape(y, -y) == pytest.approx(200.0)
    both = np.stack([f, y], axis=1)
    np.testing.assert_allclose(smape(y[:, None], both), [smape(y, f), 0.0])


def test_factorisation_solves_ridge_as_scikit_learn_does() -> None:
    rng = np.random.default_rng(3)
    columns = rng.normal(size=(3, 7, 20)) * np.array([1e-4, 1.0, 1e5])[:, None, None]
    y = rng.normal(size=7)
    for ridge in (1e-3, 10.0):
        q, r = factorize(columns, np.full(3, ridge))
        found = np.linalg.solve(r, np.einsum("krh,r->hk", q, y)[:, :, None])[:, :, 0].T
        for h in range(20):
            reference = Ridge(alpha=ridge, fit_intercept=False, solver="svd").fit(columns[:, :, h].T, y).coef_
            np.testing.assert_allclose(found[:, h], reference, rtol=1e-6)


def test_a_dependent_column_gets_no_coefficient() -> None:
    a = np.array([1.0, 2.0, 3.0, 4.0])
    columns = np.stack([a, 2 * a])[:, :, None]
    hypotheses = Hypotheses(3 * a + 1, None, "smape", 0.0, np.ones(4))
    found = hypotheses.coefficients(columns)[:, 0]
    np.testing.assert_allclose(found, [1.0, 3.0, 0.0], atol=1e-12)


def test_a_level_is_an_exponent() -> None:
    none = (0.0, 0.0)
    terms = [(0.5, [none, none]), (2.0, [(-1.0, 0.0), (1.0, 0.0)]), (3.0, [none, (0.5, 0.0)])]
    found = formula(*terms, bases=(0.0, 8.0))
    assert found.text() == "0.5 + 2·p^-1·(8^x1) + 3·(8^x1)^0.5"
    assert found(np.array([[4.0, 3.0]]))[0] == pytest.approx(0.5 + 2 * 8**3 / 4 + 3 * 8**1.5)
