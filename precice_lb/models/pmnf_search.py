"""Exhaustive search over hypotheses of a few terms: a fast screening, then the best ones exactly.

The screening orthogonalises all terms against the constant and, for three terms, against the first one; what is left is
a closed form in two columns for each pair of terms, and leave-one-out follows from residuals and leverages without
refitting. It works on blocks of pairs that fit into the cache and gives a lower bound of each loss: what was computed
less a generous estimate of rounding. Hypotheses are then evaluated exactly in ascending order of that bound until the
best one lies below the bound of all others, so the winner is that of the exact search over all. (The estimate can fail
where a measurement almost alone determines a coefficient; such a hypothesis predicts that one too badly to win.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import ModelError
from precice_lb.models.least_squares import DEPENDENT
from precice_lb.models.pmnf_validation import CrossValidation

__all__ = ["MAXIMUM_HYPOTHESES", "Winner", "screen", "search", "sets_of_terms"]

Array = NDArray[np.float64]
Integers = NDArray[np.intp]

#: Hypotheses that are searched at most: their bounds are kept, 8 bytes each.
MAXIMUM_HYPOTHESES = 50_000_000

# Numbers in one array of a block: several of them stay in the second-level cache.
BLOCK = 16384
# Exact evaluations at first, and by how much each further batch is larger.
BATCH, GROWTH = 128, 4
# What rounding does to a loss: a share of it, and a share of that of all there is to explain, the larger the closer two
# terms are; and what is always there, where all has been explained.
RELATIVE_ERROR, ROUNDING, ALWAYS = 1e-6, 1e-13, 1e-11


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

    Parameters
    ----------
    features : array of shape (T, m)
        Finite terms at the measurements.
    n_terms : int
        Terms of a hypothesis, 1 to 3.
    validation : CrossValidation
        How they are compared.
    accept : callable, optional
        From sets of terms, shape (h, n_terms), to whether each may win.

    Returns
    -------
    Winner or None
        None where no hypothesis can be validated or accepted.

    Raises
    ------
    ModelError
        More hypotheses than `MAXIMUM_HYPOTHESES`.
    """
    count = math.comb(len(features), n_terms)
    if count > MAXIMUM_HYPOTHESES:
        raise ModelError(
            f"expected at most {MAXIMUM_HYPOTHESES:,} hypotheses, found {count:,}; give fewer exponents or terms"
        )
    lower = np.full(count, -np.inf) if n_terms == 1 else screen(features, n_terms, validation)
    best: tuple[float, int] = (math.inf, count)
    for batch, rest in _ascending(lower):
        sets = sets_of_terms(batch, len(features), n_terms)
        # The hypotheses last: see `least_squares`.
        losses = validation.losses(features[sets.T].transpose(0, 2, 1))
        if accept is not None:
            close = losses <= best[0]
            losses[~close] = np.inf
            losses[np.flatnonzero(close)[~accept(sets[close])]] = np.inf
        least = losses.min()
        if least < math.inf:
            best = min(best, (float(least), int(batch[losses == least].min())))
        if best[0] < rest:
            break
    if best[1] == count:
        return None
    return Winner(sets_of_terms(np.array([best[1]]), len(features), n_terms)[0], best[0], count)


def screen(features: Array, n_terms: int, validation: CrossValidation) -> Array:
    """Lower bounds of the losses of all sets of 2 or 3 terms, in lexicographic order; see `search`."""
    m = len(validation.seconds)
    everything = np.arange(m)
    if validation.folds is None:
        parts = [(everything, everything)]
    else:
        parts = [(np.setdiff1d(everything, test), test) for test in validation.folds]
    total: Array | None = None
    with np.errstate(all="ignore"):
        for train, test in parts:
            whole = _Columns.start(features.T, train, test, validation)
            if n_terms == 2:
                bounds = whole.pair_bounds(validation)
            else:
                bounds = np.concatenate([left.pair_bounds(validation) for left in whole.with_first_taken()])
            total = bounds if total is None else total + bounds
        assert total is not None
        total /= len(parts)
    # Not a number: terms that cannot be told apart. Only the exact evaluation knows what they are worth.
    total[np.isnan(total)] = -np.inf
    return total


@dataclass(frozen=True)
class _Columns:
    """Terms without what they share with the constant and with the terms already taken.

    ``train`` has unit columns in the rows of a training set and, with a ridge, one row for each term taken; the row of
    a column's own penalty is left out and its square kept in ``own``. ``test`` has the same combinations of terms in
    the rows of the test set, ``rest`` and ``rest_test`` what is left of the seconds, ``free`` 1 - leverage so far.
    """

    train: Array
    test: Array
    own: Array
    rest: Array
    rest_test: Array
    free: Array
    seconds: Array

    @classmethod
    def start(cls, terms: Array, train: Integers, test: Integers, validation: CrossValidation) -> _Columns:
        left, rest, leverage = validation.without_constant(terms, train)
        known, free, y = left[train], 1.0 - leverage[test], validation.seconds[test]
        length = np.sqrt(np.einsum("rt,rt->t", known, known) + validation.ridge)
        length[length == 0] = np.inf
        own = validation.ridge / length**2
        return cls(known / length, left[test] / length, own, rest[train], rest[test], free, y)

    def with_first_taken(self) -> Iterator[_Columns]:
        """Take each term in turn, but the last two, and leave the later ones without their share of it."""
        penalty = np.sqrt(self.own)
        first, first_test = self.train.T[:, :, None], self.test.T[:, :, None]
        share = self.train.T @ self.train
        # The row of a taken term's penalty is shared by all later ones.
        shared = -penalty[:, None] * share
        train = self.train - first * share[:, None, :]
        # Twice, as in `least_squares.factorize`.
        again = np.einsum("ra,art->at", self.train, train) + penalty[:, None] * shared
        shared -= penalty[:, None] * again
        train -= first * again[:, None, :]
        test = self.test - first_test * (share + again)[:, None, :]
        length = np.sqrt(np.einsum("art,art->at", train, train) + shared**2 + self.own)
        length[length <= DEPENDENT] = np.inf
        train /= length[:, None, :]
        test /= length[:, None, :]
        if penalty.any():
            train = np.concatenate([train, (shared / length)[:, None, :]], axis=1)
        own = self.own / length**2
        for a in range(self.train.shape[1] - 2):
            later = slice(a + 1, None)
            step = float(self.train[:, a] @ self.rest)
            rest = self.rest - step * self.train[:, a]
            yield _Columns(
                train[a, :, later],
                test[a, :, later],
                own[a, later],
                np.append(rest, -step * penalty[a]) if penalty.any() else rest,
                self.rest_test - step * self.test[:, a],
                self.free - self.test[:, a] ** 2,
                self.seconds,
            )

    def pair_bounds(self, validation: CrossValidation) -> Array:
        """Lower bounds of the losses of all pairs of terms, in lexicographic order."""
        train, test, own = self.train, self.test, self.own
        terms = train.shape[1]
        leave_one_out, ridge = validation.folds is None, validation.ridge > 0
        gram = train.T @ train
        shares = self.rest @ train
        # Everything without its share of the pair's second term, which is taken first.
        rest_test = self.rest_test[:, None] - test * shares
        free = self.free[:, None] - test * test
        dependent = ~(np.einsum("rt,rt->t", train, train) + own > 0)
        left = max(np.abs(self.rest).max(), np.abs(self.rest_test).max())
        rounding = ROUNDING * _loss_of(validation.loss, self.seconds, left)
        always = ALWAYS * _loss_of(validation.loss, self.seconds, validation.seconds.max())
        y = self.seconds[:, None, None]
        result = np.empty((terms - 1, terms - 1))
        begin = 0
        while begin < terms - 1:
            end = min(terms - 1, begin + max(1, BLOCK // (len(train) * (terms - begin))))
            columns = slice(begin + 1, terms)
            g = gram[begin:end, columns]
            z = train[:, None, columns] * -g
            z += train[:, begin:end, None]
            square = z * z
            apart = np.add.reduce(square)
            share = shares[begin:end, None] - g * shares[columns]
            if ridge:
                apart += own[begin:end, None] + g * g * own[columns]
            apart[dependent[begin:end]] = 1.0
            # Errors and 1 - leverage, both times ``apart``.
            if leave_one_out:
                z = z[: len(test)]
                unused = apart * free[:, None, columns]
                unused -= square[: len(test)]
            else:
                z = test[:, None, columns] * -g
                z += test[:, begin:end, None]
                unused = np.broadcast_to(apart, z.shape)
            errors = apart * rest_test[:, None, columns]
            z *= share
            errors -= z
            losses = _losses(validation.loss, y, errors, unused)
            losses *= 1 - RELATIVE_ERROR
            losses -= always
            np.subtract(losses, rounding / np.sqrt(apart, out=apart), out=result[begin:end, begin:])
            begin = end
        order = np.arange(terms - 1)
        return np.asarray(result[order >= order[:, None]], dtype=np.float64)


def _losses(loss: str, y: Array, errors: Array, unused: Array) -> Array:
    """Mean loss over the first axis of predictions y - errors / unused, with one division for each."""
    if loss == "mse":
        return np.asarray(np.square(errors / unused).sum(axis=0) / len(y))
    truth = y * unused
    size = np.abs(errors)
    if loss == "mape":
        size /= np.abs(truth, out=truth)
        return np.asarray(np.add.reduce(size) * (100.0 / len(y)))
    prediction = np.subtract(truth, errors)
    np.abs(prediction, out=prediction)
    prediction += np.abs(truth, out=truth)
    size /= prediction
    return np.asarray(np.add.reduce(size) * (200.0 / len(y)))


def _loss_of(loss: str, seconds: Array, error: float) -> float:
    """Largest loss of predictions that are wrong by so much."""
    return error**2 if loss == "mse" else 200.0 * error / float(seconds.min())


def _ascending(lower: Array) -> Iterator[tuple[Integers, float]]:
    """Batches of hypotheses in ascending order of their bounds, each with the least bound of those to come."""
    waiting = np.arange(len(lower))
    size = BATCH
    while len(waiting):
        if size >= len(waiting):
            yield waiting, math.inf
            return
        order = np.argpartition(lower[waiting], size)
        batch, waiting = waiting[order[:size]], waiting[order[size:]]
        yield batch, float(lower[waiting[0]])
        size *= GROWTH


def sets_of_terms(indices: Integers, terms: int, size: int) -> Integers:
    """Give the sets at given places of the lexicographic order of all sets (that of ``itertools.combinations``).

    Parameters
    ----------
    indices : array of shape (h,)
        Places.
    terms, size : int
        Terms to choose from, and in each set.

    Returns
    -------
    array of shape (h, size)
        Ascending in each row.
    """
    result = np.empty((len(indices), size), dtype=np.intp)
    left, low = np.asarray(indices, dtype=np.intp), np.zeros(len(indices), dtype=np.intp)
    for column in range(size):
        # Sets that begin with a term below a: all but those of later terms only.
        others = size - column
        before = np.array([math.comb(terms - a, others) for a in range(terms + 1)], dtype=np.intp)
        # Counted from the first term allowed.
        place = before[low] - left
        chosen = np.searchsorted(-before, -place, side="right") - 1
        result[:, column] = chosen
        left, low = before[chosen] - place, chosen + 1
    return result
