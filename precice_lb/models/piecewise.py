"""Piecewise linear interpolation with the extrapolation rules of published load balancers.

What CIME's load balancing tool does, and what Kim, Larson and Chiu 2013, section V-A, say of theirs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from precice_lb.exceptions import ModelError
from precice_lb.models.base import Learner, array
from precice_lb.models.piecewise_formula import Piece, PiecewiseFormula, piece_through

__all__ = ["RULES", "PiecewiseRegressor"]

Array = NDArray[np.float64]

RULES = ("cime", "kim")
# Relative error where nothing tells: too few rank counts to leave one out, no repeats, no standard errors.
UNKNOWN_ERROR = 0.05


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
    learned: ClassVar[Mapping[str, Callable[[Any], Any]]] = {
        "formula": PiecewiseFormula.from_dict,
        "ranks": array,
        # Relative error (of the logarithm): the largest of what leaving an inner point out, repeats and standard errors
        # tell, 5 % where nothing does.
        "error": float,
    }

    rule: str = "cime"
    total_ranks: int | None = None

    def _fit(self, points: Array, seconds: Array, errors: Array) -> None:
        if self.rule not in RULES:
            raise ModelError(f"expected a rule out of {', '.join(RULES)}, found {self.rule!r}")
        if self.total_ranks is not None and not 1 <= self.total_ranks < math.inf:
            raise ModelError(f"expected total_ranks of at least 1, found {self.total_ranks!r}")
        ranks, labels = np.unique(points[:, 0], return_inverse=True)
        means = np.bincount(labels, weights=seconds) / np.bincount(labels)
        self.ranks_ = ranks
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
        self.error_ = max(found) if max(found) > 0 or len(found) > 1 else UNKNOWN_ERROR

    def _interval(self, points: Array, level: float) -> tuple[Array, Array]:
        """Student-t bounds of the logarithm; each factor of two beyond the measured range adds the error once more."""
        mean, ranks = self._predict(points), points[:, 0]
        away = np.abs(np.log2(ranks / np.clip(ranks, self.ranks_[0], self.ranks_[-1])))
        half = float(student.ppf((1 + level) / 2, max(len(self.ranks_) - 2, 1))) * self.error_ * (1 + away)
        factor = np.exp(np.minimum(half, 300.0))
        return mean / factor, mean * factor

    def _pieces(self, ranks: Array, seconds: Array) -> tuple[Piece, ...]:
        points = [(float(p), float(c)) for p, c in zip(ranks, seconds, strict=True)]
        segments = list(itertools.pairwise(points))
        if self.rule == "kim":
            half = points[-1][0] / 2
            inner = [piece_through(right[0], left, right, left[0] < half) for left, right in segments]
            return (self._kim_below(points), *inner, self._kim_above(points))
        inner = [piece_through(right[0], left, right, False) for left, right in segments]
        return (*self._cime_below(points), *inner, *self._cime_above(points))

    def _cime_below(self, points: list[tuple[float, float]]) -> list[Piece]:
        (p, c) = points[0]
        return [piece_through(p, (1.0, p * c), (p, c), False)] if p > 1 else []

    def _cime_above(self, points: list[tuple[float, float]]) -> list[Piece]:
        (p, c), share = points[-1], 1.0
        if len(points) > 1:
            q, d = points[-2]
            share = min((1 - c / d) / (1 - q / p), 1.0)
        law = Piece(math.inf, c * (1 - share), c * share * p, -1.0)
        if self.total_ranks is None or self.total_ranks <= p:
            return [law]
        total = float(self.total_ranks)
        return [piece_through(total, (p, c), (total, float(law(np.float64(total)))), False), law]

    def _kim_below(self, points: list[tuple[float, float]]) -> Piece:
        (p, c) = points[0]
        slope = piece_through(p, points[0], points[1], True).slope if len(points) > 1 else c * p
        return Piece(p, c - max(slope, 0.0) / p, max(slope, 0.0), -1.0)

    def _kim_above(self, points: list[tuple[float, float]]) -> Piece:
        (p, c) = points[-1]
        slope = piece_through(p, points[-2], points[-1], True).slope if len(points) > 1 else c * p
        slope = min(slope, c * p)
        return Piece(math.inf, c - slope / p, slope, -1.0)
