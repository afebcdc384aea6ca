"""Factorised terms planted and found again, also for a mesh never measured; and networks at an unseen level."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray

from precice_lb.exceptions import ModelError
from precice_lb.models.published.factorized import FactorizedRegressor, NeuralRegressor
from precice_lb.models.published.normal_form import smape

Array = NDArray[np.float64]
GRID = np.array(list(itertools.product([16.0, 32, 64, 128, 256], [1e4, 3e4, 1e5, 3e5])))
LARGE = np.column_stack([[64.0, 256, 1024], [1e7, 1e7, 1e7]])


def solver(rows: Array, work: float = 1e-4, surface: float = 3e-4, dimensions: int = 3) -> Array:
    per_rank = rows[:, 1] / rows[:, 0]
    return np.asarray(work * per_rank + surface * per_rank ** ((dimensions - 1) / dimensions))


@pytest.mark.parametrize("dimensions", [2, 3])
def test_planted_coefficients_are_found_again(dimensions: int) -> None:
    model = FactorizedRegressor(dimensions=dimensions, slope_scale=0.0).fit(GRID, solver(GRID, dimensions=dimensions))
    np.testing.assert_allclose(model.formula_.coefficients, [1e-4, 3e-4], rtol=0.02)
    surface = (dimensions - 1) / dimensions
    np.testing.assert_allclose(model.formula_.exponents[:, :, 0], [[-1.0, 1.0], [-surface, surface]])


def test_small_meshes_tell_about_a_mesh_thirty_times_larger() -> None:
    rng = np.random.default_rng(4)
    errors = []
    for _ in range(10):
        y = solver(GRID) * np.exp(0.05 * rng.standard_normal(len(GRID)))
        model = FactorizedRegressor().fit(GRID, y)
        errors.append(np.abs(np.log(model.predict(LARGE) / solver(LARGE))))
    assert np.mean(errors) < 0.15


def test_further_parameters_become_factors() -> None:
    order = np.array([1.0, 2, 4])
    rows = np.array([(p, n, o) for (p, n), o in itertools.product(GRID, order)])
    y = solver(rows[:, :2]) * rows[:, 2] ** 0.5
    model = FactorizedRegressor(slope_scale=0.5).fit(rows, y)
    np.testing.assert_allclose(model.predict(rows), y, rtol=0.05)
    assert "x1" in model.formula_.text()
    assert "x2" in model.formula_.text()
    swapped = FactorizedRegressor(slope_scale=0.5, size_column=2).fit(rows[:, [0, 2, 1]], y)
    np.testing.assert_allclose(swapped.predict(rows[:, [0, 2, 1]]), model.predict(rows), rtol=1e-3)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"size_column": 2}, "size_column from 1 to 1"),
        ({"dimensions": 4}, "'dimensions' parameter of FactorizedRegressor"),
        ({"slope_scale": -1.0}, "slope_scale"),
        ({"noise": 0.0}, "noise"),
    ],
)
def test_bad_parameters_are_refused(parameters: dict[str, object], words: str) -> None:
    with pytest.raises(ModelError, match=words):
        FactorizedRegressor(**parameters).fit(GRID, solver(GRID))  # type: ignore[arg-type]


def test_parameters_that_are_not_positive_are_refused() -> None:
    with pytest.raises(ModelError, match="parameters above 0"):
        FactorizedRegressor().fit(GRID * [1.0, 0.0], solver(GRID))


def apart(rng: np.random.Generator, rows: int = 60) -> tuple[Array, Array, Array]:
    """Solvers with two kinds of costly elements, and partitions whose surfaces are not quite those of cubes."""
    size = rng.uniform(1e4, 1e6, rows)
    ranks = rng.choice([8.0, 16, 32, 64], rows)
    kinds = rng.dirichlet([1.0, 1.0, 2.0], rows)[:, :2]
    surface = 7.0 * (size / ranks) ** 0.62 * np.exp(0.1 * rng.standard_normal(rows))
    computation = 1e-5 * size / ranks * (1 + 4 * kinds[:, 0] + 9 * kinds[:, 1])
    return np.column_stack([ranks, size, kinds]), computation, 2e-5 * surface


def test_kinds_of_elements_and_communication_measured_apart_are_found_again() -> None:
    rng = np.random.default_rng(3)
    rows, computation, communication = apart(rng)
    noisy = [part * np.exp(0.03 * rng.standard_normal(len(rows))) for part in (computation, communication)]
    model = FactorizedRegressor(fraction_columns=(2, 3)).fit(rows, sum(noisy), communication=noisy[1])
    np.testing.assert_allclose(np.exp(model.extra_), [4.0, 9.0], rtol=0.1)
    unseen, work, sent = apart(rng, 400)
    assert np.abs(np.log(model.predict(unseen) / (work + sent))).mean() < 0.05
    np.testing.assert_allclose(model.formula_(unseen), model.predict(unseen), rtol=1e-9)
    unseen[0, 2] = 0.0
    assert model.predict(unseen[:1])[0] == pytest.approx(model.formula_(unseen[:1])[0])


def test_communication_measured_apart_tells_where_the_sum_does_not() -> None:
    ranks = np.array([2.0, 4, 8])
    work, sent = 1.0 / ranks, 0.5 * ranks ** (-2 / 3)
    known = FactorizedRegressor().fit(ranks, work + sent, communication=sent)
    some = FactorizedRegressor().fit(ranks, work + sent, communication=[sent[0], np.nan, np.nan])
    sums = FactorizedRegressor().fit(ranks, work + sent)
    shares = [model.formula_.coefficients[1] for model in (known, some, sums)]
    np.testing.assert_allclose(shares[:2], 0.5, rtol=0.15)
    assert abs(np.log(shares[2] / 0.5)) > abs(np.log(shares[0] / 0.5))


@pytest.mark.parametrize(
    ("parameters", "columns", "words"),
    [
        ({"fraction_columns": (1,)}, {}, "out of 1 to 3 but the size's"),
        ({"fraction_columns": (4,)}, {}, "out of 1 to 3 but the size's"),
        ({}, {"communication": np.full(60, 1e9)}, "from 0 to below the .* s of its row"),
        ({}, {"communication": np.full(60, -1.0)}, "from 0 to below the .* s of its row"),
        ({}, {"communication": np.zeros(3)}, r"shape \(60,\)"),
    ],
)
def test_bad_communication_and_fractions_are_refused(
    parameters: dict[str, tuple[int, ...]], columns: dict[str, Array], words: str
) -> None:
    rows, computation, communication = apart(np.random.default_rng(1))
    with pytest.raises(ModelError, match=words):
        FactorizedRegressor(**parameters).fit(rows, computation + communication, **columns)  # type: ignore[arg-type]


def test_fractions_outside_of_0_to_1_are_refused() -> None:
    rows, computation, *_ = apart(np.random.default_rng(1))
    rows[2, 3] = 1.5
    with pytest.raises(ModelError, match="from 0 to 1"):
        FactorizedRegressor(fraction_columns=(2, 3)).fit(rows, computation)


def test_the_logarithm_of_time_lets_networks_reach_an_unseen_level() -> None:
    """Section 5.2 of Schröder 2019."""

    def by_level(rows: Array) -> Array:
        return np.asarray(0.01 + 2e-4 * 8 ** rows[:, 1] / rows[:, 0] ** 0.95 + 1e-3 * rows[:, 0] ** 0.3)

    ranks = np.array([28.0, 56, 84, 112, 140, 196, 224, 294, 350, 420, 504])
    seen = np.array(list(itertools.product(ranks, range(3, 8))), dtype=float)
    unseen = np.column_stack([ranks, np.full(len(ranks), 8.0)])
    noise = np.random.default_rng(0).standard_normal(len(seen))
    model = NeuralRegressor().fit(seen, by_level(seen) * np.exp(0.03 * noise))
    assert smape(by_level(seen), model.predict(seen)) < 5
    assert smape(by_level(unseen), model.predict(unseen)) < 40


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"hidden_layers": (3, 0)}, "hidden_layer_sizes"),
        ({"members": 0}, "'members' parameter of NeuralRegressor"),
    ],
)
def test_bad_parameters_of_networks_are_refused(parameters: dict[str, object], words: str) -> None:
    with pytest.raises(ModelError, match=words):
        NeuralRegressor(**parameters).fit([8, 16], [2.0, 1.0])  # type: ignore[arg-type]
