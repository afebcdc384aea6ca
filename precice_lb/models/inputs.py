"""What every learner checks before it fits or predicts."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from precice_lb.exceptions import ModelError

__all__ = ["check_level", "check_measurements", "check_ranks"]


def check_ranks(X: ArrayLike) -> NDArray[np.float64]:
    """Take the ranks out of X.

    Parameters
    ----------
    X : array of shape (n, 1), or (n,)
        Numbers of ranks.

    Returns
    -------
    array of shape (n,)
        As floats.

    Raises
    ------
    ModelError
        Another shape, not numbers, not finite or below 1.
    """
    try:
        values = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError):
        raise ModelError("expected numbers of ranks, found something else") from None
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise ModelError(
            f"expected X of shape (n, 1), the ranks, found shape {values.shape}; "
            "this learner models one parameter: leave the other columns out"
        )
    bad = ~(np.isfinite(values) & (values >= 1))
    if bad.any():
        raise ModelError(f"expected ranks of at least 1, found {values[bad][0]:g}")
    return values


def check_measurements(X: ArrayLike, y: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Check what a learner is to be fitted to.

    Returns
    -------
    ranks, seconds : arrays of shape (n,)
        n at least 1.

    Raises
    ------
    ModelError
        Besides `check_ranks`: no measurement, different lengths, seconds that are not positive and finite.
    """
    ranks = check_ranks(X)
    try:
        seconds = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError):
        raise ModelError("expected seconds as numbers, found something else") from None
    if seconds.shape != ranks.shape:
        raise ModelError(f"expected one time per measurement, found X for {ranks.size} and y of shape {seconds.shape}")
    if not ranks.size:
        raise ModelError("expected at least one measurement, found none")
    bad = ~(np.isfinite(seconds) & (seconds > 0))
    if bad.any():
        raise ModelError(f"expected positive, finite seconds, found {seconds[bad][0]:g} at {ranks[bad][0]:g} ranks")
    return ranks, seconds


def check_level(level: float) -> float:
    """Check the level of an interval.

    Raises
    ------
    ModelError
        Not between 0 and 1.
    """
    if not 0 < level < 1:
        raise ModelError(f"expected an interval's level between 0 and 1, found {level!r}")
    return float(level)
