"""A curve in pieces a + b·p or a + b/p that several printers can write down."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from precice_lb.exceptions import ModelError
from precice_lb.models.formula import TERMS_ON_SCREEN, latex_number

__all__ = ["Piece", "PiecewiseFormula", "piece_through"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Piece:
    """``constant + slope * p``, or ``constant + slope / p`` where ``inverse``, up to and with ``until`` ranks."""

    until: float
    constant: float
    slope: float
    inverse: bool = False

    def __call__(self, ranks: Array) -> Array:
        """Seconds at each number of ranks."""
        return self.constant + (self.slope / ranks if self.inverse else self.slope * ranks)


def piece_through(until: float, first: tuple[float, float], second: tuple[float, float], inverse: bool) -> Piece:
    """Give the piece through two points (ranks, seconds)."""
    (p, c), (q, d) = first, second
    slope = (d - c) / (1 / q - 1 / p) if inverse else (d - c) / (q - p)
    return Piece(until, c - (slope / p if inverse else slope * p), slope, inverse)


@dataclass(frozen=True)
class PiecewiseFormula:
    """Pieces in ascending order; the last one has no end.

    Attributes
    ----------
    pieces : tuple of Piece
        The first holds from 1 rank on.
    """

    pieces: tuple[Piece, ...]

    def __call__(self, points: ArrayLike) -> Array:
        """Seconds at each number of ranks, in the shape of ``points``."""
        p = np.asarray(points, dtype=np.float64)
        at = np.searchsorted([piece.until for piece in self.pieces[:-1]], p)
        constant = np.array([piece.constant for piece in self.pieces])[at]
        slope = np.array([piece.slope for piece in self.pieces])[at]
        inverse = np.array([piece.inverse for piece in self.pieces])[at]
        return np.asarray(constant + np.where(inverse, slope / p, slope * p), dtype=np.float64)

    def text(self, digits: int = 4) -> str:
        """Plain text, such as ``9 - 0.5·p up to 8; 1 + 32/p beyond``."""
        return "; ".join(
            f"{piece.constant:.{digits}g} {'-' if piece.slope < 0 else '+'} {abs(piece.slope):.{digits}g}"
            f"{'/' if piece.inverse else '·'}p {self._range(piece, 'up to {:.6g}', 'beyond')}"
            for piece in self.pieces
        )

    def brief(self, digits: int = 4) -> str:
        """Plain text for a screen: of many pieces only their number."""
        return self.text(digits) if len(self.pieces) <= TERMS_ON_SCREEN else f"{len(self.pieces)} pieces"

    def latex(self, digits: int = 4) -> str:
        """LaTeX for math mode: cases."""
        rows = []
        for piece in self.pieces:
            number, sign = latex_number(abs(piece.slope), digits), "-" if piece.slope < 0 else "+"
            slope = rf"\frac{{{number}}}{{p}}" if piece.inverse else rf"{number}\,p"
            head = ("-" if piece.constant < 0 else "") + latex_number(abs(piece.constant), digits)
            where = self._range(piece, r"p \le {:.6g}", r"\text{beyond}")
            rows.append(f"{head} {sign} {slope} & {where}")
        return r"\begin{cases} " + r" \\ ".join(rows) + r" \end{cases}"

    def python(self) -> str:
        """Give a Python expression of ``p`` at full precision."""
        parts = [f"({x.constant!r} + {x.slope!r} {'/' if x.inverse else '*'} p)" for x in self.pieces]
        heads = [f"{part} if p <= {x.until!r} else " for part, x in zip(parts[:-1], self.pieces[:-1], strict=True)]
        return "(" + "".join(heads) + parts[-1] + ")"

    def to_dict(self) -> dict[str, Any]:
        """Give plain JSON types, read back by `from_dict`; null for no end."""
        return {
            "pieces": [
                {
                    "until": piece.until if math.isfinite(piece.until) else None,
                    "constant": piece.constant,
                    "slope": piece.slope,
                    "inverse": piece.inverse,
                }
                for piece in self.pieces
            ]
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> PiecewiseFormula:
        """Read what `to_dict` gave.

        Raises
        ------
        ModelError
            Not such a formula.
        """
        try:
            return cls(
                tuple(
                    Piece(
                        math.inf if piece["until"] is None else float(piece["until"]),
                        float(piece["constant"]),
                        float(piece["slope"]),
                        bool(piece["inverse"]),
                    )
                    for piece in data["pieces"]
                )
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ModelError(f"expected a formula in pieces, found {data!r:.80}") from error

    def _range(self, piece: Piece, until: str, beyond: str) -> str:
        return until.format(piece.until) if math.isfinite(piece.until) else beyond
