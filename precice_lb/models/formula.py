"""A performance model that several printers can write down: mostly a sum of terms."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from precice_lb.exceptions import ModelError

__all__ = ["Expression", "Formula", "Term", "formula_of", "latex_number", "term_values"]

# Longer formulas are for programs.
TERMS_ON_SCREEN = 4


@runtime_checkable
class Expression(Protocol):
    """What every learner's model can be written as."""

    def __call__(self, points: ArrayLike) -> NDArray[np.float64]:
        """Seconds at each number of ranks, or at each row of ranks and parameters."""
        ...

    def text(self, digits: int = 4) -> str:
        """Plain text on one line."""
        ...

    def brief(self, digits: int = 4) -> str:
        """Plain text for a screen: the same as `text`, or what it consists of where that would be long."""
        ...

    def latex(self, digits: int = 4) -> str:
        """LaTeX for math mode."""
        ...

    def python(self) -> str:
        """Python expression of ``p`` (and ``x1``, ``x2``, …), with ``math`` imported, at full precision."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        ...


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

    def exponents(self, place: int) -> tuple[float, float]:
        """Give the exponents of one parameter and of its logarithm.

        Parameters
        ----------
        place : int
            0 for the ranks, then the parameters.
        """
        if place == 0:
            return self.exponent, self.log_exponent
        return self.others[place - 1] if place <= len(self.others) else (0.0, 0.0)


@dataclass(frozen=True)
class Formula:
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

    def __call__(self, points: ArrayLike) -> NDArray[np.float64]:
        """Seconds; not finite where log(1) is divided by.

        Parameters
        ----------
        points : array of any shape, or of shape (n, d)
            Numbers of ranks; with d - 1 further parameters one row for each point.

        Returns
        -------
        array of the shape of ``points``, or of shape (n,)
        """
        p = np.asarray(points, dtype=np.float64)
        columns = [p.ravel()] if len(self.names) == 1 else list(p.reshape(-1, len(self.names)).T)
        shape = p.shape if len(self.names) == 1 else p.shape[:-1]
        if not self.terms:
            return np.zeros(shape)
        coefficients = np.array([term.coefficient for term in self.terms])
        # Infinite terms of opposite sign give NaN, which is what they are worth.
        with np.errstate(invalid="ignore", over="ignore"):
            values = np.ones((len(self.terms), columns[0].size))
            for place, values_of_place in enumerate(columns):
                base = self._base(place)
                column = base**values_of_place if base else values_of_place
                pairs = [term.exponents(place) for term in self.terms]
                values *= term_values(column, [i for i, _ in pairs], [j for _, j in pairs], self.log_base)
            return np.asarray(coefficients @ values, dtype=np.float64).reshape(shape)

    def text(self, digits: int = 4) -> str:
        """Plain text, such as ``0.0121 + 45.31·p^-0.95 + 3e-05·log2(p)``.

        Parameters
        ----------
        digits : int
            Significant digits of the coefficients.

        Returns
        -------
        str
        """
        log = {2.0: "log2({})", 10.0: "log10({})", math.e: "ln({})"}.get(self.log_base, f"log_{self.log_base:g}({{}})")
        return self._join("·", [f"{abs(t.coefficient):.{digits}g}" for t in self.terms], log, "^{}")

    def brief(self, digits: int = 4) -> str:
        """Plain text for a screen: of many terms only their number.

        Parameters
        ----------
        digits : int
            Significant digits of the coefficients.

        Returns
        -------
        str
        """
        return self.text(digits) if len(self.terms) <= TERMS_ON_SCREEN else f"{len(self.terms)} terms"

    def latex(self, digits: int = 4) -> str:
        r"""LaTeX for math mode, such as ``0.0121 + 45.31\,p^{-0.95}``.

        Parameters
        ----------
        digits : int
            Significant digits of the coefficients.

        Returns
        -------
        str
        """
        log = r"\ln({})" if self.log_base == math.e else rf"\log_{{{{{self.log_base:g}}}}}({{}})"
        return self._join(r"\,", [latex_number(abs(t.coefficient), digits) for t in self.terms], log, "^{{{}}}")

    def python(self) -> str:
        """Give a Python expression of the names (with ``math`` imported) at full precision."""
        log = {2.0: "math.log2({})", 10.0: "math.log10({})", math.e: "math.log({})"}.get(
            self.log_base, f"math.log({{}}, {self.log_base!r})"
        )
        return self._join(" * ", [repr(abs(float(t.coefficient))) for t in self.terms], log, "**{}")

    def to_dict(self) -> dict[str, Any]:
        """Give plain JSON types, read back by `from_dict`."""
        return {
            "log_base": float(self.log_base),
            "names": list(self.names),
            "bases": [float(base) for base in self.bases],
            "terms": [
                {
                    "coefficient": float(t.coefficient),
                    "exponent": float(t.exponent),
                    "log_exponent": float(t.log_exponent),
                    "others": [[float(i), float(j)] for i, j in t.others],
                }
                for t in self.terms
            ],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Formula:
        """Read what `to_dict` gave.

        Parameters
        ----------
        data : mapping
            JSON types.

        Returns
        -------
        Formula

        Raises
        ------
        ModelError
            Not a formula.
        """
        try:
            terms = tuple(
                Term(
                    float(t["coefficient"]),
                    float(t["exponent"]),
                    float(t["log_exponent"]),
                    tuple((float(i), float(j)) for i, j in t.get("others", ())),
                )
                for t in data["terms"]
            )
            names = tuple(str(name) for name in data.get("names", ("p",)))
            return cls(terms, float(data["log_base"]), names, tuple(float(base) for base in data.get("bases", ())))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ModelError(f"expected a formula with log_base and terms, found {data!r:.80}") from error

    def _base(self, place: int) -> float:
        return self.bases[place] if place < len(self.bases) else 0.0

    def _join(self, times: str, coefficients: list[str], log: str, power: str) -> str:
        if not self.terms:
            return "0"
        joined = ""
        for term, coefficient in zip(self.terms, coefficients, strict=True):
            parts = [coefficient]
            for place, plain in enumerate(self.names):
                exponent, log_exponent = term.exponents(place)
                name = f"({self._base(place):g}{power.format(plain)})" if self._base(place) else plain
                if exponent:
                    parts.append(_power(name, exponent, power))
                if log_exponent:
                    parts.append(_power(log.format(name), log_exponent, power))
            sign = "-" if term.coefficient < 0 else "+"
            joined += (f" {sign} " if joined else sign.replace("+", "")) + times.join(parts)
        return joined


def formula_of(model: Any) -> Expression | None:
    """Give the formula of a fitted model; None for an estimator that has none.

    Parameters
    ----------
    model : estimator
        A learner, or anybody's scikit-learn regressor.

    Returns
    -------
    Expression or None
    """
    make = getattr(model, "formula", None)
    try:
        formula = make() if callable(make) else None
    except (NotImplementedError, ModelError):
        return None
    return formula if isinstance(formula, Expression) else None


def term_values(
    ranks: NDArray[np.float64],
    exponents: Iterable[float],
    log_exponents: Iterable[float],
    log_base: float = 2.0,
) -> NDArray[np.float64]:
    """Basis functions p^i log(p)^j, equation 2.5 of Schröder 2019.

    Parameters
    ----------
    ranks : array of shape (n,)
        Numbers of ranks, at least 1.
    exponents, log_exponents : iterables of length T
        i and j of each term.
    log_base : float
        Base of the logarithm.

    Returns
    -------
    array of shape (T, n)
        Infinite where log(1) = 0 has a negative exponent.
    """
    i = np.asarray(list(exponents), dtype=np.float64)[:, None]
    j = np.asarray(list(log_exponents), dtype=np.float64)[:, None]
    # log2 is exact at powers of two, unlike log(p) / log(2).
    logarithm = np.log2(ranks) if log_base == 2.0 else np.log(ranks) / math.log(log_base)
    with np.errstate(divide="ignore", over="ignore"):
        return np.asarray(np.power(ranks, i) * np.power(logarithm, j), dtype=np.float64)


def _power(base: str, exponent: float, form: str) -> str:
    if exponent == 1:
        return base
    # Learned exponents need all their digits where the expression is to be evaluated.
    return base + form.format(f"{float(exponent)!r}" if form == "**{}" else f"{exponent:.4g}")


def latex_number(value: float, digits: int = 4) -> str:
    """Write a number for math mode, with a power of ten instead of an exponent."""
    mantissa, _, power = f"{value:.{digits}g}".partition("e")
    return rf"{mantissa} \cdot 10^{{{int(power)}}}" if power else mantissa
