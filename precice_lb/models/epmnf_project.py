"""Measurements of several parameters seen along one of them (Calotoiu et al. 2016, section IV-C)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import ModelError

__all__ = ["LEAST_VALUES", "merge_repeats", "project"]

Array = NDArray[np.float64]

#: Different values of a parameter without which nothing can be said about how the seconds depend on it.
LEAST_VALUES = 3


def merge_repeats(points: Array, seconds: Array) -> tuple[Array, Array]:
    """Mean of the seconds measured at the same point, points in ascending order."""
    merged, labels = np.unique(points, axis=0, return_inverse=True)
    labels = labels.ravel()
    return merged, np.bincount(labels, weights=seconds) / np.bincount(labels)


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
    found, labels = np.unique(points[rows, column], return_inverse=True)
    if len(found) < LEAST_VALUES:
        raise ModelError(
            f"expected {LEAST_VALUES} or more values of column {column} of X measured with all other columns alike, "
            f"found {len(found)}: the measurements are no full grid, and this column varies only together with others; "
            "measure along it, or use the learner 'bayes', 'gaussian-process' or 'neural'"
        )
    return found, np.bincount(labels, weights=seconds[rows]) / np.bincount(labels)
