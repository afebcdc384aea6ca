"""What the time windows of a run have ended with: the last value and the increments before it."""

from __future__ import annotations

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
            self._rows = np.empty((0, len(value)))
        else:
            self._append(value - self.last)
        self.last = value

    def _append(self, increment: Array) -> None:
        if self._end == len(self._rows):
            kept = self.increments[1 - LENGTH :]
            if self._end < LENGTH + _SPARE:
                self._rows = np.empty((min(max(2 * self._end, 8), LENGTH + _SPARE), len(increment)))
            self._rows[: len(kept)] = kept
            self._end = len(kept)
        self._rows[self._end] = increment
        self._end += 1
        products = self.increments @ increment
        self._gram[:-1, :-1] = self._gram[1:, 1:]
        self._gram[-1, LENGTH - len(self) :] = self._gram[LENGTH - len(self) :, -1] = products
