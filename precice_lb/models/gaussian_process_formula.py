"""The median curve of a Gaussian process as an expression: a power law times a smooth deviation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from precice_lb.models.formula import Expression, names_of

__all__ = ["ProcessFormula"]

Array = NDArray[np.float64]

# Curves are kept within these logarithms of seconds.
LARGEST = 600.0


@dataclass(frozen=True, eq=False)
class ProcessFormula(Expression):
    """``exp(constant + slopes · u + Σ weights_k exp(-½ |(u - u_k) / lengths|²)) / p`` with u = ln(x) - centre.

    Attributes
    ----------
    constant : float
        Level.
    slopes, lengths, centre : arrays of shape (d,)
        For ranks and parameters.
    weights : array of shape (n,)
        Of the measurements.
    points : array of shape (n, d)
        u of the measurements.
    """

    constant: float
    slopes: Array
    weights: Array
    points: Array
    lengths: Array
    centre: Array

    @property
    def names(self) -> tuple[str, ...]:
        """Of ranks and parameters."""
        return names_of(len(self.centre))

    def __call__(self, points: ArrayLike) -> Array:
        """Seconds at each row of ranks and parameters, shape (n,)."""
        logs = np.log(np.asarray(points, dtype=np.float64).reshape(-1, len(self.centre)))
        u = logs - self.centre
        apart = (u[:, None, :] - self.points[None]) / self.lengths
        smooth = np.exp(-0.5 * np.square(apart).sum(axis=2)) @ self.weights
        values = self.constant + u @ self.slopes + smooth - logs[:, 0]
        return np.asarray(np.exp(np.clip(values, -LARGEST, LARGEST)), dtype=np.float64)

    def text(self, digits: int = 4) -> str:
        """Plain text: the power law, and how many bumps bend it."""
        factor = float(np.exp(np.clip(self.constant - self.slopes @ self.centre, -LARGEST, LARGEST)))
        powers = self.slopes.copy()
        powers[0] -= 1
        law = "·".join(f"{name}^{power:.{digits}g}" for name, power in zip(self.names, powers, strict=True))
        scales = ", ".join(f"{length:.{digits}g}" for length in self.lengths)
        return (
            f"{factor:.{digits}g}·{law}·exp(sum of {len(self.weights)} bumps of up to "
            f"{np.abs(self.weights).max():.{digits}g} with lengths {scales} in ln)"
        )

    def latex(self, digits: int = 4) -> str:
        """LaTeX for math mode, with the smooth deviation as a function s."""
        parts = [f"{self.constant:.{digits}g}"]
        for name, slope, centre in zip(self.names, self.slopes, self.centre, strict=True):
            parts.append(rf"{slope:+.{digits}g}\,(\ln {name} {-centre:+.{digits}g})")
        return rf"\frac{{1}}{{p}} \exp({' '.join(parts)} + s({', '.join(self.names)}))"

    def python(self) -> str:
        """Python expression of ``p``, ``x1``, … (with ``math`` imported) at full precision."""
        logs = [f"(math.log({name}) - {c!r})" for name, c in zip(self.names, self.centre.tolist(), strict=True)]
        parts = [repr(float(self.constant))]
        parts += [f"{slope!r} * {u}" for u, slope in zip(logs, self.slopes.tolist(), strict=True)]
        for weight, point in zip(self.weights.tolist(), self.points.tolist(), strict=True):
            squares = " + ".join(
                f"(({u} - {at!r}) / {length!r}) ** 2"
                for u, at, length in zip(logs, point, self.lengths.tolist(), strict=True)
            )
            parts.append(f"{weight!r} * math.exp(-0.5 * ({squares}))")
        return f"math.exp({' + '.join(parts)}) / p"
