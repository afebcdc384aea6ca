"""The window time as a maximum of sums: one row of weights for each cycle that may set it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from precice_lb.schedule import Schedule

__all__ = ["Rows"]

Floats = NDArray[np.float64]

# How far the values of a row may be from its sum, relatively.
_EXACT = 1e-9


class Rows:
    """Window time of compute seconds c: max over rows v of v·c, with the rows found as they are asked for.

    The steady window time is convex and proportional in the compute seconds (a maximum, or a mean of maxima, of sums
    over cycles divided by their windows). So its slope v at any c bounds it from below everywhere by v·c, and finitely
    many slopes make it up.

    Parameters
    ----------
    schedule
        The coupling.
    """

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._names = schedule.participants
        #: Weights of the rows found, shape (rows, participants).
        self.matrix: Floats = np.diag([schedule.weights[name] for name in self._names])

    def seconds(self, costs: Floats) -> Floats:
        """Seconds per window, for compute seconds of shape (..., participants)."""
        if not costs.size:
            return np.zeros(costs.shape[:-1])
        return np.asarray(self._schedule.window_seconds({name: costs[..., i] for i, name in enumerate(self._names)}))

    def bound(self, costs: Floats) -> Floats:
        """Largest of the rows found so far, never above `seconds`, for compute seconds of shape (..., participants)."""
        return np.asarray((costs @ self.matrix.T).max(axis=-1))

    def learn(self, costs: Floats) -> bool:
        """Find the row that sets the window time of compute seconds, shape (participants,); whether it is a new one."""
        window = float(self.seconds(costs))
        if window <= float(self.bound(costs)) * (1 + _EXACT):
            return False
        row = self._slope(costs, window)
        self.matrix = np.vstack([self.matrix, row])
        return True

    def _slope(self, costs: Floats, window: float) -> Floats:
        generator = np.random.default_rng(len(self.matrix))
        best: Floats = self.matrix[0]
        tightness = 0.0
        # Between two cycles the differences belong to neither: step aside, less and less far.
        for aside, step in ((0.0, 1e-3), (0.0, 1e-5), (1e-4, 1e-6), (1e-6, 1e-8), (1e-7, 1e-9)):
            at = costs + aside * window * generator.random(len(costs))
            around = np.vstack([at, at + step * window * np.eye(len(costs))])
            values = self.seconds(around)
            row = _rational((values[1:] - values[0]) / (step * window), 1e-13 / step)
            # A slope belongs to one cycle if it adds up to the value itself.
            if abs(float(row @ at) - values[0]) <= max(_EXACT, 1e-14 / step) * values[0]:
                reached = float(row @ costs) / window
                if reached > tightness:
                    best, tightness = row, reached
                if reached >= 1 - _EXACT:
                    break
        return best


def _rational(row: Floats, error: float) -> Floats:
    """Snap to nearby fractions of small whole numbers, which weights of cycles are, within the error of differences."""
    snapped = np.array([float(Fraction(float(value)).limit_denominator(240)) for value in row])
    close = np.abs(snapped - row) <= 10 * error
    return np.maximum(np.where(close, snapped, row), 0.0)
