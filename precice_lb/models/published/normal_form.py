"""Performance model normal form, of ranks (PMNF) and of several parameters (EPMNF): searched for, as in the papers.

Schröder 2019, chapter 2, after Calotoiu et al. 2013 and 2016: f(x_1 … x_d) = c_0 + Σ c_k Π x_l^(i_kl) log(x_l)^(j_kl),
with few terms whose exponents are out of I × J. The hypothesis with the least cross-validated loss wins and is fitted
to all measurements. The losses are those of Schröder 2019, equations 2.8 to 2.10.

Nothing keeps such a model positive or falling beyond its data, and how sure it is it does not say.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils._param_validation import Interval, StrOptions

from precice_lb.exceptions import ModelError
from precice_lb.models.base import Array, Learner
from precice_lb.models.published.formula import Formula, term_values

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
GOLDEN = (1 + math.sqrt(5)) / 2
# Places to either side of the found one that are looked at as well. Terms with different powers of the logarithm take
# turns in the order of slopes; much alike ones, x^0.75 and x^0.25 log2(x)^2 say, stand up to 4 places apart.
NEIGHBOURS = 5
#: Different values of a parameter without which nothing can be said about how the seconds depend on it.
LEAST_VALUES = 3
# A loss of so many percent is rounding: no larger model is better.
NO_LOSS = 1e-9


def smape(truth: Array, prediction: Array) -> Array:
    """Symmetric mean absolute percentage error, 0 to 200 % (equation 2.8), over the rows."""
    scale = np.abs(truth) + np.abs(prediction)
    error = 2.0 * np.abs(truth - prediction)
    return np.asarray(np.divide(error, scale, out=np.zeros_like(error), where=scale != 0).mean(axis=0) * 100.0)


def mape(truth: Array, prediction: Array) -> Array:
    """Mean absolute percentage error, in percent of the truth (equation 2.9), over the rows."""
    return np.asarray(np.abs((truth - prediction) / truth).mean(axis=0) * 100.0)


def mse(truth: Array, prediction: Array) -> Array:
    """Mean squared error, in squared seconds (equation 2.10), over the rows."""
    return np.asarray(np.square(truth - prediction).mean(axis=0))


LOSSES: dict[str, Callable[[Array, Array], Array]] = {"smape": smape, "mape": mape, "mse": mse}


def factorize(columns: Array, ridge: Array) -> tuple[Array, Array]:
    """Orthogonalise k columns of each of h problems, shape (k, rows, h), by modified Gram-Schmidt done twice.

    ``columns = q @ r``: q, of their shape, has orthonormal columns, zero for a dependent one; r, shape (h, k, k), are
    upper triangles. A ridge, shape (k,), is a penalty on the square of each coefficient. It enters as the rows
    ``sqrt(ridge) * identity`` below the columns, so that the normal equations, with their squared condition number, are
    never formed; q has the rows of the data only. ``q qᵀ y`` are then the fitted values also with a penalty, because
    its rows have zeros on the right-hand side.
    """
    k, rows, h = columns.shape
    q = np.concatenate([columns, np.zeros((k, k if ridge.any() else 0, h))], axis=1)
    if ridge.any():
        q[range(k), range(rows, rows + k)] = np.sqrt(ridge)[:, None]
    r = np.zeros((k, k, h))
    for column, v in enumerate(q):
        length = np.sqrt(np.einsum("rh,rh->h", v, v))
        for earlier in [*range(column)] * 2:
            share = np.einsum("rh,rh->h", q[earlier], v)
            r[earlier, column] += share
            v -= share * q[earlier]
        left = np.sqrt(np.einsum("rh,rh->h", v, v))
        dependent = left <= DEPENDENT * length
        r[column, column] = np.where(dependent, 1.0, left)
        v /= np.where(dependent, np.inf, left)
    return q[:, :rows], r.transpose(2, 0, 1)


@dataclass(frozen=True, eq=False)
class Hypotheses:
    """Sums of k terms and perhaps a constant, h of them at once, with values (k, m, h) where seconds (m,) are known."""

    seconds: Array
    # Test rows of each fold; None for leave-one-out.
    folds: list[Integers] | None
    # Out of `LOSSES`.
    loss: str
    # Penalty on the squared coefficients but the constant's.
    ridge: float
    # The constant's values (m,), where there is one.
    constant: Array | None

    def coefficients(self, terms: Array, rows: Integers | None = None) -> Array:
        """Fit each hypothesis to all measurements or some rows, shape (k, h), the constant before the terms."""
        columns, ridge = self._with_constant(terms)
        columns, seconds = (columns, self.seconds) if rows is None else (columns[:, rows], self.seconds[rows])
        q, r = factorize(columns, ridge)
        return np.asarray(np.linalg.solve(r, np.einsum("krh,r->hk", q, seconds)[:, :, None])[:, :, 0].T)

    def losses(self, terms: Array) -> Array:
        """Mean of the loss over the folds, shape (h,); infinite for hypotheses that cannot be validated."""
        with np.errstate(all="ignore"):
            if self.folds is None:
                losses = LOSSES[self.loss](self.seconds[:, None], self._left_out(terms))
            else:
                losses = np.mean([self._loss_of_fold(terms, test) for test in self.folds], axis=0)
        return np.where(np.isfinite(losses), losses, np.inf)

    def best(self, features: Array, n_terms: int) -> tuple[Integers, float] | None:
        """Find the set of finite features (T, m) with the least loss, of equal ones the first in lexicographic order.

        Indices and loss; None where no hypothesis can be validated.
        """
        best: tuple[Integers, float] | None = None
        every = itertools.combinations(range(len(features)), n_terms)
        while block := list(itertools.islice(every, max(BLOCK // features.shape[1], 1))):
            sets = np.array(block, dtype=np.intp)
            # The hypotheses last: so many at once make long vectors.
            losses = self.losses(features.T[:, sets.T].transpose(1, 0, 2))
            least = int(losses.argmin())
            if losses[least] < (best[1] if best else math.inf):
                best = sets[least], float(losses[least])
        return best

    def formula(self, exponents: Array, features: Array) -> Formula:
        """Fit terms with exponents (k, d, 2) and values (k, m) to all measurements."""
        coefficients = self.coefficients(features[:, :, None])[:, 0]
        shape = (len(coefficients) - len(exponents), *exponents.shape[1:])
        return Formula(coefficients, np.concatenate([np.zeros(shape), exponents]), np.zeros(shape[1]))

    def _with_constant(self, terms: Array) -> tuple[Array, Array]:
        """Columns and the penalty on the coefficient of each."""
        if self.constant is None:
            return terms, np.full(len(terms), self.ridge)
        first = np.broadcast_to(self.constant[:, None], (1, *terms.shape[1:]))
        return np.concatenate([first, terms]), np.array([0.0, *[self.ridge] * len(terms)])

    def _left_out(self, terms: Array) -> Array:
        """Predict each measurement from the others, without refitting: residual / (1 - leverage)."""
        fitted, leverage = np.zeros(terms.shape[1:]), np.zeros(terms.shape[1:])
        for q in factorize(*self._with_constant(terms))[0]:
            fitted += q * (self.seconds @ q)
            leverage += q * q
        free = np.where(leverage >= FULL_LEVERAGE, np.nan, 1.0 - leverage)
        seconds = self.seconds[:, None]
        return np.asarray(seconds - (seconds - fitted) / free)

    def _loss_of_fold(self, terms: Array, test: Integers) -> Array:
        fitted = self.coefficients(terms, np.delete(np.arange(len(self.seconds)), test))
        predicted = np.einsum("krh,kh->rh", self._with_constant(terms)[0][:, test], fitted)
        return LOSSES[self.loss](self.seconds[test, None], predicted)


@dataclass(kw_only=True, eq=False, repr=False)
class NormalForm(Learner, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """What both searches have in common."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_terms": [Interval(Integral, 1, 3, closed="both")],
        "exponents": ["array-like"],
        "log_exponents": ["array-like"],
        "folds": [Interval(Integral, 2, None, closed="left"), None],
        "loss": [StrOptions(set(LOSSES))],
        "ridge": [Interval(Real, 0, None, closed="left")],
    }
    n_terms: int = 2
    exponents: Sequence[float] = EQ_5_1_I
    log_exponents: Sequence[float] = EQ_5_1_J
    folds: int | None = None
    loss: str = "smape"
    ridge: float = 0.0

    def _pairs(self) -> Array:
        """I × J, shape (T, 2)."""
        return np.array(list(itertools.product(self.exponents, self.log_exponents)), dtype=np.float64).reshape(-1, 2)

    def _finite(self, points: Array, exponents: Array) -> tuple[Array, Array]:
        """Leave out terms with exponents (T, d, 2) that are infinite at a point; with the values (T, n) of the rest."""
        values = term_values(points, exponents)
        finite = np.isfinite(values).all(axis=1)
        count = math.comb(int(finite.sum()), min(self.n_terms, int(finite.sum())))
        if count > MAXIMUM_HYPOTHESES:
            raise ModelError(
                f"expected at most {MAXIMUM_HYPOTHESES:,} hypotheses, found {count:,}; give fewer exponents or terms"
            )
        return exponents[finite], values[finite]

    def _folds(self, points: Array) -> tuple[list[Integers] | None, int]:
        """Test rows of folds, None for leave-one-out; and how many different points every training set has."""
        m = len(points)
        if m < max(self.folds or 0, 2):
            raise ModelError(
                f"expected at least {max(self.folds or 0, 2)} measurements for cross-validation, found {m}; use fewer "
                "folds or the learner 'bayes'"
            )
        tests = np.array_split(np.arange(m), self.folds or m)
        distinct = min(len(np.unique(np.delete(points, test, axis=0), axis=0)) for test in tests)
        return tests if self.folds else None, distinct


@dataclass(kw_only=True, eq=False, repr=False)
class PMNFRegressor(NormalForm):
    """Exhaustive search for the best sum of terms p^i log2(p)^j.

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

    Notes
    -----
    Of hypotheses with the same loss the first wins. Least squares is done by orthogonalisation, so terms that differ by
    many orders of magnitude do not spoil each other; where scikit-learn's ``LinearRegression`` cuts small
    singular values off (features of very different size without ridge) it can come to another result.
    """

    learner_name: ClassVar[str] = "pmnf"
    constant: bool = True

    def _fit(self, points: Array, seconds: Array, errors: Array) -> None:
        self._validate_params()
        exponents, features = self._finite(points, self._pairs()[:, None])
        if len(features) < self.n_terms:
            raise ModelError(
                f"expected at least {self.n_terms} usable terms, found {len(features)}; give more exponents"
            )
        folds, distinct = self._folds(points)
        needed = 1 if self.ridge else self.n_terms + bool(self.constant)
        if distinct < needed:
            raise ModelError(
                f"a PMNF of {self.n_terms} terms needs {needed} rank counts in every training set of its "
                f"cross-validation, found {distinct}; measure more, ask for fewer terms or give a ridge"
            )
        constant = np.ones(len(seconds)) if self.constant else None
        hypotheses = Hypotheses(seconds, folds, self.loss, float(self.ridge), constant)
        hypothesis = hypotheses.best(features, self.n_terms)
        if hypothesis is None:
            raise ModelError(
                "no hypothesis could be cross-validated on these measurements; measure at more rank counts"
            )
        terms, self.loss_ = hypothesis
        self.formula_ = hypotheses.formula(exponents[terms], features[terms])


@dataclass(kw_only=True, eq=False, repr=False)
class EPMNFRegressor(NormalForm):
    """Search for the best sum of products of powers and logarithms of several parameters.

    Least squares are those of relative residuals, unlike in the papers, so that fast runs count as much as slow ones:
    seconds span orders of magnitude over several parameters.

    Parameters
    ----------
    n_terms : int
        Terms of a model beside the constant, 1 to 3, at most; of each parameter's own model as well.
    exponents, log_exponents : sequences of float
        I and J, for every parameter.
    folds, loss, ridge
        As in `PMNFRegressor`.
    search : {"hierarchical", "exhaustive"}
        Terms for each parameter alone are found and then combined (section IV of Calotoiu et al. 2016), or all sets of
        product terms are compared, at most `MAXIMUM_HYPOTHESES`: of two parameters and few exponents.
    least_gain : float
        A larger model wins only if it lowers the loss by this share: of models that explain the measurements
        equally well the smallest is kept.
    """

    learner_name: ClassVar[str] = "epmnf"
    several_parameters: ClassVar[bool] = True
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **NormalForm._parameter_constraints,
        "search": [StrOptions({"hierarchical", "exhaustive"})],
        "least_gain": [Interval(Real, 0, 1, closed="left")],
    }
    search: str = "hierarchical"
    least_gain: float = 0.05

    def _fit(self, points: Array, seconds: Array, errors: Array) -> None:
        self._validate_params()
        pairs, d = self._pairs(), points.shape[1]
        pairs = pairs[pairs.any(axis=1)]
        if self.search == "hierarchical":
            single = [self._single(points, seconds, column, pairs) for column in range(d)]
        else:
            single = [pairs if len(np.unique(column)) > 1 else pairs[:0] for column in points.T]
        products = itertools.product(*([(0.0, 0.0), *terms.tolist()] for terms in single))
        exponents, features = self._finite(points, np.array(list(products)[1:]).reshape(-1, d, 2))
        features = features / seconds
        chosen, self.loss_ = np.zeros(0, dtype=np.intp), math.inf
        for size, hypotheses in self._sizes(points, seconds, len(features)):
            hypothesis = hypotheses.best(features, size)
            if hypothesis and self._is_better(hypothesis[1], self.loss_):
                chosen, self.loss_ = hypothesis
            if self.loss_ <= NO_LOSS:
                break
        self.formula_ = hypotheses.formula(exponents[chosen], features[chosen])

    def _single(self, points: Array, seconds: Array, column: int, pairs: Array) -> Array:
        """Terms of one parameter's own model (k, 2), one after the other (section II-B) as long as they help."""
        x, means = project(*means_of_repeats(points, seconds), column)
        if len(x) < LEAST_VALUES:
            return pairs[:0]
        exponents, features = self._finite(x[:, None], pairs[:, None])
        order = slope_order(exponents[:, 0], float(x[-1])) if x[-1] > 1 else np.arange(len(features))
        features, chosen, least = features / means, list[int](), math.inf
        for size, hypotheses in self._sizes(x[:, None], means, len(features)):

            def loss(place: int, hypotheses: Hypotheses = hypotheses) -> float:
                return float(hypotheses.losses(features[[*chosen, order[place]]][:, :, None])[0])

            if size:
                place, seen = golden_section(loss, len(order))
                if not self._is_better(seen[place], least):
                    break
                least = seen[place]
                chosen.append(int(order[place]))
            else:
                least = float(hypotheses.losses(np.zeros((0, len(x), 1)))[0])
        return exponents[chosen, 0]

    def _sizes(self, points: Array, seconds: Array, terms: int) -> Iterator[tuple[int, Hypotheses]]:
        """Numbers of terms that the measurements suffice for, from none on, each with its hypotheses."""
        folds, distinct = self._folds(points)
        hypotheses = Hypotheses(np.ones(len(seconds)), folds, self.loss, float(self.ridge), 1 / seconds)
        for size in range(min(self.n_terms, terms, distinct - 1) + 1):
            yield size, hypotheses

    def _is_better(self, loss: float, least: float) -> bool:
        return least > NO_LOSS and loss < least * (1 - self.least_gain)


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
            f"found {len(values)}: the measurements are no full grid, and this column varies only together with "
            "others; measure along it, or use the learner 'bayes' or 'neural'"
        )
    return values, means


def slope_order(pairs: Array, largest: float) -> Integers:
    """Sort terms x^i log2(x)^j, exponents (T, 2), by the size of their slope at the largest measured x > 1.

    Indices, shape (T,), the flattest first; of equal slopes the first stays first.
    """
    i, j = pairs.T
    logarithm = math.log2(largest)
    # Product rule (Schröder 2019, equation 2.13); in logarithms, so that large powers do not overflow.
    inner = np.abs(i * logarithm + j / math.log(2.0))
    with np.errstate(divide="ignore"):
        slope = (i - 1) * math.log(largest) + (j - 1) * math.log(logarithm) + np.log(inner)
    return np.argsort(slope, kind="stable")


def golden_section(evaluate: Callable[[int], float], count: int) -> tuple[int, dict[int, float]]:
    """Find where a function falls no more and rises, over 0 … count - 1: the index, and all that was evaluated.

    The interval shrinks by the golden ratio; points are rounded to integers. At the end the neighbours of the best
    point are looked at, and theirs as long as they are better: a ranking of hypotheses is unimodal only nearly. Of
    equal values the lowest index wins.
    """
    seen: dict[int, float] = {}

    def value(index: int) -> float:
        if index not in seen:
            seen[index] = evaluate(index)
        return seen[index]

    low, high = 0, count - 1
    while high - low > 2:
        step = (high - low) / GOLDEN
        left, right = round(high - step), round(low + step)
        if left >= right:
            left, right = (low + high) // 2, (low + high) // 2 + 1
        if value(right) >= value(left):
            high = right
        else:
            low = left
    around: Sequence[int] = [0, *seen, *range(low, high + 1), count - 1]
    while True:
        best = min(around, key=lambda index: (value(index), index))
        around = range(max(0, best - NEIGHBOURS), min(count, best + NEIGHBOURS + 1))
        if all(near in seen for near in around):
            return best, seen
