"""What is known of the seconds at each measured number of ranks: the median of its readings, and how sure that is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["USUAL_NOISE", "Points", "measured_points", "widened_errors"]

Array = NDArray[np.float64]

#: Relative standard deviation between runs where repeats do not tell it.
USUAL_NOISE = 0.05
# So many repeats weigh as much as that.
_WEIGHT = 2.0


@dataclass(frozen=True, eq=False)
class Points:
    """One entry for each measured number of ranks, rising.

    Attributes
    ----------
    ranks : ndarray, shape (k,)
        Measured numbers of ranks.
    seconds : ndarray, shape (k,)
        Median of the readings there.
    errors : ndarray, shape (k,)
        Relative standard error of that, with what runs usually differ by.
    readings : ndarray of int64, shape (k,)
        How many there are.
    """

    ranks: Array
    seconds: Array
    errors: Array
    readings: NDArray[np.int64]


def measured_points(ranks: Array, seconds: Array, errors: Array) -> Points:
    """Reduce readings to points.

    The noise of a point is what its own repeats differ by, beside `USUAL_NOISE` as if two repeats had told that:
    repeats that disagree make their own point uncertain and no other one.

    Parameters
    ----------
    ranks, seconds : ndarray, shape (n,)
        Readings.
    errors : ndarray, shape (n,)
        Standard error of each in seconds, NaN where unknown.

    Returns
    -------
    Points
    """
    found, labels = np.unique(ranks, return_inverse=True)
    middle, error, count = np.empty(len(found)), np.empty(len(found)), np.bincount(labels)
    for at in range(len(found)):
        here = seconds[labels == at]
        middle[at] = np.median(here)
        squares = float(np.sum((np.log(here) - np.log(here).mean()) ** 2))
        between = (_WEIGHT * USUAL_NOISE**2 + squares) / (_WEIGHT + len(here) - 1)
        known = errors[labels == at] / here
        known = known[np.isfinite(known)]
        within = float(np.median(known)) ** 2 if len(known) else 0.0
        error[at] = np.sqrt((between + within) / len(here))
    return Points(found, middle, error, count.astype(np.int64))


def widened_errors(ranks: Array, seconds: Array, errors: Array) -> Array:
    """Widen the standard errors of readings whose repeats disagree by more than runs usually do.

    A learner that is told small errors from within each run would have to explain the difference between runs by the
    noise of all its measurements, and would then believe its prior more than the others of them.

    Parameters
    ----------
    ranks, seconds, errors : ndarray, shape (n,)
        As of `measured_points`.

    Returns
    -------
    ndarray, shape (n,)
        In seconds; NaN where nothing is known.
    """
    widened = np.array(errors, dtype=np.float64)
    for count in np.unique(ranks):
        here = ranks == count
        if here.sum() > 1:
            variance = float(np.var(np.log(seconds[here]), ddof=1))
            if variance > (2 * USUAL_NOISE) ** 2:
                widened[here] = np.hypot(np.nan_to_num(errors[here]), np.sqrt(variance) * seconds[here])
    return widened
