"""Extended performance model normal form: several parameters, hierarchical or exhaustive search.

Calotoiu et al. 2016 and Schröder 2019, section 2.2: f(x_1 … x_d) = c_0 + Σ c_k Π x_l^(i_kl) log(x_l)^(j_kl). The
hierarchical search finds terms for each parameter alone and then combines them; the exhaustive one goes over all sets
of product terms, which is feasible for two parameters and few exponents.

As with `precice_lb.models.pmnf`, nothing keeps such a model positive beyond its data.
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
from precice_lb.models.epmnf_project import LEAST_VALUES, merge_repeats, project
from precice_lb.models.formula import Formula, Term, term_values
from precice_lb.models.golden import golden_section, slope_order
from precice_lb.models.inputs import check_level, check_points, check_table
from precice_lb.models.least_squares import factorize
from precice_lb.models.pmnf_search import MAXIMUM_HYPOTHESES, search
from precice_lb.models.pmnf_space import EQ_5_1_I, EQ_5_1_J, check_hypotheses
from precice_lb.models.pmnf_validation import CrossValidation, make_folds

__all__ = ["EPMNFRegressor"]

Array = NDArray[np.float64]

# A loss of so many percent is rounding: no larger model is better.
NO_LOSS = 1e-9
SEARCHES = ("hierarchical", "exhaustive")


class EPMNFRegressor(Learner):
    """Search for the best sum of products of powers and logarithms of several parameters.

    Parameters
    ----------
    n_terms : int
        Terms of a model beside the constant, 1 to 3, at most; of each parameter's own model as well.
    exponents, log_exponents : sequences of float
        I and J, for every parameter.
    search : {"hierarchical", "exhaustive"}
        Section IV-B of the paper, or all sets of product terms (at most `pmnf_search.MAXIMUM_HYPOTHESES`).
    single : {"golden", "exhaustive"}
        How the hierarchical search finds a parameter's next term: section IV-A, or by trying all.
    folds : int or None
        As in `PMNFRegressor`.
    loss : {"smape", "mape", "mse"}
        What is compared.
    ridge : float
        Penalty on the squared coefficients.
    relative : bool
        Least squares of relative residuals, so that fast runs count as much as slow ones: seconds span orders of
        magnitude over several parameters. False is least squares as in the papers.
    least_gain : float
        A larger model wins only if it lowers the loss by this share: of models that explain the measurements
        equally well the smallest is kept.
    log_base : float
        Base of the logarithm.

    Attributes
    ----------
    formula_ : Formula
        The winner in ``p``, ``x1``, ``x2``, …; the constant first.
    loss_ : float
        The winner's cross-validated loss.
    n_hypotheses_ : int
        Hypotheses that were evaluated.
    single_terms_ : tuple of tuples of (float, float)
        Exponents of the terms found for each parameter alone; empty after an exhaustive search.
    """

    learner_name: ClassVar[str] = "epmnf"

    formula_: Formula
    loss_: float
    n_hypotheses_: int
    single_terms_: tuple[tuple[tuple[float, float], ...], ...]

    def __init__(
        self,
        *,
        n_terms: int = 2,
        exponents: Sequence[float] = EQ_5_1_I,
        log_exponents: Sequence[float] = EQ_5_1_J,
        search: str = "hierarchical",
        single: str = "golden",
        folds: int | None = None,
        loss: str = "smape",
        ridge: float = 0.0,
        relative: bool = True,
        least_gain: float = 0.05,
        log_base: float = 2.0,
    ) -> None:
        self.n_terms = n_terms
        self.exponents = exponents
        self.log_exponents = log_exponents
        self.search = search
        self.single = single
        self.folds = folds
        self.loss = loss
        self.ridge = ridge
        self.relative = relative
        self.least_gain = least_gain
        self.log_base = log_base

    def fit(self, X: ArrayLike, y: ArrayLike, spread: ArrayLike | None = None) -> EPMNFRegressor:
        """Search for the best model and fit it; ``spread`` is left aside, as in the papers.

        Raises
        ------
        ModelError
            Bad input or parameters; parameters that are not positive; measurements that do not tell the parameters
            apart; an exhaustive search that is too large.
        """
        points, seconds, _ = check_table(X, y, spread)
        self._check_parameters()
        if not (points > 0).all():
            raise ModelError(
                f"expected parameters above 0, whose logarithms are terms, found {points[points <= 0][0]:g}; count "
                "them from 1, or use the learner 'neural'"
            )
        pairs = np.array(list(itertools.product(self.exponents, self.log_exponents)), dtype=np.float64)
        self.n_hypotheses_, self.single_terms_ = 0, ()
        if self.search == "hierarchical":
            self.single_terms_ = tuple(
                self._single(points, seconds, column, pairs) for column in range(points.shape[1])
            )
            per_parameter = self.single_terms_
        else:
            per_parameter = tuple(
                tuple((float(i), float(j)) for i, j in pairs if i or j) if len(np.unique(column)) > 1 else ()
                for column in points.T
            )
        products = [list(c) for c in itertools.product(*([(0.0, 0.0), *own] for own in per_parameter))][1:]
        exponents = np.array(products, dtype=np.float64).reshape(-1, points.shape[1], 2)
        features = self._values(exponents, points)
        usable = np.isfinite(features).all(axis=1)
        exponents, features = exponents[usable], features[usable]
        count = math.comb(len(features), min(self.n_terms, len(features)))
        if count > MAXIMUM_HYPOTHESES:
            raise ModelError(
                f"expected at most {MAXIMUM_HYPOTHESES:,} hypotheses, found {count:,}; give fewer exponents or "
                "terms, or search hierarchically"
            )
        chosen = np.zeros(0, dtype=np.intp)
        self.loss_ = math.inf
        for size, validation in self._validations(points, seconds, len(features)):
            found = search(features * self._weights(seconds), size, validation) if size else None
            loss = found.loss if found else float(validation.losses(np.zeros((0, len(seconds), 1)))[0])
            self.n_hypotheses_ += found.n_hypotheses if found else 1
            if self._better(loss, self.loss_):
                self.loss_, chosen = loss, found.terms if found else chosen
            if self.loss_ <= NO_LOSS:
                break
        self._fit_winner(exponents[chosen], features[chosen], seconds, points)
        return self

    def predict(self, X: ArrayLike) -> Array:
        """Seconds at each row of X; can be negative or infinite outside of the measured range."""
        self._require_fitted()
        return self.formula_(self._points(X))

    def predict_interval(self, X: ArrayLike, level: float = 0.8) -> tuple[Array, Array]:
        """Student-t bounds given the winner's terms; the search is not accounted for, so they are too narrow."""
        level, mean = check_level(level), self.predict(X)
        values = self._values(self._exponents(), self._points(X))
        # Terms can be infinite at 1 rank; nothing is known there.
        with np.errstate(invalid="ignore"):
            away = np.linalg.solve(self.triangle_.T, values)
            spread = np.sqrt(self.variance_ * np.square(away).sum(axis=0))
            half = float(student.ppf((1 + level) / 2, max(self.degrees_of_freedom_, 1))) * spread
            return mean - half, mean + half

    def formula(self) -> Formula:
        """Give the winner as a formula."""
        self._require_fitted()
        return self.formula_

    def _points(self, X: ArrayLike) -> Array:
        points = check_points(X, len(self.formula_.names))
        return points[:, 0] if points.shape[1] == 1 else points

    def _single(self, points: Array, seconds: Array, column: int, pairs: Array) -> tuple[tuple[float, float], ...]:
        """Terms of one parameter's own model, one after the other (section II-B) as long as they help."""
        x, means = project(*merge_repeats(points, seconds), column)
        if len(x) < LEAST_VALUES:
            return ()
        values = term_values(x, pairs[:, 0], pairs[:, 1], self.log_base)
        usable = np.isfinite(values).all(axis=1) & pairs.any(axis=1)
        pairs, values = pairs[usable], values[usable] * self._weights(means)
        order = slope_order(pairs, float(x[-1]), self.log_base) if x[-1] > 1 else np.arange(len(pairs))
        chosen: list[int] = []
        least = math.inf
        # Each further term needs a measurement more, and leaving one out takes one.
        for size, validation in self._validations(x[:, None], means, len(pairs)):
            if not size:
                least = float(validation.losses(np.zeros((0, len(x), 1)))[0])
                self.n_hypotheses_ += 1
                continue
            if self.single == "golden":

                def evaluate(place: int, validation: CrossValidation = validation) -> float:
                    return float(validation.losses(values[[*chosen, order[place]]][:, :, None])[0])

                place, seen = golden_section(evaluate, len(order))
                best, loss, tried = int(order[place]), seen[place], len(seen)
            else:
                known = np.repeat(values[chosen][:, :, None], len(values), axis=2)
                losses = validation.losses(np.concatenate([known, values.T[None]]))
                best, loss, tried = int(np.argmin(losses)), float(losses.min()), len(losses)
            self.n_hypotheses_ += tried
            if not self._better(loss, least):
                break
            chosen.append(best)
            least = loss
        return tuple((float(i), float(j)) for i, j in pairs[chosen])

    def _validations(self, points: Array, seconds: Array, terms: int) -> Iterator[tuple[int, CrossValidation]]:
        """Numbers of terms that the measurements suffice for, from none on, each with how models are compared."""
        weights = self._weights(seconds)
        for size in range(min(self.n_terms, terms) + 1):
            try:
                folds = make_folds(points, self.folds, size + 1, f"a model of {size} terms")
            except ModelError:
                if size == 0:
                    raise
                return
            yield size, CrossValidation(seconds * weights, folds, self.loss, float(self.ridge), True, weights)

    def _weights(self, seconds: Array) -> Array:
        return 1 / seconds if self.relative else np.ones(len(seconds))

    def _better(self, loss: float, least: float) -> bool:
        return least > NO_LOSS and loss < least * (1 - self.least_gain)

    def _values(self, exponents: Array, points: Array) -> Array:
        """Product terms at points, shape (T, n)."""
        result = np.ones((len(exponents), len(points)))
        with np.errstate(all="ignore"):
            for column, x in enumerate(points.reshape(len(points), -1).T):
                result *= term_values(x, exponents[:, column, 0], exponents[:, column, 1], self.log_base)
        return result

    def _fit_winner(self, exponents: Array, features: Array, seconds: Array, points: Array) -> None:
        weights = self._weights(seconds)
        with np.errstate(all="ignore"):
            validation = CrossValidation(seconds * weights, None, self.loss, float(self.ridge), True, weights)
            constants, coefficients, _ = validation.fit((features * weights)[:, :, None])
        terms = [Term(float(constants[0]))]
        for coefficient, ((i, j), *others) in zip(coefficients[:, 0], exponents, strict=True):
            terms.append(Term(float(coefficient), float(i), float(j), tuple((float(k), float(m)) for k, m in others)))
        names = ("p", *(f"x{place}" for place in range(1, points.shape[1])))
        self.formula_ = Formula(tuple(terms), self.log_base, names)
        columns = np.vstack([weights, features * weights])
        self.triangle_ = factorize(columns[:, :, None]).r[:, :, 0]
        residuals = seconds * weights - constants[0] * weights - coefficients[:, 0] @ (features * weights)
        self.degrees_of_freedom_ = max(len(seconds) - len(terms), 0)
        self.variance_ = float(residuals @ residuals) / max(self.degrees_of_freedom_, 1)

    def _exponents(self) -> Array:
        d = len(self.formula_.names)
        return np.array([[term.exponents(place) for place in range(d)] for term in self.formula_.terms])

    def _check_parameters(self) -> None:
        if self.n_terms not in (1, 2, 3):
            raise ModelError(f"expected n_terms of 1, 2 or 3, found {self.n_terms!r}")
        if self.search not in SEARCHES:
            raise ModelError(f"expected a search out of {', '.join(SEARCHES)}, found {self.search!r}")
        if self.single not in ("golden", "exhaustive"):
            raise ModelError(f"expected single as golden or exhaustive, found {self.single!r}")
        if not 0 <= self.least_gain < 1:
            raise ModelError(f"expected least_gain from 0 to below 1, found {self.least_gain!r}")
        check_hypotheses(self.exponents, self.log_exponents, self.ridge, self.log_base, self.loss)

    def _state(self) -> dict[str, Any]:
        return {
            "formula": self.formula_.to_dict(),
            "loss": self.loss_,
            "n_hypotheses": self.n_hypotheses_,
            "single_terms": [[list(pair) for pair in own] for own in self.single_terms_],
            "degrees_of_freedom": self.degrees_of_freedom_,
            "variance": self.variance_,
            # A dependent term has an infinite diagonal, which JSON does not know.
            "triangle": np.where(np.isinf(self.triangle_), 0.0, self.triangle_).tolist(),
        }

    def _restore(self, state: Mapping[str, Any]) -> None:
        self.formula_ = Formula.from_dict(state["formula"])
        self.loss_, self.variance_ = float(state["loss"]), float(state["variance"])
        self.n_hypotheses_ = int(state["n_hypotheses"])
        self.degrees_of_freedom_ = int(state["degrees_of_freedom"])
        self.single_terms_ = tuple(tuple((float(i), float(j)) for i, j in own) for own in state["single_terms"])
        triangle = np.asarray(state["triangle"], dtype=np.float64)
        np.fill_diagonal(triangle, np.where(np.diag(triangle) == 0, np.inf, np.diag(triangle)))
        self.triangle_ = triangle
