"""The times of all ranks of a participant at once, where their rows agree."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["DURATIONS", "RankColumns", "row_slice"]

DURATIONS = ("solve_ns", "advance_ns", "mapping_ns", "wait_ns")
"""The durations of an ``advance`` in a store."""


@dataclass(frozen=True, eq=False)
class RankColumns:
    """Rows of ``advance`` that all ranks of a participant have in common.

    Attributes
    ----------
    ranks : ndarray of int64, shape (R,)
        The ranks.
    window, iteration, window_complete : ndarray, shape (N,)
        As in `precice_lb.store.schema.ADVANCE_DTYPE`, the same on all ranks.
    values : dict of str to ndarray, shape (R, N)
        Further columns by name; nanoseconds, -1 where not measured.
    """

    ranks: NDArray[np.int64]
    window: NDArray[np.int64]
    iteration: NDArray[np.int32]
    window_complete: NDArray[np.bool_]
    values: dict[str, NDArray[np.int64]]


def row_slice(window: NDArray[np.int64], windows: tuple[int, int] | None) -> slice:
    """Rows of a range of time windows.

    Parameters
    ----------
    window : ndarray of int64, shape (N,)
        The window of each row; never falls.
    windows : tuple of int or None
        First and last window, both included.

    Returns
    -------
    slice
    """
    if windows is None:
        return slice(0, len(window))
    first, last = windows
    return slice(int(np.searchsorted(window, first, "left")), int(np.searchsorted(window, last, "right")))
