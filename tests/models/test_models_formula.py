"""Formulas and their printers, losses, least squares by the thousand, and where a curve is valid."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

from precice_lb.models import Formula, Term
from precice_lb.models.published.hypotheses import factorize, mape, mse, smape, solve_nonnegative

FORMULA = Formula((Term(0.5), Term(-31.25, -0.75, 0.0), Term(2e-5, 0.5, 2.0), Term(3.0, 1.0, 1.0)))


def test_printers() -> None:
    assert FORMULA.text() == "0.5 - 31.25·p^-0.75 + 2e-05·p^0.5·log2(p)^2 + 3·p·log2(p)"
    assert Formula((Term(-1.0, 0.0, 1.0),), math.e).text() == "-1·ln(p)"
    assert Formula(()).text() == "0"


def test_terms_of_several_parameters() -> None:
    terms = (Term(0.5), Term(3.0, -1.0, 0.0, ((1.5, 0.0), (0.0, 1.0))), Term(-2e-3, 0.5, 0.0, ((0.0, 2.0),)))
    formula = Formula(terms, names=("p", "x1", "x2"))
    assert formula.text() == "0.5 + 3·p^-1·x1^1.5·log2(x2) - 0.002·p^0.5·log2(x1)^2"
    rows = np.array([[4.0, 9.0, 16.0], [8.0, 2.0, 2.0]])
    assert formula(rows)[0] == pytest.approx(0.5 + 3 / 4 * 27 * 4 - 2e-3 * 2 * math.log2(9) ** 2)


def test_losses_of_the_thesis_by_hand() -> None:
    y, f = np.array([1.0, 2.0]), np.array([1.5, 1.0])
    assert smape(y, f) == pytest.approx(100 / 2 * (2 * 0.5 / 2.5 + 2 * 1.0 / 3.0))
    assert mape(y, f) == pytest.approx(100 / 2 * (0.5 + 0.5))
    assert mse(y, f) == pytest.approx((0.25 + 1.0) / 2)
    assert smape(y, -y) == pytest.approx(200.0)
    both = np.stack([f, y], axis=1)
    np.testing.assert_allclose(smape(y, both), [smape(y, f), 0.0])


def test_factorisation_solves_ridge_as_scikit_learn_does() -> None:
    rng = np.random.default_rng(3)
    columns = rng.normal(size=(3, 7, 20)) * np.array([1e-4, 1.0, 1e5])[:, None, None]
    y = rng.normal(size=7)
    for ridge in (1e-3, 10.0):
        factors = factorize(columns, ridge)
        found = factors.coefficients(np.einsum("krh,r->kh", factors.q, y))
        for h in range(20):
            reference = Ridge(alpha=ridge, fit_intercept=False, solver="svd").fit(columns[:, :, h].T, y).coef_
            np.testing.assert_allclose(found[:, h], reference, rtol=1e-6)


def test_nearly_dependent_columns_become_orthogonal() -> None:
    columns = np.random.default_rng(5).normal(size=(3, 9, 50))
    columns[1:] = columns[0] + 1e-8 * columns[1:]
    q = factorize(columns).q
    np.testing.assert_allclose(np.einsum("krh,lrh->hkl", q, q), np.eye(3)[None].repeat(50, axis=0), atol=1e-12)


def test_a_dependent_column_gets_no_coefficient() -> None:
    a = np.array([1.0, 2.0, 3.0, 4.0])
    columns = np.stack([a, 2 * a, np.ones(4)])[:, :, None]
    factors = factorize(columns)
    found = factors.coefficients(np.einsum("krh,r->kh", factors.q, 3 * a + 1))[:, 0]
    np.testing.assert_allclose(found, [3.0, 0.0, 1.0], atol=1e-12)


@given(st.integers(0, 10_000), st.integers(1, 3), st.integers(1, 7))
def test_non_negative_least_squares_are_the_optimum(seed: int, k: int, rows: int) -> None:
    rng = np.random.default_rng(seed)
    columns = rng.normal(size=(k, rows, 4)) + 0.5
    targets = rng.normal(size=(rows, 4))
    found, residuals = solve_nonnegative(columns, targets)
    assert (found >= 0).all()
    for h in range(4):
        error = targets[:, h] - found[:, h] @ columns[:, :, h]
        assert error @ error == pytest.approx(residuals[h], rel=1e-9, abs=1e-12)
        # Karush-Kuhn-Tucker: no coefficient could grow with profit, none that is not zero could shrink with profit.
        gain = columns[:, :, h] @ error
        assert gain.max() < 1e-9
        np.testing.assert_allclose(gain[found[:, h] > 0], 0.0, atol=1e-9)


def test_a_level_is_an_exponent() -> None:
    terms = (Term(0.5), Term(2.0, -1.0, 0.0, ((1.0, 0.0),)), Term(3.0, 0.0, 0.0, ((0.5, 0.0),)))
    formula = Formula(terms, names=("p", "x1"), bases=(0.0, 8.0))
    assert formula.text() == "0.5 + 2·p^-1·(8^x1) + 3·(8^x1)^0.5"
    p, x1 = 4.0, 3.0
    expected = 0.5 + 2 * 8**3 / 4 + 3 * 8**1.5
    assert formula(np.array([[p, x1]]))[0] == pytest.approx(expected)
