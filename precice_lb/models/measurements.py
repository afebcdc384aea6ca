"""What repeated measurements say of their noise."""

from __future__ import annotations

import numpy as np

from precice_lb.models.base import Array

#: Relative standard deviation between runs where repeats do not tell it.
USUAL_NOISE = 0.05
# So many repeats weigh as much as that.
_WEIGHT = 2.0


def median_of_repeats(seconds: Array, errors: Array) -> tuple[float, float]:
    """Median of repeats (n,) with standard errors in seconds, NaN where unknown, and its relative standard error.

    Its noise is what the repeats differ by, beside the usual noise as if two repeats had told that, and the median of
    what is known from within each of them.
    """
    squares = float(np.sum((np.log(seconds) - np.log(seconds).mean()) ** 2))
    between = (_WEIGHT * USUAL_NOISE**2 + squares) / (_WEIGHT + len(seconds) - 1)
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
        if here.sum() > 1:
            variance = float(np.var(np.log(seconds[here]), ddof=1))
            if variance > (2 * USUAL_NOISE) ** 2:
                widened[here] = np.hypot(np.nan_to_num(errors[here]), np.sqrt(variance) * seconds[here])
    return widened
