"""Comparing learners on measurements: what they predict for those that they have not seen."""

from __future__ import annotations

import math
import operator
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning

from precice_lb.exceptions import ModelError
from precice_lb.models.base import new_learner
from precice_lb.models.hypotheses import mse, smape
from precice_lb.models.measurements import check_level, check_measurements

__all__ = ["Evaluation", "cross_validate", "evaluate", "fit_quietly", "meeting"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

# With more different points than this, several are left out at a time.
MOST_FOLDS = 10
_CONDITION = re.compile(r"\s*(\S.*?)\s*(==|!=|<=|>=|<|>)\s*(\S.*?)\s*")
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}


@dataclass(frozen=True)
class Evaluation:
    """How well a learner predicted measurements that it had not seen."""

    # Symmetric mean absolute percentage error (Schröder 2019, equation 2.9), 0 to 200 %, and mean squared error, s².
    smape: float
    mse: float
    # Share of measurements inside their intervals; NaN if the learner gives none. An interval is for the true mean, so
    # it is widened here by how far a measurement may lie from that: its standard error where it is known, else the
    # scatter of the measurements around the fitted curve. The level is what that share should be.
    coverage: float
    level: float
    # Predictions that are no time at all: zero, negative or not finite.
    not_positive: int
    # Seconds predicted, and the bounds of the widened intervals (NaN if there are none), shape (n,).
    predictions: Array
    low: Array
    high: Array


def cross_validate(
    learner: Any,
    X: ArrayLike,
    y: ArrayLike,
    standard_error: ArrayLike | None = None,
    *,
    folds: int | None = None,
    level: float = 0.8,
) -> Evaluation:
    """Predict each measurement by a learner, as of `new_learner`, that was fitted without it.

    Measurements of the same ranks and parameters are left out together: a repeat would tell the answer. The different
    points are dealt out to folds in turn, in the order of their rows; by default one for each, but at most 10.
    """
    points, seconds, errors = _checked(X, y, standard_error)
    _, first, group = np.unique(points, axis=0, return_index=True, return_inverse=True)
    count = len(first)
    parts = min(count, MOST_FOLDS) if folds is None else folds
    if count < 2:
        raise ModelError("expected measurements at two points or more to compare learners by, found one")
    if not 2 <= parts <= count:
        raise ModelError(f"expected 2 to {count} folds for measurements at {count} points, found {folds!r}")
    # Points in the order of their rows, so that the smallest, a part of their own, are not all in one fold.
    place = np.argsort(np.argsort(first))[group.ravel()]
    columns = np.full((3, len(seconds)), np.nan)
    for part in range(parts):
        left_out = place % parts == part
        columns[:, left_out] = _predict(learner, points, seconds, errors, ~left_out, left_out, level)
    return _judged(seconds, columns, level)


def evaluate(
    learner: Any,
    X: ArrayLike,
    y: ArrayLike,
    test: ArrayLike,
    standard_error: ArrayLike | None = None,
    *,
    level: float = 0.8,
) -> Evaluation:
    """Fit a learner to some measurements and predict the others, where ``test``, shape (n,), is true."""
    points, seconds, errors = _checked(X, y, standard_error)
    mask = np.asarray(test, dtype=np.bool_)
    if mask.shape != seconds.shape or mask.all() or not mask.any():
        raise ModelError(
            f"expected some of the {len(seconds)} measurements for the test and some to learn from, found "
            f"{int(mask.sum())} for the test"
        )
    return _judged(seconds[mask], _predict(learner, points, seconds, errors, ~mask, mask, level), level)


def fit_quietly(learner: Any, X: Array, y: Array, standard_error: Array) -> Any:
    """Fit a new learner of a kind; an optimiser that stops early shows in the errors, not in warnings."""
    model = new_learner(learner)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            if np.isfinite(standard_error).any():
                return model.fit(X, y, standard_error=standard_error)
            return model.fit(X, y)
        except ValueError as error:
            raise ModelError(f"{type(model).__name__} cannot be fitted: {error}") from error


def meeting(conditions: Iterable[str], columns: Mapping[str, NDArray[Any]]) -> Mask:
    """Find the rows of columns, shape (n,) each, that meet all of some conditions such as ``level==8``."""
    mask = np.ones(len(next(iter(columns.values()))), dtype=np.bool_)
    for condition in conditions:
        found = _CONDITION.fullmatch(condition)
        if not found:
            raise ModelError(f'expected a condition such as "level==8", found {condition!r}')
        name, sign, text = found.groups()
        if name not in columns:
            raise ModelError(f"expected a condition on one of {', '.join(columns)}, found one on {name!r}")
        column = columns[name]
        value: float | str = text.strip("\"'")
        if np.issubdtype(column.dtype, np.number):
            try:
                value = float(text)
            except ValueError:
                raise ModelError(f"expected a number to compare {name} with, found {text!r}") from None
        elif sign not in ("==", "!="):
            raise ModelError(f"expected == or != for the texts of {name}, found {sign}")
        mask &= np.asarray(_COMPARE[sign](column, value), dtype=np.bool_)
    return mask


def _checked(X: ArrayLike, y: ArrayLike, standard_error: ArrayLike | None) -> tuple[Array, Array, Array]:
    """Points (n, d), seconds (n,) and their errors (n,), NaN where unknown."""
    points, seconds, _ = check_measurements(X, y, standard_error)
    return points, seconds, np.asarray(np.full(len(seconds), np.nan) if standard_error is None else standard_error)


def _predict(
    learner: Any, points: Array, seconds: Array, errors: Array, train: Mask, test: Mask, level: float
) -> Array:
    """Prediction, low and high for the rows of a test, shape (3, rows)."""
    check_level(level)
    model = fit_quietly(learner, points[train], seconds[train], errors[train])
    prediction = np.asarray(model.predict(points[test]), dtype=np.float64)
    if not hasattr(model, "predict_interval"):
        return np.vstack([prediction, np.full((2, len(prediction)), np.nan)])
    low, high = (np.asarray(bound, dtype=np.float64) for bound in model.predict_interval(points[test], level))
    scatter = np.full(len(prediction), _scatter(seconds[train], np.asarray(model.predict(points[train]))))
    known = np.isfinite(errors[test])
    scatter[known] = errors[test][known] / seconds[test][known]
    half = NormalDist().inv_cdf((1 + level) / 2) * scatter * np.abs(prediction)
    # Independent errors add up in squares.
    return np.vstack(
        [prediction, prediction - np.hypot(prediction - low, half), prediction + np.hypot(high - prediction, half)]
    )


def _scatter(seconds: Array, fitted: Array) -> float:
    """Relative standard deviation of measurements around a curve that took about two of them to fit."""
    return float(np.sqrt(np.square(fitted / seconds - 1).sum() / max(len(seconds) - 2, 1)))


def _judged(seconds: Array, columns: Array, level: float) -> Evaluation:
    prediction, low, high = columns
    # The furthest that the measure goes, for a prediction that is not even a number.
    finite = np.isfinite(prediction)
    with np.errstate(invalid="ignore"):
        share = np.where(finite, smape(seconds[None], prediction[None]), 200.0)
        inside = (seconds >= low) & (seconds <= high)
    return Evaluation(
        smape=float(share.mean()),
        mse=float(mse(seconds, prediction)) if finite.all() else math.inf,
        coverage=float(inside.mean()) if not np.isnan([low, high]).any() else math.nan,
        level=float(level),
        not_positive=int((~(finite & (prediction > 0))).sum()),
        predictions=prediction,
        low=low,
        high=high,
    )
