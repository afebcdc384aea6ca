"""Performance model normal form: exhaustive search over given exponents, as in the papers.

Schröder 2019, section 2.1, and Calotoiu et al. 2013: f(p) = c + Σ c_k p^(i_k) log(p)^(j_k) with n terms out of I × J;
the hypothesis with the least cross-validated loss wins and is fitted to all measurements.

The learner repeats the papers' method for comparison. Nothing keeps such a model positive or falling beyond its data:
see `precice_lb.models.validity` for what is done about that before anything is recommended.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import t as student

from precice_lb.exceptions import ModelError
from precice_lb.models.base import Learner
from precice_lb.models.formula import Formula, Term, term_values
from precice_lb.models.inputs import check_level, check_measurements, check_ranks
from precice_lb.models.pmnf_search import Winner, search
from precice_lb.models.pmnf_space import EQ_5_1_I, EQ_5_1_J, check_hypotheses
from precice_lb.models.pmnf_validation import CrossValidation, make_folds
from precice_lb.models.validity import falls_then_rises

__all__ = ["PMNFRegressor"]

Array = NDArray[np.float64]

# Rank counts at which a hypothesis' shape is looked at.
SHAPE_POINTS = 64


class PMNFRegressor(Learner):
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

    Attributes
    ----------
    formula_ : Formula
        The winner, fitted to all measurements; the constant first.
    loss_ : float
        The winner's cross-validated loss.
    n_hypotheses_ : int
        Hypotheses compared. Terms that are infinite at a measurement (log(1) with a negative exponent) are left out.
    adjusted_r2_ : float
        Share of the variance that the winner explains, less what as many terms explain by chance; NaN where no
        measurement is left over.

    Notes
    -----
    Of hypotheses with the same loss the first wins. Least squares is done by orthogonalisation, so terms that differ by
    many orders of magnitude do not spoil each other; where scikit-learn's ``LinearRegression`` cuts small
    singular values off (features of very different size without ridge) it can come to another result.
    """

    learner_name: ClassVar[str] = "pmnf"

    formula_: Formula
    loss_: float
    n_hypotheses_: int
    adjusted_r2_: float

    def __init__(
        self,
        *,
        n_terms: int = 2,
        exponents: Sequence[float] = EQ_5_1_I,
        log_exponents: Sequence[float] = EQ_5_1_J,
        folds: int | None = None,
        loss: str = "smape",
        ridge: float = 0.0,
        constant: bool = True,
        log_base: float = 2.0,
        shape_range: tuple[int, int] | None = None,
        refine: bool = False,
    ) -> None:
        self.n_terms = n_terms
        self.exponents = exponents
        self.log_exponents = log_exponents
        self.folds = folds
        self.loss = loss
        self.ridge = ridge
        self.constant = constant
        self.log_base = log_base
        self.shape_range = shape_range
        self.refine = refine

    def fit(self, X: ArrayLike, y: ArrayLike, spread: ArrayLike | None = None) -> PMNFRegressor:
        """Search for the best hypothesis and fit it; the spread is left aside, as in the papers.

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
        PMNFRegressor
            Itself.

        Raises
        ------
        ModelError
            Bad input or parameters; too few measurements for the terms asked for.
        """
        ranks, seconds = check_measurements(X, y)
        self._check_parameters()
        pairs = np.array(list(itertools.product(self.exponents, self.log_exponents)), dtype=np.float64)
        features = term_values(ranks, pairs[:, 0], pairs[:, 1], self.log_base)
        usable = np.isfinite(features).all(axis=1)
        pairs, features = pairs[usable], features[usable]
        smallest = 1 if self.refine else self.n_terms
        if len(pairs) < smallest:
            raise ModelError(f"expected at least {smallest} usable terms, found {len(pairs)}; give more exponents")
        learned = self._learn(ranks, seconds, pairs, features, smallest)
        for n_terms in range(smallest + 1, min(self.n_terms, len(pairs)) + 1):
            try:
                larger = self._learn(ranks, seconds, pairs, features, n_terms)
            except ModelError:
                # Too few measurements for so many terms.
                break
            if not larger["adjusted_r2_"] > learned["adjusted_r2_"]:
                break
            learned = larger
        self.__dict__.update(learned)
        return self

    def predict(self, X: ArrayLike) -> Array:
        """Seconds at each row of X; can be negative or infinite outside of the measured range.

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
        """Student-t bounds of the winner's curve, given its exponents.

        The search that chose the exponents is not accounted for, nor is noise that grows with the time: these bounds
        are too narrow beyond the measured range.

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
        ranks, level = check_ranks(X), check_level(level)
        mean = self.predict(ranks)
        terms = self.formula_.terms[1:] if self.constant else self.formula_.terms
        values = term_values(ranks, [t.exponent for t in terms], [t.log_exponent for t in terms], self.log_base)
        # Terms can be infinite at 1 rank; nothing is known there.
        with np.errstate(invalid="ignore"):
            away = np.linalg.solve(self.triangle_.T, values - self.centre_[:, None])
            spread = np.sqrt(self.variance_ * (np.square(away).sum(axis=0) + self.level_variance_))
            half = float(student.ppf((1 + level) / 2, max(self.degrees_of_freedom_, 1.0))) * spread
            return mean - half, mean + half

    def formula(self) -> Formula:
        """Give the winner as a formula."""
        self._require_fitted()
        return self.formula_

    def _learn(self, ranks: Array, seconds: Array, pairs: Array, features: Array, n_terms: int) -> dict[str, Any]:
        """Search with a given number of terms and give what is learned, by attribute."""
        needed = n_terms + int(self.constant) if self.ridge == 0 else 1
        folds = make_folds(ranks[:, None], self.folds, needed, f"a PMNF of {n_terms} terms")
        validation = CrossValidation(seconds, folds, self.loss, float(self.ridge), bool(self.constant))
        accept = None
        if self.shape_range is not None:
            first, last = self.shape_range
            grid = np.unique(np.rint(np.geomspace(first, last, SHAPE_POINTS)))
            values = term_values(grid, pairs[:, 0], pairs[:, 1], self.log_base)

            def accept(sets: NDArray[np.intp]) -> NDArray[np.bool_]:
                constants, coefficients, _ = validation.fit(features[sets.T].transpose(0, 2, 1))
                curves = np.einsum("kh,khp->ph", coefficients, values[sets.T]) + constants
                return falls_then_rises(curves)

        with np.errstate(all="ignore"):
            winner = search(features, n_terms, validation, accept)
        if winner is None:
            raise ModelError(
                "no hypothesis could be cross-validated on these measurements"
                + (" with a curve of the shape asked for" if self.shape_range else "")
                + "; measure at more rank counts"
            )
        return self._fit_winner(winner, pairs[winner.terms], features[winner.terms], validation)

    def _fit_winner(self, winner: Winner, pairs: Array, features: Array, validation: CrossValidation) -> dict[str, Any]:
        seconds, m = validation.seconds, len(validation.seconds)
        constants, coefficients, factors = validation.fit(features[:, :, None])
        terms = [Term(float(c), float(i), float(j)) for c, (i, j) in zip(coefficients[:, 0], pairs, strict=True)]
        if self.constant:
            terms.insert(0, Term(float(constants[0])))
        degrees_of_freedom = m - float(np.square(factors.q).sum()) - float(self.constant)
        residuals = seconds - constants[0] - coefficients[:, 0] @ features
        squares, level = float(residuals @ residuals), float(seconds.mean()) if self.constant else 0.0
        total, left = float(np.square(seconds - level).sum()), m - len(pairs) - int(self.constant)
        return {
            "formula_": Formula(tuple(terms), self.log_base),
            "loss_": winner.loss,
            "n_hypotheses_": winner.n_hypotheses,
            "adjusted_r2_": 1 - squares / total * (m - int(self.constant)) / left if left > 0 < total else math.nan,
            "degrees_of_freedom_": degrees_of_freedom,
            "variance_": squares / max(degrees_of_freedom, 1e-9),
            "level_variance_": 1 / m if self.constant else 0.0,
            "centre_": features.mean(axis=1) if self.constant else np.zeros(len(features)),
            "triangle_": factors.r[:, :, 0],
        }

    def _check_parameters(self) -> None:
        if self.n_terms not in (1, 2, 3):
            raise ModelError(f"expected n_terms of 1, 2 or 3, found {self.n_terms!r}")
        check_hypotheses(self.exponents, self.log_exponents, self.ridge, self.log_base, self.loss)
        if self.shape_range is not None:
            first, last = self.shape_range
            if not 1 <= first < last < math.inf:
                raise ModelError(f"expected shape_range as two ascending rank counts, found {self.shape_range!r}")

    def _state(self) -> dict[str, Any]:
        return {
            "formula": self.formula_.to_dict(),
            "loss": self.loss_,
            "adjusted_r2": self.adjusted_r2_ if math.isfinite(self.adjusted_r2_) else None,
            "n_hypotheses": self.n_hypotheses_,
            "degrees_of_freedom": self.degrees_of_freedom_,
            "variance": self.variance_,
            "level_variance": self.level_variance_,
            "centre": self.centre_.tolist(),
            # A dependent term has an infinite diagonal, which JSON does not know.
            "triangle": np.where(np.isinf(self.triangle_), 0.0, self.triangle_).tolist(),
        }

    def _restore(self, state: Mapping[str, Any]) -> None:
        self.formula_ = Formula.from_dict(state["formula"])
        self.loss_ = float(state["loss"])
        self.adjusted_r2_ = math.nan if state["adjusted_r2"] is None else float(state["adjusted_r2"])
        self.n_hypotheses_ = int(state["n_hypotheses"])
        self.degrees_of_freedom_ = float(state["degrees_of_freedom"])
        self.variance_ = float(state["variance"])
        self.level_variance_ = float(state["level_variance"])
        self.centre_ = np.asarray(state["centre"], dtype=np.float64)
        triangle = np.asarray(state["triangle"], dtype=np.float64)
        np.fill_diagonal(triangle, np.where(np.diag(triangle) == 0, np.inf, np.diag(triangle)))
        self.triangle_ = triangle
