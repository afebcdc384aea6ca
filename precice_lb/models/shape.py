"""Falling and rising terms with non-negative coefficients, averaged over their exponents.

A member of the family is f(p) = w p^-α + s + g r(p) with w, s, g ≥ 0 and a rise r out of a few. Each is fitted by
non-negative least squares on residuals relative to the measured seconds. Members are weighed by how well they explain
the measurements for their number of terms, because three to seven noisy points do not tell them apart; the prediction
is the weighted mean curve. It is a sum of the same terms, so it is positive and finite for every p ≥ 1 and, being
convex in log p, it falls, then rises, and never turns again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from precice_lb.exceptions import ModelError
from precice_lb.models.base import Learner
from precice_lb.models.formula import Formula, Term, term_values
from precice_lb.models.inputs import check_level, check_measurements, check_ranks
from precice_lb.models.least_squares import solve_nonnegative
from precice_lb.models.shape_family import FALLS, RISES, SampledCurves, check_terms, family

__all__ = ["ShapeRegressor"]

Array = NDArray[np.float64]

# Curves drawn for an interval, and the seed they are drawn with: the same question gets the same answer.
INTERVAL_CURVES, INTERVAL_SEED = 1000, 20190
# Terms of the mean curve below this share everywhere up to four times the measured ranks are left out.
NEGLIGIBLE = 1e-3
# A drawn noise level above this (a factor of e) says no more than that nothing is known.
LARGEST_NOISE = 1.0


class ShapeRegressor(Learner):
    """Weighted mean of curves that fall, then rise.

    Parameters
    ----------
    falls : sequence of float
        α > 0 of the falling terms p^-α.
    rises : sequence of (float, float)
        i and j ≥ 0 of the rising terms p^i log2(p)^j.
    fall_mean, fall_spread : float
        Normal prior of α: solvers fall nearly as 1/p. With a single measurement it is all there is to go by.
    noise : float
        Prior guess of the relative noise of one measurement.
    noise_measurements : float
        How many measurements that guess is worth (degrees of freedom of its scaled inverse χ² distribution).
    complexity : float
        Weight of the price of each further term, ½ log(n + 1) as in the Bayesian information criterion.

    Attributes
    ----------
    formula_ : Formula
        The mean curve.
    exponents_ : array of shape (T, 2)
        Exponents i, j of the T terms of the family.
    mixing_ : array of shape (T, T)
        Row k holds the terms that part k of the family is made of.
    members_ : array of shape (M, 3)
        Indices of the parts of each member (falling, constant, rising), -1 for none.
    weights_ : array of shape (M,)
        Probability of each member, adding up to 1.
    coefficients_ : array of shape (M, 3)
        Non-negative coefficients of each member, in seconds.
    residuals_ : array of shape (M,)
        Sum of squared relative residuals of each member.
    ranks_, seconds_ : arrays of shape (n,)
        The measurements.
    """

    learner_name: ClassVar[str] = "shape"
    always_valid: ClassVar[bool] = True

    def __init__(
        self,
        *,
        falls: Sequence[float] = FALLS,
        rises: Sequence[tuple[float, float]] = RISES,
        fall_mean: float = 0.95,
        fall_spread: float = 0.2,
        noise: float = 0.05,
        noise_measurements: float = 2.0,
        complexity: float = 1.0,
    ) -> None:
        self.falls = falls
        self.rises = rises
        self.fall_mean = fall_mean
        self.fall_spread = fall_spread
        self.noise = noise
        self.noise_measurements = noise_measurements
        self.complexity = complexity

    def fit(self, X: ArrayLike, y: ArrayLike, spread: ArrayLike | None = None) -> ShapeRegressor:
        """Fit and weigh every member of the family; the spread is left aside.

        Parameters
        ----------
        X : array of shape (n, 1)
            Ranks.
        y : array of shape (n,)
            Seconds per time window.
        spread : array of shape (n,), optional
            Left aside.

        Returns
        -------
        ShapeRegressor
            Itself.

        Raises
        ------
        ModelError
            Bad input or parameters.
        """
        self.ranks_, self.seconds_ = check_measurements(X, y)
        self._check_parameters()
        self.exponents_, self.mixing_, members, log_prior = family(
            self.falls, self.rises, self.fall_mean, self.fall_spread
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
        return self

    def predict(self, X: ArrayLike) -> Array:
        """Positive, finite seconds at each row of X: the mean curve.

        Parameters
        ----------
        X : array of shape (n, 1)
            Ranks.

        Returns
        -------
        array of shape (n,)
            Seconds.
        """
        self._require_fitted()
        return self.formula_(check_ranks(X))

    def predict_interval(self, X: ArrayLike, level: float = 0.8) -> tuple[Array, Array]:
        """Quantiles of drawn curves; see `draw`.

        Parameters
        ----------
        X : array of shape (n, 1)
            Ranks.
        level : float
            Probability, from 0 to 1.

        Returns
        -------
        low, high : array of shape (n,)
            Seconds.
        """
        level = check_level(level)
        curves = self.draw(INTERVAL_CURVES, INTERVAL_SEED)(X)
        low, high = np.quantile(curves, [(1 - level) / 2, (1 + level) / 2], axis=0)
        return np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)

    def sample(self, X: ArrayLike, n: int, random_state: int | np.random.Generator | None = None) -> Array:
        """Draw curves; the same seed draws the same ones, whatever X.

        Parameters
        ----------
        X : array of shape (n, 1)
            Ranks.
        n : int
            How many.
        random_state : int, generator or None
            Seed.

        Returns
        -------
        array of shape (n, len(X))
            Seconds.
        """
        return self.draw(n, random_state)(X)

    def draw(self, n: int, random_state: int | np.random.Generator | None = None) -> SampledCurves:
        """Draw n whole curves.

        For each, a member by its weight, a noise level from the scaled inverse χ² distribution that its residuals and
        the prior guess leave (so that few measurements give heavy tails, as in Student's t), and the member's
        fit to measurements planted on its curve with that noise (parametric bootstrap).

        Parameters
        ----------
        n : int
            How many.
        random_state : int, generator or None
            Seed.

        Returns
        -------
        SampledCurves
        """
        self._require_fitted()
        rng = np.random.default_rng(random_state)
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
        return SampledCurves(self.exponents_, self._by_term(members, coefficients.T))

    def formula(self) -> Formula:
        """Give the mean curve as a formula."""
        self._require_fitted()
        return self.formula_

    def _columns(self, members: NDArray[np.intp]) -> Array:
        """Parts of each member relative to the measured seconds, shape (3, n, members); zero for no part."""
        values = self.mixing_ @ term_values(self.ranks_, self.exponents_[:, 0], self.exponents_[:, 1])
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
        parts = mean[:, None] * term_values(ranks, self.exponents_[:, 0], self.exponents_[:, 1])
        seen = (parts >= NEGLIGIBLE * parts.sum(axis=0)).any(axis=1) & (mean > 0)
        terms = zip(mean[seen], self.exponents_[seen], strict=True)
        return Formula(tuple(Term(float(c), float(i), float(j)) for c, (i, j) in terms))

    def _check_parameters(self) -> None:
        check_terms(self.falls, self.rises)
        for name in ("fall_spread", "noise", "noise_measurements"):
            if not getattr(self, name) > 0:
                raise ModelError(f"expected {name} above 0, found {getattr(self, name)!r}")

    def _state(self) -> dict[str, Any]:
        return {
            "formula": self.formula_.to_dict(),
            "exponents": self.exponents_.tolist(),
            "mixing": self.mixing_.tolist(),
            "members": self.members_.tolist(),
            "coefficients": self.coefficients_.tolist(),
            "weights": self.weights_.tolist(),
            "residuals": self.residuals_.tolist(),
            "ranks": self.ranks_.tolist(),
            "seconds": self.seconds_.tolist(),
        }

    def _restore(self, state: Mapping[str, Any]) -> None:
        self.formula_ = Formula.from_dict(state["formula"])
        self.members_ = np.asarray(state["members"], dtype=np.intp)
        for name in ("exponents", "mixing", "coefficients", "weights", "residuals", "ranks", "seconds"):
            setattr(self, f"{name}_", np.asarray(state[name], dtype=np.float64))
