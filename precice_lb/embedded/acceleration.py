"""Relaxation of the coupling data between the iterations of a time window: constant, or with Aitken's factor.

preCICE's ``acceleration/Acceleration.cpp``, ``ConstantRelaxationAcceleration.cpp`` and ``AitkenAcceleration.cpp``.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from precice_lb.embedded.clock import TOLERANCE
from precice_lb.embedded.convergence import Total
from precice_lb.embedded.coupling_data import CouplingData
from precice_lb.embedded.preconditioner import Preconditioner
from precice_lb.embedded.settings import AccelerationSettings

__all__ = ["Acceleration", "Aitken", "ConstantRelaxation"]

Array = NDArray[np.float64]


class Acceleration(ABC):
    """What is done to coupling data when an iteration has not converged.

    Parameters
    ----------
    settings
        As configured.
    data
        All coupling data that is changed, in preCICE's order of data.
    total
        Sums an array over the ranks.
    """

    def __init__(self, settings: AccelerationSettings, data: Sequence[CouplingData], total: Total) -> None:
        self._settings = settings
        self._data = data
        self._total = total
        by_name = {(one.field.mesh, one.field.data): one for one in data}
        #: The data that are looked at, in the order of the configuration.
        self._primary = [by_name[mesh, name] for mesh, name, _ in settings.data if (mesh, name) in by_name]

    @abstractmethod
    def accelerate(self, window_start: float, window_end: float) -> None:
        """Change the samples of an iteration that has not converged (times in simulated seconds)."""

    def converged(self, window_start: float) -> None:  # noqa: B027
        """Take note of a time window's last iteration."""

    def log_entries(self) -> dict[str, int]:
        """Further columns of ``precice-<P>-iterations.log`` with their values."""
        return {}

    def _relax(self, factor: float, window_start: float) -> None:
        for one in self._data:
            waveform = one.field.waveform
            for time, sample in waveform.samples():
                if time - window_start > TOLERANCE:
                    waveform.put(time, sample * factor + one.previous.at(time) * (1.0 - factor))


class ConstantRelaxation(Acceleration):
    """The same relaxation factor in every iteration."""

    def accelerate(self, window_start: float, window_end: float) -> None:
        """Relax all data."""
        self._relax(self._settings.relaxation, window_start)


class Aitken(Acceleration):
    """A factor from the residuals of the last two iterations.

    U. Küttler and W. A. Wall, Fixed-point fluid-structure interaction solvers with dynamic relaxation, Computational
    Mechanics 43 (2008) 61, equation 44.
    """

    def __init__(self, settings: AccelerationSettings, data: Sequence[CouplingData], total: Total) -> None:
        super().__init__(settings, data, total)
        self._factor = settings.relaxation
        self._iteration = 0
        self._old_residuals = np.zeros(0)
        self._values = np.zeros(0)
        self._preconditioner: Preconditioner | None = None

    def accelerate(self, window_start: float, window_end: float) -> None:
        """Find the factor and relax all data with it."""
        self._values = _joined([one.field.waveform.at(window_end) for one in self._primary])
        residuals = self._values - _joined([one.previous.at(window_end) for one in self._primary])
        if self._preconditioner is None:
            sizes = [one.field.vertices * one.field.components for one in self._primary]
            self._preconditioner = Preconditioner(self._settings, sizes, self._total)
        # Only several data have to be balanced.
        if len(self._primary) > 1:
            self._preconditioner.update(False, self._values, residuals)
        if self._iteration == 0:
            self._factor = float(np.sign(self._factor)) * min(self._settings.relaxation, abs(self._factor))
        else:
            weights = self._preconditioner.weights if len(self._primary) > 1 else 1.0
            deltas = (residuals - self._old_residuals) * weights
            old = self._old_residuals * weights
            numerator, denominator = self._total(np.array([np.vdot(old, deltas), np.vdot(deltas, deltas)]))
            with np.errstate(divide="ignore", invalid="ignore"):
                self._factor = float(-self._factor * (numerator / denominator))
        self._relax(self._factor, window_start)
        self._old_residuals = residuals
        self._iteration += 1

    def converged(self, window_start: float) -> None:
        """Start the next time window with the initial factor, or a smaller one."""
        self._iteration = 0
        if self._preconditioner is not None and len(self._primary) > 1:
            self._preconditioner.update(True, self._values, self._old_residuals)
        self._old_residuals = np.full(len(self._old_residuals), sys.float_info.max)


def _joined(samples: Sequence[Array]) -> Array:
    return np.concatenate([sample.ravel() for sample in samples])
