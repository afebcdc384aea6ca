"""A performance model as a sum of terms that several printers can write down."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from precice_lb.exceptions import ModelError

__all__ = ["Formula", "Term", "term_values"]


@dataclass(frozen=True)
class Term:
    """``coefficient * p**exponent * log(p)**log_exponent``; the coefficient is in seconds."""

    coefficient: float
    exponent: float = 0.0
    log_exponent: float = 0.0


@dataclass(frozen=True)
class Formula:
    """A sum of terms in the number of ranks ``p``: the performance model normal form.

    Attributes
    ----------
    terms : tuple of Term
        In the order they are printed.
    log_base : float
        Base of the logarithm of every term.

    Notes
    -----
    The normal form is equation 2.6 of Schröder 2019, after Calotoiu et al. 2013.
    """

    terms: tuple[Term, ...]
    log_base: float = 2.0

    def __call__(self, ranks: ArrayLike) -> NDArray[np.float64]:
        """Seconds at each number of ranks, in the shape of ``ranks``; not finite where log(1) is divided by."""
        p = np.asarray(ranks, dtype=np.float64)
        if not self.terms:
            return np.zeros_like(p)
        coefficients = np.array([term.coefficient for term in self.terms])
        values = term_values(
            p.ravel(), [t.exponent for t in self.terms], [t.log_exponent for t in self.terms], self.log_base
        )
        # Infinite terms of opposite sign give NaN, which is what they are worth.
        with np.errstate(invalid="ignore"):
            return np.asarray(coefficients @ values, dtype=np.float64).reshape(p.shape)

    def text(self, digits: int = 4) -> str:
        """Plain text, such as ``0.0121 + 45.31·p^-0.95 + 3e-05·log2(p)``."""
        log = {2.0: "log2(p)", 10.0: "log10(p)", math.e: "ln(p)"}.get(self.log_base, f"log_{self.log_base:g}(p)")
        return self._join(
            [
                "·".join(
                    [f"{abs(t.coefficient):.{digits}g}"]
                    + ([_power("p", t.exponent, "^{}")] if t.exponent else [])
                    + ([_power(log, t.log_exponent, "^{}")] if t.log_exponent else [])
                )
                for t in self.terms
            ]
        )

    def latex(self, digits: int = 4) -> str:
        r"""LaTeX for math mode, such as ``0.0121 + 45.31\,p^{-0.95}``."""
        log = r"\ln(p)" if self.log_base == math.e else rf"\log_{{{self.log_base:g}}}(p)"
        return self._join(
            [
                r"\,".join(
                    [_latex_number(abs(t.coefficient), digits)]
                    + ([_power("p", t.exponent, "^{{{}}}")] if t.exponent else [])
                    + ([_power(log, t.log_exponent, "^{{{}}}")] if t.log_exponent else [])
                )
                for t in self.terms
            ]
        )

    def python(self) -> str:
        """Give a Python expression of ``p`` (with ``math`` imported) at full precision."""
        log = {2.0: "math.log2(p)", 10.0: "math.log10(p)", math.e: "math.log(p)"}.get(
            self.log_base, f"math.log(p, {self.log_base!r})"
        )
        return self._join(
            [
                " * ".join(
                    [repr(abs(float(t.coefficient)))]
                    + ([_power("p", t.exponent, "**{}")] if t.exponent else [])
                    + ([_power(log, t.log_exponent, "**{}")] if t.log_exponent else [])
                )
                for t in self.terms
            ]
        )

    def to_dict(self) -> dict[str, Any]:
        """Give plain JSON types, read back by `from_dict`."""
        return {
            "log_base": float(self.log_base),
            "terms": [
                {
                    "coefficient": float(t.coefficient),
                    "exponent": float(t.exponent),
                    "log_exponent": float(t.log_exponent),
                }
                for t in self.terms
            ],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Formula:
        """Read what `to_dict` gave.

        Raises
        ------
        ModelError
            Not a formula.
        """
        try:
            terms = tuple(
                Term(float(t["coefficient"]), float(t["exponent"]), float(t["log_exponent"])) for t in data["terms"]
            )
            return cls(terms, float(data["log_base"]))
        except (KeyError, TypeError, ValueError) as error:
            raise ModelError(f"expected a formula with log_base and terms, found {data!r:.80}") from error

    def _join(self, parts: list[str]) -> str:
        signs = ["-" if term.coefficient < 0 else "+" for term in self.terms]
        if not parts:
            return "0"
        joined = parts[0] if signs[0] == "+" else f"-{parts[0]}"
        return joined + "".join(f" {sign} {part}" for sign, part in zip(signs[1:], parts[1:], strict=True))


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
    return base if exponent == 1 else base + form.format(f"{exponent:g}")


def _latex_number(value: float, digits: int) -> str:
    mantissa, _, power = f"{value:.{digits}g}".partition("e")
    return rf"{mantissa} \cdot 10^{{{int(power)}}}" if power else mantissa
