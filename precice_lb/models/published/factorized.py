"""Factorised model: what is known about scaling is taken out, the rest is learned (Oskooi et al., equation 1).

T = W·N/p + C·S: computation is proportional to the elements per rank, communication to the largest surface of a rank's
part of the mesh. The coefficients W and C are nearly constant, so their logarithms are learned as linear functions of
the logarithms of ranks, size and further parameters, drawn towards constants, and W as a sum over kinds of elements
where their fractions are known. The paper measures computation and communication apart and trains networks on thousands
of runs; here a handful serves. Where communication was not measured, both are told apart by how the sum scales; where
the surfaces are not known, they are those of cubes, (N/p)^((D-1)/D).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import OptimizeResult, least_squares
from scipy.stats import t as student

from precice_lb.exceptions import ModelError
from precice_lb.models.base import Learner, Self
from precice_lb.models.published.formula import Formula, names_of, term_of

Array = NDArray[np.float64]

# Prior's standard deviation of the exponent of surfaces, about that of cubes, over the usual noise of a surface.
_LOOSENESS = 4.0


@dataclass(frozen=True, eq=False)
class Form:
    """What is known of both terms, and of what their coefficients depend."""

    level: bool
    dimensions: int
    size_column: int
    centre: Array
    free: NDArray[np.bool_]
    fraction_columns: tuple[int, ...]
    # Factor's logarithm and exponent of surfaces over elements per rank.
    surface: Array

    def logs(self, points: Array) -> Array:
        """Logarithms of ranks and parameters, shape (n, d); of the size, where it is a level, of the elements."""
        kept = points.copy()
        kept[:, list(self.fraction_columns)] = 1.0
        logs = np.log(kept)
        if self.level:
            logs[:, self.size_column] = points[:, self.size_column] * self.dimensions * np.log(2.0)
        return np.asarray(logs, dtype=np.float64)

    def fractions(self, points: Array) -> Array:
        """Fractions of kinds of elements, shape (n, kinds)."""
        return np.asarray(points[:, list(self.fraction_columns)], dtype=np.float64)

    def basis(self, points: Array) -> Array:
        """Columns that the logarithm of a coefficient is linear in, shape (n, 1 + free)."""
        return np.column_stack([np.ones(len(points)), (self.logs(points) - self.centre)[:, self.free]])

    def known(self, points: Array) -> tuple[Array, Array]:
        """Logarithms of elements and surface per rank."""
        logs = self.logs(points)
        per_rank = (logs[:, self.size_column] if logs.shape[1] > 1 else 0.0) - logs[:, 0]
        return per_rank, self.surface[0] + self.surface[1] * per_rank

    def parts(self, coefficients: Array, points: Array, surfaces: Array | None = None) -> tuple[Array, Array]:
        """Logarithms of computation and communication; of surfaces, where they are known for these points."""
        basis = self.basis(points)
        w, c = coefficients[: 2 * basis.shape[1]].reshape(2, -1)
        kinds = np.log1p(self.fractions(points) @ np.exp(coefficients[2 * basis.shape[1] :]))
        computation, communication = self.known(points)
        return computation + basis @ w + kinds, (communication if surfaces is None else surfaces) + basis @ c


def power_law(x: Array, y: Array, exponent: float) -> Array:
    """Fit y = factor + exponent·x, drawn to an exponent as if by one point a unit of x away; shape (2,)."""
    centred = x - x.mean()
    weight = 1.0 / _LOOSENESS**2
    slope = (centred @ (y - y.mean()) + weight * exponent) / (centred @ centred + weight)
    return np.array([y.mean() - slope * x.mean(), slope])


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
        Prior guess of the relative noise of one measurement, worth two measurements.
    fraction_columns : sequence of int
        Columns of X that are fractions of the elements, from 0 to 1, which cost more than others: of porous cells, say.
        W is a sum over them, W = W0·(1 + a1·f1 + a2·f2 + …) with positive a.
    """

    learner_name: ClassVar[str] = "factorized"
    former_names: ClassVar[Mapping[str, str]] = {"slope_spread": "slope_scale"}
    several_parameters: ClassVar[bool] = True
    # A sum of two powers falls, then rises, whatever their exponents.
    always_valid: ClassVar[bool] = True

    size_column: int = 1
    dimensions: int = 3
    size_is_level: bool | None = None
    slope_scale: float = 0.2
    noise: float = 0.05
    fraction_columns: Sequence[int] = ()

    def fit(
        self: Self,
        X: ArrayLike,
        y: ArrayLike,
        standard_error: ArrayLike | None = None,
        *,
        communication: ArrayLike | None = None,
        surface: ArrayLike | None = None,
    ) -> Self:
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
        surface : array of shape (n,), optional
            Largest surface of a rank's part of the mesh, in any unit that is the same for all rows, as partitions give
            it. For other ranks and sizes a power of the elements per rank is fitted to it.

        Raises
        ------
        ModelError
            Bad input or parameters of the learner, or too few measurements for it.
        """
        rows = len(np.atleast_1d(np.asarray(y)))
        self._apart: Array = _column(communication, rows, "communication")
        self._surfaces: Array = _column(surface, rows, "surface")
        try:
            return super().fit(X, y, standard_error)
        finally:
            del self._apart, self._surfaces

    def _fit(self, points: Array, seconds: Array, errors: Array) -> None:
        self._check_parameters(points)
        if (bad := (self._apart < 0) | (self._apart >= seconds)).any():
            raise ModelError(
                f"expected communication from 0 to below the seconds of its row, found {self._apart[bad][0]:g} s of "
                f"{seconds[bad][0]:g} s"
            )
        if (bad := self._surfaces <= 0).any() or np.isnan(self._surfaces).any() != np.isnan(self._surfaces).all():
            raise ModelError("expected surfaces above 0 of all rows or of none, found others")
        scale = np.sqrt(self.noise**2 + (errors / seconds) ** 2)
        ends = [self._fitted(points, seconds, scale, level) for level in self._choices(points)]
        form, best, measured = min(ends, key=lambda end: float(end[1].cost))
        # Of each column of X the mean of ln(x) (where the size is a level, of ln N), and whether it was varied; the
        # factor's logarithm and the exponent of surfaces over elements per rank.
        self.level_, self.centre_, self.free_, self.surface_ = form.level, form.centre, form.free, form.surface
        slopes = 2 + 2 * int(form.free.sum())
        # ln a of the fractions; then rows for ln W and ln C: the constant, then the slope for each column.
        self.extra_ = best.x[slopes:]
        self.log_coefficients_ = np.zeros((2, 1 + points.shape[1]))
        self.log_coefficients_[:, np.append(True, self.free_)] = best.x[:slopes].reshape(2, -1)
        # The guess of the noise counts as two measurements.
        squares = float(np.square(best.fun[:measured]).sum())
        self.degrees_of_freedom_ = 2 + max(measured - 2, 0)
        self.covariance_ = np.linalg.pinv(best.jac.T @ best.jac) * (2 + squares) / self.degrees_of_freedom_
        self.formula_ = self._as_formula()

    def predict(self, X: ArrayLike, *, surface: ArrayLike | None = None) -> Array:
        """Seconds at each row of X.

        Parameters
        ----------
        X : array of shape (n, d)
            Ranks, then parameters.
        surface : array of shape (n,), optional
            Largest surface of a rank's part, as given to `fit`, where the partitions to come are known.

        Returns
        -------
        array of shape (n,)
            Seconds per time window.

        Raises
        ------
        ModelError
            Rows that are not like those of the fit, or surfaces that are not above 0.
        """
        points = self._points(X)
        surfaces = _column(surface, len(points), "surface")
        if surface is not None and not (surfaces > 0).all():
            raise ModelError(f"expected surfaces above 0, found {surfaces[~(surfaces > 0)][0]:g}")
        logs = np.logaddexp(*self._form().parts(self._free(), points, None if surface is None else np.log(surfaces)))
        return np.asarray(np.exp(np.clip(logs, -600.0, 600.0)), dtype=np.float64)

    def _interval(self, points: Array, level: float) -> tuple[Array, Array]:
        """Student-t bounds of the logarithm by linearisation; exponents are uncertain within their prior."""
        form = self._form()
        parts = form.parts(self._free(), points)
        total = np.logaddexp(*parts)
        shares = [np.exp(part - total) for part in parts]
        kinds = (form.fractions(points) * np.exp(self.extra_)).T
        rows = [share * form.basis(points).T for share in shares]
        jacobian = np.concatenate([*rows, shares[0] * kinds / (1.0 + kinds.sum(axis=0))])
        variance = np.einsum("in,ij,jn->n", jacobian, self.covariance_, jacobian)
        half = float(student.ppf((1 + level) / 2, self.degrees_of_freedom_)) * np.sqrt(np.maximum(variance, 0.0))
        return np.exp(np.clip(total - half, -600.0, 600.0)), np.exp(np.clip(total + half, -600.0, 600.0))

    def _positive_for(self) -> str:
        return "their powers"

    def _check_columns(self, points: Array) -> None:
        columns = list(self.fraction_columns)
        if columns and (min(columns) < 1 or max(columns) >= points.shape[1] or self.size_column in columns):
            raise ModelError(
                f"expected fraction_columns out of 1 to {points.shape[1] - 1} but {self.size_column}, the size, found "
                f"{columns}"
            )
        if ((points[:, columns] < 0) | (points[:, columns] > 1)).any():
            raise ModelError("expected fractions of elements from 0 to 1, found others")
        points = points.copy()
        points[:, columns] = 1.0
        super()._check_columns(points)

    def _choices(self, points: Array) -> list[bool]:
        """Whether to take the size as a level: what was asked for, or both where both may be."""
        if points.shape[1] == 1:
            return [False]
        if self.size_is_level is not None:
            return [bool(self.size_is_level)]
        sizes = points[:, self.size_column]
        return [False, True] if (sizes == np.rint(sizes)).all() and sizes.max() <= LARGEST_LEVEL else [False]

    def _form(self) -> Form:
        return Form(
            self.level_,
            self.dimensions,
            self.size_column,
            self.centre_,
            self.free_,
            tuple(self.fraction_columns),
            self.surface_,
        )

    def _fitted(self, points: Array, seconds: Array, scale: Array, level: bool) -> tuple[Form, OptimizeResult, int]:
        """Fit, with the size as a level or not: the best of several starts, and to how many measured values."""
        columns = tuple(self.fraction_columns)
        cubes = np.array([0.0, (self.dimensions - 1) / self.dimensions])
        nothing = np.zeros(points.shape[1])
        form = Form(level, self.dimensions, self.size_column, nothing, nothing > 0, columns, cubes)
        logs = form.logs(points)
        form = replace(form, centre=logs.mean(axis=0), free=(np.ptp(logs, axis=0) > 0) & (self.slope_scale > 0))
        surfaces = form.known(points)[1]
        if np.isfinite(self._surfaces).all():
            surfaces = np.log(self._surfaces)
            form = replace(form, surface=power_law(form.known(points)[0], surfaces, cubes[1]))
        apart = np.isfinite(self._apart)
        sent = apart & (self._apart > 0)
        target = np.log(seconds - np.where(apart, self._apart, 0.0))
        slopes = int(form.free.sum())
        per_rank = form.known(points)[0]
        typical, shift = float(np.mean(target - per_rank)), float(np.mean(per_rank - surfaces))

        def residuals(coefficients: Array) -> Array:
            w, c = coefficients[: 2 + 2 * slopes].reshape(2, -1)
            computation, communication = form.parts(coefficients, points, surfaces)
            fitted = np.where(apart, computation, np.logaddexp(computation, communication))
            share = (c[0] - w[0] - shift - math.log(COMMUNICATION)) / COMMUNICATION_SCALE
            drawn = np.concatenate([w[1:], c[1:]]) / (self.slope_scale or 1.0)
            exchanged = (communication - np.log(np.where(sent, self._apart, 1.0)))[sent] / scale[sent]
            extra = coefficients[2 + 2 * slopes :] / EXTRA_SCALE
            return np.concatenate([(fitted - target) / scale, exchanged, drawn, extra, [share]])

        ends = []
        for start in STARTS:
            first = np.zeros((2, 1 + slopes))
            first[:, 0] = typical + math.log1p(-start), typical + shift + math.log(start)
            ends.append(least_squares(residuals, np.append(first.ravel(), np.zeros(len(columns)))))
        return form, min(ends, key=lambda end: float(end.cost)), len(seconds) + int(sent.sum())

    def _free(self) -> Array:
        kept = np.concatenate([[True], self.free_])
        return np.concatenate([self.log_coefficients_[:, kept].ravel(), self.extra_])

    def _as_formula(self) -> Formula:
        d = len(self.centre_)
        powers, factors = (1.0, self.surface_[1]), (0.0, self.surface_[0])
        terms = []
        for row, power, factor in zip(self.log_coefficients_, powers, factors, strict=True):
            exponents = np.column_stack([row[1:], np.zeros(d)])
            exponents[0, 0] -= power
            if d > 1:
                exponents[self.size_column, 0] += power
            terms.append((math.exp(row[0] + factor - float(row[1:] @ self.centre_)), exponents))
        for column, extra in zip(self.fraction_columns, self.extra_, strict=True):
            coefficient, exponents = terms[0][0] * math.exp(extra), terms[0][1].copy()
            exponents[column, 0] += 1.0
            terms.append((coefficient, exponents))
        bases = tuple(2.0**self.dimensions * (self.level_ and place == self.size_column) for place in range(d))
        return Formula(tuple(term_of(*term) for term in terms), names=names_of(d), bases=bases if d > 1 else ())

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


def _column(values: ArrayLike | None, rows: int, name: str) -> Array:
    """Read one value for each row; NaN where nothing is given."""
    column = np.full(rows, np.nan) if values is None else np.asarray(values, dtype=np.float64)
    if column.shape != (rows,):
        raise ModelError(f"expected {name} of shape ({rows},), one for each row, found shape {column.shape}")
    return column
