"""Interpolation of the measurements themselves: what is left to say where no model explains them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm

from precice_lb.models.base import Learner
from precice_lb.models.inputs import check_level, check_measurements, check_ranks, check_table
from precice_lb.models.piecewise_formula import Piece, PiecewiseFormula
from precice_lb.models.repeats import measured_points

__all__ = ["InterpolationRegressor"]

Array = NDArray[np.float64]


class InterpolationRegressor(Learner):
    """Straight lines in logarithms through the median at each measured number of ranks.

    It claims nothing beyond the measured ranks: there `predict` takes fewer of them to scale ideally and more of them
    to gain nothing, and `measured_only` says that a recommendation must not go there.

    Attributes
    ----------
    formula_ : PiecewiseFormula
        The curve.
    ranks_, seconds_, errors_ : array of shape (k,)
        Measured rank counts, ascending; the median seconds there, and their relative standard errors.
    """

    learner_name: ClassVar[str] = "interpolation"
    always_valid: ClassVar[bool] = True
    #: Whether nothing may be recommended outside of the measured ranks.
    measured_only: ClassVar[bool] = True

    formula_: PiecewiseFormula
    ranks_: Array
    seconds_: Array
    errors_: Array

    def fit(self, X: ArrayLike, y: ArrayLike, spread: ArrayLike | None = None) -> InterpolationRegressor:
        """Put the lines through the measurements.

        Raises
        ------
        ModelError
            Bad input.
        """
        ranks, seconds = check_measurements(X, y)
        _, _, errors = check_table(ranks, seconds, spread)
        points = measured_points(ranks, seconds, errors)
        self.ranks_, self.seconds_, self.errors_ = points.ranks, points.seconds, points.errors
        self.formula_ = PiecewiseFormula(tuple(_pieces(self.ranks_, self.seconds_)))
        return self

    def predict(self, X: ArrayLike) -> Array:
        """Positive, finite seconds at each row of X."""
        self._require_fitted()
        return self.formula_(check_ranks(X))

    def predict_interval(self, X: ArrayLike, level: float = 0.8) -> tuple[Array, Array]:
        """Bounds from the errors of the points, interpolated likewise."""
        level, mean, ranks = check_level(level), self.predict(X), check_ranks(X)
        errors = np.interp(np.log(ranks), np.log(self.ranks_), self.errors_)
        factor = np.exp(float(norm.ppf((1 + level) / 2)) * errors)
        return mean / factor, mean * factor

    def draw(self, n: int, random_state: int | np.random.Generator | None = None) -> Callable[[ArrayLike], Array]:
        """Draw curves through points that differ from the measured ones by their errors."""
        self._require_fitted()
        rng = np.random.default_rng(random_state)
        offsets = self.errors_ * rng.standard_normal((n, len(self.ranks_)))

        def curves(rows: ArrayLike) -> Array:
            ranks = check_ranks(rows)
            if len(self.ranks_) == 1:
                return np.asarray(self.formula_(ranks) * np.exp(np.tile(offsets, len(ranks))))
            at = np.log(ranks)
            right = np.searchsorted(self.ranks_, ranks).clip(1, len(self.ranks_) - 1)
            left = np.log(self.ranks_[right - 1])
            share = ((at - left) / (np.log(self.ranks_[right]) - left)).clip(0.0, 1.0)
            between = offsets[:, right - 1] * (1 - share) + offsets[:, right] * share
            return np.asarray(self.formula_(ranks) * np.exp(between))

        return curves

    def sample(self, X: ArrayLike, n: int, random_state: int | np.random.Generator | None = None) -> Array:
        """Draw curves and give their seconds at the rows of X, shape (n, len(X))."""
        return self.draw(n, random_state)(X)

    def formula(self) -> PiecewiseFormula:
        """Give the curve."""
        self._require_fitted()
        return self.formula_

    def _state(self) -> dict[str, Any]:
        return {
            "formula": self.formula_.to_dict(),
            "ranks": self.ranks_.tolist(),
            "seconds": self.seconds_.tolist(),
            "errors": self.errors_.tolist(),
        }

    def _restore(self, state: Mapping[str, Any]) -> None:
        self.formula_ = PiecewiseFormula.from_dict(state["formula"])
        for name in ("ranks", "seconds", "errors"):
            setattr(self, f"{name}_", np.asarray(state[name], dtype=np.float64))


def _pieces(ranks: Array, seconds: Array) -> list[Piece]:
    """Powers through neighbouring points; ideal scaling below the first, no gain beyond the last."""
    points = list(zip(ranks.tolist(), seconds.tolist(), strict=True))
    (p, c), (q, d) = points[0], points[-1]
    inner = [
        Piece(right[0], 0.0, left[1], math.log(right[1] / left[1]) / math.log(right[0] / left[0]), left[0])
        for left, right in itertools.pairwise(points)
    ]
    return [Piece(p, 0.0, c, -1.0, p), *inner, Piece(math.inf, 0.0, d, 0.0, q)]
