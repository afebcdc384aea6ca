"""The rows of all ranks of a participant, side by side in blocks of ranks.

Every rank of a participant makes the same calls, so that the k-th row of one rank belongs to the k-th row of another.
A block holds arrays of shape (ranks of the block, rows); the memory needed does not grow with the number of ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from precice_lb.store.merged import aligned_columns
from precice_lb.store.records import RankStore

_BLOCK_VALUES = 1 << 20
"""Values of one column in a block: 8 MiB."""


@dataclass(frozen=True, eq=False)
class Layout:
    """Which rows count, and which coupling iteration and time window each belongs to."""

    # Time windows that all recorded ranks completed, rising, shape (W,).
    windows: NDArray[np.int64]
    # Index of the first iteration of each window, shape (W,), among all G iterations of all windows.
    window_starts: NDArray[np.intp]
    # Index of the first row of each iteration, and its number in its window, from 1, shape (G,).
    iteration_starts: NDArray[np.intp]
    iteration_numbers: NDArray[np.int64]
    # Rows per rank.
    rows: int
    # Calls that each rank recorded, of those that there are records of.
    calls: NDArray[np.int64]

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


@dataclass(frozen=True, eq=False)
class Unit:
    """Ranks that made the same calls, and which of their rows count."""

    stores: Sequence[RankStore]
    rows: NDArray[np.intp]


def layout_of(group: Sequence[RankStore]) -> tuple[Layout, list[Unit]]:
    """Find the windows that all ranks of a participant completed with the same number of calls."""
    alike = list(_alike(group))
    found = [(stores, calls) for stores, calls, _ in alike]
    window, iteration, complete = found[0][1]
    windows, counts = _completed(window, complete)
    for _, (other_window, _, other_complete) in found[1:]:
        # A kill or a lost record cuts some ranks shorter than others.
        other, other_counts = _completed(other_window, other_complete)
        _, here, there = np.intersect1d(windows, other, assume_unique=True, return_indices=True)
        same = counts[here] == other_counts[there]
        windows, counts = windows[here[same]], counts[here[same]]
    units = [Unit(stores, np.flatnonzero(np.isin(calls[0], windows))) for stores, calls in found]
    window, iteration = window[units[0].rows], iteration[units[0].rows]
    first_of_window = np.diff(window, prepend=0) != 0
    iteration_starts = np.flatnonzero(first_of_window | (np.diff(iteration, prepend=0) != 0))
    window_starts = np.searchsorted(iteration_starts, np.flatnonzero(first_of_window))
    sizes = np.diff(window_starts, append=len(iteration_starts))
    numbers = np.arange(len(iteration_starts)) - np.repeat(window_starts, sizes) + 1
    calls = np.concatenate([rows for _, _, rows in alike])
    return Layout(windows, window_starts, iteration_starts, numbers, len(window), calls), units


def blocks(units: Sequence[Unit]) -> Iterator[Block]:
    """Read ranks side by side."""
    for unit in units:
        columns = aligned_columns(unit.stores)
        ranks = np.array([store.metadata["rank"] for store in unit.stores])
        seconds = {}
        for name in ("solve", "advance", "mapping", "wait"):
            if columns is None:
                seconds[name] = np.full((len(ranks), 0), np.nan)
                continue
            nanoseconds = columns.values.pop(f"{name}_ns")
            if len(unit.rows) < nanoseconds.shape[1]:
                nanoseconds = nanoseconds[:, unit.rows]
            seconds[name] = nanoseconds * 1e-9
            seconds[name][nanoseconds < 0] = np.nan
        yield Block(unit.stores, ranks, **seconds)


_Calls: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.bool_]]


def _alike(group: Sequence[RankStore]) -> Iterator[tuple[Sequence[RankStore], _Calls, NDArray[np.int64]]]:
    """Split ranks into blocks that made the same calls; a block with different ones into single ranks.

    The last is how many calls each rank recorded.
    """
    step = max(1, _BLOCK_VALUES // max(len(group[0].advances), 1))
    for begin in range(0, len(group), step):
        together = group[begin : begin + step]
        columns = aligned_columns(together, ())
        if columns is not None:
            yield together, (columns.window, columns.iteration, columns.window_complete), columns.rows
            continue
        for store in together:
            rows = store.advances
            yield [store], (rows["window"], rows["iteration"], rows["window_complete"]), np.array([len(rows)])


def _completed(window: NDArray[np.int64], complete: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """Windows that were completed, rising, and the calls of each."""
    windows = np.unique(window[complete])
    every, counts = np.unique(window, return_counts=True)
    return windows, counts[np.searchsorted(every, windows)]


Values = NDArray[np.float64]


def sections_of(group: Sequence[RankStore], windows: NDArray[np.int64]) -> dict[str, Values]:
    """Mean seconds per window of the solver's profiling sections by name, shape (ranks,); NaN for ranks without one."""
    found: dict[str, Values] = {}
    for store in group if len(windows) else ():
        if not (names := store.section_names):
            continue
        rows = store.sections
        rows = rows[np.isin(rows["window"], windows)]
        seconds = np.bincount(rows["name"], rows["duration_ns"], len(names)) * 1e-9 / len(windows)
        for name, mean in zip(names, seconds.tolist(), strict=True):
            values, rank = found.setdefault(name, _unknown(group)), store.metadata["rank"]
            # Earlier versions cut long names, so that two may be the same.
            values[rank] = np.nansum([values[rank], mean])
    return {name: each for name, each in found.items() if np.nanmax(each) > 0}


def counts_of(group: Sequence[RankStore]) -> dict[str, Values]:
    """Give what each rank held in the end of each feature, by name; 0 where a rank said nothing of it."""
    found: dict[str, Values] = {}
    ranks = [store.metadata["rank"] for store in group]
    for store in group:
        if names := store.count_names:
            for row in store.counts:
                name = names[row["name"]]
                if name not in found:
                    found[name] = _unknown(group)
                    found[name][ranks] = 0.0
                found[name][store.metadata["rank"]] = row["count"]
    return found


def vertices_of(group: Sequence[RankStore]) -> Values:
    """Count each rank's vertices of coupling meshes; NaN where nothing was recorded of any rank's meshes."""
    found, told = _unknown(group), False
    for store in group:
        rows = store.mesh_rows
        told = told or len(rows) > 0
        found[store.metadata["rank"]] = rows["vertices"].sum()
    return found if told else _unknown(group)


def mpi_of(group: Sequence[RankStore], windows: NDArray[np.int64]) -> Values:
    """Mean seconds per window that each rank spent in MPI within its solve time; NaN where not recorded."""
    return _mean_of(group, windows, lambda store: store.mpi, "mpi_ns")


def cpu_of(group: Sequence[RankStore], windows: NDArray[np.int64]) -> Values:
    """Mean CPU seconds per window of each rank within its solve time; NaN where not recorded."""
    return _mean_of(group, windows, lambda store: store.cpu, "cpu_ns")


def _mean_of(
    group: Sequence[RankStore], windows: NDArray[np.int64], table: Callable[[RankStore], NDArray[np.void]], column: str
) -> Values:
    found = _unknown(group)
    for store in group if len(windows) else ():
        rows = table(store)
        rows = rows[np.isin(rows["window"], windows)]
        # A rank that recorded it has a row for every window.
        if len(rows):
            found[store.metadata["rank"]] = rows[column].sum() * 1e-9 / len(windows)
    return found


def _unknown(group: Sequence[RankStore]) -> Values:
    return np.full(int(group[0].metadata["size"]), np.nan)
