"""The change of variables: z = x - delta(t) is iterated on, so that the last z is the predicted x.

In time window n + 1, of length T, delta goes linearly from delta_n to delta_{n+1} = p_{n+1} - z_n, where p_{n+1} is the
prediction and z_n what the last window ended with. preCICE starts a window's iterations from the constant z_n, which
then is x_n at the window's start and p_{n+1} at its end, on both sides. Differences between iterations, hence residuals
and quasi-Newton's secants, and all linear mappings are what they are without it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from precice_lb.guess.predictors import Array

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
