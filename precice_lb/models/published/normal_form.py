"""Performance model normal form, of ranks (PMNF) and of several parameters (EPMNF): searched for, as in the papers.

Schröder 2019, chapter 2, after Calotoiu et al. 2013 and 2016: f(x_1 … x_d) = c_0 + Σ c_k Π x_l^(i_kl) log(x_l)^(j_kl),
with few terms whose exponents are out of I × J. The hypothesis with the least cross-validated error wins and is fitted
to all measurements.

Nothing keeps such a model positive or falling beyond its data, and how sure it is it does not say.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils._param_validation import Interval

from precice_lb.exceptions import ModelError
from precice_lb.models.base import Array, Formula, Learner, term_values

Integers = NDArray[np.intp]

# Search space of Schröder 2019, equation 5.1: 100 terms, 4,950 hypotheses of two terms.
EQ_5_1_I: tuple[float, ...] = tuple(k / 4 for k in range(-8, 12))
EQ_5_1_J: tuple[float, ...] = (-2.0, -1.0, 0.0, 1.0, 2.0)
#: Hypotheses that are searched at most: some minutes.
MAXIMUM_HYPOTHESES = 50_000_000
# A column is dependent when this share of its length or less is left after taking the other columns out of it.
DEPENDENT = 1e-11
# A measurement with more leverage alone determines a coefficient: nothing predicts it from the others.
FULL_LEVERAGE = 1 - 1e-10
# Numbers in one array of a block: several of them stay in the second-level cache.
BLOCK = 8192
#: Different values of a parameter without which nothing can be said about how the seconds depend on it.
LEAST_VALUES = 3
# A loss of so many percent is rounding: no larger model is better.
NO_LOSS = 1e-9
# A model with more terms has to lower the loss by this share: of those that explain the data alike the smallest wins.
LEAST_GAIN = 0.05


def smape(truth: Array, prediction: Array) -> Array:
    """Symmetric mean absolute percentage error, 0 to 200 % (Schröder 2019, equation 2.8), over the last axis."""
    scale = np.abs(truth) + np.abs(prediction)
    error = 200.0 * np.abs(truth - prediction)
    return np.asarray(np.divide(error, scale, out=np.zeros_like(error), where=scale != 0).mean(axis=-1))


@dataclass(frozen=True, eq=False)
class Hypotheses:
    """Sums of some of T terms and a constant, compared by how well they predict measurements left out."""

    # Of measurements, shape (m,).
    seconds: Array
    # Values of the terms, shape (T, m), and of the constant, shape (m,).
    features: Array
    constant: Array
    # Penalty on the squared coefficients but the constant's.
    ridge: float
    # Test rows of each fold; None for leave-one-out.
    folds: list[Integers] | None
    # Of the terms, shape (T, d, 2).
    exponents: Array
    # Different points in every training set, at least.
    distinct: int

    def formula(self, terms: Integers) -> Formula:
        """Fit a set of terms to all measurements, and put the constant first."""
        coefficients = _coefficients(*self._factors(self._columns(terms[None])), self.seconds)[0]
        constant = np.zeros((1, *self.exponents.shape[1:]))
        return Formula(np.roll(coefficients, 1), np.concatenate([constant, self.exponents[terms]]))

    def losses(self, sets: Integers) -> Array:
        """Mean of the error over the folds of sets of terms, shape (h,); infinite where one cannot be validated."""
        columns, losses = self._columns(sets), np.zeros(0)
        with np.errstate(all="ignore"):
            if self.folds is None:
                q, _ = self._factors(columns)
                fitted, leverage = np.einsum("hmk,hnk,n->hm", q, q, self.seconds, optimize=True), (q * q).sum(axis=2)
                # Each from the others, without refitting.
                missed = (self.seconds - fitted) / np.where(leverage >= FULL_LEVERAGE, np.nan, 1.0 - leverage)
                losses = smape(self.seconds, self.seconds - missed)
            else:
                losses = np.asarray(np.mean([self._loss_of_fold(columns, test) for test in self.folds], axis=0))
        losses[~np.isfinite(losses)] = np.inf
        return losses

    def best(self, candidates: Iterable[tuple[int, ...]]) -> tuple[Integers, float] | None:
        """Find the set of terms with the least loss, of equal ones the first: indices and loss."""
        best: tuple[Integers, float] | None = None
        every = iter(candidates)
        while block := list(itertools.islice(every, max(BLOCK // len(self.seconds), 1))):
            sets = np.array(block, dtype=np.intp)
            losses = self.losses(sets)
            least = int(losses.argmin())
            if losses[least] < (best[1] if best else math.inf):
                best = sets[least], float(losses[least])
        return best

    def _columns(self, sets: Integers) -> Array:
        constant = np.broadcast_to(self.constant, (len(sets), 1, len(self.constant)))
        return np.asarray(np.concatenate([self.features[sets], constant], axis=1).swapaxes(1, 2))

    def _factors(self, columns: Array) -> tuple[Array, Array]:
        """Orthogonalise columns (h, rows, k + 1) with the penalty as further rows; q has the rows of the data alone.

        A constant that is one of the terms too gets nothing.
        """
        count, rows, size = columns.shape
        penalty = np.diag([*[math.sqrt(self.ridge)] * (size - 1), 0.0])
        q, r = np.linalg.qr(np.concatenate([columns, np.broadcast_to(penalty, (count, size, size))], axis=1))
        is_dependent = np.abs(r[:, -1, -1]) <= DEPENDENT * np.linalg.norm(columns[:, :, -1], axis=1)
        q[is_dependent, :, -1], r[is_dependent, -1, -1] = 0.0, 1.0
        return q[:, :rows], r

    def _loss_of_fold(self, columns: Array, test: Integers) -> Array:
        train = np.delete(np.arange(len(self.seconds)), test)
        fitted = _coefficients(*self._factors(columns[:, train]), self.seconds[train])
        return smape(self.seconds[test], np.einsum("hmk,hk->hm", columns[:, test], fitted))


def _coefficients(q: Array, r: Array, seconds: Array) -> Array:
    return np.linalg.solve(r, np.einsum("hmk,m->hk", q, seconds)[..., None])[..., 0]


@dataclass(kw_only=True, eq=False, repr=False)
class PMNFRegressor(Learner, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Exhaustive search for the best sum of a constant and terms p^i log2(p)^j.

    Parameters
    ----------
    n_terms : int
        Terms of a hypothesis beside the constant, 1 to 3.
    exponents, log_exponents : sequences of float
        I and J; the terms are their Cartesian product in this order. Default: equation 5.1 of Schröder 2019.
    folds : int or None
        Cross-validation: None for leave-one-out, else that many folds of measurements that follow each other in the
        order given (scikit-learn's ``KFold`` without shuffling); what counts is the mean over the folds.
    ridge : float
        Penalty on the squared coefficients; the constant is not penalised and the terms are not scaled, as in
        scikit-learn's ``Ridge(alpha=ridge)``.

    Notes
    -----
    Of hypotheses with the same loss the first wins. Least squares is done by orthogonalisation, so terms that differ by
    many orders of magnitude do not spoil each other; where scikit-learn's ``LinearRegression`` cuts small
    singular values off (features of very different size without ridge) it can come to another result.
    """

    learner_name: ClassVar[str] = "pmnf"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_terms": [Interval(Integral, 1, 3, closed="both")],
        "folds": [Interval(Integral, 2, None, closed="left"), None],
        "ridge": [Interval(Real, 0, None, closed="left")],
    }
    n_terms: int = 2
    exponents: Sequence[float] = EQ_5_1_I
    log_exponents: Sequence[float] = EQ_5_1_J
    folds: int | None = None
    ridge: float = 0.0

    def _fit(self, points: Array, seconds: Array, errors: Array) -> None:
        hypotheses = self._hypotheses(points, seconds, self._pairs()[:, None], np.ones(len(seconds)))
        if (usable := len(hypotheses.exponents)) < self.n_terms:
            raise ModelError(f"expected {self.n_terms} usable terms, found {usable}; give more exponents")
        if hypotheses.distinct < (needed := 1 if self.ridge else self.n_terms + 1):
            raise ModelError(
                f"a PMNF of {self.n_terms} terms needs {needed} rank counts in every training set of its "
                f"cross-validation, found {hypotheses.distinct}; measure more, ask for fewer terms or give a ridge"
            )
        hypothesis = hypotheses.best(itertools.combinations(range(usable), self.n_terms))
        if hypothesis is None:
            raise ModelError("no hypothesis could be cross-validated; measure at more rank counts")
        terms, self.loss_ = hypothesis
        self.formula_ = hypotheses.formula(terms)

    def _pairs(self) -> Array:
        """I × J, shape (T, 2)."""
        self._validate_params()
        return np.array(list(itertools.product(self.exponents, self.log_exponents)), dtype=np.float64).reshape(-1, 2)

    def _hypotheses(self, points: Array, seconds: Array, exponents: Array, weights: Array) -> Hypotheses:
        """Hypotheses of the terms that are finite at all points, of residuals times weights."""
        values = term_values(points, exponents)
        is_finite, m = np.isfinite(values).all(axis=1), len(points)
        if (count := math.comb(int(is_finite.sum()), self.n_terms)) > MAXIMUM_HYPOTHESES:
            raise ModelError(f"expected at most {MAXIMUM_HYPOTHESES:,} hypotheses, found {count:,}; give fewer terms")
        if m < (least := max(self.folds or 0, 2)):
            raise ModelError(
                f"expected at least {least} measurements, found {m}; use fewer folds or the learner 'bayes'"
            )
        tests = np.array_split(np.arange(m), self.folds or m)
        distinct = min(len(np.unique(np.delete(points, test, axis=0), axis=0)) for test in tests)
        features, folds = values[is_finite] * weights, tests if self.folds else None
        return Hypotheses(seconds * weights, features, weights, self.ridge, folds, exponents[is_finite], distinct)


class EPMNFRegressor(PMNFRegressor):
    """Search for the best sum of products of powers and logarithms of several parameters.

    Terms for each parameter alone are found one by one, and then products of these are combined (section IV of Calotoiu
    et al. 2016). Least squares are those of relative residuals, unlike in the papers, so that fast runs count as much
    as slow ones: seconds span orders of magnitude over several parameters. Of models that explain the measurements
    about equally well the one with fewest terms is kept.

    Parameters
    ----------
    n_terms : int
        Terms of a model beside the constant, 1 to 3, at most; of each parameter's own model as well.
    exponents, log_exponents : sequences of float
        I and J, for every parameter.
    folds, ridge
        As in `PMNFRegressor`.
    """

    learner_name: ClassVar[str] = "epmnf"
    several_parameters: ClassVar[bool] = True

    def _fit(self, points: Array, seconds: Array, errors: Array) -> None:
        pairs, single = self._pairs(), []
        pairs = pairs[pairs.any(axis=1)]
        for column in range(points.shape[1]):
            x, means = project(*means_of_repeats(points, seconds), column)
            varies = len(x) >= LEAST_VALUES
            single.append(
                self._grown(x[:, None], means, pairs[:, None], True)[0].exponents[1:, 0] if varies else pairs[:0]
            )
        products = itertools.product(*([(0.0, 0.0), *terms.tolist()] for terms in single))
        exponents = np.array(list(products)[1:]).reshape(-1, points.shape[1], 2)
        self.formula_, self.loss_ = self._grown(points, seconds, exponents, False)

    def _grown(self, points: Array, seconds: Array, exponents: Array, one_by_one: bool) -> tuple[Formula, float]:
        """Take more terms as long as they help, keeping those of the smaller model or not; the formula and its loss."""
        hypotheses = self._hypotheses(points, seconds, exponents, 1 / seconds)
        places, chosen, loss = range(len(hypotheses.exponents)), np.zeros(0, dtype=np.intp), math.inf
        for size in range(min(self.n_terms, len(places), hypotheses.distinct - 1) + 1):
            sets: Iterable[tuple[int, ...]] = itertools.combinations(places, size)
            if one_by_one and size:
                sets = ((*chosen.tolist(), place) for place in places if place not in chosen)
            hypothesis = hypotheses.best(sets)
            if hypothesis and loss > NO_LOSS and hypothesis[1] < loss * (1 - LEAST_GAIN):
                chosen, loss = hypothesis
            elif one_by_one:
                break
        return hypotheses.formula(chosen), loss


def means_of_repeats(points: Array, seconds: Array) -> tuple[Array, Array]:
    """Find the different points, rising, and the mean of the seconds at each."""
    distinct, labels = np.unique(points, axis=0, return_inverse=True)
    return distinct, np.bincount(labels.ravel(), weights=seconds) / np.bincount(labels.ravel())


def project(points: Array, seconds: Array, column: int) -> tuple[Array, Array]:
    """Seconds over one parameter alone, of points without repeats: its values, rising, and their means (k,).

    Where each of its values was measured with each combination of the others, the mean over those, as in the paper.
    Otherwise the longest slice: the measurements that differ in this parameter only, of equally long ones the slowest,
    because there the time matters most. A parameter that was not varied has k = 1.
    """
    count = len(np.unique(points[:, column]))
    others, slices = np.unique(np.delete(points, column, axis=1), axis=0, return_inverse=True)
    rows = np.arange(len(points))
    if len(points) != count * len(others):
        groups = [np.flatnonzero(slices.ravel() == label) for label in range(len(others))]
        rows = max(reversed(groups), key=lambda rows: (len(rows), seconds[rows].mean()))
    values, means = means_of_repeats(points[rows, column], seconds[rows])
    if count > 1 and len(values) < LEAST_VALUES:
        raise ModelError(
            f"expected {LEAST_VALUES} or more values of column {column} of X measured with all other columns alike, "
            f"found {len(values)}; measure along it, or use the learner 'bayes' or 'neural'"
        )
    return values, means
