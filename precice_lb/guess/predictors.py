"""Predictors: the values with which the next time window will end, from those of the windows before."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.guess.history import History

Array = NDArray[np.float64]

# Of the reduced predictors: modes and their smallest share of the largest one, and increments that each is made from.
_MODES = 8
_CUT = 1e-5
_ORDER = 3
_RIDGE = 1e-8


class Predictor(ABC):
    """Predicts the values with which the time window after the current one ends.

    ``predict`` takes what the current window ends with, as far as its iterations have come, and changes nothing;
    ``fit`` is called when a window has converged. A predictor whose history is too short predicts what the one of
    lower order does: the last value in the end, preCICE's own first guess.
    """

    def fit(self, history: History) -> None:  # noqa: B027 (most have nothing to learn)
        """Learn from the windows so far."""

    @abstractmethod
    def predict(self, history: History, value: Array) -> Array:
        """Predict from converged windows and the current one's ``value``; both of shape (entries,)."""


class Hold(Predictor):
    """The last value: preCICE's own first guess."""

    def predict(self, history: History, value: Array) -> Array:
        """Return the value itself."""
        return value


class Linear(Predictor):
    """A straight line through the last two values."""

    def predict(self, history: History, value: Array) -> Array:
        """Extrapolate from two values, or one."""
        return value if history.last is None else 2.0 * value - history.last


class Quadratic(Predictor):
    """A parabola through the last three values."""

    def predict(self, history: History, value: Array) -> Array:
        """Extrapolate from three values, or fewer."""
        if history.last is None or not len(history):
            return Linear().predict(history, value)
        return np.asarray(3.0 * (value - history.last) + history.last - history.increments[-1])


class Periodic(Predictor):
    """The increment of one period ago; the period is the lag by which the increments repeat themselves best."""

    def __init__(self) -> None:
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
            return Linear().predict(history, value)
        return np.asarray(value + history.increments[len(history) + 1 - self.lag])


class Reduced(Predictor):
    """Ridge regression of each increment on the three before, in the modes that the increments have in common.

    The modes are those of a proper orthogonal decomposition; predicting their coefficients is the method of A.
    Totounferoush, Data-integrated methods for performance improvement of massively parallel coupled simulations, PhD
    thesis, Stuttgart 2022, chapter 4, with a linear model in place of a network.
    """

    def __init__(self) -> None:
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
            self._learn(features, coefficients[_ORDER:])
            self._modes = (vectors[:, kept] / scales).T @ history.increments

    def _learn(self, features: Array, targets: Array) -> None:
        """Fit the regression, all inputs scaled alike."""
        products = features.T @ features
        products[np.diag_indices_from(products)] += _RIDGE * np.trace(products)
        self._weights = np.linalg.solve(products, features.T @ targets)

    def _next(self, features: Array) -> Array:
        """Predict the coefficients of the next increment."""
        return np.asarray(features @ self._weights)

    def predict(self, history: History, value: Array) -> Array:
        """Add the increment whose coefficients are predicted."""
        if self._modes is None or history.last is None:
            return Quadratic().predict(history, value)
        latest = np.vstack([history.increments[1 - _ORDER :], value - history.last])
        return np.asarray(value + self._next(_features(latest @ self._modes.T))[0] @ self._modes)


def _features(coefficients: Array) -> Array:
    """Stand each increment's coefficients beside those of the ones before; rows from the first that has all."""
    count = len(coefficients)
    return np.hstack([coefficients[lag : count - _ORDER + 1 + lag] for lag in range(_ORDER)])


class Neural(Reduced):
    """A network of scikit-learn's on the coefficients: the kind of model of the thesis that `Reduced` names."""

    def __init__(self) -> None:
        super().__init__()
        self._network: Any = None

    def _learn(self, features: Array, targets: Array) -> None:
        # Loaded only where it is asked for: it takes a second.
        from sklearn.neural_network import MLPRegressor

        self._scale = float(np.abs(features).max()) or 1.0
        self._network = MLPRegressor(hidden_layer_sizes=(32,), solver="lbfgs", alpha=1e-6, max_iter=200, random_state=0)
        with warnings.catch_warnings():
            # Its predictions are judged, not how far it has come; and it takes a single mode in a column ill.
            warnings.simplefilter("ignore")
            self._network.fit(features / self._scale, targets / self._scale)

    def _next(self, features: Array) -> Array:
        return np.asarray(self._network.predict(features / self._scale)).reshape(1, -1) * self._scale


PREDICTORS: dict[str, type[Predictor]] = {
    "hold": Hold,
    "linear": Linear,
    "quadratic": Quadratic,
    "periodic": Periodic,
    "reduced": Reduced,
    "neural": Neural,
}
"""All predictors by name."""
