"""A curve in pieces a + b·(p/q)^e that several printers can write down."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from precice_lb.exceptions import ModelError
from precice_lb.models.formula import TERMS_ON_SCREEN, Expression, latex_number

__all__ = ["Piece", "PiecewiseFormula", "piece_through"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Piece:
    """``constant + slope * (p / unit)**exponent``, up to and with ``until`` ranks."""

    until: float
    constant: float
    slope: float
    exponent: float = 1.0
    unit: float = 1.0

    def __call__(self, ranks: Array) -> Array:
        """Seconds at each number of ranks."""
        return np.asarray(self.constant + self.slope * (ranks / self.unit) ** self.exponent)

    def power(self, digits: int) -> str:
        """Write the part that depends on ranks as text, without its sign."""
        number = f"{abs(self.slope):.{digits}g}"
        if self.exponent == 0:
            return number
        if self.unit == 1 and abs(self.exponent) == 1:
            return f"{number}{'·' if self.exponent > 0 else '/'}p"
        return f"{number}·{'p' if self.unit == 1 else f'(p/{self.unit:g})'}^{self.exponent:.{digits}g}"


def piece_through(until: float, first: tuple[float, float], second: tuple[float, float], inverse: bool) -> Piece:
    """Give the piece a + b·p, or a + b/p, through two points (ranks, seconds)."""
    (p, c), (q, d) = first, second
    slope = (d - c) / (1 / q - 1 / p) if inverse else (d - c) / (q - p)
    return Piece(until, c - (slope / p if inverse else slope * p), slope, -1.0 if inverse else 1.0)


@dataclass(frozen=True)
class PiecewiseFormula(Expression):
    """Pieces in ascending order; the first holds from 1 rank on, the last one has no end."""

    pieces: tuple[Piece, ...]
    names: ClassVar[tuple[str, ...]] = ("p",)

    def __call__(self, points: ArrayLike) -> Array:
        """Seconds at each number of ranks, in the shape of ``points``."""
        p = np.asarray(points, dtype=np.float64)
        at = np.searchsorted([piece.until for piece in self.pieces[:-1]], p)
        table = np.array([(piece.constant, piece.slope, piece.exponent, piece.unit) for piece in self.pieces])
        constant, slope, exponent, unit = table.T[:, at]
        return np.asarray(constant + slope * (p / unit) ** exponent, dtype=np.float64)

    def text(self, digits: int = 4) -> str:
        """Plain text, such as ``9 - 0.5·p up to 8; 1 + 32/p beyond``."""
        parts = []
        for piece in self.pieces:
            head = f"{piece.constant:.{digits}g} {'-' if piece.slope < 0 else '+'} " if piece.constant else ""
            parts.append(f"{head}{piece.power(digits)} {self._range(piece, 'up to {:.6g}', 'beyond')}")
        return "; ".join(parts)

    def brief(self, digits: int = 4) -> str:
        """Plain text for a screen: of many pieces only their number."""
        return self.text(digits) if len(self.pieces) <= TERMS_ON_SCREEN else f"{len(self.pieces)} pieces"

    def latex(self, digits: int = 4) -> str:
        """LaTeX for math mode: cases."""
        rows = []
        for piece in self.pieces:
            number, sign = latex_number(abs(piece.slope), digits), "-" if piece.slope < 0 else "+"
            base = "p" if piece.unit == 1 else rf"\left(\frac{{p}}{{{piece.unit:g}}}\right)"
            slope = rf"{number}\,{base}" + ("" if piece.exponent == 1 else f"^{{{piece.exponent:.{digits}g}}}")
            slope = rf"\frac{{{number}}}{{p}}" if piece.exponent == -1 and piece.unit == 1 else slope
            head = ("-" if piece.constant < 0 else "") + latex_number(abs(piece.constant), digits)
            where = self._range(piece, r"p \le {:.6g}", r"\text{beyond}")
            rows.append(f"{head} {sign} {slope} & {where}" if piece.constant else f"{slope} & {where}")
        return r"\begin{cases} " + r" \\ ".join(rows) + r" \end{cases}"

    def python(self) -> str:
        """Give a Python expression of ``p`` at full precision."""
        parts = [f"({x.constant!r} + {x.slope!r} * (p / {x.unit!r})**{x.exponent!r})" for x in self.pieces]
        heads = [f"{part} if p <= {x.until!r} else " for part, x in zip(parts[:-1], self.pieces[:-1], strict=True)]
        return "(" + "".join(heads) + parts[-1] + ")"

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> PiecewiseFormula:
        """Read what ``to_dict`` gave; null is no end."""
        try:
            return cls(
                tuple(
                    Piece(**{name: math.inf if value is None else float(value) for name, value in piece.items()})
                    for piece in data["pieces"]
                )
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ModelError(f"expected a formula in pieces, found {data!r:.80}") from error

    def _range(self, piece: Piece, until: str, beyond: str) -> str:
        return until.format(piece.until) if math.isfinite(piece.until) else beyond
