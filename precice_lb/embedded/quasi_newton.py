"""Interface quasi-Newton acceleration with an inverse least-squares Jacobian (IQN-ILS).

preCICE's ``acceleration/BaseQNAcceleration.cpp`` and ``IQNILSAcceleration.cpp``; J. Degroote, K.-J. Bathe and
J. Vierendeels, Performance of a new partitioned procedure versus a monolithic procedure in fluid-structure
interaction, Computers & Structures 87 (2009) 793; for waveforms: B. Rüth et al., Quasi-Newton waveform iteration for
partitioned surface-coupled multiphysics applications, International Journal for Numerical Methods in Engineering 122
(2021) 5236.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from precice_lb.embedded.acceleration import Acceleration
from precice_lb.embedded.convergence import Total
from precice_lb.embedded.coupling_data import CouplingData
from precice_lb.embedded.errors import CouplingError
from precice_lb.embedded.factorization import Factorization
from precice_lb.embedded.preconditioner import Preconditioner
from precice_lb.embedded.settings import AccelerationSettings
from precice_lb.embedded.time_grid import TimeGrid

__all__ = ["QuasiNewton"]

Array = NDArray[np.float64]


class QuasiNewton(Acceleration):
    """IQN-ILS.

    ``V`` holds differences of residuals of the primary data and ``W`` those of the values of all data, newest column
    first; ``_columns`` counts how many of them are from each time window, the current one first.
    """

    def __init__(self, settings: AccelerationSettings, data: Sequence[CouplingData], total: Total) -> None:
        super().__init__(settings, data, total)
        self._columns: deque[int] = deque([0])
        self._first_iteration = True
        self._first_window = True
        self._deleted = 0
        self._dropped = 0
        self._factorization = Factorization(settings.filter, settings.filter_limit, total)
        self._grid: TimeGrid | None = None

    @property
    def _column_count(self) -> int:
        return sum(self._columns)

    def log_entries(self) -> dict[str, int]:
        """Columns in use, and those that the filter or the limits took away."""
        return {
            "QNColumns": self._column_count,
            "DeletedQNColumns": self._deleted,
            "DroppedQNColumns": self._dropped,
        }

    def _start(self, window_start: float) -> None:
        """Size everything: the times of the samples are known from the first iteration on."""
        self._grid = TimeGrid(self._data, reduced=False)
        self._primary_grid = TimeGrid(self._primary, reduced=self._settings.reduced_time_grid)
        rows, primary_sizes = self._grid.sizes(window_start), self._primary_grid.sizes(window_start)
        primary_rows = sum(primary_sizes)
        self._global_rows = int(self._total(np.array([float(primary_rows)]))[0])
        self._v, self._w = np.zeros((primary_rows, 0)), np.zeros((sum(rows), 0))
        self._backup = (self._v, self._w, deque([0]))
        self._old_residuals = self._old_values = np.zeros(primary_rows)
        self._factorization.clear(primary_rows, self._global_rows)
        self._preconditioner = Preconditioner(self._settings, primary_sizes, self._total)

    def _take(self, window_start: float) -> Array:
        """Read the iteration from the coupling data; returns the values of all data."""
        if self._first_window and self._first_iteration:
            self._start(window_start)
        assert self._grid is not None
        if self._first_iteration:
            self._grid.move_to_window()
            self._primary_grid.move_to_window()
        values = self._grid.values(window_start)
        self._primary_values = self._primary_grid.values(window_start)
        self._residuals = self._primary_values - self._primary_grid.values(window_start, previous=True)
        if not (self._first_iteration and (self._first_window or self._settings.enforce_relaxation)):
            if not self._first_iteration:
                self._add_column(self._residuals - self._old_residuals, values - self._old_values)
            self._old_residuals, self._old_values = self._residuals, values
        return values

    def _add_column(self, residuals: Array, values: Array) -> None:
        count = self._column_count
        shift = count == self._settings.max_columns or count > self._global_rows
        self._v, self._w = np.column_stack([residuals, self._v]), np.column_stack([values, self._w])
        self._factorization.insert(0, residuals * self._preconditioner.weights)
        if not self._columns:
            self._columns.append(0)
        self._columns[0] += 1
        if shift:
            self._v, self._w = self._v[:, :-1], self._w[:, :-1]
            self._factorization.delete_last()
            self._columns[-1] -= 1
            if self._columns[-1] == 0:
                self._columns.pop()
            self._dropped += 1

    def accelerate(self, window_start: float, window_end: float) -> None:
        """Take a quasi-Newton step, or relax where there is nothing to take it from.

        Raises
        ------
        CouplingError
            If the step is not a number.
        """
        settings = self._settings
        values = self._take(window_start)
        if self._first_iteration and (self._first_window or settings.enforce_relaxation):
            self._old_values, self._old_residuals = values, self._residuals
            self._relax(settings.relaxation, window_start)
            self._first_iteration = False
            return
        keeps_nothing = settings.windows_reused == 0 and not settings.enforce_relaxation
        if not self._first_window and self._column_count < 1 and keeps_nothing:
            self._restore()
        self._preconditioner.update(False, self._primary_values, self._residuals)
        self._filter()
        weights = self._preconditioner.weights
        right = self._total(self._factorization.q.T @ (self._residuals * weights))
        with np.errstate(invalid="ignore", over="ignore"):
            step = self._w @ self._factorization.solve(-right)
        if self._first_iteration and keeps_nothing:
            if self._column_count > 0:
                self._backup = (self._v, self._w, deque(self._columns))
            if not self._first_window:
                self._forget()
        if np.isnan(self._total(np.array([np.vdot(step, step)]))[0]):
            raise CouplingError(
                "the quasi-Newton update contains NaN: the acceleration failed to converge; do the solvers write the "
                "same data in succeeding iterations, or not restore checkpoints? Otherwise raise the filter's limit"
            )
        assert self._grid is not None
        self._grid.store(values + step, window_start)
        self._first_iteration = False

    def _restore(self) -> None:
        """Take up the columns of the time window before the last, which converged at once."""
        self._v, self._w, columns = self._backup
        self._columns = deque(columns)
        scaled = self._v * self._preconditioner.weights[:, np.newaxis]
        for column in self._factorization.rebuild(scaled, self._global_rows):
            self._remove(column)

    def _filter(self) -> None:
        scaled = self._v * self._preconditioner.weights[:, np.newaxis]
        if self._preconditioner.needs_new_factorization:
            if self._settings.filter.startswith("QR1"):
                for column in self._factorization.rebuild(scaled, self._global_rows):
                    self._remove(column)
            else:
                self._factorization.require_filter()
            self._preconditioner.needs_new_factorization = False
        if self._first_iteration:
            self._deleted = self._dropped = 0
        for column in reversed(self._factorization.filter(scaled)):
            self._remove(column)

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

    def _forget(self) -> None:
        self._v, self._w = self._v[:, :0], self._w[:, :0]
        self._columns = deque([0])
        self._factorization.clear(len(self._v), self._global_rows)

    def converged(self, window_start: float) -> None:
        """Take up the last iteration's column and drop those of time windows that are too old."""
        settings = self._settings
        self._take(window_start)
        # Twice, as in preCICE: windows of a single iteration leave no column.
        for _ in range(2):
            if self._columns and self._columns[0] == 0:
                self._columns.popleft()
        if not self._first_iteration:
            self._first_window = False
        self._preconditioner.update(True, self._primary_values, self._residuals)
        if settings.windows_reused == 0:
            if settings.enforce_relaxation:
                self._forget()
                self._columns.clear()
        elif len(self._columns) > settings.windows_reused:
            oldest = self._columns.pop()
            self._dropped += oldest
            self._v, self._w = self._v[:, :-oldest], self._w[:, :-oldest]
            for _ in range(oldest):
                self._factorization.delete_last()
        self._columns.appendleft(0)
        self._first_iteration = True
