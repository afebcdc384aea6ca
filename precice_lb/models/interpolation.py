"""Interpolation of the measurements themselves: what is left to say where no model explains them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from precice_lb.models.base import CurveLearner
from precice_lb.models.measurements import measured_points
from precice_lb.models.piecewise import Piece, PiecewiseFormula

Array = NDArray[np.float64]


class InterpolationRegressor(CurveLearner):
    """Straight lines in logarithms through the median at each measured number of ranks.

    It claims nothing beyond the measured ranks: there `predict` takes fewer of them to scale ideally and more of them
    to gain nothing, and `measured_only` says that a recommendation must not go there.
    """

    learner_name: ClassVar[str] = "interpolation"
    always_valid: ClassVar[bool] = True
    #: Whether nothing may be recommended outside of the measured ranks.
    measured_only: ClassVar[bool] = True

    formula_: PiecewiseFormula
    # Measured rank counts, rising, the median seconds there, and their relative standard errors.
    ranks_: Array
    seconds_: Array
    errors_: Array

    def _fit(self, points: Array, seconds: Array, errors: Array) -> None:
        found = measured_points(points[:, 0], seconds, errors)
        self.ranks_, self.seconds_, self.errors_ = found.ranks, found.seconds, found.errors
        self.formula_ = PiecewiseFormula(tuple(_pieces(self.ranks_, self.seconds_)))

    def _interval(self, points: Array, level: float) -> tuple[Array, Array]:
        """Bounds from the errors of the points, interpolated likewise."""
        mean = self._predict(points)
        errors = interpolated(points[:, 0], self.ranks_, self.errors_[None])[0]
        factor = np.exp(float(norm.ppf((1 + level) / 2)) * errors)
        return mean / factor, mean * factor

    def _draw(self, n: int, rng: np.random.Generator) -> Callable[[Array], Array]:
        """Draw curves through points that differ from the measured ones by their errors."""
        offsets = self.errors_ * rng.standard_normal((n, len(self.ranks_)))
        return lambda points: self._predict(points) * np.exp(interpolated(points[:, 0], self.ranks_, offsets))


def interpolated(ranks: Array, known: NDArray[Any], values: Array) -> Array:
    """Values on straight lines over the logarithm of ranks, constant outside of the known ones, shape (n, m).

    Of n curves with values (n, k) at known ranks (k,), rising; at ranks (m,), or (n, m) where each curve is asked at
    others. Logarithms of seconds make straight lines on doubly logarithmic axes.
    """
    if len(known) == 1:
        return np.broadcast_to(values, (len(values), np.shape(ranks)[-1]))
    right = np.searchsorted(known, ranks, side="right").clip(1, len(known) - 1)
    low, high = np.log(known)[right - 1], np.log(known)[right]
    share = ((np.log(ranks) - low) / (high - low)).clip(0.0, 1.0)
    rows = np.arange(len(values))[:, None]
    left = values[rows, right - 1]
    return np.asarray(left + share * (values[rows, right] - left), dtype=np.float64)


def _pieces(ranks: Array, seconds: Array) -> list[Piece]:
    """Powers through neighbouring points; ideal scaling below the first, no gain beyond the last."""
    points = list(zip(ranks.tolist(), seconds.tolist(), strict=True))
    (p, c), (q, d) = points[0], points[-1]
    inner = [
        Piece(right[0], 0.0, left[1], math.log(right[1] / left[1]) / math.log(right[0] / left[0]), left[0])
        for left, right in itertools.pairwise(points)
    ]
    return [Piece(p, 0.0, c, -1.0, p), *inner, Piece(math.inf, 0.0, d, 0.0, q)]
