"""Past time windows, predictions of the next one from them, which predictor is taken, and the change of variables.

In time window n + 1, of length T, delta goes linearly from delta_n to delta_{n+1} = p_{n+1} - z_n, where p_{n+1} is the
prediction and z_n what the last window ended with. preCICE starts a window's iterations from the constant z_n, which
then is x_n at the window's start and p_{n+1} at its end, on both sides. Differences between iterations, hence residuals
and quasi-Newton's secants, and all linear mappings are what they are without it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

LENGTH = 60
"""Increments that are kept."""

# Rows beyond these, so that most windows move nothing.
_SPARE = 12


class History:
    """Converged values of one rank's entries, of which the last and up to `LENGTH` increments are kept.

    Attributes
    ----------
    last : array of shape (entries,) or None
        Value at the end of the last converged time window; None before the first.
    """

    def __init__(self) -> None:
        self.last: Array | None = None
        self._rows = np.empty((0, 0))
        self._gram = np.zeros((LENGTH, LENGTH))
        self._end = 0

    def __len__(self) -> int:
        return min(self._end, LENGTH)

    @property
    def increments(self) -> Array:
        """The last increments, of shape (number, entries), the newest last."""
        return self._rows[max(self._end - LENGTH, 0) : self._end]

    @property
    def gram(self) -> Array:
        """Scalar products of `increments` with one another."""
        return self._gram[LENGTH - len(self) :, LENGTH - len(self) :]

    def add(self, value: Array) -> None:
        """Take the value with which a time window has converged."""
        if self.last is None:
            # The system gives memory as it is written to.
            self._rows = np.empty((LENGTH + _SPARE, len(value)))
        else:
            self._append(value - self.last)
        self.last = value

    def _append(self, increment: Array) -> None:
        if self._end == len(self._rows):
            kept = self.increments[1 - LENGTH :]
            self._rows[: len(kept)] = kept
            self._end = len(kept)
        self._rows[self._end] = increment
        self._end += 1
        products = self.increments @ increment
        self._gram[:-1, :-1] = self._gram[1:, 1:]
        self._gram[-1, LENGTH - len(self) :] = self._gram[LENGTH - len(self) :, -1] = products


# Of the reduced predictors: modes and their smallest share of the largest one, and increments that each is made from.
_MODES = 8
_CUT = 1e-5
_ORDER = 3
_RIDGE = 1e-8


class Extrapolation:
    """Predicts the values with which the time window after the current one ends: by a line or parabola, by degree.

    ``predict`` takes what the current window ends with, as far as its iterations have come, and changes nothing;
    ``fit`` is called when a window has converged. A predictor whose history is too short predicts what the one of
    lower order does: the last value in the end, preCICE's own first guess.
    """

    def __init__(self, degree: int) -> None:
        self._degree = degree

    def fit(self, history: History) -> None:
        """Learn from the windows so far."""

    def predict(self, history: History, value: Array) -> Array:
        """Predict from converged windows and the current one's ``value``; both of shape (entries,)."""
        if history.last is None:
            return value
        if self._degree == 1 or not len(history):
            return 2.0 * value - history.last
        return np.asarray(3.0 * (value - history.last) + history.last - history.increments[-1])


class Periodic(Extrapolation):
    """The increment of one period ago; the period is the lag by which the increments repeat themselves best."""

    def __init__(self) -> None:
        super().__init__(1)
        self.lag = 0

    def fit(self, history: History) -> None:
        """Find the lag with the least mean square of what the increments differ by, over all that are known."""
        gram, count = history.gram, len(history)
        squares = gram.diagonal()
        # A lag needs to be seen repeated: at least half of the increments have one before them.
        errors = [
            (squares[lag:] + squares[:-lag] - 2.0 * gram.diagonal(lag)).sum() / (count - lag)
            for lag in range(1, count // 2 + 1)
        ]
        self.lag = 1 + int(np.argmin(errors)) if errors else 0

    def predict(self, history: History, value: Array) -> Array:
        """Add the increment that came one period before the next one."""
        if not 1 < self.lag <= len(history) + 1:
            return super().predict(history, value)
        return np.asarray(value + history.increments[len(history) + 1 - self.lag])


class Reduced(Extrapolation):
    """Ridge regression of each increment on the three before, in the modes that the increments have in common.

    The modes are those of a proper orthogonal decomposition; predicting their coefficients is the method of A.
    Totounferoush, Data-integrated methods for performance improvement of massively parallel coupled simulations, PhD
    thesis, Stuttgart 2022, chapter 4, with a linear model in place of a network.
    """

    def __init__(self) -> None:
        super().__init__(2)
        self._modes: Array | None = None

    def fit(self, history: History) -> None:
        """Decompose the increments and learn how their coefficients follow one another."""
        count = len(history)
        if count < 2 * _ORDER:
            return
        values, vectors = np.linalg.eigh(history.gram)
        kept = np.flatnonzero(values > values[-1] * _CUT**2)[::-1][:_MODES]
        scales = np.sqrt(values[kept])
        coefficients = vectors[:, kept] * scales
        features = _features(coefficients)[:-1]
        self._modes = None
        # What has only begun to move follows from nothing yet.
        if np.any(features):
            # A regression, all inputs scaled alike.
            products = features.T @ features
            products[np.diag_indices_from(products)] += _RIDGE * np.trace(products)
            self._weights = np.linalg.solve(products, features.T @ coefficients[_ORDER:])
            self._modes = (vectors[:, kept] / scales).T @ history.increments

    def predict(self, history: History, value: Array) -> Array:
        """Add the increment whose coefficients are predicted."""
        if self._modes is None or history.last is None:
            return super().predict(history, value)
        latest = np.vstack([history.increments[1 - _ORDER :], value - history.last])
        return np.asarray(value + (_features(latest @ self._modes.T) @ self._weights)[0] @ self._modes)


def _features(coefficients: Array) -> Array:
    """Stand each increment's coefficients beside those of the ones before; rows from the first that has all."""
    count = len(coefficients)
    return np.hstack([coefficients[lag : count - _ORDER + 1 + lag] for lag in range(_ORDER)])


CANDIDATES: dict[str, Callable[[], Extrapolation]] = {
    "linear": partial(Extrapolation, 1),
    "quadratic": partial(Extrapolation, 2),
    "periodic": Periodic,
    "reduced": Reduced,
}
"""Predictors by name, beside which there is ``hold``: the last value, which is preCICE's own first guess."""

# Windows over which errors of predictions are compared.
_RECENT = 8

# Of `PredictionController`, in windows: to hold at first, of these not counted, to predict before the first verdict, to
# hold after a bad one, to predict before a probe. Then which share of hold's iterations predictions may take at most.
_START, _SETTLED, _TRIAL, _PAUSE, _PROBE = 7, 3, 4, 8, 48
_GAIN = 0.93
# After fewer windows predictions are not wanted any more if they have cost so much of a window more than hold does.
_LOSS = 0.5


class Guesser:
    """Predicts one field of one rank, by the predictor whose predictions have been best of late.

    ``initial`` is what the field starts from, where that is known.

    Attributes
    ----------
    name : str
        Predictor that made the first guess of the last converged time window.
    error : float
        Norm of what that guess was wrong by, as a share of what the last value would have been wrong by; NaN where
        there is none.
    """

    def __init__(self, initial: Array | None = None) -> None:
        self._predictors = {name: make() for name, make in CANDIDATES.items()}
        self._best = "hold"
        self._history = History()
        if initial is not None:
            self._history.add(initial)
        # Of each predictor: errors of late, and what it has predicted for the current window.
        self._errors: dict[str, list[float]] = {name: [] for name in CANDIDATES}
        self._predicted: dict[str, Array] = {}
        # Who made this window's first guess and which, and the same of the next one.
        self._started: tuple[str, Array | None] = ("hold", None)
        self._proposed: tuple[str, Array | None] = ("hold", None)
        self.name, self.error = "hold", math.nan

    def propose(self, value: Array, *, wanted: bool) -> Array:
        """Return the first guess of the next time window, if this one ends with ``value``: a prediction or just it."""
        name = self._best if wanted else "hold"
        guess = value if name == "hold" else self._predictors[name].predict(self._history, value)
        if not np.all(np.isfinite(guess)):
            raise ArithmeticError(f"expected finite predictions of {name}, found others")
        self._proposed = name, guess
        return guess

    def converged(self, value: Array, *, fit: bool) -> None:
        """Take a converged value, judge predictions by it, and choose a predictor; ``fit`` is whether all learn."""
        last = self._history.last
        self.name, guess = self._started
        self._started = self._proposed
        scale = math.nan if last is None else float(np.linalg.norm(value - last))
        self.error = math.nan if guess is None or not scale > 0.0 else float(np.linalg.norm(value - guess)) / scale
        for name, predicted in self._predicted.items():
            error = float(np.linalg.norm(value - predicted)) / scale if scale > 0.0 else 1.0
            self._errors[name] = [*self._errors[name][1 - _RECENT :], error]
        self._predicted = {
            name: predictor.predict(self._history, value) for name, predictor in self._predictors.items()
        }
        means = {name: float(np.mean(errors)) for name, errors in self._errors.items() if errors}
        self._best = min(means, key=means.__getitem__, default="hold")
        self._history.add(value)
        if fit:
            for predictor in self._predictors.values():
                predictor.fit(self._history)

    def give_up(self) -> None:
        """Hold from now on."""
        self._predictors, self._predicted, self._errors = {}, {}, {}
        self._best, self._proposed = "hold", ("hold", None)


class PredictionController:
    """Decides, by counting coupling iterations alone, whether a time window starts from a prediction.

    Every rank of every participant counts the same, so all decide alike without a word. It holds at first, which tells
    how many iterations a window takes without predictions; then it predicts, as long as windows take fewer, with a
    window of hold now and then to see whether that still is so. Where they do not take fewer, it holds again, three
    times as long each time. What a window is to start from has been sent when the one before it ends, so a decision is
    of the next but one.
    """

    def __init__(self) -> None:
        self._baseline = 0.0
        self._holds: list[int] = []
        self._guesses: list[int] = []
        # Windows still to hold, how many the next time, and windows of predictions before the next probe.
        self._left, self._pause, self._probe = _START, _PAUSE, _PROBE
        self._probing = False

    def count(self, guessed: bool, iterations: int) -> None:
        """Take a converged window's iterations."""
        if not guessed:
            self._holds.append(iterations)
            if self._probing:
                self._probed(iterations)
            else:
                self._baseline = float(np.mean(self._holds[_SETTLED:] or self._holds))
        elif self._left <= 0:
            self._guesses.append(iterations)
            count = len(self._guesses)
            lost = sum(self._guesses) - count * self._baseline if count < _TRIAL else 0.0
            if lost > _LOSS * self._baseline or (count >= _TRIAL and self._mean() > _GAIN * self._baseline):
                self._hold(self._pause)
                self._pause *= 3
            elif count % self._probe == 0:
                self._left, self._probing = 1, True
                self._probe *= 2

    def wants(self) -> bool:
        """Whether the window after the current one is to start from a prediction; to be asked once in each."""
        self._left -= 1
        return self._left < 0

    def _probed(self, iterations: int) -> None:
        """Go on predicting, unless the window that held took no more iterations than predictions do."""
        self._probing = False
        if iterations <= self._mean():
            self._hold(_START)

    def _hold(self, windows: int) -> None:
        self._left, self._holds, self._guesses, self._probing = windows, [], [], False

    def _mean(self) -> float:
        """Return the mean iterations of late with predictions."""
        return float(np.mean(self._guesses[-_RECENT:]))


# What a solver's last step may lack to the end of its window, as a share of the window.
_TOLERANCE = 1e-9
# By how much the norm of z may differ from that of x where convergence is judged relative to it, and of how many
# windows the norm of x is.
_NORMS, _WINDOWS = 3.0, 60
# Aitken's factor is zero over zero where a residual repeats itself to the last digit. That of a single number may, the
# more so the coarser its rounding is, and shifted values can be larger than those of the solver. So many roundings in
# every other iteration keep residuals apart.
_NUDGE = 16


class Position:
    """Where a solver is within its time window, which is ``length`` long in simulated seconds."""

    def __init__(self, length: float) -> None:
        self._length, self._done = length, 0.0

    def start_window(self, length: float | None = None) -> None:
        """Begin a time window, or the same one again."""
        self._length, self._done = length or self._length, 0.0

    def after(self, step: float) -> float:
        """Return the part of the window that is over after a further step, from 0 to 1."""
        part = (self._done + step) / self._length
        return 1.0 if part > 1.0 - _TOLERANCE else part

    def move(self, step: float) -> None:
        """Go on by a step within the window."""
        self._done += step


class Delta:
    """The shift of one field at one rank, in the current time window.

    ``degree`` is that of the field's waveform; at degree 0 the shift is constant within a window, as the field is.
    """

    def __init__(self, shape: tuple[int, ...], degree: int) -> None:
        self._start = np.zeros(shape)
        self._end = np.zeros(shape)
        self._constant = degree == 0

    def at(self, part: float) -> Array:
        """Return the shift after a part of the time window, from 0 to 1."""
        if part <= 0.0 or part >= 1.0 or self._constant:
            return self._end if part > 0.0 else self._start
        return self._start + (self._end - self._start) * part

    def start_window(self, predicted: Array, shifted: Array, ids: Any = slice(None)) -> None:
        """Go on to the time window that is predicted to end with ``predicted``, from the last one's ``shifted``.

        ``ids`` are the vertices that these are of.
        """
        self._start, self._end = self._end, np.zeros_like(self._end)
        self._end[ids] = predicted - shifted


class Sent:
    """What a rank writes of one field: the solver's values in this step, and what the last iteration ended with.

    ``relaxed`` is whether the shifted values are relaxed, ``relative`` whether convergence is judged relative to their
    norm. That may then not stray from the norm of the solver's values: ``astray`` is whether it has. Without
    predictions both change alike.
    """

    def __init__(self, shape: tuple[int, ...], degree: int, *, relaxed: bool, relative: bool) -> None:
        self.delta = Delta(shape, degree)
        self.values = np.zeros(shape)
        self.shifted = self.predicted = np.zeros(shape)
        self.astray = self._nudges = False
        self._relaxed = relaxed
        self._relative = relative
        self._squares: list[float] = []

    def write(self, ids: Any, values: Any) -> None:
        """Take the solver's values at some vertices, in all forms that preCICE takes them, such as a column."""
        some = np.asarray(ids, dtype=np.int32)
        self.values[some] = np.reshape(values, (len(some), *self.values.shape[1:]))

    def shift(self, part: float) -> None:
        """Shift the solver's values after a part of the time window, from 0 to 1."""
        delta = self.delta.at(part)
        self.shifted = self.values - delta
        if part >= 1.0 and self._relaxed and np.any(delta):
            if self._nudges:
                self.shifted = self.shifted + _NUDGE * np.spacing(np.abs(self.values) + np.abs(delta))
            self._nudges = not self._nudges

    def clear(self) -> None:
        """Forget the solver's values of a step, as preCICE does."""
        self.values = np.zeros_like(self.values)

    def converged(self) -> None:
        """Go on to the next time window."""
        self.delta.start_window(self.predicted, self.shifted)
        self._nudges = False
        if self._relative:
            self._squares = [*self._squares[1 - _WINDOWS :], float(np.vdot(self.values, self.values))]
            typical, norm = float(np.mean(self._squares)) ** 0.5, float(np.linalg.norm(self.shifted))
            self.astray = not typical / _NORMS <= norm <= typical * _NORMS
