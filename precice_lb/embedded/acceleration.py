"""Relaxation of the coupling data between the iterations of a time window: constant, or with Aitken's factor.

preCICE's ``acceleration/Acceleration.cpp``, ``ConstantRelaxationAcceleration.cpp``, ``AitkenAcceleration.cpp`` and
``impl/ResidualSumPreconditioner.cpp``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from precice_lb.embedded.communication import IntraComm
from precice_lb.embedded.mesh import CouplingData
from precice_lb.embedded.timeline import TOLERANCE

__all__ = ["Acceleration", "AccelerationSettings", "Aitken"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class AccelerationSettings:
    """One ``<acceleration:…>``; ``data`` are (mesh, data, scaling), the primary data."""

    kind: str
    data: tuple[tuple[str, str, float], ...]
    relaxation: float
    max_columns: int
    windows_reused: int
    filter: str
    filter_limit: float
    preconditioner: str


class _Preconditioner:
    """Weights of the entries of a long vector, one for each data in it, that balance them against each other.

    Constant ones, or the sums of each data's residuals relative to those of all in this time window. `sizes` are the
    entries of each data on this rank.
    """

    def __init__(self, settings: AccelerationSettings, sizes: Sequence[int], intra: IntraComm) -> None:
        self._constant = settings.preconditioner == "constant"
        self._sizes = np.array(sizes, dtype=int)
        self._intra = intra
        self._is_first_window = True
        self._sums = self._sums_in_use = np.zeros(len(sizes))
        self._factors = np.array([scaling if self._constant else 1.0 for *_, scaling in settings.data])
        self._spread()

    def _spread(self) -> None:
        self.weights: Array = 1.0 / np.repeat(self._factors, self._sizes)

    def complete_window(self) -> None:
        """Start the sums of another time window."""
        self._is_first_window = False
        self._sums = np.zeros(len(self._sizes))

    def update(self, residuals: Array) -> None:
        """Look at an iteration that has not converged."""
        if self._constant:
            return
        parts = np.split(residuals, np.cumsum(self._sizes)[:-1])
        norms = np.sqrt(self._intra.total(np.array([np.vdot(part, part) for part in parts])))
        whole = float(np.sqrt((norms**2).sum()))
        if whole > TOLERANCE:
            self._sums = self._sums + norms / whole
        usable = self._sums > TOLERANCE
        ratios = self._sums_in_use[usable] / self._sums[usable]
        # After the first window: where any data with a residual has changed by more than an order of magnitude.
        if self._is_first_window or ((ratios > 10.0) | (ratios < 0.1)).any():
            self._factors = np.where(usable, self._sums, self._factors)
            self._sums_in_use = self._sums
            self._spread()


class Acceleration:
    """What is done to coupling data when an iteration has not converged: here relaxation by a constant factor."""

    def __init__(self, settings: AccelerationSettings, data: Sequence[CouplingData], intra: IntraComm) -> None:
        self._settings = settings
        self._data = data
        self._intra = intra
        by_name = {(one.field.mesh.name, one.field.data): one for one in data}
        #: The data that are looked at, in the order of the configuration.
        self._primary = [by_name[mesh, name] for mesh, name, _ in settings.data]
        self._preconditioner = _Preconditioner(settings, [one.entries for one in self._primary], intra)
        self._old_residuals = np.zeros(0)

    def accelerate(self, window_start: float) -> None:
        """Change the samples of an iteration that has not converged, after a time (simulated seconds)."""
        self._relax(self._settings.relaxation, window_start)

    def converged(self, window_start: float) -> None:
        """Take note of a time window's last iteration."""

    def log_entries(self) -> dict[str, int]:
        """Further columns of ``precice-<P>-iterations.log`` with their values."""
        return {}

    def _residuals(self) -> Array:
        """Change of the primary data at the window's end since the last iteration, as one vector."""
        return np.concatenate([(one.field.waveform.last - one.previous.last).ravel() for one in self._primary])

    def _relax(self, factor: float, window_start: float) -> None:
        for one in self._data:
            waveform = one.field.waveform
            for time, sample in waveform.samples:
                if time - window_start > TOLERANCE:
                    waveform.put(time, sample * factor + one.previous.at(time) * (1.0 - factor))


class Aitken(Acceleration):
    """A factor from the residuals of the last two iterations.

    U. Küttler and W. A. Wall, Fixed-point fluid-structure interaction solvers with dynamic relaxation, Computational
    Mechanics 43 (2008) 61, equation 44.
    """

    def __init__(self, settings: AccelerationSettings, data: Sequence[CouplingData], intra: IntraComm) -> None:
        super().__init__(settings, data, intra)
        self._factor = settings.relaxation
        self._iteration = 0
        # Only several data have to be balanced.
        self._balances = len(self._primary) > 1

    def accelerate(self, window_start: float) -> None:
        """Find the factor and relax all data with it."""
        residuals = self._residuals()
        if self._balances:
            self._preconditioner.update(residuals)
        if self._iteration == 0:
            self._factor = float(np.sign(self._factor)) * min(self._settings.relaxation, abs(self._factor))
        else:
            weights = self._preconditioner.weights if self._balances else 1.0
            deltas = (residuals - self._old_residuals) * weights
            old = self._old_residuals * weights
            numerator, denominator = self._intra.total(np.array([np.vdot(old, deltas), np.vdot(deltas, deltas)]))
            with np.errstate(divide="ignore", invalid="ignore"):
                self._factor = float(-self._factor * (numerator / denominator))
        self._relax(self._factor, window_start)
        self._old_residuals = residuals
        self._iteration += 1

    def converged(self, window_start: float) -> None:
        """Start the next time window with the initial factor, or a smaller one."""
        if self._iteration:
            self._preconditioner.complete_window()
        self._iteration = 0
