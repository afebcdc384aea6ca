"""Neural networks: the unseen level of Schröder's section 5.2, determinism, intervals, printers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray

from precice_lb.exceptions import ModelError
from precice_lb.models.published.hypotheses import smape
from precice_lb.models.published.neural import NeuralRegressor

Array = NDArray[np.float64]
RANKS = np.array([28.0, 56, 84, 112, 140, 196, 224, 294, 350, 420, 504])


def solver(rows: Array) -> Array:
    return np.asarray(0.01 + 2e-4 * 8 ** rows[:, 1] / rows[:, 0] ** 0.95 + 1e-3 * rows[:, 0] ** 0.3)


@pytest.mark.parametrize("log_inputs", [False, True])
def test_the_logarithm_of_time_lets_networks_reach_an_unseen_level(log_inputs: bool) -> None:
    seen = np.array(list(itertools.product(RANKS, range(3, 8))), dtype=float)
    unseen = np.column_stack([RANKS, np.full(len(RANKS), 8.0)])
    noise = np.random.default_rng(0).standard_normal(len(seen))
    model = NeuralRegressor(log_inputs=log_inputs).fit(seen, solver(seen) * np.exp(0.03 * noise))
    assert smape(solver(seen), model.predict(seen)) < 5
    assert smape(solver(unseen), model.predict(unseen)) < 40
    low, high = model.predict_interval(unseen, 0.95)
    inner_low, inner_high = model.predict_interval(seen, 0.95)
    # Networks drift apart where nothing was measured.
    assert np.median(high / low) > np.median(inner_high / inner_low)


def test_seeds_decide() -> None:
    y = 100 / RANKS
    first, again, other = (NeuralRegressor(random_state=seed).fit(RANKS, y).predict([40]) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_adam_and_other_sizes_train_too() -> None:
    y = 100 / RANKS
    model = NeuralRegressor(solver="adam", hidden_layers=(10, 10, 10), members=2, max_iter=2000, log_inputs=True).fit(
        RANKS, y
    )
    np.testing.assert_allclose(model.predict(RANKS), y, rtol=0.3)


def test_printers() -> None:
    rows = np.array(list(itertools.product([8.0, 16, 32], [1.0, 2])))
    model = NeuralRegressor(hidden_layers=(4, 3), members=2, log_inputs=True).fit(rows, rows[:, 1] / rows[:, 0])
    formula = model.formula()
    assert "mean of 2 networks of 4 + 3 neurons in log2(p), log2(x1))" in formula.text()
    assert formula(np.array([[12.0, 1.5]]))[0] == pytest.approx(model.predict([[12.0, 1.5]])[0], rel=1e-12)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"hidden_layers": ()}, "hidden_layers"),
        ({"hidden_layers": (3, 0)}, "hidden_layers"),
        ({"members": 1}, "2 or more members"),
        ({"solver": "sgd"}, "solver out of lbfgs, adam"),
        ({"alpha": -1.0}, "alpha"),
        ({"max_iter": 0}, "max_iter"),
    ],
)
def test_bad_parameters_are_refused(parameters: dict[str, object], words: str) -> None:
    with pytest.raises(ModelError, match=words):
        NeuralRegressor(**parameters).fit([8, 16], [2.0, 1.0])  # type: ignore[arg-type]


def test_logarithms_of_levels_from_zero_on_are_refused() -> None:
    rows = np.array([[8.0, 0.0], [16.0, 1.0]])
    NeuralRegressor(members=2, hidden_layers=(3,)).fit(rows, [2.0, 1.0])
    with pytest.raises(ModelError, match="above 0 for log_inputs"):
        NeuralRegressor(log_inputs=True).fit(rows, [2.0, 1.0])
