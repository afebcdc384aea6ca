"""Factorised terms: planted work and surface are found again, also for a mesh never measured."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray

from precice_lb.exceptions import ModelError
from precice_lb.models.published.factorized import FactorizedRegressor

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


def test_a_level_of_refinement_is_as_good_as_the_number_of_elements() -> None:
    rng = np.random.default_rng(2)
    for dimensions in (2, 3):
        levels = np.array(list(itertools.product([16.0, 32, 64, 128, 256], [4.0, 5, 6, 7])))
        elements = levels * [1.0, 0.0] + np.column_stack([np.zeros(20), 2.0 ** (dimensions * levels[:, 1])])
        y = solver(elements, dimensions=dimensions) * np.exp(0.03 * rng.standard_normal(20))
        by_level = FactorizedRegressor(dimensions=dimensions).fit(levels, y)
        by_elements = FactorizedRegressor(dimensions=dimensions).fit(elements, y)
        assert by_level.level_
        assert not by_elements.level_
        finer = np.array([[64.0, 9.0], [512.0, 9.0]])
        more = np.column_stack([finer[:, 0], 2.0 ** (dimensions * finer[:, 1])])
        np.testing.assert_allclose(by_level.predict(finer), by_elements.predict(more), rtol=1e-3)
        np.testing.assert_allclose(by_level.formula_(finer), by_level.predict(finer), rtol=1e-9)
        np.testing.assert_allclose(by_level.predict(finer), solver(more, dimensions=dimensions), rtol=0.25)
        assert f"({2**dimensions}^x1)^" in by_level.formula_.text()


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


def apart(rng: np.random.Generator, rows: int = 60) -> tuple[Array, Array, Array, Array]:
    """Solvers with two kinds of costly elements, and partitions whose surfaces are not those of cubes."""
    size = rng.uniform(1e4, 1e6, rows)
    ranks = rng.choice([8.0, 16, 32, 64], rows)
    kinds = rng.dirichlet([1.0, 1.0, 2.0], rows)[:, :2]
    surface = 7.0 * (size / ranks) ** 0.58 * np.exp(0.1 * rng.standard_normal(rows))
    computation = 1e-5 * size / ranks * (1 + 4 * kinds[:, 0] + 9 * kinds[:, 1])
    return np.column_stack([ranks, size, kinds]), computation, 2e-5 * surface, surface


def test_kinds_of_elements_and_communication_measured_apart_are_found_again() -> None:
    rng = np.random.default_rng(3)
    rows, computation, communication, surface = apart(rng)
    noisy = [part * np.exp(0.03 * rng.standard_normal(len(rows))) for part in (computation, communication)]
    model = FactorizedRegressor(fraction_columns=(2, 3)).fit(rows, sum(noisy), communication=noisy[1], surface=surface)
    np.testing.assert_allclose(np.exp(model.extra_), [4.0, 9.0], rtol=0.1)
    assert model.surface_[1] == pytest.approx(0.58, abs=0.03)
    unseen, work, sent, partitions = apart(rng, 400)
    np.testing.assert_allclose(model.predict(unseen, surface=partitions), work + sent, rtol=0.15)
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
        ({"fraction_columns": (1,)}, {}, "out of 1 to 3 but 1"),
        ({"fraction_columns": (4,)}, {}, "out of 1 to 3 but 1"),
        ({}, {"communication": np.full(60, 1e9)}, "from 0 to below the seconds"),
        ({}, {"communication": np.full(60, -1.0)}, "from 0 to below the seconds"),
        ({}, {"communication": np.zeros(3)}, r"shape \(60,\)"),
        ({}, {"surface": np.zeros(60)}, "surfaces above 0"),
        ({}, {"surface": np.where(np.arange(60) > 3, 1.0, np.nan)}, "of all rows or of none"),
    ],
)
def test_bad_communication_surfaces_and_fractions_are_refused(
    parameters: dict[str, tuple[int, ...]], columns: dict[str, Array], words: str
) -> None:
    rows, computation, communication, _ = apart(np.random.default_rng(1))
    with pytest.raises(ModelError, match=words):
        FactorizedRegressor(**parameters).fit(rows, computation + communication, **columns)  # type: ignore[arg-type]


def test_fractions_outside_of_0_to_1_are_refused() -> None:
    rows, computation, *_ = apart(np.random.default_rng(1))
    rows[2, 3] = 1.5
    with pytest.raises(ModelError, match="from 0 to 1"):
        FactorizedRegressor(fraction_columns=(2, 3)).fit(rows, computation)
