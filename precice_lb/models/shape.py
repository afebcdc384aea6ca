"""Falling and rising terms with non-negative coefficients, averaged over their exponents.

A member of the family is f(p) = w p^-α + s + g r(p) with w, s, g ≥ 0 and a rise r out of a few. Each is fitted by
non-negative least squares on residuals relative to the measured seconds. Members are weighed by how well they explain
the measurements for their number of terms, because three to seven noisy points do not tell them apart; the prediction
is the weighted mean curve. It is a sum of the same terms, so it is positive and finite for every p ≥ 1 and, being
convex in log p, it falls, then rises, and never turns again.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import ModelError
from precice_lb.models.base import CurveLearner, array, quantiles
from precice_lb.models.formula import Formula, term_of, term_values
from precice_lb.models.least_squares import solve_nonnegative

__all__ = ["ShapeRegressor"]

Array = NDArray[np.float64]

# Curves drawn for an interval, and the seed they are drawn with: the same question gets the same answer.
INTERVAL_CURVES, INTERVAL_SEED = 1000, 20190
# Terms of the mean curve below this share everywhere up to four times the measured ranks are left out.
NEGLIGIBLE = 1e-3
# A drawn noise level above this (a factor of e) says no more than that nothing is known.
LARGEST_NOISE = 1.0
#: α of the falling terms p^-α: from poor scaling over ideal (1) to superlinear (caches); with a constant beside them.
FALLS: tuple[float, ...] = tuple(k / 8 for k in range(3, 17))
#: (exponent, log_exponent) of the rising terms: collectives in log p, and communication that grows with p.
RISES: tuple[tuple[float, float], ...] = ((0.0, 1.0), (0.5, 0.0), (1.0, 0.0))

# Share of prior probability for curves without a falling part: a solver that does not scale at all.
NEVER_FALLS = 0.02


@dataclass(kw_only=True, eq=False, repr=False)
class ShapeRegressor(CurveLearner):
    """Weighted mean of curves that fall, then rise.

    Parameters
    ----------
    falls : sequence of float
        α > 0 of the falling terms p^-α.
    rises : sequence of (float, float)
        i and j ≥ 0 of the rising terms p^i log2(p)^j.
    fall_mean, fall_scale : float
        Normal prior of α: solvers fall nearly as 1/p. With a single measurement it is all there is to go by.
    noise : float
        Prior guess of the relative noise of one measurement.
    noise_measurements : float
        How many measurements that guess is worth (degrees of freedom of its scaled inverse χ² distribution).
    complexity : float
        Weight of the price of each further term, ½ log(n + 1) as in the Bayesian information criterion.
    """

    learner_name: ClassVar[str] = "shape"
    former_names: ClassVar[Mapping[str, str]] = {"fall_spread": "fall_scale"}
    learned: ClassVar[Mapping[str, Callable[[Any], Any]]] = {
        "formula": Formula.from_dict,
        # Indices of the parts of each member (falling, constant, rising), -1 for none, shape (M, 3).
        "members": partial(np.asarray, dtype=np.intp),
        # Exponents (T, 2), mixing (T, T) and members as of `family`; non-negative coefficients of each member in
        # seconds (M, 3), its probability and the sum of its squared relative residuals (M,).
        **dict.fromkeys(("exponents", "mixing", "coefficients", "weights", "residuals", "ranks", "seconds"), array),
    }
    always_valid: ClassVar[bool] = True

    falls: Sequence[float] = FALLS
    rises: Sequence[tuple[float, float]] = RISES
    fall_mean: float = 0.95
    fall_scale: float = 0.2
    noise: float = 0.05
    noise_measurements: float = 2.0
    complexity: float = 1.0

    def _fit(self, points: Array, seconds: Array, errors: Array) -> None:
        self.ranks_, self.seconds_ = points[:, 0], seconds
        self._check_parameters()
        self.exponents_, self.mixing_, members, log_prior = family(
            self.falls, self.rises, self.fall_mean, self.fall_scale
        )
        # No more terms than different rank counts, else they are not determined. What does not fall for ever needs one
        # more, because an exact fit to two or three points would carry an accidental rise far beyond them.
        needed = (members >= 0).sum(axis=1) + ((members[:, 0] < 0) | (members[:, 2] >= 0))
        kept = needed <= len(np.unique(self.ranks_))
        members, log_prior = members[kept], log_prior[kept]
        columns = self._columns(members)
        coefficients, residuals = solve_nonnegative(columns, np.ones(columns.shape[1:]))
        # A member with a coefficient of zero is a smaller member, which is in the list itself.
        kept = ((coefficients > 0) == (members.T >= 0)).all(axis=0)
        self.members_, self.residuals_ = members[kept], residuals[kept]
        self.coefficients_ = coefficients.T[kept]
        self.weights_ = self._weights(log_prior[kept])
        self.formula_ = self._mean_curve()

    def _interval(self, points: Array, level: float) -> tuple[Array, Array]:
        return quantiles(self._draw(INTERVAL_CURVES, np.random.default_rng(INTERVAL_SEED))(points), level)

    def _draw(self, n: int, rng: np.random.Generator) -> Callable[[Array], Array]:
        """Draw curves by parametric bootstrap.

        For each, a member by its weight, a noise level from the scaled inverse χ² distribution that its residuals and
        the prior guess leave (so that few measurements give heavy tails, as in Student's t), and the member's
        fit to measurements planted on its curve with that noise.
        """
        chosen = rng.choice(len(self.weights_), size=n, p=self.weights_)
        members, m = self.members_[chosen], len(self.ranks_)
        known = self.noise_measurements + m - 1
        left = self.noise_measurements * self.noise**2 + self.residuals_[chosen]
        noise = np.minimum(np.sqrt(left / rng.chisquare(known, size=n)), LARGEST_NOISE)
        columns = self._columns(members)
        curves = np.einsum("krh,hk->rh", columns, self.coefficients_[chosen])
        # Noise as a factor keeps the planted times positive.
        planted = curves * np.exp(noise * rng.standard_normal((m, n)))
        coefficients, _ = solve_nonnegative(columns, planted)
        by_term = self._by_term(members, coefficients.T)
        return lambda points: np.asarray(by_term @ term_values(points, self.exponents_), dtype=np.float64)

    def _columns(self, members: NDArray[np.intp]) -> Array:
        """Parts of each member relative to the measured seconds, shape (3, n, members); zero for no part."""
        values = self.mixing_ @ term_values(self.ranks_, self.exponents_)
        values = np.vstack([values / self.seconds_, np.zeros_like(self.ranks_)])
        return np.ascontiguousarray(values[members.T].transpose(0, 2, 1))

    def _weights(self, log_prior: Array) -> Array:
        m, terms = len(self.ranks_), (self.members_ >= 0).sum(axis=1)
        left = self.noise_measurements * self.noise**2 + self.residuals_
        # The scale is integrated over: m - 1 measurements are left to speak about the shape.
        log_weight = log_prior - 0.5 * (self.noise_measurements + m - 1) * np.log(left)
        log_weight -= self.complexity * 0.5 * (terms - 1) * np.log(m + 1)
        weights = np.exp(log_weight - log_weight.max())
        return np.asarray(weights / weights.sum(), dtype=np.float64)

    def _by_term(self, members: NDArray[np.intp], coefficients: Array) -> Array:
        """Spread coefficients (h, 3) of members (h, 3) over all terms, shape (h, T)."""
        spread = np.zeros((len(members), len(self.exponents_) + 1))
        np.put_along_axis(spread, members, coefficients, axis=1)
        return np.asarray(spread[:, :-1] @ self.mixing_, dtype=np.float64)

    def _mean_curve(self) -> Formula:
        mean = self.weights_ @ self._by_term(self.members_, self.coefficients_)
        # Terms that are nowhere seen would only make the formula longer.
        ranks = np.geomspace(1.0, 4.0 * self.ranks_.max(), 33)
        parts = mean[:, None] * term_values(ranks, self.exponents_)
        seen = (parts >= NEGLIGIBLE * parts.sum(axis=0)).any(axis=1) & (mean > 0)
        return Formula(tuple(term_of(c, [pair]) for c, pair in zip(mean[seen], self.exponents_[seen], strict=True)))

    def _check_parameters(self) -> None:
        falls, rises = np.asarray(self.falls, float), np.asarray(self.rises, float).reshape(-1, 2)
        if falls.ndim != 1 or not falls.size or not (np.isfinite(falls) & (falls > 0)).all():
            raise ModelError(f"expected falls as positive numbers, found {self.falls!r:.60}")
        if not (np.isfinite(rises) & (rises >= 0)).all() or not rises.any(axis=1).all():
            raise ModelError(f"expected rises as pairs of exponents of which one is positive, found {self.rises!r:.60}")
        for name in ("fall_scale", "noise", "noise_measurements"):
            if not getattr(self, name) > 0:
                raise ModelError(f"expected {name} above 0, found {getattr(self, name)!r}")


def family(
    falls: Sequence[float], rises: Sequence[tuple[float, float]], fall_mean: float, fall_scale: float
) -> tuple[Array, Array, NDArray[np.intp], Array]:
    """Make the members of the family out of a normal prior of α.

    Exponents (T, 2) of the terms; a mixing matrix (T, T), whose row k holds the terms that part k is made of; members
    (M, 3), indices of the parts of each (falling, constant, rising), -1 for none; their log prior (M,).
    """
    exponents = np.array([(-a, 0.0) for a in falls] + [(0.0, 0.0)] + [tuple(r) for r in rises], dtype=np.float64)
    constant, first_rise = len(falls), len(falls) + 1
    mixing = np.eye(len(exponents))
    # log(1) = 0: a rise in the logarithm is one of 1 + log(p), so that every curve is positive at 1 rank too.
    mixing[first_rise:, constant] = exponents[first_rise:, 1] > 0
    log_fall = -0.5 * ((np.asarray(falls) - fall_mean) / fall_scale) ** 2
    log_fall += np.log1p(-NEVER_FALLS) - np.log(np.exp(log_fall).sum())
    options = itertools.product([*range(len(falls)), -1], [-1, constant], [-1, *range(first_rise, len(exponents))])
    members = np.array([member for member in options if max(member) >= 0], dtype=np.intp)
    prior = np.append(log_fall, np.log(NEVER_FALLS))[members[:, 0]]
    prior[members[:, 2] >= 0] -= np.log(len(rises)) if len(rises) else 0.0
    return exponents, mixing, members, prior
