"""The valid range of a fitted curve: the rank counts a recommendation may use.

Unconstrained formulas bend as they like beyond their data. On Schröder's seven points a search over three terms
without a constant recommends 2 ranks, because its curve dives there. Whoever made the prediction, it counts only where
the curve is positive and, outside of the measured range, has a shape that run times have: it falls, then rises, and
does not fall faster than with the square of the ranks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from precice_lb.exceptions import ModelError


def valid_range(seconds: ArrayLike, measured: ArrayLike) -> tuple[int, int]:
    """Find the range of rank counts, around the measured ones, in which a curve is valid.

    Parameters
    ----------
    seconds : array of shape (P,)
        Predicted seconds at 1 … P ranks.
    measured : array of shape (n,)
        Rank counts of the measurements; those above P count as P.

    Returns
    -------
    lowest, highest : int
        Both included.

    Raises
    ------
    ModelError
        Inside of the measured range itself the curve is not positive and finite.
    """
    curve = np.asarray(seconds, dtype=np.float64)
    at = np.clip(np.rint(np.asarray(measured, dtype=np.float64)).astype(np.intp), 1, len(curve)) - 1
    first, last = int(at.min()), int(at.max())
    inside = curve[first : last + 1]
    bad = ~(np.isfinite(inside) & (inside > 0))
    if bad.any():
        rank = first + 1 + int(np.argmax(bad))
        raise ModelError(
            f"expected positive seconds throughout the measured range, found {curve[rank - 1]:g} predicted at {rank} "
            "ranks; choose another learner or fewer terms"
        )
    lowest_inside = int(np.argmin(inside))
    # Fewer ranks: slower and slower, unless the measurements begin to the right of the curve's minimum.
    left = _well_shaped(curve[first::-1], curve[first], may_fall=lowest_inside == 0 and last > first)
    # More ranks: slower and slower, unless the minimum has not been reached by the measurements.
    right = _well_shaped(curve[last:], curve[last], may_fall=lowest_inside == len(inside) - 1)
    ranks = np.arange(last + 1, len(curve) + 1, dtype=np.float64)
    right &= curve[last:] * ranks**2 >= curve[last] * ranks[0] ** 2 * (1 - 1e-9)
    return first + 1 - (_run(left) - 1), last + 1 + (_run(right) - 1)


def falls_then_rises(curves: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether curves (P, h) are positive and finite and never fall after they have risen, shape (h,)."""
    highest = np.abs(curves).max(axis=0, initial=0.0, where=np.isfinite(curves) & (curves > 0))
    return np.asarray(_well_shaped(curves, highest, may_fall=True).all(axis=0))


def _well_shaped(curve: NDArray[np.float64], scale: Any, may_fall: bool) -> NDArray[np.bool_]:
    """Whether each value along the first axis is positive, finite and not a second fall."""
    good = np.isfinite(curve) & (curve > 0)
    steps = np.diff(np.where(good, curve, 0.0), axis=0)
    # Rounding makes flat curves uneven.
    risen = np.logical_or.accumulate(steps > 1e-12 * scale, axis=0) if may_fall else True
    good[1:] &= ~((steps < -1e-12 * scale) & risen)
    return good


def _run(good: NDArray[np.bool_]) -> int:
    """Length of the unbroken run of true values at the beginning."""
    return len(good) if good.all() else int(np.argmin(good))
