"""Several parameters: the evaluation of Calotoiu et al. 2016, section V-A, planted functions, grids and no grids."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from conftest import FULL_COUNTS
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from precice_lb.exceptions import ModelError
from precice_lb.models.published.normal_form import (
    NEIGHBOURS,
    EPMNFRegressor,
    golden_section,
)

Array = NDArray[np.float64]
Terms = dict[tuple[tuple[float, float], ...], float]
NONE = (0.0, 0.0)
# Equation 2.7 of Schröder 2019, after Calotoiu et al.: rising terms only.
RISING = {"exponents": tuple(k / 4 for k in range(13)), "log_exponents": (0.0, 1.0, 2.0)}
VALUES = 2.0 ** np.arange(2, 7)
GRID = np.array(list(itertools.product(VALUES, VALUES)))


def draw(rng: np.random.Generator) -> Terms:
    """Equation 3 of the paper without its constant: coefficients by the exponents of x and y, equal terms added up."""
    (i, k), (j, m) = rng.choice(RISING["exponents"], 2), rng.choice(RISING["log_exponents"], 2)
    terms: Terms = {}
    for coefficient in rng.uniform(0, 100, 2):
        of_x, of_y = rng.integers(0, 2, 2)
        key = ((float(i), float(j)) if of_x else NONE, (float(k), float(m)) if of_y else NONE)
        terms[key] = terms.get(key, 0.0) + coefficient
    return terms


def value(terms: Terms, constant: float, points: Array) -> Array:
    x, y = points.T
    total = np.full(len(points), constant)
    for ((i, j), (k, m)), c in terms.items():
        total += c * x**i * np.log2(x) ** j * y**k * np.log2(y) ** m
    return total


def found_terms(model: EPMNFRegressor) -> Terms:
    pairs = [tuple(map(tuple, term)) for term in model.formula_.exponents[1:, :2].tolist()]
    return dict(zip(pairs, model.formula_.coefficients[1:].tolist(), strict=True))


def same(found: Terms, planted: Terms, key: Any) -> bool:
    return key in found and abs(found[key] / planted[key] - 1) < 1e-3


def evaluate(count: int, **parameters: Any) -> tuple[int, int]:
    """Functions of which the model is optimal, and of which at least the leading term is found."""
    rng = np.random.default_rng(2016)
    optimal = lead = 0
    for _ in range(count):
        terms, constant = draw(rng), float(rng.uniform(0, 100))
        model = EPMNFRegressor(**RISING, **parameters)
        found = found_terms(model.fit(GRID, value(terms, constant, GRID)))
        planted = {key: c for key, c in terms.items() if key != (NONE, NONE)}
        leading = max(planted, key=lambda key: value({key: planted[key]}, 0.0, GRID[-1:])[0], default=None)
        lead += not planted if leading is None else same(found, planted, leading)
        optimal += set(found) == set(planted) and all(same(found, planted, key) for key in planted)
    return optimal, lead


def test_hierarchical_search_finds_leading_terms_and_optimal_models() -> None:
    count = 2000 if FULL_COUNTS else 150
    optimal, lead = evaluate(count)
    assert lead == count
    assert optimal >= 0.95 * count


def test_exhaustive_search_finds_leading_terms_and_optimal_models() -> None:
    count = 2000 if FULL_COUNTS else 3
    optimal, lead = evaluate(count, search="exhaustive")
    assert lead == count
    assert optimal >= 0.95 * count


def test_planted_functions_of_three_parameters_are_found_again_despite_noise() -> None:
    rng = np.random.default_rng(3)
    x = np.array(list(itertools.product([8.0, 16, 32, 64, 128], [1.0, 2, 4, 8, 16], [10.0, 20, 40, 80, 160])))
    y = 0.1 + 40 * x[:, 1] ** 1.5 / x[:, 0] * np.log2(x[:, 2])
    model = EPMNFRegressor().fit(x, y * np.exp(0.01 * rng.standard_normal(len(x))))
    # Of the third parameter a logarithm and other slow growth look the same with this noise.
    assert {((-1.0, 0.0), (1.5, 0.0))} == set(found_terms(model))
    far = np.array([[256.0, 32.0, 320.0]])
    assert model.predict(far)[0] == pytest.approx(0.1 + 40 * 32**1.5 / 256 * np.log2(320), rel=0.1)


def test_noise_does_not_make_terms() -> None:
    rng = np.random.default_rng(8)
    flat = 0
    for _ in range(20):
        y = 3.0 * np.exp(0.05 * rng.standard_normal(len(GRID)))
        flat += len(EPMNFRegressor().fit(GRID, y).formula_.coefficients) == 1
    assert flat >= 10


def test_without_a_full_grid_slices_are_used() -> None:
    rows = (GRID[:, 1] == 16) | (GRID[:, 0] == 8)
    x = GRID[rows]
    y = 3 + 50 * x[:, 1] / x[:, 0]
    model = EPMNFRegressor(exponents=(-1.0, -0.5, 0.0, 0.5, 1.0), log_exponents=(0.0, 1.0)).fit(x, y)
    assert set(found_terms(model)) == {((-1.0, 0.0), (1.0, 0.0))}
    np.testing.assert_allclose(model.predict(GRID), 3 + 50 * GRID[:, 1] / GRID[:, 0], rtol=1e-6)


def test_parameters_that_vary_only_together_are_refused_with_the_reason() -> None:
    diagonal = np.column_stack([VALUES, VALUES])
    with pytest.raises(ModelError, match=r"column 0 of X measured with all other columns alike, found 1.*no full grid"):
        EPMNFRegressor().fit(diagonal, VALUES)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"search": "random"}, "'search' parameter of EPMNFRegressor"),
        ({"n_terms": 4}, "n_terms"),
        ({"least_gain": 1.0}, "least_gain"),
        ({"loss": "rmse"}, "loss"),
        ({"search": "exhaustive", "n_terms": 3}, "at most 50,000,000 hypotheses"),
    ],
)
def test_bad_parameters_are_refused(parameters: dict[str, Any], words: str) -> None:
    with pytest.raises(ModelError, match=words):
        EPMNFRegressor(**parameters).fit(GRID, GRID[:, 1] / GRID[:, 0] + GRID[:, 0] ** 0.3)


def test_terms_that_are_infinite_at_a_level_of_zero_are_left_out() -> None:
    levels = GRID - [0.0, 4.0]
    model = EPMNFRegressor().fit(levels, 3 + 2 * levels[:, 1])
    assert set(found_terms(model)) == {(NONE, (1.0, 0.0))}
    np.testing.assert_allclose(model.predict([[100.0, 0.0]]), 3.0)


@given(st.integers(1, 60), st.integers(0, 59), st.integers(0, 1000))
def test_golden_section_finds_the_minimum_of_what_falls_then_rises(count: int, least: int, seed: int) -> None:
    least %= count
    steps = np.random.default_rng(seed).uniform(0.1, 1, count)
    heights = np.abs(np.cumsum(steps) - np.cumsum(steps)[least])
    found, seen = golden_section(lambda index: float(heights[index]), count)
    assert found == least
    assert len(seen) <= 2 * NEIGHBOURS + 2 * np.log(count + 1) / np.log(1.618) + 4
