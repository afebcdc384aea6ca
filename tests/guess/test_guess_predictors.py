"""One contract for all predictors, what each is made to find again, and the history that they look back on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precice_lb.guess.predictors import LENGTH, PREDICTORS, History, Predictor

ALL = sorted(PREDICTORS)


def _followed(name: str, values: Any) -> tuple[Predictor, History, np.ndarray]:
    """A predictor that has seen all values but the last as converged, and the history without it."""
    predictor, history = PREDICTORS[name](), History()
    for value in values[:-1]:
        history.add(np.array(value, dtype=float))
        predictor.fit(history)
    return predictor, history, np.array(values[-1], dtype=float)


def _prediction(name: str, values: Any) -> np.ndarray:
    predictor, history, value = _followed(name, values)
    return predictor.predict(history, value)


def _wavy(windows: int, entries: int, seed: int = 1) -> np.ndarray:
    """Values that move by a few modes, with some noise."""
    generator = np.random.default_rng(seed)
    times = np.arange(windows)[:, None]
    modes = generator.normal(size=(3, entries))
    waves = np.hstack([np.sin(0.3 * times), np.cos(0.11 * times), 0.02 * times])
    return 5.0 + waves @ modes + 1e-4 * generator.normal(size=(windows, entries))


# --- the contract --------------------------------------------------------------------------------------------------

FIELDS: dict[str, Callable[[int], np.ndarray]] = {
    "empty": lambda windows: np.zeros((windows, 0)),
    "single": lambda windows: _wavy(windows, 1),
    "few": lambda windows: _wavy(windows, 7),
    "many": lambda windows: _wavy(windows, 3000),
    "constant": lambda windows: np.full((windows, 4), 2.5),
    "zero": lambda windows: np.zeros((windows, 4)),
    "at rest, then moving": lambda windows: np.maximum(np.arange(windows)[:, None] - windows + 3.0, 0.0) * np.ones(3),
    "moving, then at rest": lambda windows: np.minimum(np.arange(windows)[:, None], 3.0) * np.ones(3),
    "tiny": lambda windows: 1e-200 * _wavy(windows, 5),
    "huge": lambda windows: 1e100 * _wavy(windows, 5),
}


@pytest.mark.parametrize("windows", [1, 2, 3, 4, 5, 7, 8, 9, 20, LENGTH + 20])
@pytest.mark.parametrize("field", sorted(FIELDS))
@pytest.mark.parametrize("name", ALL)
def test_contract(name: str, field: str, windows: int) -> None:
    values = FIELDS[field](windows)
    predictor, history, value = _followed(name, values)
    before = value.copy(), history.increments.copy(), history.gram.copy()
    predicted = predictor.predict(history, value)
    assert predicted.shape == value.shape
    assert np.isfinite(predicted).all()
    np.testing.assert_array_equal(predicted, predictor.predict(history, value))
    for now, then in zip((value, history.increments, history.gram), before, strict=True):
        np.testing.assert_array_equal(now, then)


@pytest.mark.parametrize("name", ALL)
def test_what_does_not_move_is_predicted_to_stay(name: str) -> None:
    np.testing.assert_array_equal(_prediction(name, FIELDS["constant"](20)), 2.5)


@pytest.mark.parametrize("name", ALL)
def test_a_short_history_falls_back_on_a_lower_order(name: str) -> None:
    values = _wavy(5, 6)
    np.testing.assert_array_equal(_prediction(name, values[:1]), values[0])
    if name != "hold":
        np.testing.assert_array_equal(_prediction(name, values[:2]), _prediction("linear", values[:2]))
    if name == "reduced":
        np.testing.assert_array_equal(_prediction(name, values), _prediction("quadratic", values))


@pytest.mark.parametrize("name", ["hold", "linear", "quadratic"])
@given(seed=st.integers(0, 10**6))
def test_linear_maps_commute(name: str, seed: int) -> None:
    """What is predicted on one mesh and mapped to another is what would be predicted there."""
    generator = np.random.default_rng(seed)
    values = generator.normal(size=(generator.integers(1, 6), generator.integers(1, 9)))
    mapping = generator.normal(size=(generator.integers(1, 9), values.shape[1]))
    mapped = _prediction(name, values @ mapping.T)
    np.testing.assert_allclose(mapped, mapping @ _prediction(name, values), atol=1e-11)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("exponent", [-40, -3, 1, 50])
def test_units_do_not_matter(name: str, exponent: int) -> None:
    values = _wavy(18, 6)
    moved = float(np.abs(np.diff(values, axis=0)).max())
    scaled = _prediction(name, np.ldexp(values, exponent))
    np.testing.assert_allclose(np.ldexp(scaled, -exponent), _prediction(name, values), rtol=0.0, atol=1e-7 * moved)


# --- what was planted ----------------------------------------------------------------------------------------------


def _wrong_by(name: str, values: np.ndarray) -> float:
    """Error of the prediction of the last values, as a share of that of the value before."""
    error = np.linalg.norm(_prediction(name, values[:-1]) - values[-1])
    return float(error / np.linalg.norm(values[-1] - values[-2]))


@given(seed=st.integers(0, 10**6))
def test_a_line_and_a_parabola(seed: int) -> None:
    generator = np.random.default_rng(seed)
    coefficients = generator.normal(size=(3, 5))
    times = np.arange(generator.integers(4, 90))[:, None]
    assert _wrong_by("linear", coefficients[0] + coefficients[1] * times) < 1e-9
    assert _wrong_by("quadratic", coefficients[0] + coefficients[1] * times + coefficients[2] * times**2) < 1e-9


@pytest.mark.parametrize("lag", [2, 3, 7, 25, 29])
def test_a_period(lag: int) -> None:
    """Any shape at all, as long as it comes again."""
    generator = np.random.default_rng(lag)
    values = np.cumsum(np.tile(generator.normal(size=(lag, 6)), (5, 1)), axis=0)[: 2 * lag + 5]
    predictor, _, _ = _followed("periodic", values)
    assert vars(predictor) == {"lag": lag}
    assert _wrong_by("periodic", values) < 1e-9


def _recurrence(roots: list[complex], windows: int, entries: int) -> np.ndarray:
    """Increments of which each mode goes round or dies away at its own pace."""
    generator = np.random.default_rng(0)
    modes = generator.normal(size=(len(roots), entries)) + 1j * generator.normal(size=(len(roots), entries))
    powers = np.array(roots)[None, :] ** np.arange(windows)[:, None]
    return np.asarray(np.cumsum((powers @ modes).real, axis=0))


@pytest.mark.parametrize(
    "roots",
    [[0.9], [np.exp(0.4j)], [0.98 * np.exp(0.3j), 0.9], [np.exp(0.2j), np.exp(0.7j)], [np.exp(0.3j), -0.8, 0.95, 1.0]],
)
@pytest.mark.parametrize("entries", [40, 2000])
def test_a_linear_recurrence(roots: list[complex], entries: int) -> None:
    values = _recurrence(roots, 45, entries)
    assert _wrong_by("reduced", values) < 1e-2
    assert _wrong_by("reduced", values) < 0.5 * min(_wrong_by("quadratic", values), _wrong_by("linear", values))


# --- history -------------------------------------------------------------------------------------------------------


@given(seed=st.integers(0, 10**6), windows=st.integers(0, 260), entries=st.integers(0, 6))
def test_history_is_what_numpy_says(seed: int, windows: int, entries: int) -> None:
    values = np.random.default_rng(seed).normal(size=(windows, entries)) * 10.0 ** (seed % 7 - 3)
    history = History()
    for number, value in enumerate(values):
        history.add(value)
        increments = np.diff(values[: number + 1], axis=0)[-LENGTH:]
        assert len(history) == len(increments)
        assert history.last is value
        np.testing.assert_array_equal(history.increments, increments)
        if number % 17 == 0 or number == windows - 1:
            scale = np.abs(increments).max(initial=0.0) ** 2
            np.testing.assert_allclose(history.gram, increments @ increments.T, rtol=1e-13, atol=1e-14 * scale)
    assert history.gram.shape == (len(history), len(history))


def test_history_keeps_no_more_than_it_says() -> None:
    history = History()
    for value in np.random.default_rng(0).normal(size=(500, 1000)):
        history.add(value)
    assert len(history) == LENGTH
    assert history.increments.base is not None
    assert history.increments.base.nbytes <= 1.25 * LENGTH * 1000 * 8
