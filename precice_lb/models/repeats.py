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
# From so many points on their noise shows.
_LEAST_POINTS = 4


@dataclass(frozen=True, eq=False)
class Points:
    """One entry for each measured number of ranks, rising."""

    ranks: Array
    # Median of the readings there, its relative standard error, with what runs usually differ by, and their number.
    seconds: Array
    errors: Array
    readings: NDArray[np.int64]


def measured_points(ranks: Array, seconds: Array, errors: Array) -> Points:
    """Reduce readings with standard errors in seconds, NaN where unknown, to points.

    The noise of a point is what its own repeats differ by, beside the usual noise as if two repeats had told that:
    repeats that disagree make their own point uncertain and no other one. Usual is what neighbouring points differ by
    from a straight line in logarithms, at least `USUAL_NOISE`.
    """
    found, labels = np.unique(ranks, return_inverse=True)
    count = np.bincount(labels)
    middle = np.array([np.median(seconds[labels == at]) for at in range(len(found))])
    usual, error = max(USUAL_NOISE, _roughness(found, middle)), np.empty(len(found))
    for at in range(len(found)):
        here = seconds[labels == at]
        squares = float(np.sum((np.log(here) - np.log(here).mean()) ** 2))
        between = (_WEIGHT * usual**2 + squares) / (_WEIGHT + len(here) - 1)
        known = errors[labels == at] / here
        known = known[np.isfinite(known)]
        within = float(np.median(known)) ** 2 if len(known) else 0.0
        error[at] = np.sqrt((between + within) / len(here))
    return Points(found, middle, error, count.astype(np.int64))


def _roughness(ranks: Array, seconds: Array) -> float:
    """Noise that a curve shows by how far points are from the lines through their neighbours; 0 for too few of them."""
    if len(ranks) < _LEAST_POINTS:
        return 0.0
    at, value = np.log(ranks), np.log(seconds)
    share = (at[1:-1] - at[:-2]) / (at[2:] - at[:-2])
    away = value[1:-1] - (1 - share) * value[:-2] - share * value[2:]
    # The errors of the neighbours count as well.
    away /= np.sqrt(1 + share**2 + (1 - share) ** 2)
    # The lower quartile of their sizes, 0.3186 standard deviations: one odd point spoils three of them.
    return float(np.quantile(np.abs(away), 0.25, method="lower")) / 0.3186


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
