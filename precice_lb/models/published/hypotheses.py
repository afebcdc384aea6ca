"""Searching hypotheses of a few terms for the least cross-validated loss, block by block, by orthogonalisation.

The losses by which they are compared are those of Schröder 2019, equations 2.8 to 2.10.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from precice_lb.exceptions import ModelError

Array = NDArray[np.float64]

# A column is dependent when this share of its length or less is left after taking the other columns out of it.
DEPENDENT = 1e-11


@dataclass(frozen=True)
class Factors:
    """``columns = q @ r`` for each of h problems with k columns.

    ``q``, shape (k, rows, h), has orthonormal columns (zero for a dependent one), with ridge only the rows of the data;
    ``r``, shape (k, k, h), upper triangles, whose diagonal is infinite for a dependent column: its coefficient is zero.
    """

    q: Array
    r: Array

    def coefficients(self, projections: Array) -> Array:
        """Solve ``r c = projections`` for c; both of shape (k, h)."""
        k = len(self.r)
        result = np.zeros_like(projections)
        for row in range(k - 1, -1, -1):
            rest = projections[row].copy()
            for column in range(row + 1, k):
                rest -= self.r[row, column] * result[column]
            result[row] = rest / self.r[row, row]
        return result


def factorize(columns: Array, ridge: float = 0.0) -> Factors:
    """Orthogonalise k columns of each of h problems, shape (k, rows, h), by modified Gram-Schmidt done twice.

    The ridge, a penalty on the squared coefficients of the columns as given, enters as the rows ``sqrt(ridge) *
    identity`` below the columns, so that the normal equations, with their squared condition number, are never formed.
    ``q qᵀ y`` are then the fitted values also with a penalty, because its rows have zeros on the right-hand side.
    """
    k, rows, h = columns.shape
    extra = k if ridge > 0 else 0
    q = np.zeros((k, rows + extra, h))
    q[:, :rows] = columns
    if extra:
        for column in range(k):
            q[column, rows + column] = np.sqrt(ridge)
    r = np.zeros((k, k, h))
    for column in range(k):
        v = q[column]
        length = np.sqrt(np.einsum("rh,rh->h", v, v))
        for _ in range(2 if column else 0):
            for earlier in range(column):
                share = np.einsum("rh,rh->h", q[earlier], v)
                r[earlier, column] += share
                v -= share * q[earlier]
        left = np.sqrt(np.einsum("rh,rh->h", v, v))
        dependent = left <= DEPENDENT * length
        left[dependent] = np.inf
        r[column, column] = left
        v /= left
    return Factors(q[:, :rows], r)


def solve_nonnegative(columns: Array, targets: Array) -> tuple[Array, Array]:
    """Non-negative least squares of columns (k, rows, h) for targets (rows, h), exact.

    Coefficients, shape (k, h), and sums of squared residuals, shape (h,). The optimum is the unconstrained solution on
    its own active set (Karush-Kuhn-Tucker), so the best among the feasible solutions of all 2^k sets is the optimum.
    For k ≤ 3 that is faster than an active-set method per problem. A column of zeros is never used.
    """
    k, _, h = columns.shape
    best = np.zeros((k, h))
    residuals = np.einsum("rh,rh->h", targets, targets)
    for size in range(1, k + 1):
        for active in map(np.array, itertools.combinations(range(k), size)):
            chosen = columns[active]
            factors = factorize(chosen)
            found = factors.coefficients(np.einsum("krh,rh->kh", factors.q, targets))
            error = targets - np.einsum("krh,kh->rh", chosen, found)
            squares = np.einsum("rh,rh->h", error, error)
            better = (found > 0).all(axis=0) & (squares < residuals)
            residuals = np.where(better, squares, residuals)
            best[:, better] = 0.0
            best[np.ix_(active, np.flatnonzero(better))] = found[:, better]
    return best, residuals


Loss = Callable[[ArrayLike, ArrayLike], NDArray[np.float64]]

Integers = NDArray[np.intp]

# A measurement with more leverage alone determines a coefficient: nothing predicts it from the others.
FULL_LEVERAGE = 1 - 1e-10
#: Hypotheses that are searched at most: some minutes.
MAXIMUM_HYPOTHESES = 50_000_000

# Numbers in one array of a block: several of them stay in the second-level cache.
BLOCK = 8192


def smape(truth: ArrayLike, prediction: ArrayLike) -> NDArray[np.float64]:
    """Symmetric mean absolute percentage error, 0 to 200 % (equation 2.8), of predictions (n, …), shape (…)."""
    truth, prediction = _aligned(truth, prediction)
    scale = np.abs(truth) + np.abs(prediction)
    error = 2.0 * np.abs(truth - prediction)
    return _mean(np.divide(error, scale, out=np.zeros_like(error), where=scale != 0)) * 100.0


def mape(truth: ArrayLike, prediction: ArrayLike) -> NDArray[np.float64]:
    """Mean absolute percentage error, in percent of the truth (equation 2.9)."""
    truth, prediction = _aligned(truth, prediction)
    return _mean(np.abs((truth - prediction) / truth)) * 100.0


def mse(truth: ArrayLike, prediction: ArrayLike) -> NDArray[np.float64]:
    """Mean squared error, in squared seconds (equation 2.10)."""
    truth, prediction = _aligned(truth, prediction)
    return _mean(np.square(truth - prediction))


LOSSES: dict[str, Loss] = {"smape": smape, "mape": mape, "mse": mse}


def get_loss(name: str) -> Loss:
    """Look a loss up by its name."""
    try:
        return LOSSES[name]
    except (KeyError, TypeError):
        raise ModelError(f"expected a loss out of {', '.join(LOSSES)}, found {name!r}") from None


def _aligned(truth: ArrayLike, prediction: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    predicted = np.asarray(prediction, dtype=np.float64)
    measured = np.asarray(truth, dtype=np.float64)
    return measured.reshape(measured.shape + (1,) * (predicted.ndim - measured.ndim)), predicted


def _mean(errors: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(errors.mean(axis=0), dtype=np.float64)


@dataclass(frozen=True)
class CrossValidation:
    """How hypotheses are fitted to seconds (m,) and compared, by the mean over folds of each fold's loss."""

    seconds: Array
    # Test rows of each fold; None for leave-one-out.
    folds: list[Integers] | None
    # Out of `precice_lb.models.published.hypotheses.LOSSES`.
    loss: str
    # Penalty on the squared coefficients but for the constant's, if each hypothesis has one.
    ridge: float
    constant: bool
    # What the constant is multiplied with: the weights of measurements and columns, 1 where they are not weighted.
    base: Array

    def losses(self, columns: Array) -> Array:
        """Cross-validated losses (h,) of hypotheses with k terms (k, m, h); infinite where there is none."""
        loss = get_loss(self.loss)
        with np.errstate(all="ignore"):
            if self.folds is None:
                total = loss(self.seconds, self._leave_one_out(columns))
            else:
                total = np.zeros(columns.shape[2])
                for test in self.folds:
                    total += loss(self.seconds[test], self._predict_fold(columns, test))
                total /= len(self.folds)
        return np.where(np.isfinite(total), total, np.inf)

    def fit(self, columns: Array) -> tuple[Array, Array, Factors]:
        """Fit each hypothesis to all measurements: constants (h,), coefficients (k, h) and centred factors."""
        everything = np.arange(len(self.seconds))
        columns_left, seconds_left, _ = self.without_constant(columns, everything)
        factors = factorize(columns_left, self.ridge)
        coefficients = factors.coefficients(np.einsum("krh,r->kh", factors.q, seconds_left))
        if not self.constant:
            return np.zeros(columns.shape[2]), coefficients, factors
        base = self.base
        rest = self.seconds[:, None] - np.einsum("krh,kh->rh", columns, coefficients)
        return (base @ rest) / (base @ base), coefficients, factors

    def without_constant(self, columns: Array, train: Integers) -> tuple[Array, Array, Array]:
        """Take the constant's share in a training set out of columns (…, m, h) and seconds; and its leverage."""
        if not self.constant:
            return columns, self.seconds, np.zeros(len(self.seconds))
        base = self.base
        known = base[train] / (base[train] @ base[train])
        share = np.einsum("r,...rh->...h", known, columns[..., train, :])
        left = columns - base[:, None] * share[..., None, :]
        squares = np.square(left[..., train, :]).sum(axis=-2, keepdims=True)
        # A term that is constant has nothing left but rounding.
        left *= squares > DEPENDENT**2 * np.square(columns[..., train, :]).sum(axis=-2, keepdims=True)
        return (
            left,
            self.seconds - base * (known @ self.seconds[train]),
            base**2 / (base[train] @ base[train]),
        )

    def _leave_one_out(self, columns: Array) -> Array:
        """Prediction of each measurement from the others, without refitting: residual / (1 - leverage)."""
        columns, right, of_constant = self.without_constant(columns, np.arange(len(self.seconds)))
        factors = factorize(columns, self.ridge)
        fitted = np.zeros(columns.shape[1:])
        leverage = np.repeat(of_constant[:, None], columns.shape[2], axis=1)
        for q in factors.q:
            fitted += q * (right @ q)
            leverage += q * q
        free = 1.0 - leverage
        free[leverage >= FULL_LEVERAGE] = np.nan
        return np.asarray(self.seconds[:, None] - (right[:, None] - fitted) / free, dtype=np.float64)

    def _predict_fold(self, columns: Array, test: Integers) -> Array:
        train = np.setdiff1d(np.arange(len(self.seconds)), test)
        columns, right, _ = self.without_constant(columns, train)
        factors = factorize(columns[:, train], self.ridge)
        coefficients = factors.coefficients(np.einsum("krh,r->kh", factors.q, right[train]))
        missed = right[test, None] - np.einsum("krh,kh->rh", columns[:, test], coefficients)
        return np.asarray(self.seconds[test, None] - missed, dtype=np.float64)


def make_folds(points: Array, folds: int | None, needed: int, terms: str) -> list[Integers] | None:
    """Test rows of folds of measurements that follow each other, None for leave-one-out.

    ``needed`` different points have to be in every training set, for what ``terms`` says.
    """
    m = len(points)
    if folds is not None and not 2 <= folds <= m:
        raise ModelError(f"expected 2 to {m} folds for {m} measurements, found {folds!r}")
    if m < 2:
        raise ModelError("expected at least 2 measurements for cross-validation, found 1; use the learner 'bayes'")
    tests = np.array_split(np.arange(m), m if folds is None else folds)
    labels = np.unique(points, axis=0, return_inverse=True)[1].ravel()
    smallest = min(len(np.unique(np.delete(labels, test))) for test in tests)
    if smallest < needed:
        raise ModelError(
            f"{terms} needs {needed} rank counts in every training set of its cross-validation, found {smallest}; "
            "measure more, ask for fewer terms or give a ridge"
        )
    return None if folds is None else tests


@dataclass(frozen=True)
class Winner:
    """The best hypothesis: indices of its terms, its loss, and how many were compared."""

    terms: Integers
    loss: float
    n_hypotheses: int


def search(
    features: Array,
    n_terms: int,
    validation: CrossValidation,
    accept: Callable[[Integers], NDArray[np.bool_]] | None = None,
) -> Winner | None:
    """Find the hypothesis with the least cross-validated loss; of equal ones the first in lexicographic order.

    Of hypotheses of 1 to 3 terms out of finite features, shape (T, m); ``accept`` says of sets of terms, shape
    (h, n_terms), whether each may win. None where no hypothesis can be validated or accepted.
    """
    count = math.comb(len(features), n_terms)
    if count > MAXIMUM_HYPOTHESES:
        raise ModelError(
            f"expected at most {MAXIMUM_HYPOTHESES:,} hypotheses, found {count:,}; give fewer exponents or terms"
        )
    best: Winner | None = None
    every = itertools.combinations(range(len(features)), n_terms)
    size = max(BLOCK // features.shape[1], 1)
    while block := list(itertools.islice(every, size)):
        sets = np.array(block, dtype=np.intp)
        # The hypotheses last: see `least_squares`.
        losses = validation.losses(features.T[:, sets.T].transpose(1, 0, 2))
        if accept is not None:
            better = np.flatnonzero(losses < (best.loss if best else math.inf))
            losses[better[~accept(sets[better])]] = math.inf
        least = int(losses.argmin())
        if losses[least] < (best.loss if best else math.inf):
            best = Winner(sets[least], float(losses[least]), count)
    return best
