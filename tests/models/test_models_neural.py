"""Neural networks: the unseen level of Schröder's section 5.2, and determinism."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray

from precice_lb.exceptions import ModelError
from precice_lb.models.published.factorized import NeuralRegressor
from precice_lb.models.published.normal_form import smape

Array = NDArray[np.float64]
RANKS = np.array([28.0, 56, 84, 112, 140, 196, 224, 294, 350, 420, 504])


def solver(rows: Array) -> Array:
    return np.asarray(0.01 + 2e-4 * 8 ** rows[:, 1] / rows[:, 0] ** 0.95 + 1e-3 * rows[:, 0] ** 0.3)


def test_the_logarithm_of_time_lets_networks_reach_an_unseen_level() -> None:
    seen = np.array(list(itertools.product(RANKS, range(3, 8))), dtype=float)
    unseen = np.column_stack([RANKS, np.full(len(RANKS), 8.0)])
    noise = np.random.default_rng(0).standard_normal(len(seen))
    model = NeuralRegressor().fit(seen, solver(seen) * np.exp(0.03 * noise))
    assert smape(solver(seen), model.predict(seen)) < 5
    assert smape(solver(unseen), model.predict(unseen)) < 40


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"hidden_layers": (3, 0)}, "hidden_layer_sizes"),
        ({"members": 0}, "'members' parameter of NeuralRegressor"),
        ({"solver": "newton"}, "solver"),
        ({"alpha": -1.0}, "alpha"),
        ({"max_iter": 0}, "max_iter"),
    ],
)
def test_bad_parameters_are_refused(parameters: dict[str, object], words: str) -> None:
    with pytest.raises(ModelError, match=words):
        NeuralRegressor(**parameters).fit([8, 16], [2.0, 1.0])  # type: ignore[arg-type]
