"""Interface quasi-Newton acceleration with an inverse least-squares Jacobian (IQN-ILS).

preCICE's ``acceleration/BaseQNAcceleration.cpp``, ``IQNILSAcceleration.cpp`` and ``time/TimeGrids.cpp``; J. Degroote,
K.-J. Bathe and J. Vierendeels, Performance of a new partitioned procedure versus a monolithic procedure in
fluid-structure interaction, Computers & Structures 87 (2009) 793; for waveforms: B. Rüth et al., Quasi-Newton waveform
iteration for partitioned surface-coupled multiphysics applications, International Journal for Numerical Methods in
Engineering 122 (2021) 5236.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from precice_lb.embedded.acceleration import Acceleration, Preconditioner
from precice_lb.embedded.clock import TOLERANCE
from precice_lb.embedded.coupling_data import CouplingData
from precice_lb.embedded.errors import CouplingError
from precice_lb.embedded.factorization import independent_columns, triangle
from precice_lb.embedded.intracomm import IntraComm
from precice_lb.embedded.settings import AccelerationSettings

__all__ = ["QuasiNewton"]

Array = NDArray[np.float64]


class _TimeGrid:
    """Times of the first time window's samples, all or the last of each data, moved along with the window."""

    def __init__(self, data: Sequence[CouplingData], *, last_only: bool) -> None:
        self._data = data
        times = [np.array(one.field.waveform.times) for one in data]
        self._times = [grid[-1:] if last_only else grid for grid in times]

    def move_to_window(self) -> None:
        """Translate and scale the times to the current time window."""
        for number, (one, old) in enumerate(zip(self._data, self._times, strict=True)):
            new = np.array(one.field.waveform.times)
            if len(old) == 1:
                self._times[number] = new[-1:]
            else:
                self._times[number] = (old - old[0]) / (old[-1] - old[0]) * (new[-1] - new[0]) + new[0]

    def _after(self, window_start: float) -> list[tuple[CouplingData, Array]]:
        return [
            (one, times[times - window_start > TOLERANCE]) for one, times in zip(self._data, self._times, strict=True)
        ]

    def sizes(self, window_start: float) -> list[int]:
        """Entries of each data on this rank."""
        return [len(times) * one.field.vertices * one.field.components for one, times in self._after(window_start)]

    def values(self, window_start: float, *, previous: bool = False) -> Array:
        """All data at all times after the window's start as one vector; of the previous iteration if asked."""
        parts = [np.zeros(0)]
        for one, times in self._after(window_start):
            waveform = one.previous if previous else one.field.waveform
            parts += [waveform.at(time).ravel() for time in times]
        return np.concatenate(parts)

    def store(self, vector: Array, window_start: float) -> None:
        """Put a vector back as the samples of the data."""
        position = 0
        for one, times in self._after(window_start):
            waveform, size = one.field.waveform, one.field.vertices * one.field.components
            waveform.trim_after(window_start)
            for time in times:
                waveform.put(float(time), vector[position : position + size].reshape(-1, one.field.components))
                position += size


class QuasiNewton(Acceleration):
    """IQN-ILS.

    ``V`` holds differences of residuals of the primary data and ``W`` those of the values of all data, newest column
    first; ``_columns`` counts how many of them are from each time window, the current one first.
    """

    def __init__(self, settings: AccelerationSettings, data: Sequence[CouplingData], intra: IntraComm) -> None:
        super().__init__(settings, data, intra)
        self._columns: deque[int] = deque([0])
        self._first_iteration = True
        self._first_window = True
        self._old_residuals = self._old_values = np.zeros(0)
        self._deleted = 0
        self._dropped = 0

    def log_entries(self) -> dict[str, int]:
        """Columns in use, and those that the filter or the limits took away."""
        return {
            "QNColumns": sum(self._columns),
            "DeletedQNColumns": self._deleted,
            "DroppedQNColumns": self._dropped,
        }

    def _start(self, window_start: float) -> None:
        """Size everything: the times of the samples are known from the first iteration on."""
        self._grid = _TimeGrid(self._data, last_only=False)
        self._primary_grid = _TimeGrid(self._primary, last_only=True)
        primary_sizes = self._primary_grid.sizes(window_start)
        rows = sum(primary_sizes)
        self._global_rows = int(self._intra.total(np.array([float(rows)]))[0])
        self._v, self._w = np.zeros((rows, 0)), np.zeros((sum(self._grid.sizes(window_start)), 0))
        self._preconditioner = Preconditioner(self._settings, primary_sizes, self._intra)

    def _take(self, window_start: float) -> Array:
        """Read the iteration from the coupling data; returns the values of all data."""
        if self._first_window and self._first_iteration:
            self._start(window_start)
        if self._first_iteration:
            self._grid.move_to_window()
            self._primary_grid.move_to_window()
        values = self._grid.values(window_start)
        primary = self._primary_grid.values(window_start)
        self._residuals = primary - self._primary_grid.values(window_start, previous=True)
        if not self._first_iteration:
            self._add_column(self._residuals - self._old_residuals, values - self._old_values)
        self._old_residuals, self._old_values = self._residuals, values
        return values

    def _add_column(self, residuals: Array, values: Array) -> None:
        count = sum(self._columns)
        shift = count == self._settings.max_columns or count > self._global_rows
        self._v, self._w = np.column_stack([residuals, self._v]), np.column_stack([values, self._w])
        if not self._columns:
            self._columns.append(0)
        self._columns[0] += 1
        if shift:
            self._v, self._w = self._v[:, :-1], self._w[:, :-1]
            self._columns[-1] -= 1
            if self._columns[-1] == 0:
                self._columns.pop()
            self._dropped += 1

    def accelerate(self, window_start: float, window_end: float) -> None:
        """Take a quasi-Newton step, or relax where there is nothing to take it from."""
        values = self._take(window_start)
        if self._first_iteration and self._first_window:
            self._relax(self._settings.relaxation, window_start)
            self._first_iteration = False
            return
        self._preconditioner.update(False, self._residuals)
        if self._first_iteration:
            self._deleted = self._dropped = 0
        solved = self._solve()
        step = self._w @ solved
        if np.isnan(self._intra.total(np.array([np.vdot(step, step)]))[0]):
            raise CouplingError(
                "the quasi-Newton update contains NaN: the acceleration failed to converge; do the solvers write the "
                "same data in succeeding iterations, or not restore checkpoints? Otherwise raise the filter's limit"
            )
        self._grid.store(values + step, window_start)
        self._first_iteration = False

    def _solve(self) -> Array:
        """Remove columns that bring nothing new, and weigh the others so that they cancel the residuals best."""
        weighted = np.column_stack([self._v, self._residuals]) * self._preconditioner.weights[:, np.newaxis]
        factor = triangle(weighted, self._intra)
        if not np.isfinite(factor).all():
            return np.full(self._w.shape[1], np.nan)
        kept = independent_columns(factor[:, :-1], self._settings.filter, self._settings.filter_limit)
        for column in reversed(range(self._v.shape[1])):
            if column not in kept:
                self._remove(column)
        return np.asarray(np.linalg.lstsq(factor[:, kept], -factor[:, -1])[0], dtype=np.float64)

    def _remove(self, column: int) -> None:
        self._deleted += 1
        self._v, self._w = np.delete(self._v, column, axis=1), np.delete(self._w, column, axis=1)
        seen = 0
        for window, count in enumerate(self._columns):
            seen += count
            if seen > column:
                self._columns[window] -= 1
                if self._columns[window] == 0:
                    del self._columns[window]
                return

    def converged(self, window_start: float) -> None:
        """Take up the last iteration's column and drop those of time windows that are too old."""
        self._take(window_start)
        # Twice, as in preCICE: windows of a single iteration leave no column.
        for _ in range(2):
            if self._columns and self._columns[0] == 0:
                self._columns.popleft()
        if not self._first_iteration:
            self._first_window = False
        self._preconditioner.update(True, self._residuals)
        if len(self._columns) > self._settings.windows_reused:
            oldest = self._columns.pop()
            self._dropped += oldest
            self._v, self._w = self._v[:, :-oldest], self._w[:, :-oldest]
        self._columns.appendleft(0)
        self._first_iteration = True
