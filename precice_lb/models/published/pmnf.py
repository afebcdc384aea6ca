"""Performance model normal form: exhaustive search over given exponents, as in the papers.

Schröder 2019, section 2.1, and Calotoiu et al. 2013: f(p) = c + Σ c_k p^(i_k) log(p)^(j_k) with n terms out of I × J;
the hypothesis with the least cross-validated loss wins and is fitted to all measurements.

The learner repeats the papers' method for comparison. Nothing keeps such a model positive or falling beyond its data:
see `precice_lb.models.validity` for what is done about that before anything is recommended.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from precice_lb.exceptions import ModelError
from precice_lb.models.base import Learner
from precice_lb.models.published.formula import Formula, Term, names_of, term_of, term_values
from precice_lb.models.published.hypotheses import CrossValidation, get_loss, make_folds, search

Array = NDArray[np.float64]

#: Search space of Schröder 2019, equation 5.1: 100 terms, 4,950 hypotheses of two terms.
EQ_5_1_I: tuple[float, ...] = tuple(k / 4 for k in range(-8, 12))
EQ_5_1_J: tuple[float, ...] = (-2.0, -1.0, 0.0, 1.0, 2.0)
#: Search space of Calotoiu et al., equation 2.7 of Schröder 2019; rising terms only.
EQ_2_7_I: tuple[float, ...] = tuple(k / 4 for k in range(13))
EQ_2_7_J: tuple[float, ...] = (0.0, 1.0, 2.0)

# Rank counts at which a hypothesis' shape is looked at.
SHAPE_POINTS = 64


class NormalFormLearner(Learner):
    """A sum of few terms that won a search; its interval is that of least squares given the terms.

    The search is not accounted for, nor is noise that grows with the time: intervals are too narrow, above all beyond
    the measured range.
    """

    n_terms: int
    exponents: Sequence[float]
    log_exponents: Sequence[float]
    loss: str
    ridge: float
    log_base: float

    formula_: Formula
    loss_: float
    n_hypotheses_: int

    def _fit_winner(self, exponents: Array, features: Array, validation: CrossValidation) -> dict[str, Any]:
        """Fit terms with exponents (k, d, 2) and values (k, n); what is learned, by attribute."""
        base = validation.base
        constants, coefficients, factors = validation.fit((features * base)[:, :, None])
        terms = [term_of(c, pairs) for c, pairs in zip(coefficients[:, 0], exponents, strict=True)]
        if validation.constant:
            terms.insert(0, Term(float(constants[0])))
        residuals = validation.seconds - constants[0] * base - coefficients[:, 0] @ (features * base)
        free = len(base) - float(np.square(factors.q).sum()) - float(validation.constant)
        # The constant's share of each term, and what is known of the level itself.
        centre = features @ base**2 / (base @ base) if validation.constant else np.zeros(len(features))
        return {
            "formula_": Formula(tuple(terms), self.log_base, names_of(exponents.shape[1])),
            "degrees_of_freedom_": free,
            "variance_": float(residuals @ residuals) / max(free, 1e-9),
            "level_variance_": 1 / float(base @ base) if validation.constant else 0.0,
            "centre_": centre,
            "triangle_": factors.r[:, :, 0],
        }

    def _interval(self, points: Array, level: float) -> tuple[Array, Array]:
        mean, exponents = self._predict(points), self.formula_.exponents()
        values = term_values(points, exponents[len(exponents) - len(self.triangle_) :], self.log_base)
        # Terms can be infinite at 1 rank; nothing is known there.
        with np.errstate(invalid="ignore"):
            away = np.linalg.solve(self.triangle_.T, values - self.centre_[:, None])
            error = np.sqrt(self.variance_ * (np.square(away).sum(axis=0) + self.level_variance_))
            half = float(student.ppf((1 + level) / 2, max(self.degrees_of_freedom_, 1.0))) * error
            return mean - half, mean + half

    def _check_parameters(self) -> None:
        if self.n_terms not in (1, 2, 3):
            raise ModelError(f"expected n_terms of 1, 2 or 3, found {self.n_terms!r}")
        if not (self.ridge >= 0 and math.isfinite(self.ridge)):
            raise ModelError(f"expected a ridge of at least 0, found {self.ridge!r}")
        if not (self.log_base > 0 and self.log_base != 1 and math.isfinite(self.log_base)):
            raise ModelError(f"expected a positive log_base other than 1, found {self.log_base!r}")
        for name in ("exponents", "log_exponents"):
            values = np.asarray(getattr(self, name), dtype=np.float64)
            if values.ndim != 1 or not values.size or not np.isfinite(values).all():
                raise ModelError(f"expected {name} as a sequence of numbers, found {getattr(self, name)!r:.60}")
        get_loss(self.loss)


@dataclass(kw_only=True, eq=False, repr=False)
class PMNFRegressor(NormalFormLearner):
    """Exhaustive search for the best sum of terms p^i log(p)^j.

    Parameters
    ----------
    n_terms : int
        Terms of a hypothesis beside the constant, 1 to 3; with ``refine`` at most so many.
    exponents, log_exponents : sequences of float
        I and J; the terms are their Cartesian product in this order. Default: equation 5.1 of Schröder 2019.
    folds : int or None
        Cross-validation: None for leave-one-out, else that many folds of measurements that follow each other in the
        order given (scikit-learn's ``KFold`` without shuffling).
    loss : {"smape", "mape", "mse"}
        What is compared; mean over the folds of each fold's loss.
    ridge : float
        Penalty on the squared coefficients; the constant is not penalised and the terms are not scaled, as in
        scikit-learn's ``Ridge(alpha=ridge)``.
    constant : bool
        Whether each hypothesis has a constant.
    log_base : float
        Base of the logarithm. It matters with ``ridge`` only (and for the printed coefficients).
    shape_range : (int, int) or None
        Candidate rank counts, lowest and highest. A hypothesis may then win only if, fitted to all measurements, it is
        positive there and falls, then rises (either part may be missing).
    refine : bool
        Begin with one term and add terms as long as that raises the adjusted R² of the winner (Calotoiu et al. 2016,
        section II-B), or until the measurements do not suffice.

    Notes
    -----
    Of hypotheses with the same loss the first wins. Least squares is done by orthogonalisation, so terms that differ by
    many orders of magnitude do not spoil each other; where scikit-learn's ``LinearRegression`` cuts small
    singular values off (features of very different size without ridge) it can come to another result.
    """

    learner_name: ClassVar[str] = "pmnf"
    n_terms: int = 2
    exponents: Sequence[float] = EQ_5_1_I
    log_exponents: Sequence[float] = EQ_5_1_J
    folds: int | None = None
    loss: str = "smape"
    ridge: float = 0.0
    constant: bool = True
    log_base: float = 2.0
    shape_range: tuple[int, int] | None = None
    refine: bool = False

    def _fit(self, points: Array, seconds: Array, errors: Array) -> None:
        self._check_parameters()
        pairs = np.array(list(itertools.product(self.exponents, self.log_exponents)), dtype=np.float64)
        features = term_values(points, pairs, self.log_base)
        usable = np.isfinite(features).all(axis=1)
        pairs, features = pairs[usable], features[usable]
        smallest = 1 if self.refine else self.n_terms
        if len(pairs) < smallest:
            raise ModelError(f"expected at least {smallest} usable terms, found {len(pairs)}; give more exponents")
        learned = self._learn(points, seconds, pairs, features, smallest)
        for n_terms in range(smallest + 1, min(self.n_terms, len(pairs)) + 1):
            try:
                larger = self._learn(points, seconds, pairs, features, n_terms)
            except ModelError:
                # Too few measurements for so many terms.
                break
            if not larger["adjusted_r2_"] > learned["adjusted_r2_"]:
                break
            learned = larger
        self.__dict__.update(learned)

    def _learn(self, points: Array, seconds: Array, pairs: Array, features: Array, n_terms: int) -> dict[str, Any]:
        """Search with a given number of terms and give what is learned, by attribute."""
        m, constant = len(seconds), int(self.constant)
        needed = n_terms + constant if self.ridge == 0 else 1
        folds = make_folds(points, self.folds, needed, f"a PMNF of {n_terms} terms")
        validation = CrossValidation(seconds, folds, self.loss, float(self.ridge), bool(constant), np.ones(m))
        accept = None
        if self.shape_range is not None:
            first, last = self.shape_range
            values = term_values(np.unique(np.rint(np.geomspace(first, last, SHAPE_POINTS))), pairs, self.log_base)

            def accept(sets: NDArray[np.intp]) -> NDArray[np.bool_]:
                constants, coefficients, _ = validation.fit(features[sets.T].transpose(0, 2, 1))
                return falls_then_rises(np.einsum("kh,khp->ph", coefficients, values[sets.T]) + constants)

        with np.errstate(all="ignore"):
            winner = search(features, n_terms, validation, accept)
        if winner is None:
            raise ModelError(
                "no hypothesis could be cross-validated on these measurements"
                + (" with a curve of the shape asked for" if self.shape_range else "")
                + "; measure at more rank counts"
            )
        learned = self._fit_winner(pairs[winner.terms, None], features[winner.terms], validation)
        squares = float(np.square(seconds - learned["formula_"](points[:, 0])).sum())
        total = float(np.square(seconds - constant * seconds.mean()).sum())
        left = m - n_terms - constant
        adjusted = 1 - squares / total * (m - constant) / left if left > 0 < total else math.nan
        return {**learned, "loss_": winner.loss, "n_hypotheses_": winner.n_hypotheses, "adjusted_r2_": adjusted}

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.shape_range is not None:
            first, last = self.shape_range
            if not 1 <= first < last < math.inf:
                raise ModelError(f"expected shape_range as two ascending rank counts, found {self.shape_range!r}")


def falls_then_rises(curves: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether curves (P, h) are positive and finite and never fall after they have risen, shape (h,)."""
    highest = np.abs(curves).max(axis=0, initial=0.0, where=np.isfinite(curves) & (curves > 0))
    good = np.isfinite(curves) & (curves > 0)
    steps = np.diff(np.where(good, curves, 0.0), axis=0)
    # Rounding makes flat curves uneven.
    risen = np.logical_or.accumulate(steps > 1e-12 * highest, axis=0)
    good[1:] &= ~((steps < -1e-12 * highest) & risen)
    return np.asarray(good.all(axis=0))
