"""One contract for all predictors, what each is made to find again, and the history that they look back on."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precice_lb.guess import predictors
from precice_lb.guess.predictors import CANDIDATES, LENGTH, Extrapolation, Guesser, History, PredictionController

ALL = sorted(CANDIDATES)


def _followed(name: str, values: Any) -> tuple[Extrapolation, History, np.ndarray]:
    """A predictor that has seen all values but the last as converged, and the history without it."""
    predictor, history = CANDIDATES[name](), History()
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
    # What does not move is predicted to stay.
    assert field != "constant" or (predicted == 2.5).all()
    np.testing.assert_array_equal(predicted, predictor.predict(history, value))
    for now, then in zip((value, history.increments, history.gram), before, strict=True):
        np.testing.assert_array_equal(now, then)


@pytest.mark.parametrize("name", ["linear", "quadratic"])
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
    assert isinstance(predictor, predictors.Periodic)
    assert predictor.lag == lag
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


# --- Guesser -------------------------------------------------------------------------------------------------------


def _run(guesser: Guesser, values: np.ndarray) -> list[tuple[str, float]]:
    """Give windows of two iterations each; return who made each window's guess and its error."""
    made = []
    for value in values:
        guesser.propose(value + 0.1, wanted=True)
        guesser.propose(value, wanted=True)
        guesser.converged(value, fit=True)
        made.append((guesser.name, guesser.error))
    return made


def _planted(name: str, windows: int) -> np.ndarray:
    """Values that one predictor knows to go on, and the others do not."""
    generator = np.random.default_rng(7)
    times, modes = np.arange(windows)[:, None], generator.normal(size=(3, 12))
    if name in ("linear", "quadratic"):
        # Each increment is the one before, or goes on as the last two do, and something that nobody knows.
        values = generator.normal(size=(windows, 12))
        for _ in range(2 if name == "linear" else 3):
            values = np.cumsum(values, axis=0)
        return values
    if name == "periodic":
        shape = generator.normal(size=(9, 12))
        return np.cumsum(np.tile(shape - shape.mean(axis=0), (windows // 9 + 1, 1))[:windows], axis=0)
    return np.hstack([np.sin(0.9 * times), np.cos(0.5 * times), np.sin(0.23 * times)]) @ modes


@pytest.mark.parametrize("name", ["linear", "quadratic", "periodic", "reduced"])
def test_the_planted_best_is_chosen(name: str) -> None:
    made = _run(Guesser(), _planted(name, 50))
    names = [made_by for made_by, _ in made[-15:]]
    assert names.count(name) >= 14, names
    assert np.median([error for _, error in made[-15:]]) < 0.5


@pytest.fixture
def linear_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other predictor comes into question."""
    monkeypatch.setattr(predictors, "CANDIDATES", {"linear": CANDIDATES["linear"]})


@pytest.mark.usefixtures("linear_alone")
def test_the_error_is_that_of_the_guess_over_that_of_the_last_value() -> None:
    values = np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0], [5.0, 4.0], [5.0, 9.0]])
    names, errors = zip(*_run(Guesser(), values), strict=True)
    # The guesses: none, then the last value, then twice a line, which the second window was the first to tell of.
    assert names == ("hold", "hold", "hold", "linear", "linear")
    assert errors[1:] == pytest.approx((1.0, 1.0, np.hypot(2.0, 4.0) / 5.0, np.hypot(3.0, 1.0) / 5.0))


# --- PredictionController ---

World = Callable[[int], tuple[int, int]]
WINDOWS = 300


def _simulate(world: World, windows: int = WINDOWS) -> tuple[int, int, int, list[bool]]:
    """Run windows that take what a world says, held or guessed; return auto's iterations, hold's, and predictions'.

    As in a run: what a window starts from was decided when the last but one ended.
    """
    guard, other = PredictionController(), PredictionController()
    guessed = following = False
    total = held = predicted = 0
    decisions = []
    for window in range(windows):
        pair = world(window)
        taken = pair[guessed]
        total, held, predicted = total + taken, held + pair[0], predicted + pair[1]
        decisions.append(guessed)
        guard.count(guessed, taken)
        other.count(guessed, taken)
        guessed, following = following, guard.wants()
        assert following == other.wants()
    return total, held, predicted, decisions


def _world(hold: float, factor: float, noise: float, seed: int) -> World:
    generator = np.random.default_rng(seed)

    def iterations(_: int) -> tuple[int, int]:
        both = (hold * share + noise * generator.normal() for share in (1.0, factor))
        return tuple(max(1, round(count)) for count in both)  # type: ignore[return-value]

    return iterations


@given(
    hold=st.floats(3.0, 20.0), factor=st.floats(0.2, 1.5), noise=st.sampled_from([0.0, 0.5]), seed=st.integers(0, 10**6)
)
def test_never_much_worse_than_holding(hold: float, factor: float, noise: float, seed: int) -> None:
    total, held, predicted, _ = _simulate(_world(hold, factor, noise, seed))
    # Of 300 windows some 20 find out; the last iteration of one is as good as none.
    assert total <= (1.01 + 0.08 * max(predicted / held - 1.0, 0.0)) * held


@given(hold=st.floats(5.0, 20.0), factor=st.floats(0.3, 0.75), seed=st.integers(0, 10**6))
def test_near_the_best_where_predictions_help(hold: float, factor: float, seed: int) -> None:
    total, held, predicted, decisions = _simulate(_world(hold, factor, 0.4, seed))
    assert total <= predicted + 0.08 * (held - predicted) + 0.02 * held
    assert sum(decisions) >= 0.9 * WINDOWS


def test_a_world_in_which_predictions_cease_to_help() -> None:
    before, after = _world(8.0, 0.6, 0.4, 1), _world(8.0, 1.4, 0.4, 2)
    total, held, _, decisions = _simulate(lambda window: (before if window < 150 else after)(window))
    assert sum(decisions[20:150]) >= 120
    # Some windows to notice, and then trials that come ever more rarely.
    assert sum(decisions[150:180]) <= 15
    assert sum(decisions[180:]) <= 30
    assert total < 0.87 * held


def _stretches(world: World) -> list[tuple[bool, int]]:
    """Return whether windows start from predictions, and how many in a row do, of all but the last stretch."""
    _, _, _, decisions = _simulate(world)
    return [(guessed, len(list(windows))) for guessed, windows in itertools.groupby(decisions)][:-1]


# In each of these the first three windows take three times as long, which the baseline of 100 leaves out. What a window
# starts from is decided when the last but one ends: predictions begin after 7 windows and 2 more, and the verdict on
# the fourth of them holds from the sixth on.
def test_predictions_go_on_where_they_take_0_93_of_the_iterations_with_windows_to_compare() -> None:
    stretches = _stretches(lambda window: (300 if window < 3 else 100, 93))

    # After 48, 96 and 192 windows of predictions one holds.
    assert stretches == [(False, 9), (True, 49), (False, 1), (True, 48), (False, 1), (True, 96), (False, 1)]


def test_windows_hold_three_times_as_long_each_time_that_predictions_do_not_pay() -> None:
    stretches = _stretches(lambda window: (300 if window < 3 else 100, 94))

    assert stretches == [
        (False, 9), (True, 5), (False, 8), (True, 5), (False, 24), (True, 5), (False, 72), (True, 5),
    ]  # fmt: skip


def test_the_last_eight_windows_tell_whether_predictions_still_pay() -> None:
    # From window 31 on predictions take 94: the mean of eight is above 93 when all of them are of these, in window 38.
    stretches = _stretches(lambda window: (100, 50 if window < 30 else 94))

    assert stretches[:3] == [(False, 9), (True, 39 - 9), (False, 8)]
