"""The times of all ranks of a participant at once, where their rows agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from precice_lb.store.records import RankStore

__all__ = ["DURATIONS", "RankColumns", "aligned_columns", "row_slice"]

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


def aligned_columns(
    group: Sequence[RankStore],
    names: Sequence[str] = DURATIONS,
    *,
    windows: tuple[int, int] | None = None,
) -> RankColumns | None:
    """Read columns of all ranks of a participant as arrays; of a merged store, only what is asked for is read.

    Parameters
    ----------
    group : sequence of RankStore
        Ranks of one participant, as from `precice_lb.store.reader.read_runs`.
    names : sequence of str
        Columns of `precice_lb.store.schema.ADVANCE_DTYPE`.
    windows : tuple of int, optional
        First and last time window, both included; by default all.

    Returns
    -------
    RankColumns or None
        Up to the last row that every rank has. None if the ranks differ in windows, iterations or completed windows.
    """
    rows = [store.advances for store in group]
    count = min((len(table) for table in rows), default=0)
    if not count:
        return None
    first = rows[0][:count]
    for table in rows[1:]:
        if any(
            not np.array_equal(first[name], table[name][:count]) for name in ("window", "iteration", "window_complete")
        ):
            return None
    chosen = row_slice(first["window"], windows)
    return RankColumns(
        ranks=np.array([store.metadata["rank"] for store in group], dtype=np.int64),
        window=first["window"][chosen].copy(),
        iteration=first["iteration"][chosen].copy(),
        window_complete=first["window_complete"][chosen].copy(),
        values={name: np.stack([table[name][:count][chosen] for table in rows]) for name in names},
    )


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
