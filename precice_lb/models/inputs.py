"""What every learner checks before it fits or predicts."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from precice_lb.exceptions import ModelError

__all__ = ["SEVERAL_PARAMETERS", "check_level", "check_measurements", "check_points", "check_ranks", "check_table"]

#: Learners that model further parameters beside the ranks.
SEVERAL_PARAMETERS: tuple[str, ...] = ("bayes", "epmnf", "factorized", "gaussian-process", "neural")


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
            f"expected X of shape (n, 1), the ranks, found shape {values.shape}; this learner models one parameter: "
            f"leave the other columns out or use one of {', '.join(SEVERAL_PARAMETERS)}"
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


def check_points(X: ArrayLike, columns: int | None = None) -> NDArray[np.float64]:
    """Check ranks and parameters.

    Parameters
    ----------
    X : array of shape (n, d), or (n,) for ranks alone
        Ranks, then parameters.
    columns : int, optional
        What d has to be.

    Returns
    -------
    array of shape (n, d)

    Raises
    ------
    ModelError
        As `check_ranks`; another number of columns, parameters that are not finite.
    """
    try:
        values = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError):
        raise ModelError("expected numbers of ranks and parameters, found something else") from None
    if values.ndim == 1:
        values = values[:, None]
    if values.ndim != 2 or values.shape[1] == 0:
        raise ModelError(f"expected X of shape (n, d), ranks and parameters, found shape {values.shape}")
    if columns is not None and values.shape[1] != columns:
        raise ModelError(f"expected X with {columns} columns, those of the measurements, found {values.shape[1]}")
    check_ranks(values[:, 0])
    bad = ~np.isfinite(values)
    if bad.any():
        raise ModelError(
            f"expected finite parameters, found {values[bad][0]:g} in column {int(np.argwhere(bad)[0, 1])}"
        )
    return values


def check_table(
    X: ArrayLike, y: ArrayLike, spread: ArrayLike | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Check what a learner of several parameters is to be fitted to.

    Returns
    -------
    points : array of shape (n, d)
        n at least 1.
    seconds, spread : arrays of shape (n,)
        ``spread`` in seconds, zero where it is not known.

    Raises
    ------
    ModelError
        As `check_points` and `check_measurements`; standard errors that are negative or of another shape.
    """
    points = check_points(X)
    _, seconds = check_measurements(points[:, 0], y)
    if spread is None:
        return points, seconds, np.zeros(len(seconds))
    errors = np.asarray(spread, dtype=np.float64)
    if errors.shape != seconds.shape or (errors < 0).any() or np.isinf(errors).any():
        raise ModelError(f"expected a standard error of at least 0 s or NaN per measurement, found {spread!r:.60}")
    return points, seconds, np.nan_to_num(errors)


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
