"""Piecewise linear interpolation with the extrapolation rules of published load balancers.

What CIME's load balancing tool does, and what Kim, Larson and Chiu 2013, section V-A, say of theirs.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import t as student

from precice_lb.exceptions import ModelError
from precice_lb.models.base import Learner
from precice_lb.models.formula import Expression, latex_number
from precice_lb.models.measurements import means_of_repeats

Array = NDArray[np.float64]

RULES = ("cime", "kim")
# Relative error where nothing tells: too few rank counts to leave one out, no repeats, no standard errors.
UNKNOWN_ERROR = 0.05


@dataclass(frozen=True)
class Piece:
    """``constant + slope * (p / unit)**exponent``, up to and with ``until`` ranks."""

    until: float
    constant: float
    slope: float
    exponent: float = 1.0
    unit: float = 1.0

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
            until = f"up to {piece.until:.6g}" if math.isfinite(piece.until) else "beyond"
            parts.append(f"{head}{piece.power(digits)} {until}")
        return "; ".join(parts)

    def latex(self, digits: int = 4) -> str:
        """LaTeX for math mode: cases."""
        rows = []
        for piece in self.pieces:
            number, sign = latex_number(abs(piece.slope), digits), "-" if piece.slope < 0 else "+"
            base = "p" if piece.unit == 1 else rf"\left(\frac{{p}}{{{piece.unit:g}}}\right)"
            slope = rf"{number}\,{base}" + ("" if piece.exponent == 1 else f"^{{{piece.exponent:.{digits}g}}}")
            slope = rf"\frac{{{number}}}{{p}}" if piece.exponent == -1 and piece.unit == 1 else slope
            head = ("-" if piece.constant < 0 else "") + latex_number(abs(piece.constant), digits)
            where = rf"p \le {piece.until:.6g}" if math.isfinite(piece.until) else r"\text{beyond}"
            rows.append(f"{head} {sign} {slope} & {where}" if piece.constant else f"{slope} & {where}")
        return r"\begin{cases} " + r" \\ ".join(rows) + r" \end{cases}"

    def python(self) -> str:
        """Give a Python expression of ``p`` at full precision."""
        parts = [f"({x.constant!r} + {x.slope!r} * (p / {x.unit!r})**{x.exponent!r})" for x in self.pieces]
        heads = [f"{part} if p <= {x.until!r} else " for part, x in zip(parts[:-1], self.pieces[:-1], strict=True)]
        return "(" + "".join(heads) + parts[-1] + ")"


@dataclass(kw_only=True, eq=False, repr=False)
class PiecewiseRegressor(Learner):
    """Lines between the measurements, and a rule beyond them. Repeated measurements are averaged.

    Every prediction is positive and finite.

    Parameters
    ----------
    rule : {"cime", "kim"}
        ``"cime"``: linear between the points; below the first one linear to perfect scaling at 1 rank, (1, p_1 c_1);
        above the last one linear to cost(total) = c_n (1 - f + f p_n / total) with the parallel share of the last
        segment f = (1 - c_n/c_(n-1)) / (1 - p_(n-1)/p_n), at most 1 (as with one point only).
        ``"kim"``: two regions that part at half of the largest measured rank count. The paper leaves the details to
        a reference; here segments that begin in the lower region are linear in 1/p, where time falls like the work per
        rank, the others linear in p. Both ends are continued linearly in 1/p, rising towards fewer ranks, and towards
        more ranks never to below zero.
    total_ranks : int or None
        CIME's total. Without it, and beyond it, the curve above the last point is cost(p) itself.
    """

    learner_name: ClassVar[str] = "piecewise"
    rule: str = "cime"
    total_ranks: int | None = None

    def _fit(self, points: Array, seconds: Array, errors: Array) -> None:
        if self.rule not in RULES:
            raise ModelError(f"expected a rule out of {', '.join(RULES)}, found {self.rule!r}")
        if self.total_ranks is not None and not 1 <= self.total_ranks < math.inf:
            raise ModelError(f"expected total_ranks of at least 1, found {self.total_ranks!r}")
        self.ranks_, means, labels = means_of_repeats(points[:, 0], seconds)
        ranks = self.ranks_
        self.formula_ = PiecewiseFormula(self._pieces(ranks, means))
        found = [float(np.sqrt(np.mean((errors / seconds) ** 2)))]
        if len(ranks) > 2:
            missed = []
            for left_out in range(1, len(ranks) - 1):
                rest = PiecewiseFormula(self._pieces(np.delete(ranks, left_out), np.delete(means, left_out)))
                missed.append(np.log(float(rest(ranks[left_out])) / means[left_out]))
            # An interpolated value has the errors of its neighbours too: 1 + ½ times the variance of one.
            found.append(float(np.sqrt(np.mean(np.square(missed)) / 1.5)))
        if len(seconds) > len(ranks):
            residuals = np.log(seconds / means[labels])
            found.append(float(np.sqrt(residuals @ residuals / (len(seconds) - len(ranks)))))
        # Relative (of the logarithm): the largest of what leaving an inner point out, repeats and standard errors tell.
        self.error_ = max(found) if max(found) > 0 or len(found) > 1 else UNKNOWN_ERROR

    def _interval(self, points: Array, level: float) -> tuple[Array, Array]:
        """Student-t bounds of the logarithm; each factor of two beyond the measured range adds the error once more."""
        mean, ranks = self._predict(points), points[:, 0]
        away = np.abs(np.log2(ranks / np.clip(ranks, self.ranks_[0], self.ranks_[-1])))
        half = float(student.ppf((1 + level) / 2, max(len(self.ranks_) - 2, 1))) * self.error_ * (1 + away)
        factor = np.exp(np.minimum(half, 300.0))
        return mean / factor, mean * factor

    def _pieces(self, ranks: Array, seconds: Array) -> tuple[Piece, ...]:
        points = list(zip(ranks.tolist(), seconds.tolist(), strict=True))
        segments, (p, c), (q, d) = list(itertools.pairwise(points)), points[0], points[-1]
        if self.rule == "kim":
            inner = [piece_through(right[0], left, right, left[0] < q / 2) for left, right in segments]
            below = max(piece_through(p, *segments[0], True).slope if segments else c * p, 0.0)
            above = min(piece_through(q, *segments[-1], True).slope if segments else d * q, d * q)
            return (Piece(p, c - below / p, below, -1.0), *inner, Piece(math.inf, d - above / q, above, -1.0))
        if p > 1:
            points.insert(0, (1.0, p * c))
        inner = [piece_through(right[0], left, right, False) for left, right in itertools.pairwise(points)]
        share = 1.0
        if segments:
            before, slower = segments[-1][0]
            share = min((1 - d / slower) / (1 - before / q), 1.0)
        law = Piece(math.inf, d * (1 - share), d * share * q, -1.0)
        if self.total_ranks is not None and self.total_ranks > q:
            total = float(self.total_ranks)
            inner.append(piece_through(total, (q, d), (total, law.constant + law.slope / total), False))
        return (*inner, law)
