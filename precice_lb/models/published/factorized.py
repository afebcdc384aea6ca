"""Factorised model: what is known about scaling is taken out, the rest is learned (Oskooi et al., equation 1).

T = W·N/p + C·S: computation is proportional to the elements per rank, communication to the largest surface of a rank's
part of the mesh. The coefficients W and C are nearly constant, so their logarithms are learned as linear functions of
the logarithms of ranks, size and further parameters, drawn towards constants, and W as a sum over kinds of elements
where their fractions are known. The paper measures computation and communication apart and trains networks on thousands
of runs; here a handful serves. Where communication was not measured, both are told apart by how the sum scales.
Surfaces are those of cubes, (N/p)^((D-1)/D).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import least_squares
from sklearn.utils._param_validation import Interval, Options

from precice_lb.exceptions import ModelError
from precice_lb.models.base import Learner
from precice_lb.models.published.formula import Formula

Array = NDArray[np.float64]

# Guess of the share of communication at a typical measurement, and the prior's standard deviation of its logarithm.
COMMUNICATION, COMMUNICATION_SCALE = 0.05, 2.0
# Prior's standard deviation of the logarithm of what a kind of elements costs more than others.
EXTRA_SCALE = 3.0
# Meshes are not refined more often than this.
LARGEST_LEVEL = 30
# Shares from which the fit starts; the best end wins.
STARTS = (0.005, 0.05, 0.4)


@dataclass(kw_only=True, eq=False, repr=False)
class FactorizedRegressor(Learner):
    """Work per rank and surface per rank, with coefficients that vary slowly.

    Every prediction is positive and finite.

    Parameters
    ----------
    size_column : int
        Column of X that holds the number of elements (or degrees of freedom) N, or the level of refinement of the mesh.
        Without further columns N is constant.
    dimensions : int
        D of the mesh, 2 or 3.
    size_is_level : bool, optional
        Whether the size is a level: every level halves the elements in each dimension, N = 2^(D level). By default the
        measurements decide, if all sizes are whole numbers up to 30.
    slope_scale : float
        Prior standard deviation of the exponents by which W and C deviate from constants; 0 for constants.
    noise : float
        Prior guess of the relative noise of one measurement.
    fraction_columns : sequence of int
        Columns of X that are fractions of the elements, from 0 to 1, which cost more than others: of porous cells, say.
        W is a sum over them, W = W0·(1 + a1·f1 + a2·f2 + …) with positive a.
    """

    learner_name: ClassVar[str] = "factorized"
    several_parameters: ClassVar[bool] = True
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "dimensions": [Options(Integral, {2, 3})],
        "slope_scale": [Interval(Real, 0, None, closed="left")],
        "noise": [Interval(Real, 0, None, closed="neither")],
    }
    size_column: int = 1
    dimensions: int = 3
    size_is_level: bool | None = None
    slope_scale: float = 0.2
    noise: float = 0.05
    fraction_columns: Sequence[int] = ()

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        standard_error: ArrayLike | None = None,
        *,
        communication: ArrayLike | None = None,
    ) -> FactorizedRegressor:
        """Return itself, having learned from measurements.

        Parameters
        ----------
        X : array of shape (n, d)
            Ranks, then parameters; rows may repeat.
        y : array of shape (n,)
            Seconds per time window.
        standard_error : array of shape (n,), optional
            Of each row of ``y`` in seconds, NaN where unknown.
        communication : array of shape (n,), optional
            Seconds of each row of ``y`` that are communication, from 0 to below it; NaN where unknown.

        Raises
        ------
        ModelError
            Bad input or parameters of the learner, or too few measurements for it.
        """
        self._known = communication
        try:
            return super().fit(X, y, standard_error)
        finally:
            del self._known

    def _predict(self, points: Array) -> Array:
        both = np.logaddexp(*self._parts(*self._logs(points), self.log_coefficients_, self.extra_))
        return np.asarray(np.exp(np.clip(both, -600.0, 600.0)), dtype=np.float64)

    def _fit(self, points: Array, seconds: Array, errors: Array) -> None:
        d, columns = points.shape[1], list(self.fraction_columns)
        if d > 1 and not 1 <= self.size_column < d:
            raise ModelError(f"expected size_column from 1 to {d - 1}, found {self.size_column!r}")
        if not set(columns) <= set(range(1, d)) - {self.size_column}:
            raise ModelError(
                f"expected fraction_columns out of 1 to {d - 1} but {self.size_column}, the size, found {columns}"
            )
        communication = np.full(len(points), np.nan)
        if self._known is not None:
            communication = np.asarray(self._known, dtype=np.float64)
        if communication.shape != seconds.shape:
            raise ModelError(f"expected communication of shape {seconds.shape}, found shape {communication.shape}")
        if (bad := (communication < 0) | (communication >= seconds)).any():
            raise ModelError(
                f"expected communication from 0 to below the seconds of its row, found {communication[bad][0]:g} s of "
                f"{seconds[bad][0]:g} s"
            )
        scale = np.sqrt(self.noise**2 + (errors / seconds) ** 2)
        sizes = points[:, self.size_column] if d > 1 else np.array([math.inf])
        levels = [self.size_is_level] if self.size_is_level is not None and d > 1 else [False]
        if self.size_is_level is None and (sizes == np.rint(sizes)).all() and sizes.max() <= LARGEST_LEVEL:
            levels = [False, True]
        ends = []
        for level in levels:
            end = copy.copy(self)
            end.level_ = level
            ends.append((end._learn(points, seconds, scale, communication), end))
        self.__dict__.update(vars(min(ends, key=lambda pair: pair[0])[1]))
        self.formula_ = self._as_formula()

    def _learn(self, points: Array, seconds: Array, scale: Array, communication: Array) -> float:
        """Fit with the size as a level or not: the best of several starts; its cost."""
        logs, fractions = self._logs(points)
        # Of each column of X the mean of ln(x); where the size is a level, of ln N.
        self.centre_ = logs.mean(axis=0)
        per_rank = self._per_rank(logs)
        apart = np.isfinite(communication)
        sent = apart & (communication > 0)
        target = np.log(seconds - np.where(apart, communication, 0.0))
        typical, shift = float(np.mean(target - per_rank)), float(np.mean(per_rank - self._cubes * per_rank))
        count, free = 2 * (1 + len(self.centre_)), (np.ptp(logs, axis=0) > 0) & (self.slope_scale > 0)

        def unpacked(values: Array) -> tuple[Array, Array]:
            coefficients = values[:count].reshape(2, -1).copy()
            coefficients[:, 1:] *= free
            return coefficients, values[count:]

        def residuals(values: Array) -> Array:
            coefficients, extra = unpacked(values)
            work, exchange = self._parts(logs, fractions, coefficients, extra)
            fitted = np.where(apart, work, np.logaddexp(work, exchange))
            share = coefficients[1, 0] - coefficients[0, 0] - shift - math.log(COMMUNICATION)
            exchanged = (exchange - np.log(np.where(sent, communication, 1.0)))[sent] / scale[sent]
            slopes = coefficients[:, 1:].ravel() / (self.slope_scale or 1.0)
            drawn = [slopes, extra / EXTRA_SCALE, [share / COMMUNICATION_SCALE]]
            return np.concatenate([(fitted - target) / scale, exchanged, *drawn])

        ends = []
        for start in STARTS:
            first = np.zeros(count + len(self.fraction_columns))
            first[[0, count // 2]] = typical + math.log1p(-start), typical + shift + math.log(start)
            ends.append(least_squares(residuals, first))
        best = min(ends, key=lambda end: float(end.cost))
        # Rows for ln W and ln C: the constant, then the slope for each column; then ln a of the fractions.
        self.log_coefficients_, self.extra_ = unpacked(best.x)
        return float(best.cost)

    def _logs(self, points: Array) -> tuple[Array, Array]:
        """Logarithms of ranks and parameters (n, d), where the size is a level of the elements; and the fractions."""
        logs, columns = points.copy(), list(self.fraction_columns)
        fractions, logs[:, columns] = points[:, columns], 1.0
        if not (logs > 0).all():
            raise ModelError(
                f"expected parameters above 0 for their powers, found {logs[logs <= 0][0]:g}; count them from 1"
            )
        if ((fractions < 0) | (fractions > 1)).any():
            raise ModelError("expected fractions of elements from 0 to 1, found others")
        logs = np.log(logs)
        if self.level_:
            logs[:, self.size_column] = points[:, self.size_column] * self.dimensions * np.log(2.0)
        return logs, fractions

    def _per_rank(self, logs: Array) -> Array:
        """Logarithm of the elements per rank."""
        return np.asarray((logs[:, self.size_column] if logs.shape[1] > 1 else 0.0) - logs[:, 0])

    @property
    def _cubes(self) -> float:
        """Exponent of surfaces over elements per rank."""
        return (self.dimensions - 1) / self.dimensions

    def _parts(self, logs: Array, fractions: Array, coefficients: Array, extra: Array) -> tuple[Array, Array]:
        """Logarithms of computation and communication."""
        per_rank = self._per_rank(logs)
        w, c = coefficients[:, 1:] @ (logs - self.centre_).T + coefficients[:, :1]
        return per_rank + w + np.log1p(fractions @ np.exp(extra)), self._cubes * per_rank + c

    def _as_formula(self) -> Formula:
        d = len(self.centre_)
        exponents = np.zeros((2 + len(self.extra_), d, 2))
        # Computation, communication, then more computation for each kind of elements.
        exponents[:2, :, 0] = self.log_coefficients_[:, 1:]
        logs = self.log_coefficients_[:, 0] - exponents[:2, :, 0] @ self.centre_
        exponents[:2, 0, 0] -= 1.0, self._cubes
        if d > 1:
            exponents[:2, self.size_column, 0] += 1.0, self._cubes
        exponents[2:] = exponents[0]
        exponents[range(2, len(exponents)), list(self.fraction_columns), 0] += 1.0
        bases = np.zeros(d)
        if self.level_:
            bases[self.size_column] = 2.0**self.dimensions
        return Formula(np.exp(np.append(logs, logs[0] + self.extra_)), exponents, bases)
