"""The contract of every learner, its formula, learners by name, and what repeats say of their noise."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from precice_lb.exceptions import ModelError
from precice_lb.plugins import DEFAULT_LEARNER, LEARNERS

Array = NDArray[np.float64]
Self = TypeVar("Self", bound="Learner")


class Learner:
    """Base of the learners: a regressor of seconds per time window over ranks, with the words of scikit-learn's.

    ``X`` has shape (n, d): the ranks, then parameters of the case such as the mesh's size (shape (n,) is taken as ranks
    alone); ``y`` shape (n,), positive seconds. What ``__init__`` takes are attributes of the same names. A learner
    gives `learner_name`, ``_fit``, which learns from checked arrays, and ``_predict``; where it is a
    `Formula`, the attribute ``formula_``, which predicts then.
    """

    #: Name in the registry.
    learner_name: ClassVar[str]
    #: Whether it models parameters of the case beside the ranks; others refuse them.
    several_parameters: ClassVar[bool] = False
    formula_: Any

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name: a learner made with them is a copy that is not fitted.

        Parameters
        ----------
        deep : bool
            For scikit-learn; there are no parameters of parameters.

        Returns
        -------
        dict
            What ``__init__`` takes.
        """
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def fit(self: Self, X: ArrayLike, y: ArrayLike, standard_error: ArrayLike | None = None) -> Self:
        """Return itself, having learned from measurements.

        Parameters
        ----------
        X : array of shape (n, d)
            Ranks, then parameters; rows may repeat.
        y : array of shape (n,)
            Seconds per time window.
        standard_error : array of shape (n,), optional
            Of each row of ``y`` in seconds, NaN where unknown. A learner that weighs every measurement alike leaves it
            aside.

        Raises
        ------
        ModelError
            Bad input or parameters of the learner, or too few measurements for it.
        """
        try:
            points = _rows(X)
            seconds, unknown = column_of(y, "y", len(points)), np.zeros(len(points))
            errors = column_of(unknown if standard_error is None else standard_error, "standard_error", len(points))
            if (bad := ~(np.isfinite(seconds) & (seconds > 0))).any():
                wrong = f"found {seconds[bad][0]:g} at {points[bad][0, 0]:g} ranks"
                raise ModelError(f"expected positive, finite seconds, {wrong}")
            if ((errors < 0) | np.isinf(errors)).any():
                raise ModelError("expected standard errors of at least 0 s, or NaN, found others")
            if points.shape[1] > 1 and not self.several_parameters:
                raise ModelError(
                    f"expected X of shape (n, 1), the ranks, found shape {points.shape}; leave the other columns out "
                    f"or use {DEFAULT_LEARNER!r}"
                )
            self._fit(points, seconds, np.nan_to_num(errors))
        except ValueError as error:
            raise ModelError(str(error).splitlines()[0]) from error
        self.n_features_in_ = points.shape[1]
        return self

    def predict(self, X: ArrayLike) -> Array:
        """Seconds at each row of X; of some learners not positive or not finite outside of the measured range.

        Parameters
        ----------
        X : array of shape (n, d)
            Ranks, then parameters.

        Returns
        -------
        array of shape (n,)
            Seconds per time window.
        """
        return self._predict(self._points(X))

    def _fit(self, points: Array, seconds: Array, errors: Array) -> None:
        """Learn from points (n, d) and seconds (n,) with standard errors (n,), 0 where unknown."""
        raise NotImplementedError

    def _predict(self, points: Array) -> Array:
        return np.asarray(self.formula_(points))

    def _points(self, X: ArrayLike) -> Array:
        self._require_fitted()
        points = _rows(X)
        if points.shape[1] != self.n_features_in_:
            raise ModelError(f"expected X of shape (n, {self.n_features_in_}), found shape {points.shape}")
        return points

    def _require_fitted(self) -> None:
        if not hasattr(self, "n_features_in_"):
            raise ModelError(f"expected a fitted {type(self).__name__}; call fit first")


@dataclass(frozen=True, eq=False)
class Formula:
    """A sum of terms ``coefficient · Π x^i log2(x)^j`` in the number of ranks and further parameters.

    The (extended) performance model normal form: equation 2.6 of Schröder 2019, after Calotoiu et al. 2013; with
    further parameters equation 2.12, after Calotoiu et al. 2016, equation 2.
    """

    # Seconds, shape (terms,), in the order they are printed.
    coefficients: Array
    # Exponents i and j of the ranks, ``p``, and of each parameter, ``x1``, ``x2``, …, shape (terms, d, 2).
    exponents: Array

    def __call__(self, points: ArrayLike) -> Array:
        """Seconds at rows (n, d) of ranks and parameters, shape (n,); not finite where log(1) is divided by."""
        rows = np.asarray(points, dtype=np.float64).reshape(-1, self.exponents.shape[1])
        # Infinite terms of opposite sign give NaN, which is what they are worth.
        with np.errstate(invalid="ignore"):
            return self.coefficients @ term_values(rows, self.exponents)

    def text(self) -> str:
        """Give plain text, such as ``0.0121 + 45.31·p^-0.95 + 3e-05·log2(p)``."""
        symbols = ["p", *(f"x{place}" for place in range(1, self.exponents.shape[1]))]
        names = [name for symbol in symbols for name in (symbol, f"log2({symbol})")]
        terms = []
        for coefficient, powers in zip(self.coefficients, self.exponents.reshape(-1, len(names)), strict=True):
            factors = [
                name if power == 1 else f"{name}^{power:.4g}"
                for name, power in zip(names, powers, strict=True)
                if power
            ]
            terms.append("·".join([f"{coefficient:.4g}", *factors]))
        return " + ".join(terms).replace("+ -", "- ") or "0"


def formula_of(model: Any) -> Formula | None:
    """Give the formula of a fitted model; None for an estimator that has none."""
    formula = getattr(model, "formula_", None)
    return formula if isinstance(formula, Formula) else None


def term_values(points: Array, exponents: Array) -> Array:
    """Basis functions Π x^i log2(x)^j (Schröder 2019, equation 2.5); infinite where log(1) has a negative exponent.

    At points (n, d), for exponents i and j of each term and column, shape (T, d, 2); shape (T, n).
    """
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        factors = points ** exponents[:, None, :, 0] * np.log2(points) ** exponents[:, None, :, 1]
        return np.asarray(factors.prod(axis=2))


def _rows(X: ArrayLike) -> Array:
    """Ranks and parameters, shape (n, d), or (n,) for ranks alone; shape (n, d)."""
    points = np.asarray(X, dtype=np.float64)
    points = points[:, None] if points.ndim == 1 else points
    if points.ndim != 2 or not points.size:
        raise ModelError(f"expected X of shape (n, d), one row or more, found shape {points.shape}")
    if not np.isfinite(points).all():
        raise ModelError(f"expected finite numbers in X, found {points[~np.isfinite(points)][0]}")
    if (least := points[:, 0].min()) < 1:
        raise ModelError(f"expected ranks of at least 1, found {least:g}")
    return points


def column_of(values: ArrayLike, name: str, rows: int) -> Array:
    """Read a number for each row of X."""
    column = np.asarray(values, dtype=np.float64)
    if column.shape not in ((rows,), (rows, 1)):
        raise ModelError(f"expected {name} of shape ({rows},), one for each row of X, found shape {column.shape}")
    return column.ravel()


def make_learner(name: str, **parameters: Any) -> Learner:
    """Give an unfitted learner by its name.

    Parameters
    ----------
    name : str
        One of `LEARNERS`.
    **parameters
        Of that learner.

    Raises
    ------
    ModelError
        No such learner, or it has no such parameter.
    """
    if name not in LEARNERS:
        raise ModelError(f"expected a learner out of {', '.join(LEARNERS)}, found {name!r}")
    kind: type[Learner] = LEARNERS[name]
    known = sorted(inspect.signature(kind).parameters)
    if unknown := [parameter for parameter in parameters if parameter not in known]:
        raise ModelError(f"expected a parameter of {name} out of {', '.join(known)}, found {unknown[0]!r}")
    return kind(**parameters)


def new_learner(learner: Any) -> Any:
    """Give an unfitted learner: by its name, perhaps with parameters, a copy of an estimator, or the default."""
    if learner is None or isinstance(learner, str | Mapping):
        words = dict(learner) if isinstance(learner, Mapping) else {"name": learner}
        return make_learner(words.pop("name", None) or DEFAULT_LEARNER, **words)
    if not all(hasattr(learner, method) for method in ("fit", "predict", "get_params")):
        raise ModelError(f"expected the name of a learner or a scikit-learn regressor, found {learner!r:.60}")
    return copy.deepcopy(learner)


#: Relative standard deviation between runs where repeats do not tell it.
USUAL_NOISE = 0.05
# So many repeats weigh as much as that.
_WEIGHT = 2.0


def median_of_repeats(seconds: Array, errors: Array) -> tuple[float, float]:
    """Median of repeats (n,) with standard errors in seconds, NaN where unknown, and its relative standard error.

    Its noise is what the repeats differ by, beside the usual noise as if two repeats had told that, and the median of
    what is known from within each of them.
    """
    between = (_WEIGHT * USUAL_NOISE**2 + len(seconds) * np.var(np.log(seconds))) / (_WEIGHT + len(seconds) - 1)
    known = (errors / seconds)[np.isfinite(errors)]
    within = float(np.median(known)) ** 2 if len(known) else 0.0
    return float(np.median(seconds)), float(np.sqrt((between + within) / len(seconds)))


def widened_errors(ranks: Array, seconds: Array, errors: Array) -> Array:
    """Widen the standard errors of readings whose repeats disagree by more than runs usually do; shape (n,).

    A learner that is told small errors from within each run would have to explain the difference between runs by the
    noise of all its measurements, and would then trust its prior more than the others of them.
    """
    widened = np.array(errors, dtype=np.float64)
    for count in np.unique(ranks):
        here = ranks == count
        if here.sum() > 1 and (deviation := float(np.std(np.log(seconds[here]), ddof=1))) > 2 * USUAL_NOISE:
            widened[here] = np.hypot(np.nan_to_num(errors[here]), deviation * seconds[here])
    return widened
