"""Extended performance model normal form: several parameters, hierarchical or exhaustive search.

Calotoiu et al. 2016 and Schröder 2019, section 2.2: f(x_1 … x_d) = c_0 + Σ c_k Π x_l^(i_kl) log(x_l)^(j_kl). The
hierarchical search finds terms for each parameter alone and then combines them; the exhaustive one goes over all sets
of product terms, which is feasible for two parameters and few exponents.

As with `precice_lb.models.published.pmnf`, nothing keeps such a model positive beyond its data.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import ModelError
from precice_lb.models.measurements import means_of_repeats
from precice_lb.models.published.formula import term_values
from precice_lb.models.published.hypotheses import MAXIMUM_HYPOTHESES, CrossValidation, make_folds, search
from precice_lb.models.published.pmnf import EQ_5_1_I, EQ_5_1_J, NormalFormLearner

Array = NDArray[np.float64]

GOLDEN = (1 + math.sqrt(5)) / 2
# Places to either side of the found one that are looked at as well. Terms with different powers of the logarithm take
# turns in the order of slopes; much alike ones, x^0.75 and x^0.25 log2(x)^2 say, stand up to 4 places apart.
NEIGHBOURS = 5

#: Different values of a parameter without which nothing can be said about how the seconds depend on it.
LEAST_VALUES = 3

# A loss of so many percent is rounding: no larger model is better.
NO_LOSS = 1e-9
SEARCHES = ("hierarchical", "exhaustive")


def slope_order(pairs: Array, largest: float, log_base: float = 2.0) -> NDArray[np.intp]:
    """Sort terms x^i log(x)^j, exponents (T, 2), by the size of their slope at the largest measured x > 1.

    Indices, shape (T,), the flattest first; of equal slopes the first stays first.
    """
    i, j = pairs.T
    logarithm = math.log(largest) / math.log(log_base)
    # Product rule (Schröder 2019, equation 2.13); in logarithms, so that large powers do not overflow.
    inner = np.abs(i * logarithm + j / math.log(log_base))
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
    value(low), value(high)
    while high - low > 2:
        step = (high - low) / GOLDEN
        left, right = round(high - step), round(low + step)
        if left >= right:
            left, right = (low + high) // 2, (low + high) // 2 + 1
        if value(right) >= value(left):
            high = right
        else:
            low = left
    for index in range(low, high + 1):
        value(index)
    while True:
        best = min(seen, key=lambda index: (seen[index], index))
        around = range(max(0, best - NEIGHBOURS), min(count, best + NEIGHBOURS + 1))
        if all(index in seen for index in around):
            return best, seen
        for index in around:
            value(index)


def project(points: Array, seconds: Array, column: int) -> tuple[Array, Array]:
    """Seconds over one parameter alone, of points without repeats: its values, rising, and their means (k,).

    Where each of its values was measured with each combination of the others, the mean over those, as in the paper.
    Otherwise the longest slice: the measurements that differ in this parameter only, of equally long ones the slowest,
    because there the time matters most. A parameter that was not varied has k = 1.
    """
    values = np.unique(points[:, column])
    if len(values) == 1:
        return values, np.array([seconds.mean()])
    others, slices = np.unique(np.delete(points, column, axis=1), axis=0, return_inverse=True)
    slices = slices.ravel()
    if len(points) == len(values) * len(others):
        rows = np.arange(len(points))
    else:
        _, best = max(((int((slices == k).sum()), float(seconds[slices == k].mean())), k) for k in range(len(others)))
        rows = np.flatnonzero(slices == best)
    found, means, _ = means_of_repeats(points[rows, column], seconds[rows])
    if len(found) < LEAST_VALUES:
        raise ModelError(
            f"expected {LEAST_VALUES} or more values of column {column} of X measured with all other columns alike, "
            f"found {len(found)}: the measurements are no full grid, and this column varies only together with others; "
            "measure along it, or use the learner 'bayes' or 'neural'"
        )
    return found, means


@dataclass(kw_only=True, eq=False, repr=False)
class EPMNFRegressor(NormalFormLearner):
    """Search for the best sum of products of powers and logarithms of several parameters.

    Parameters
    ----------
    n_terms : int
        Terms of a model beside the constant, 1 to 3, at most; of each parameter's own model as well.
    exponents, log_exponents : sequences of float
        I and J, for every parameter.
    search : {"hierarchical", "exhaustive"}
        Section IV-B of the paper, or all sets of product terms (at most `hypotheses.MAXIMUM_HYPOTHESES`).
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
    """

    learner_name: ClassVar[str] = "epmnf"
    several_parameters: ClassVar[bool] = True
    n_terms: int = 2
    exponents: Sequence[float] = EQ_5_1_I
    log_exponents: Sequence[float] = EQ_5_1_J
    search: str = "hierarchical"
    single: str = "golden"
    folds: int | None = None
    loss: str = "smape"
    ridge: float = 0.0
    relative: bool = True
    least_gain: float = 0.05
    log_base: float = 2.0

    def _fit(self, points: Array, seconds: Array, errors: Array) -> None:
        self._check_parameters()
        pairs = np.array(list(itertools.product(self.exponents, self.log_exponents)), dtype=np.float64)
        self.n_hypotheses_ = 0
        self.single_terms_: tuple[tuple[tuple[float, float], ...], ...] = ()
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
        features = term_values(points, exponents, self.log_base)
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
            found = search(features * self._weights(seconds), size, validation)
            self.n_hypotheses_ += found.n_hypotheses if found else 1
            if found and self._better(found.loss, self.loss_):
                self.loss_, chosen = found.loss, found.terms
            if self.loss_ <= NO_LOSS:
                break
        with np.errstate(all="ignore"):
            validation = self._validation(seconds, None)
            self.__dict__.update(self._fit_winner(exponents[chosen], features[chosen], validation))

    def _single(self, points: Array, seconds: Array, column: int, pairs: Array) -> tuple[tuple[float, float], ...]:
        """Terms of one parameter's own model, one after the other (section II-B) as long as they help."""
        x, means = project(*means_of_repeats(points, seconds)[:2], column)
        if len(x) < LEAST_VALUES:
            return ()
        values = term_values(x, pairs, self.log_base)
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
        for size in range(min(self.n_terms, terms) + 1):
            try:
                folds = make_folds(points, self.folds, size + 1, f"a model of {size} terms")
            except ModelError:
                if size == 0:
                    raise
                return
            yield size, self._validation(seconds, folds)

    def _validation(self, seconds: Array, folds: list[NDArray[np.intp]] | None) -> CrossValidation:
        weights = self._weights(seconds)
        return CrossValidation(seconds * weights, folds, self.loss, float(self.ridge), True, weights)

    def _weights(self, seconds: Array) -> Array:
        return 1 / seconds if self.relative else np.ones(len(seconds))

    def _better(self, loss: float, least: float) -> bool:
        return least > NO_LOSS and loss < least * (1 - self.least_gain)

    def _positive_for(self) -> str:
        return "their logarithms"

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.search not in SEARCHES:
            raise ModelError(f"expected a search out of {', '.join(SEARCHES)}, found {self.search!r}")
        if self.single not in ("golden", "exhaustive"):
            raise ModelError(f"expected single as golden or exhaustive, found {self.single!r}")
        if not 0 <= self.least_gain < 1:
            raise ModelError(f"expected least_gain from 0 to below 1, found {self.least_gain!r}")
