"""A performance model that can be written down: mostly a sum of terms."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from precice_lb.exceptions import ModelError
from precice_lb.plain import plain

Array = NDArray[np.float64]

# Longer formulas are for programs.
TERMS_ON_SCREEN = 4


@runtime_checkable
class Expression(Protocol):
    """What every learner's model can be written as."""

    @property
    def names(self) -> tuple[str, ...]:
        """Of the ranks, ``p``, and of the parameters, ``x1``, ``x2``, …."""
        ...

    def __call__(self, points: ArrayLike) -> Array:
        """Seconds at each number of ranks, or at each row of ranks and parameters."""
        ...

    def text(self, digits: int = 4) -> str:
        """Plain text on one line."""
        ...

    def brief(self) -> str:
        """Plain text for a screen: of many terms or pieces only their number."""
        for parts in ("terms", "pieces"):
            if (count := len(getattr(self, parts, ()))) > TERMS_ON_SCREEN:
                return f"{count} {parts}"
        return self.text()

    def to_dict(self) -> dict[str, Any]:
        """Give plain JSON types."""
        values: dict[str, Any] = plain(self)
        return values


@dataclass(frozen=True)
class Term:
    """``coefficient * p**exponent * log(p)**log_exponent``.

    Attributes
    ----------
    coefficient : float
        Seconds.
    exponent, log_exponent : float
        Of the ranks.
    others : tuple of (float, float)
        Such a pair of exponents for each further parameter that the term depends on, in the order of the formula's
        names; it may be shorter than those.
    """

    coefficient: float
    exponent: float = 0.0
    log_exponent: float = 0.0
    others: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True)
class Formula(Expression):
    """A sum of terms in the number of ranks ``p`` and further parameters: the (extended) performance model normal form.

    Attributes
    ----------
    terms : tuple of Term
        In the order they are printed.
    log_base : float
        Base of the logarithm of every term.
    names : tuple of str
        Of the ranks and of the further parameters.
    bases : tuple of float
        Of a parameter that is a level: terms hold powers of base^parameter instead of the parameter; 0 for others. May
        be shorter than the names.

    Notes
    -----
    The normal form is equation 2.6 of Schröder 2019, after Calotoiu et al. 2013; with further parameters equation 2.12,
    after Calotoiu et al. 2016, equation 2.
    """

    terms: tuple[Term, ...]
    log_base: float = 2.0
    names: tuple[str, ...] = ("p",)
    bases: tuple[float, ...] = ()

    def __call__(self, points: ArrayLike) -> Array:
        """Seconds at numbers of ranks, in their shape, or at rows (n, d); not finite where log(1) is divided by."""
        p = np.asarray(points, dtype=np.float64)
        shape = p.shape if len(self.names) == 1 else p.shape[:-1]
        rows = p.reshape(-1, len(self.names))
        if any(self.bases):
            rows = np.column_stack([base**x if base else x for x, base in zip(rows.T, self._bases(), strict=True)])
        coefficients = np.array([term.coefficient for term in self.terms])
        # Infinite terms of opposite sign give NaN, which is what they are worth.
        with np.errstate(invalid="ignore"):
            values = term_values(rows, self.exponents(), self.log_base)
            return np.asarray(coefficients @ values, dtype=np.float64).reshape(shape)

    def exponents(self) -> Array:
        """Give exponents and log exponents of every term, shape (terms, d, 2)."""
        d = len(self.names)
        found = np.zeros((len(self.terms), d, 2))
        for row, term in zip(found, self.terms, strict=True):
            pairs = ((term.exponent, term.log_exponent), *term.others)[:d]
            row[: len(pairs)] = pairs
        return found

    def text(self, digits: int = 4) -> str:
        """Give plain text, such as ``0.0121 + 45.31·p^-0.95 + 3e-05·log2(p)``.

        Parameters
        ----------
        digits : int
            Significant digits of the coefficients.
        """
        log = {2.0: "log2({})", 10.0: "log10({})", math.e: "ln({})"}.get(self.log_base, f"log_{self.log_base:g}({{}})")
        joined = ""
        for term, pairs in zip(self.terms, self.exponents().tolist(), strict=True):
            parts = [f"{abs(term.coefficient):.{digits}g}"]
            for symbol, base, (exponent, log_exponent) in zip(self.names, self._bases(), pairs, strict=True):
                name = f"({base:g}^{symbol})" if base else symbol
                for factor, power in ((name, exponent), (log.format(name), log_exponent)):
                    if power:
                        parts.append(factor if power == 1 else f"{factor}^{power:.4g}")
            sign = "-" if term.coefficient < 0 else "+"
            joined += (f" {sign} " if joined else sign.replace("+", "")) + "·".join(parts)
        return joined or "0"

    def _bases(self) -> tuple[float, ...]:
        return self.bases + (0.0,) * (len(self.names) - len(self.bases))


def term_of(coefficient: float, pairs: ArrayLike) -> Term:
    """Make a term of exponents and log exponents of the ranks and of each parameter, shape (d, 2)."""
    (i, j), *others = np.asarray(pairs, dtype=np.float64).tolist()
    return Term(float(coefficient), i, j, tuple((k, m) for k, m in others))


def names_of(columns: int) -> tuple[str, ...]:
    """Give the names of ranks and parameters, so many in all."""
    return "p", *(f"x{place}" for place in range(1, columns))


def formula_of(model: Any) -> Expression | None:
    """Give the formula of a fitted model; None for an estimator that has none."""
    make = getattr(model, "formula", None)
    try:
        formula = make() if callable(make) else None
    except (NotImplementedError, ModelError):
        return None
    return formula if isinstance(formula, Expression) else None


def term_values(points: ArrayLike, exponents: ArrayLike, log_base: float = 2.0) -> Array:
    """Basis functions Π x^i log(x)^j (Schröder 2019, equation 2.5); infinite where log(1) has a negative exponent.

    At points (n,) or (n, d), for exponents i and j of each term and column, shape (T, 2) or (T, d, 2); shape (T, n).
    """
    columns = np.asarray(points, dtype=np.float64)
    columns = columns.reshape(len(columns), -1).T
    pairs = np.asarray(exponents, dtype=np.float64)
    pairs = pairs.reshape(len(pairs), len(columns), 2)
    result = np.ones((len(pairs), columns.shape[1]))
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        for x, i, j in zip(columns, pairs[:, :, 0].T, pairs[:, :, 1].T, strict=True):
            # log2 is exact at powers of two, unlike log(p) / log(2).
            logarithm = np.log2(x) if log_base == 2.0 else np.log(x) / math.log(log_base)
            result *= np.power(x, i[:, None]) * np.power(logarithm, j[:, None])
    return result
