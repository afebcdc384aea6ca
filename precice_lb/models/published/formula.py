"""A performance model that can be written down: a sum of terms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from precice_lb.models.base import Array


@dataclass(frozen=True, eq=False)
class Formula:
    """A sum of terms ``coefficient · Π x^i log2(x)^j`` in the number of ranks and further parameters.

    The (extended) performance model normal form: equation 2.6 of Schröder 2019, after Calotoiu et al. 2013; with
    further parameters equation 2.12, after Calotoiu et al. 2016, equation 2.
    """

    # Seconds, shape (terms,), in the order they are printed.
    coefficients: Array
    # Exponents i and j of the ranks, ``p``, and of each parameter, ``x1``, ``x2``, …, shape (terms, d, 2).
    exponents: Array
    # Of a parameter that is a level: terms hold powers of base^parameter in its place; 0 for others, shape (d,).
    bases: Array

    def __call__(self, points: ArrayLike) -> Array:
        """Seconds at rows (n, d) of ranks and parameters, shape (n,); not finite where log(1) is divided by."""
        rows = np.asarray(points, dtype=np.float64).reshape(-1, len(self.bases))
        rows = np.where(self.bases > 0, np.power(np.maximum(self.bases, 1.0), rows), rows)
        # Infinite terms of opposite sign give NaN, which is what they are worth.
        with np.errstate(invalid="ignore"):
            return np.asarray(self.coefficients @ term_values(rows, self.exponents))

    def text(self) -> str:
        """Give plain text, such as ``0.0121 + 45.31·p^-0.95 + 3e-05·log2(p)``."""
        joined = ""
        for coefficient, pairs in zip(self.coefficients, self.exponents, strict=True):
            parts = [f"{abs(coefficient):.4g}"]
            for place, (base, powers) in enumerate(zip(self.bases, pairs, strict=True)):
                symbol = f"x{place}" if place else "p"
                name = f"({base:g}^{symbol})" if base else symbol
                for factor, power in zip((name, f"log2({name})"), powers, strict=True):
                    if power:
                        parts.append(factor if power == 1 else f"{factor}^{power:.4g}")
            sign = "-" if coefficient < 0 else "+"
            joined += (f" {sign} " if joined else sign.replace("+", "")) + "·".join(parts)
        return joined or "0"


def formula_of(model: Any) -> Formula | None:
    """Give the formula of a fitted model; None for an estimator that has none."""
    formula = getattr(model, "formula_", None)
    return formula if isinstance(formula, Formula) else None


def term_values(points: Array, exponents: Array) -> Array:
    """Basis functions Π x^i log2(x)^j (Schröder 2019, equation 2.5); infinite where log(1) has a negative exponent.

    At points (n, d), for exponents i and j of each term and column, shape (T, d, 2); shape (T, n).
    """
    result = np.ones((len(exponents), len(points)))
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        for x, (i, j) in zip(points.T, exponents.transpose(1, 2, 0), strict=True):
            result *= np.power(x, i[:, None]) * np.power(np.log2(x), j[:, None])
    return result
