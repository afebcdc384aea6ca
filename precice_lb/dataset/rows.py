"""The rows of all ranks of a participant, side by side in blocks of ranks.

Every rank of a participant makes the same calls, so that the k-th row of one rank belongs to the k-th row of another.
A block holds arrays of shape (ranks of the block, rows); the memory needed does not grow with the number of ranks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from precice_lb.store.reader import RankStore

__all__ = ["Block", "Layout", "blocks", "layout_of"]

_BLOCK_VALUES = 1 << 20
"""Values of one column in a block: 8 MiB."""


@dataclass(frozen=True, eq=False)
class Layout:
    """Which rows count, and which coupling iteration and time window each belongs to.

    Attributes
    ----------
    windows : ndarray of int64, shape (W,)
        Time windows that all recorded ranks completed, rising.
    window_starts : ndarray, shape (W,)
        Index of the first iteration of each window, among all G iterations of all windows.
    iteration_starts : ndarray, shape (G,)
        Index of the first row of each iteration.
    iteration_numbers : ndarray, shape (G,)
        Number of each iteration in its window, from 1.
    rows : int
        Rows per rank.
    """

    windows: NDArray[np.int64]
    window_starts: NDArray[np.intp]
    iteration_starts: NDArray[np.intp]
    iteration_numbers: NDArray[np.int64]
    rows: int

    @property
    def iterations(self) -> NDArray[np.float64]:
        """Coupling iterations of each window, shape (W,)."""
        return np.diff(self.window_starts, append=len(self.iteration_starts)).astype(np.float64)

    @property
    def from_the_start(self) -> bool:
        """Whether no window is missing from the first on."""
        return bool(np.array_equal(self.windows, np.arange(1, len(self.windows) + 1)))

    def of_iterations(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sum rows, the last axis, to iterations."""
        if len(self.iteration_starts) == self.rows:
            return values
        return np.add.reduceat(values, self.iteration_starts, axis=-1)

    def of_windows(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sum iterations, the last axis, to windows."""
        if len(self.windows) == len(self.iteration_starts):
            return values
        return np.add.reduceat(values, self.window_starts, axis=-1)


@dataclass(frozen=True, eq=False)
class Block:
    """Some ranks: their numbers, shape (B,), and seconds by rank and row, shape (B, rows); NaN where not measured."""

    stores: Sequence[RankStore]
    ranks: NDArray[np.intp]
    solve: NDArray[np.float64]
    advance: NDArray[np.float64]
    mapping: NDArray[np.float64]
    wait: NDArray[np.float64]


def layout_of(group: Sequence[RankStore]) -> tuple[Layout, list[NDArray[np.intp] | None]]:
    """Find the windows that all ranks completed with the same number of calls.

    Parameters
    ----------
    group : sequence of RankStore
        Ranks of one participant.

    Returns
    -------
    layout : Layout
        What their rows have in common.
    choices : list of ndarray or None
        Of each rank, the rows that count; None for the same ones as of the rank before.
    """
    reference = _calls(group[0])
    windows, counts = reference.completed()
    # Ranks that differ: a kill or a lost record cuts some of them shorter than others.
    different: dict[int, _Calls] = {0: reference}
    previous = reference
    for index, store in enumerate(group[1:], start=1):
        calls = _calls(store)
        if calls.same(previous):
            continue
        different[index] = previous = calls
        other, other_counts = calls.completed()
        _, here, there = np.intersect1d(windows, other, assume_unique=True, return_indices=True)
        alike = counts[here] == other_counts[there]
        windows, counts = windows[here[alike]], counts[here[alike]]
    choices = [
        np.flatnonzero(np.isin(different[index].window, windows)) if index in different else None
        for index in range(len(group))
    ]
    chosen = choices[0]
    assert chosen is not None
    window, iteration = reference.window[chosen], reference.iteration[chosen]
    first_of_window = np.diff(window, prepend=0) != 0
    first_of_iteration = first_of_window | (np.diff(iteration, prepend=0) != 0)
    iteration_starts = np.flatnonzero(first_of_iteration)
    window_starts = np.searchsorted(iteration_starts, np.flatnonzero(first_of_window))
    numbers = np.arange(len(iteration_starts)) - np.repeat(
        window_starts, np.diff(window_starts, append=len(iteration_starts))
    )
    return Layout(windows, window_starts, iteration_starts, numbers + 1, len(window)), choices


def blocks(group: Sequence[RankStore], layout: Layout, choices: Sequence[NDArray[np.intp] | None]) -> Iterator[Block]:
    """Read ranks side by side.

    Parameters
    ----------
    group : sequence of RankStore
        Ranks of one participant.
    layout, choices
        What `layout_of` found.

    Yields
    ------
    Block
        In the order of the ranks; each rank once.
    """
    step = max(1, _BLOCK_VALUES // max(layout.rows, 1))
    chosen: NDArray[np.intp] | None = None
    for begin in range(0, len(group), step):
        stores = group[begin : begin + step]
        columns = {name: np.empty((len(stores), layout.rows)) for name in ("solve", "advance", "mapping", "wait")}
        for place, store in enumerate(stores):
            rows = store.advances
            chosen = chosen if choices[begin + place] is None else choices[begin + place]
            for name, values in columns.items():
                nanoseconds = rows[f"{name}_ns"][chosen]
                values[place] = np.where(nanoseconds >= 0, nanoseconds * 1e-9, np.nan)
        yield Block(stores, np.array([store.metadata["rank"] for store in stores]), **columns)


@dataclass(frozen=True, eq=False)
class _Calls:
    """Which window and iteration each call of one rank belongs to."""

    window: NDArray[np.int64]
    iteration: NDArray[np.int32]
    complete: NDArray[np.bool_]

    def same(self, other: _Calls) -> bool:
        return np.array_equal(self.window, other.window) and np.array_equal(self.complete, other.complete)

    def completed(self) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
        """Windows that were completed, rising, and the calls of each."""
        windows = np.unique(self.window[self.complete])
        every, counts = np.unique(self.window, return_counts=True)
        return windows, counts[np.searchsorted(every, windows)]


def _calls(store: RankStore) -> _Calls:
    rows = store.advances
    return _Calls(rows["window"], rows["iteration"], rows["window_complete"])
