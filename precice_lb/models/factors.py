"""What is known of computation and communication before a factorised model learns the rest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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
