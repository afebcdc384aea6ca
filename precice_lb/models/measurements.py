"""Measurements as learners get them: checked, and what is known of repeats."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from precice_lb.exceptions import ModelError

Array = NDArray[np.float64]

#: Relative standard deviation between runs where repeats do not tell it.
USUAL_NOISE = 0.05
# So many repeats weigh as much as that.
_WEIGHT = 2.0


def check_points(X: ArrayLike) -> Array:
    """Check ranks and parameters, shape (n, d), or (n,) for ranks alone; shape (n, d)."""
    values = _numbers(X, "numbers of ranks and parameters")
    if values.ndim == 1:
        values = values[:, None]
    if values.ndim != 2 or not values.shape[1]:
        raise ModelError(f"expected X of shape (n, d), ranks and then parameters, found shape {values.shape}")
    bad = ~(np.isfinite(values[:, 0]) & (values[:, 0] >= 1))
    if bad.any():
        raise ModelError(f"expected ranks of at least 1, found {values[bad][0, 0]:g}")
    bad = ~np.isfinite(values)
    if bad.any():
        raise ModelError(
            f"expected finite parameters, found {values[bad][0]:g} in column {int(np.argwhere(bad)[0, 1])}"
        )
    return values


def check_measurements(X: ArrayLike, y: ArrayLike, standard_error: ArrayLike | None) -> tuple[Array, Array, Array]:
    """Check what a learner is to be fitted to: points (n, d), seconds (n,) and their errors (n,), 0 where unknown."""
    points, seconds = check_points(X), _numbers(y, "seconds as numbers")
    if seconds.shape != (len(points),):
        raise ModelError(f"expected one time per measurement, found X for {len(points)} and y of shape {seconds.shape}")
    if not len(points):
        raise ModelError("expected at least one measurement, found none")
    bad = ~(np.isfinite(seconds) & (seconds > 0))
    if bad.any():
        raise ModelError(f"expected positive, finite seconds, found {seconds[bad][0]:g} at {points[bad][0, 0]:g} ranks")
    if standard_error is None:
        return points, seconds, np.zeros(len(seconds))
    errors = _numbers(standard_error, "standard errors as numbers")
    if errors.shape != seconds.shape or (errors < 0).any() or np.isinf(errors).any():
        raise ModelError(
            f"expected a standard error of at least 0 s or NaN per measurement, found {standard_error!r:.60}"
        )
    return points, seconds, np.nan_to_num(errors)


def check_level(level: float) -> float:
    """Check the level of an interval."""
    if not 0 < level < 1:
        raise ModelError(f"expected an interval's level between 0 and 1, found {level!r}")
    return level


def _numbers(values: ArrayLike, expected: str) -> Array:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ModelError(f"expected {expected}, found something else") from None


def typical(seconds: Array, errors: Array) -> tuple[float, float]:
    """Median of repeats, with standard errors in seconds, NaN where unknown, and its relative standard error.

    The noise is what the repeats differ by, beside the usual noise as if two repeats had told that.
    """
    squares = float(np.sum((np.log(seconds) - np.log(seconds).mean()) ** 2))
    between = (_WEIGHT * USUAL_NOISE**2 + squares) / (_WEIGHT + len(seconds) - 1)
    known = (errors / seconds)[np.isfinite(errors)]
    within = float(np.median(known)) ** 2 if len(known) else 0.0
    return float(np.median(seconds)), float(np.sqrt((between + within) / len(seconds)))


def means_of_repeats(points: Array, seconds: Array) -> tuple[Array, Array, NDArray[np.intp]]:
    """Find the different points, rising, the mean of the seconds at each, and which of them each row of points is."""
    found, labels = np.unique(points, axis=0, return_inverse=True)
    labels = labels.ravel()
    return found, np.bincount(labels, weights=seconds) / np.bincount(labels), labels


def widened_errors(ranks: Array, seconds: Array, errors: Array) -> Array:
    """Widen the standard errors of readings whose repeats disagree by more than runs usually do; shape (n,).

    A learner that is told small errors from within each run would have to explain the difference between runs by the
    noise of all its measurements, and would then trust its prior more than the others of them.
    """
    widened = np.array(errors, dtype=np.float64)
    for count in np.unique(ranks):
        here = ranks == count
        if here.sum() > 1:
            variance = float(np.var(np.log(seconds[here]), ddof=1))
            if variance > (2 * USUAL_NOISE) ** 2:
                widened[here] = np.hypot(np.nan_to_num(errors[here]), np.sqrt(variance) * seconds[here])
    return widened
