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

    def __call__(self, points: ArrayLike) -> Array:
        """Seconds at rows (n, d) of ranks and parameters, shape (n,); not finite where log(1) is divided by."""
        rows = np.asarray(points, dtype=np.float64).reshape(-1, self.exponents.shape[1])
        # Infinite terms of opposite sign give NaN, which is what they are worth.
        with np.errstate(invalid="ignore"):
            return np.asarray(self.coefficients @ term_values(rows, self.exponents))

    def text(self) -> str:
        """Give plain text, such as ``0.0121 + 45.31·p^-0.95 + 3e-05·log2(p)``."""
        symbols = ["p", *(f"x{place}" for place in range(1, self.exponents.shape[1]))]
        names = [name for symbol in symbols for name in (symbol, f"log2({symbol})")]
        terms = []
        for coefficient, powers in zip(self.coefficients, self.exponents.reshape(-1, len(names)), strict=True):
            factors = [
                name if power == 1 else f"{name}^{power:.4g}"
                for name, power in zip(names, powers, strict=True)
                if power
            ]
            terms.append("·".join([f"{coefficient:.4g}", *factors]))
        return " + ".join(terms).replace("+ -", "- ") or "0"


def formula_of(model: Any) -> Formula | None:
    """Give the formula of a fitted model; None for an estimator that has none."""
    formula = getattr(model, "formula_", None)
    return formula if isinstance(formula, Formula) else None


def term_values(points: Array, exponents: Array) -> Array:
    """Basis functions Π x^i log2(x)^j (Schröder 2019, equation 2.5); infinite where log(1) has a negative exponent.

    At points (n, d), for exponents i and j of each term and column, shape (T, d, 2); shape (T, n).
    """
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        factors = points ** exponents[:, None, :, 0] * np.log2(points) ** exponents[:, None, :, 1]
        return np.asarray(factors.prod(axis=2))
