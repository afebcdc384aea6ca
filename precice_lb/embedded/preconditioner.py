"""Weights that balance the data of an acceleration against each other.

The ``…Preconditioner.cpp`` files of preCICE's ``acceleration/impl``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from precice_lb.embedded.clock import TOLERANCE
from precice_lb.embedded.convergence import Total
from precice_lb.embedded.settings import AccelerationSettings

__all__ = ["Preconditioner"]

Array = NDArray[np.float64]


class Preconditioner:
    """Weights of the entries of a long vector, one for each data in it.

    Parameters
    ----------
    settings
        Its type (``constant``, ``value``, ``residual``, ``residual-sum``) and what goes with it.
    sizes
        Entries of each data on this rank.
    total
        Sums an array over the ranks.

    Attributes
    ----------
    weights
        Shape (entries,): what a vector is multiplied by.
    needs_new_factorization
        Whether the weights have changed since it was last set to False.
    """

    def __init__(self, settings: AccelerationSettings, sizes: Sequence[int], total: Total) -> None:
        self._kind = settings.preconditioner
        self._sizes = sizes
        self._total = total
        self._freeze_after = settings.freeze_after
        self._on_threshold = settings.update_on_threshold
        self._frozen = self._kind == "constant"
        self._windows = 0
        self._is_first_window = True
        self._sums = np.zeros(len(sizes))
        self._sums_in_use = np.zeros(len(sizes))
        self._factors = np.ones(len(sizes))
        if self._kind == "constant":
            self._factors = np.array([scaling for *_, scaling in settings.data])
        self.needs_new_factorization = False
        self._spread()

    def _spread(self) -> None:
        self.weights: Array = 1.0 / np.repeat(self._factors, self._sizes)

    def _norms(self, vector: Array) -> Array:
        parts = np.split(vector, np.cumsum(self._sizes)[:-1])
        return np.sqrt(self._total(np.array([np.vdot(part, part) for part in parts])))

    def update(self, window_complete: bool, values: Array, residuals: Array) -> None:
        """Look at an iteration, or at the last one of a time window."""
        if self._frozen:
            return
        if window_complete:
            self._windows += 1
            self._frozen = 0 < self._freeze_after <= self._windows
        if self._kind == "value":
            if window_complete or self._is_first_window:
                self._is_first_window = False
                self._set(norms := self._norms(values), norms >= TOLERANCE)
        elif self._kind == "residual":
            if not window_complete:
                self._set(norms := self._norms(residuals), norms >= TOLERANCE)
        elif window_complete:
            self._is_first_window = False
            self._sums = np.zeros(len(self._sizes))
        else:
            self._add_residuals(residuals)

    def _add_residuals(self, residuals: Array) -> None:
        norms = self._norms(residuals)
        whole = float(np.sqrt((norms**2).sum()))
        if whole > TOLERANCE:
            self._sums = self._sums + norms / whole
        reset = self._is_first_window or not self._on_threshold
        if not reset:
            # By more than an order of magnitude, for any data with a residual.
            ratios = [
                before / now for before, now in zip(self._sums_in_use, self._sums, strict=True) if abs(now) > TOLERANCE
            ]
            reset = any(ratio > 10.0 or ratio < 0.1 for ratio in ratios)
        if reset:
            self._set(self._sums, self._sums > TOLERANCE)
            self._sums_in_use = self._sums.copy()

    def _set(self, factors: Array, usable: NDArray[np.bool_]) -> None:
        self._factors = np.where(usable, factors, self._factors)
        self._spread()
        self.needs_new_factorization = True
