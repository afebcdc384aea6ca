"""How the iterations of a time window converge sooner: constant relaxation, Aitken's factor, quasi-Newton (IQN-ILS).

preCICE's ``acceleration/Acceleration.cpp``, ``ConstantRelaxationAcceleration.cpp``, ``AitkenAcceleration.cpp`` and
``impl/ResidualSumPreconditioner.cpp``.

IQN-ILS, interface quasi-Newton with an inverse least-squares Jacobian, is preCICE's
``acceleration/BaseQNAcceleration.cpp``, ``IQNILSAcceleration.cpp`` and ``time/TimeGrids.cpp``. Where its
``impl/QRFactorization.cpp`` updates Q and R as columns come and go, with one sum over the ranks for each product, every
iteration factorises anew here: each rank its rows, the primary rank what these leave. J. Degroote,
K.-J. Bathe and J. Vierendeels, Performance of a new partitioned procedure versus a monolithic procedure in
fluid-structure interaction, Computers & Structures 87 (2009) 793; for waveforms: B. Rüth et al., Quasi-Newton waveform
iteration for partitioned surface-coupled multiphysics applications, International Journal for Numerical Methods in
Engineering 122 (2021) 5236.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from precice_lb.case.elements import Element
from precice_lb.embedded.communication import IntraComm
from precice_lb.embedded.mesh import CouplingData
from precice_lb.embedded.timeline import TOLERANCE, Array, CouplingError


def _inside(element: Element, *tags: str) -> Element:
    """Return the first element of these tags inside another, or one without attributes."""
    return element.first(*tags) or Element(tags[0], element.line)


class _Preconditioner:
    """Weights of the entries of a long vector, one for each data in it, that balance them against each other.

    Constant ones, or the sums of each data's residuals relative to those of all in this time window. `sizes` are the
    entries of each data on this rank.
    """

    def __init__(self, element: Element, sizes: Sequence[int], intra: IntraComm) -> None:
        self._constant = _inside(element, "preconditioner").text("type", "residual-sum") == "constant"
        self._sizes = np.array(sizes, dtype=int)
        self._intra = intra
        self._is_first_window = True
        self._sums = self._sums_in_use = np.zeros(len(sizes))
        scalings = [child.number("scaling", "1") for child in element.named("data")]
        self._factors = np.array([scaling if self._constant else 1.0 for scaling in scalings])

    @property
    def weights(self) -> Array:
        """One for each entry."""
        return 1.0 / np.repeat(self._factors, self._sizes)

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


class Acceleration:
    """What is done to coupling data when an iteration has not converged: here relaxation by a constant factor.

    `element` is the ``<acceleration:…>``, which names the primary data.
    """

    _usual_relaxation = "0.1"

    def __init__(self, element: Element, data: Sequence[CouplingData], intra: IntraComm) -> None:
        self._relaxation = _inside(element, "relaxation", "initial-relaxation").number("value", self._usual_relaxation)
        self._data = data
        self._intra = intra
        by_name = {(one.field.mesh.name, one.field.data): one for one in data}
        #: The data that are looked at, in the order of the configuration.
        self._primary = [by_name[child.text("mesh"), child.text("name")] for child in element.named("data")]
        self._preconditioner = _Preconditioner(element, [one.entries for one in self._primary], intra)
        self._old_residuals = np.zeros(0)

    def accelerate(self, window_start: float) -> None:
        """Change the samples of an iteration that has not converged, after a time (simulated seconds)."""
        self._relax(self._relaxation, window_start)

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

    _usual_relaxation = "0.5"

    def __init__(self, element: Element, data: Sequence[CouplingData], intra: IntraComm) -> None:
        super().__init__(element, data, intra)
        self._factor = self._relaxation
        self._iteration = 0

    def accelerate(self, window_start: float) -> None:
        """Find the factor and relax all data with it."""
        residuals = self._residuals()
        self._preconditioner.update(residuals)
        if self._iteration == 0:
            self._factor = float(np.sign(self._factor)) * min(self._relaxation, abs(self._factor))
        else:
            weights = self._preconditioner.weights
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


def triangle(matrix: Array, intra: IntraComm) -> Array:
    """Return R of the QR factorisation of a matrix whose rows lie on all ranks, on each of them."""
    local = _triangle(matrix)
    return intra.reduce(local, lambda parts: _triangle(np.concatenate(parts))) if intra.is_parallel else local


def independent_columns(factor: Array, filtering: str, limit: float) -> list[int]:
    """Columns of a matrix with factor R of which each brings something new after those before it, which are newer.

    ``QR1`` compares that part with the norm of the matrix, ``QR2`` with that of the column; so does ``QR3``, which only
    saves preCICE work.
    """
    kept = list(range(factor.shape[1]))
    while len(kept) > 1:
        new = _triangle(factor[:, kept])
        norms = np.linalg.norm(new, axis=0)
        parts = np.zeros(len(kept))
        parts[: len(new)] = np.abs(np.diag(new))
        small = np.flatnonzero(parts <= limit * (np.linalg.norm(norms) if filtering == "QR1" else norms))
        if not len(small):
            break
        # Those after it depend on less without it.
        del kept[small[0]]
    return kept


def _triangle(matrix: Array) -> Array:
    factor: Any = np.linalg.qr(matrix, mode="r")
    return np.asarray(factor, dtype=np.float64)


def _moved(times: Array, window: list[float]) -> Array:
    """Put times of one time window in the place of another one's."""
    if len(times) == 1:
        return np.array(window[-1:])
    moved: Array = (times - times[0]) / (times[-1] - times[0]) * (window[-1] - window[0]) + window[0]
    return moved


class QuasiNewton(Acceleration):
    """IQN-ILS.

    A column has the differences of residuals of the primary data (of ``V``), those of the values of all data (of ``W``)
    and the number of the time window that they are from, newest first. ``_times`` are those of the first time window's
    samples of each data, moved along with the window.
    """

    def __init__(self, element: Element, data: Sequence[CouplingData], intra: IntraComm) -> None:
        super().__init__(element, data, intra)
        self._most_columns = _inside(element, "max-used-iterations").integer("value", "100")
        self._windows_reused = _inside(element, "time-windows-reused").integer("value", "10")
        filtering = element.first("filter")
        self._filter = "QR3" if filtering is None else filtering.text("type")
        self._filter_limit = 1e-2 if filtering is None else filtering.number("limit", "1e-16")
        self._columns: list[tuple[Array, Array, int]] = []
        self._window = 0
        self._has_column = False
        self._rows = int(intra.total(np.array([float(sum(one.entries for one in self._primary))]))[0])
        self._first_iteration = True
        self._first_window = True
        self._old_values = np.zeros(0)
        self._deleted = 0
        self._dropped = 0

    def log_entries(self) -> dict[str, int]:
        """Columns in use, and those that the filter or the limits took away."""
        return {
            "QNColumns": len(self._columns),
            "DeletedQNColumns": self._deleted,
            "DroppedQNColumns": self._dropped,
        }

    def _take(self, window_start: float) -> Array:
        """Read the iteration from the coupling data; returns the values of all data."""
        residuals = self._residuals()
        if self._first_window and self._first_iteration:
            # The times of the samples are known from here on.
            self._times = [np.array(one.field.waveform.times) for one in self._data]
        if self._first_iteration:
            self._times = [
                _moved(old, one.field.waveform.times) for one, old in zip(self._data, self._times, strict=True)
            ]
        samples = [one.field.waveform.at(time) for one, times in self._after(window_start) for time in times]
        values = np.concatenate([np.zeros(0), *(sample.ravel() for sample in samples)])
        if not self._first_iteration:
            self._add_column(residuals - self._old_residuals, values - self._old_values)
        self._old_residuals, self._old_values = residuals, values
        return values

    def _after(self, window_start: float) -> list[tuple[CouplingData, Array]]:
        return [
            (one, times[times - window_start > TOLERANCE]) for one, times in zip(self._data, self._times, strict=True)
        ]

    def _add_column(self, residuals: Array, values: Array) -> None:
        count = len(self._columns)
        # As in preCICE: in place of a time window's columns that all were removed, new ones count with those before.
        window = self._columns[0][2] if self._has_column and self._columns else self._window
        self._has_column = True
        self._columns.insert(0, (residuals, values, window))
        if count == self._most_columns or count > self._rows:
            del self._columns[count]
            self._dropped += 1

    def accelerate(self, window_start: float) -> None:
        """Take a quasi-Newton step, or relax where there is nothing to take it from."""
        values = self._take(window_start)
        if self._first_iteration and self._first_window:
            self._relax(self._relaxation, window_start)
            self._first_iteration = False
            return
        self._preconditioner.update(self._old_residuals)
        if self._first_iteration:
            self._deleted = self._dropped = 0
        solved = self._solve()
        step = np.column_stack([np.zeros((len(values), 0)), *(w for _, w, _ in self._columns)]) @ solved
        if np.isnan(self._intra.total(np.array([np.vdot(step, step)]))[0]):
            raise CouplingError(
                "the quasi-Newton update contains NaN: the acceleration failed to converge; do the solvers write the "
                "same data in succeeding iterations, or not restore checkpoints? Otherwise raise the filter's limit"
            )
        self._store(values + step, window_start)
        self._first_iteration = False

    def _store(self, values: Array, window_start: float) -> None:
        position = 0
        for one, times in self._after(window_start):
            one.field.waveform.trim_after(window_start)
            for time in times:
                sample = values[position : position + one.entries].reshape(-1, one.field.components)
                one.field.waveform.put(float(time), sample)
                position += one.entries

    def _solve(self) -> Array:
        """Remove columns that bring nothing new, and weigh the others so that they cancel the residuals best."""
        residuals = np.column_stack([*(v for v, _, _ in self._columns), self._old_residuals])
        factor = triangle(residuals * self._preconditioner.weights[:, np.newaxis], self._intra)
        if not np.isfinite(factor).all():
            return np.full(len(self._columns), np.nan)
        kept = independent_columns(factor[:, :-1], self._filter, self._filter_limit)
        self._deleted += len(self._columns) - len(kept)
        self._columns = [self._columns[column] for column in kept]
        return np.asarray(np.linalg.lstsq(factor[:, kept], -factor[:, -1])[0], dtype=np.float64)

    def converged(self, window_start: float) -> None:
        """Take up the last iteration's column and drop those of time windows that are too old."""
        self._take(window_start)
        if not self._first_iteration:
            self._first_window = False
        if not self._first_window:
            self._preconditioner.complete_window()
        windows = [window for _, _, window in self._columns]
        if len(set(windows)) > self._windows_reused:
            oldest = windows.count(windows[-1])
            self._dropped += oldest
            del self._columns[-oldest:]
        self._window += 1
        self._has_column = False
        self._first_iteration = True
