"""Performance model normal form: exhaustive search over given exponents, as in the papers.

Schröder 2019, section 2.1, and Calotoiu et al. 2013: f(p) = c + Σ c_k p^(i_k) log(p)^(j_k) with n terms out of I × J;
the hypothesis with the least cross-validated loss wins and is fitted to all measurements.

The learner repeats the papers' method for comparison. Nothing keeps such a model positive or falling beyond its data:
see `precice_lb.models.trust` for what is done about that before anything is recommended.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import t as student

from precice_lb.exceptions import ModelError
from precice_lb.models.base import Learner
from precice_lb.models.formula import Formula, Term, term_values
from precice_lb.models.inputs import check_level, check_measurements, check_ranks
from precice_lb.models.least_squares import factorize
from precice_lb.models.losses import Loss, get_loss

__all__ = ["EQ_2_7_I", "EQ_2_7_J", "EQ_5_1_I", "EQ_5_1_J", "PMNFRegressor"]

Array = NDArray[np.float64]

#: Search space of Schröder 2019, equation 5.1: 100 terms, 4,950 hypotheses of two terms.
EQ_5_1_I: tuple[float, ...] = tuple(k / 4 for k in range(-8, 12))
EQ_5_1_J: tuple[float, ...] = (-2.0, -1.0, 0.0, 1.0, 2.0)
#: Search space of Calotoiu et al., equation 2.7 of Schröder 2019; rising terms only.
EQ_2_7_I: tuple[float, ...] = tuple(k / 4 for k in range(13))
EQ_2_7_J: tuple[float, ...] = (0.0, 1.0, 2.0)

# Hypotheses at a time: small enough for the cache, large enough to forget the interpreter.
CHUNK = 4096


class PMNFRegressor(Learner):
    """Exhaustive search for the best sum of terms p^i log(p)^j.

    Parameters
    ----------
    n_terms : int
        Terms of a hypothesis beside the constant, 1 to 3.
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

    Attributes
    ----------
    formula_ : Formula
        The winner, fitted to all measurements; the constant first.
    loss_ : float
        The winner's cross-validated loss.
    n_hypotheses_ : int
        Hypotheses compared. Terms that are infinite at a measurement (log(1) with a negative exponent) are left out.

    Notes
    -----
    Of hypotheses with the same loss the first wins. Least squares is done by orthogonalisation, so terms that differ by
    many orders of magnitude do not spoil each other; where scikit-learn's ``LinearRegression`` cuts small
    singular values off (features of very different size without ridge) it can come to another result.
    """

    learner_name: ClassVar[str] = "pmnf"

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
    ) -> None:
        self.n_terms = n_terms
        self.exponents = exponents
        self.log_exponents = log_exponents
        self.folds = folds
        self.loss = loss
        self.ridge = ridge
        self.constant = constant
        self.log_base = log_base

    def fit(self, X: ArrayLike, y: ArrayLike, spread: ArrayLike | None = None) -> PMNFRegressor:
        """Search for the best hypothesis and fit it.

        Raises
        ------
        ModelError
            Bad input or parameters; too few measurements for the terms asked for.
        """
        ranks, seconds = check_measurements(X, y)
        loss = self._check_parameters()
        folds = self._folds(ranks)
        pairs = np.array(list(itertools.product(self.exponents, self.log_exponents)), dtype=np.float64)
        features = term_values(ranks, pairs[:, 0], pairs[:, 1], self.log_base)
        usable = np.isfinite(features).all(axis=1)
        pairs, features = pairs[usable], features[usable]
        if len(pairs) < self.n_terms:
            raise ModelError(f"expected at least {self.n_terms} usable terms, found {len(pairs)}; give more exponents")

        best, self.loss_, self.n_hypotheses_ = None, math.inf, 0
        with np.errstate(all="ignore"):
            for chunk in _combinations(len(pairs), self.n_terms):
                # The hypotheses last: see `least_squares`.
                columns = features.T[:, chunk.T].transpose(1, 0, 2)
                losses = self._losses(columns, seconds, folds, loss)
                losses[~np.isfinite(losses)] = np.inf
                winner = int(np.argmin(losses))
                self.n_hypotheses_ += len(chunk)
                if losses[winner] < self.loss_:
                    best, self.loss_ = chunk[winner], float(losses[winner])
        if best is None:
            raise ModelError(
                "no hypothesis could be cross-validated on these measurements; measure at more rank counts"
            )
        self._fit_winner(pairs[best], features[best], seconds)
        return self

    def predict(self, X: ArrayLike) -> Array:
        """Seconds at each row of X; can be negative or infinite outside of the measured range."""
        self._require_fitted()
        return self.formula_(check_ranks(X))

    def predict_interval(self, X: ArrayLike, level: float = 0.8) -> tuple[Array, Array]:
        """Student-t bounds of the winner's curve, given its exponents.

        The search that chose the exponents is not accounted for, nor is noise that grows with the time: these bounds
        are too narrow beyond the measured range.
        """
        ranks, level = check_ranks(X), check_level(level)
        mean = self.predict(ranks)
        terms = self.formula_.terms[1:] if self.constant else self.formula_.terms
        values = term_values(ranks, [t.exponent for t in terms], [t.log_exponent for t in terms], self.log_base)
        away = np.linalg.solve(self.triangle_.T, values - self.centre_[:, None])
        spread = np.sqrt(self.variance_ * (np.square(away).sum(axis=0) + self.level_variance_))
        half = float(student.ppf((1 + level) / 2, max(self.degrees_of_freedom_, 1.0))) * spread
        return mean - half, mean + half

    def formula(self) -> Formula:
        """Give the winner as a formula."""
        self._require_fitted()
        return self.formula_

    def _losses(self, columns: Array, seconds: Array, folds: list[NDArray[np.intp]] | None, loss: Loss) -> Array:
        """Cross-validated loss of each hypothesis; ``columns`` of shape (n_terms, measurements, hypotheses)."""
        if folds is None:
            return loss(seconds, self._leave_one_out(columns, seconds))
        total = np.zeros(columns.shape[2])
        for test in folds:
            train = np.setdiff1d(np.arange(len(seconds)), test)
            total += loss(seconds[test], self._predict_fold(columns, seconds, train, test))
        return total / len(folds)

    def _leave_one_out(self, columns: Array, seconds: Array) -> Array:
        """Prediction of each measurement from the others, without refitting: residual / (1 - leverage)."""
        m = len(seconds)
        level = seconds.mean() if self.constant else 0.0
        factors = factorize(self._centred(columns, columns), self.ridge)
        right = seconds - level
        fitted = np.zeros(columns.shape[1:])
        leverage = np.full(columns.shape[1:], 1 / m if self.constant else 0.0)
        for q in factors.q:
            fitted += q * (right @ q)
            leverage += q * q
        free = 1.0 - leverage
        # Such a measurement alone determines a coefficient: nothing predicts it from the others.
        free[free <= 1e-10] = np.nan
        return np.asarray(seconds[:, None] - (right[:, None] - fitted) / free, dtype=np.float64)

    def _predict_fold(self, columns: Array, seconds: Array, train: NDArray[np.intp], test: NDArray[np.intp]) -> Array:
        level = seconds[train].mean() if self.constant else 0.0
        known = columns[:, train]
        factors = factorize(self._centred(known, known), self.ridge)
        coefficients = factors.coefficients(np.einsum("krh,r->kh", factors.q, seconds[train] - level))
        return np.asarray(
            level + np.einsum("krh,kh->rh", self._centred(columns[:, test], known), coefficients), dtype=np.float64
        )

    def _centred(self, columns: Array, reference: Array) -> Array:
        return columns - reference.mean(axis=1, keepdims=True) if self.constant else columns

    def _fit_winner(self, pairs: Array, features: Array, seconds: Array) -> None:
        columns = features[:, :, None]
        factors = factorize(self._centred(columns, columns), self.ridge)
        level = float(seconds.mean()) if self.constant else 0.0
        coefficients = factors.coefficients(np.einsum("krh,r->kh", factors.q, seconds - level))[:, 0]
        self.centre_ = features.mean(axis=1) if self.constant else np.zeros(len(features))
        terms = [Term(float(c), float(i), float(j)) for c, (i, j) in zip(coefficients, pairs, strict=True)]
        if self.constant:
            terms.insert(0, Term(level - float(coefficients @ self.centre_)))
        self.formula_ = Formula(tuple(terms), self.log_base)
        self.degrees_of_freedom_ = len(seconds) - float(np.square(factors.q).sum()) - float(self.constant)
        residuals = seconds - level - coefficients @ (features - self.centre_[:, None])
        self.variance_ = float(residuals @ residuals) / max(self.degrees_of_freedom_, 1e-9)
        self.triangle_ = factors.r[:, :, 0]
        self.level_variance_ = 1 / len(seconds) if self.constant else 0.0

    def _check_parameters(self) -> Loss:
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
        return get_loss(self.loss)

    def _folds(self, ranks: Array) -> list[NDArray[np.intp]] | None:
        """Test indices of each fold, None for leave-one-out; refuses folds too small to fit without ridge."""
        m = len(ranks)
        if self.folds is not None and not 2 <= self.folds <= m:
            raise ModelError(f"expected 2 to {m} folds for {m} measurements, found {self.folds!r}")
        tests = np.array_split(np.arange(m), m if self.folds is None else self.folds)
        if m < 2:
            raise ModelError("expected at least 2 measurements for cross-validation, found 1; use the learner 'shape'")
        needed = self.n_terms + int(self.constant) if self.ridge == 0 else 1
        smallest = min(len(np.unique(np.delete(ranks, test))) for test in tests)
        if smallest < needed:
            raise ModelError(
                f"a PMNF of {self.n_terms} terms needs {needed} rank counts in every training set of its "
                f"cross-validation, found {smallest}; measure more, ask for fewer terms or give a ridge"
            )
        return None if self.folds is None else tests

    def _state(self) -> dict[str, Any]:
        return {
            "formula": self.formula_.to_dict(),
            "loss": self.loss_,
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
        self.n_hypotheses_ = int(state["n_hypotheses"])
        self.degrees_of_freedom_ = float(state["degrees_of_freedom"])
        self.variance_ = float(state["variance"])
        self.level_variance_ = float(state["level_variance"])
        self.centre_ = np.asarray(state["centre"], dtype=np.float64)
        triangle = np.asarray(state["triangle"], dtype=np.float64)
        np.fill_diagonal(triangle, np.where(np.diag(triangle) == 0, np.inf, np.diag(triangle)))
        self.triangle_ = triangle


def _combinations(terms: int, size: int) -> Iterator[NDArray[np.intp]]:
    """Give sets of terms in the order of ``itertools.combinations``, as arrays of shape (at most CHUNK, size)."""
    sets = itertools.combinations(range(terms), size)
    while chunk := list(itertools.islice(sets, CHUNK)):
        yield np.array(chunk, dtype=np.intp)
