"""Factorised model: what is known about scaling is taken out, the rest is learned (Oskooi et al., equation 1).

T = W·N/p + C·(N/p)^((D-1)/D): computation is proportional to the elements per rank, communication to the surface of a
rank's part of the mesh. The coefficients W and C are nearly constant, so their logarithms are learned as linear
functions of the logarithms of ranks, size and further parameters, drawn towards constants. The paper has computation
and communication measured apart and trains networks on thousands of runs; here both are told apart by how the sum
scales, from a handful.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares
from scipy.stats import t as student

from precice_lb.exceptions import ModelError
from precice_lb.models.base import Learner, array
from precice_lb.models.formula import Formula, names_of, term_of

__all__ = ["FactorizedRegressor"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

# Guess of the share of communication at a typical measurement, and the prior's standard deviation of its logarithm.
COMMUNICATION, COMMUNICATION_SCALE = 0.05, 2.0
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
        Prior guess of the relative noise of one measurement, worth two measurements.
    """

    learner_name: ClassVar[str] = "factorized"
    former_names: ClassVar[Mapping[str, str]] = {"slope_spread": "slope_scale"}
    several_parameters: ClassVar[bool] = True
    learned: ClassVar[Mapping[str, Callable[[Any], Any]]] = {
        # Rows for ln W and ln C: the constant, then the slope for each column of X in ln(x) about the centre, its mean
        # (where the size is a level, of ln N); and the covariance of the free ones, of columns that were varied.
        **dict.fromkeys(("log_coefficients", "centre", "covariance"), array),
        "free": partial(np.asarray, dtype=np.bool_),
        "level": bool,
        "degrees_of_freedom": int,
    }
    # A sum of two powers falls, then rises, whatever their exponents.
    always_valid: ClassVar[bool] = True

    size_column: int = 1
    dimensions: int = 3
    size_is_level: bool | None = None
    slope_scale: float = 0.2
    noise: float = 0.05

    def _fit(self, points: Array, seconds: Array, errors: Array) -> None:
        self._check_parameters(points)
        scale = np.sqrt(self.noise**2 + (errors / seconds) ** 2)
        ends = [self._fitted(points, seconds, scale, level) for level in self._choices(points)]
        self.level_, self.centre_, self.free_, best = min(ends, key=lambda end: float(end[3].cost))
        n, d = points.shape
        self.log_coefficients_ = np.zeros((2, 1 + d))
        self.log_coefficients_[:, np.append(True, self.free_)] = best.x.reshape(2, -1)
        # The guess of the noise counts as two measurements.
        squares = float(np.square(best.fun[:n]).sum())
        self.degrees_of_freedom_ = 2 + max(n - 2, 0)
        self.covariance_ = np.linalg.pinv(best.jac.T @ best.jac) * (2 + squares) / self.degrees_of_freedom_

    def _predict(self, points: Array) -> Array:
        logs = np.logaddexp(*self._parts(self._free(), self._logs(points, self.level_), self.centre_, self.free_))
        return np.asarray(np.exp(np.clip(logs, -600.0, 600.0)), dtype=np.float64)

    def _interval(self, points: Array, level: float) -> tuple[Array, Array]:
        """Student-t bounds of the logarithm by linearisation; exponents are uncertain within their prior."""
        logs = self._logs(points, self.level_)
        parts = self._parts(self._free(), logs, self.centre_, self.free_)
        total = np.logaddexp(*parts)
        basis = np.vstack([np.ones(len(logs)), (logs - self.centre_)[:, self.free_].T])
        jacobian = np.concatenate([np.exp(part - total) * basis for part in parts])
        variance = np.einsum("in,ij,jn->n", jacobian, self.covariance_, jacobian)
        half = float(student.ppf((1 + level) / 2, self.degrees_of_freedom_)) * np.sqrt(np.maximum(variance, 0.0))
        return np.exp(np.clip(total - half, -600.0, 600.0)), np.exp(np.clip(total + half, -600.0, 600.0))

    @classmethod
    def _upgraded(cls, state: dict[str, Any]) -> dict[str, Any]:
        return {"level": False, **state}

    def _positive_for(self) -> str:
        return "their powers"

    def _choices(self, points: Array) -> list[bool]:
        """Whether to take the size as a level: what was asked for, or both where both may be."""
        if points.shape[1] == 1:
            return [False]
        if self.size_is_level is not None:
            return [bool(self.size_is_level)]
        sizes = points[:, self.size_column]
        return [False, True] if (sizes == np.rint(sizes)).all() and sizes.max() <= LARGEST_LEVEL else [False]

    def _logs(self, points: Array, level: bool) -> Array:
        logs = np.log(points)
        if level:
            logs[:, self.size_column] = points[:, self.size_column] * self.dimensions * np.log(2.0)
        return np.asarray(logs, dtype=np.float64)

    def _fitted(self, points: Array, seconds: Array, scale: Array, level: bool) -> tuple[bool, Array, Mask, Any]:
        """Fit, with the size as a level or not; the best of several starts."""
        logs, target = self._logs(points, level), np.log(seconds)
        centre = logs.mean(axis=0)
        free = (np.ptp(logs, axis=0) > 0) & (self.slope_scale > 0)
        slopes = int(free.sum())
        known = self._known(logs)
        typical = float(np.mean(target - known[0]))
        shift = float(np.mean(known[0] - known[1]))

        def residuals(coefficients: Array) -> Array:
            w, c = coefficients.reshape(2, 1 + slopes)
            fitted = np.logaddexp(*self._parts(coefficients, logs, centre, free))
            share = (c[0] - w[0] - shift - math.log(COMMUNICATION)) / COMMUNICATION_SCALE
            drawn = np.concatenate([w[1:], c[1:]]) / (self.slope_scale or 1.0)
            return np.concatenate([(fitted - target) / scale, drawn, [share]])

        ends = []
        for start in STARTS:
            first = np.zeros((2, 1 + slopes))
            first[:, 0] = typical + math.log1p(-start), typical + shift + math.log(start)
            ends.append(least_squares(residuals, first.ravel()))
        return level, centre, free, min(ends, key=lambda end: float(end.cost))

    def _known(self, logs: Array) -> tuple[Array, Array]:
        """Logarithms of what is known of both terms: elements and surface per rank."""
        per_rank = (logs[:, self.size_column] if logs.shape[1] > 1 else 0.0) - logs[:, 0]
        return per_rank, per_rank * (self.dimensions - 1) / self.dimensions

    def _parts(self, coefficients: Array, logs: Array, centre: Array, free: Mask) -> tuple[Array, Array]:
        """Logarithms of computation and communication."""
        basis = np.column_stack([np.ones(len(logs)), (logs - centre)[:, free]])
        w, c = coefficients.reshape(2, -1)
        computation, communication = self._known(logs)
        return computation + basis @ w, communication + basis @ c

    def _free(self) -> Array:
        kept = np.concatenate([[True], self.free_])
        return self.log_coefficients_[:, kept].ravel()

    def _prepare(self) -> None:
        terms, d = [], len(self.centre_)
        surface = (self.dimensions - 1) / self.dimensions
        for row, power in zip(self.log_coefficients_, (1.0, surface), strict=True):
            exponents = row[1:].copy()
            exponents[0] -= power
            if d > 1:
                exponents[self.size_column] += power
            coefficient = math.exp(row[0] - float(row[1:] @ self.centre_))
            terms.append(term_of(coefficient, np.column_stack([exponents, np.zeros(d)])))
        bases = tuple(2.0**self.dimensions * (self.level_ and place == self.size_column) for place in range(d))
        self.formula_ = Formula(tuple(terms), names=names_of(d), bases=bases if d > 1 else ())

    def _check_parameters(self, points: Array) -> None:
        d = points.shape[1]
        if d > 1 and not 1 <= self.size_column < d:
            raise ModelError(f"expected size_column from 1 to {d - 1}, found {self.size_column!r}")
        if self.dimensions not in (2, 3):
            raise ModelError(f"expected dimensions of 2 or 3, found {self.dimensions!r}")
        if not self.slope_scale >= 0 or not self.noise > 0:
            raise ModelError(
                f"expected slope_scale of at least 0 and noise above 0, found {self.slope_scale!r} and {self.noise!r}"
            )
