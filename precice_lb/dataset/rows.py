"""The rows of the ranks of a participant, one rank after the other: the memory needed does not grow with their number.

Every rank of a participant makes the same calls, so that the k-th row of one rank belongs to the k-th row of another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from precice_lb.store.columns import CALLS, TABLES
from precice_lb.store.records import Complete, RankFile

Values: TypeAlias = NDArray[np.float64]

# What is kept of the ranks of a participant for another look at them.
_KEPT_BYTES = 1 << 23


@dataclass(eq=False)
class Ranks:
    """Ranks of a participant, sorted: iterated, each with its tables and what was measured beside it.

    Those of short runs stay in memory for the next time.
    """

    stores: Sequence[RankFile]
    complete: Complete | None = None
    _kept: dict[int, RankFile] = field(default_factory=dict)

    def __iter__(self) -> Iterator[RankFile]:
        room = _KEPT_BYTES
        for at, store in enumerate(self.stores):
            found = self._kept.get(at)
            if found is None:
                # But coordinates and cells of meshes, which may be many.
                found = store.loaded(*(name for name, table in TABLES.items() if table.counted is None))
                if self.complete is not None:
                    (found,) = self.complete([found])
            room -= sum(rows.nbytes for rows in found.tables.values())
            if room >= 0:
                self._kept[at] = found
            yield found


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

    def seconds(self, rows: NDArray[np.void]) -> dict[str, Values]:
        """Seconds of a rank's rows that count, by quantity, shape (rows,); NaN where not measured."""
        counts = np.isin(rows["window"], self.windows)
        if not counts.all():
            rows = rows[counts]
        found = {}
        for name in ("solve", "advance", "mapping", "wait"):
            nanoseconds = rows[f"{name}_ns"]
            found[name] = np.where(nanoseconds < 0, np.nan, nanoseconds * 1e-9)
        return found


def layout_of(group: Iterable[RankFile]) -> Layout:
    """Find the windows that all ranks of a participant completed with the same number of calls."""
    first: dict[str, NDArray[np.int64]] = {}
    recorded = []
    for store in group:
        rows = store.advances
        recorded.append(len(rows))
        if not first:
            first = {name: rows[name].copy() for name in CALLS}
            windows, counts = _completed(rows)
        elif not all(np.array_equal(rows[name], first[name]) for name in CALLS):
            # A kill or a lost record cuts some ranks shorter than others.
            other, other_counts = _completed(rows)
            _, here, there = np.intersect1d(windows, other, assume_unique=True, return_indices=True)
            same = counts[here] == other_counts[there]
            windows, counts = windows[here[same]], counts[here[same]]
    which = np.isin(first["window"], windows)
    window, iteration = first["window"][which], first["iteration"][which]
    first_of_window = np.diff(window, prepend=0) != 0
    iteration_starts = np.flatnonzero(first_of_window | (np.diff(iteration, prepend=0) != 0))
    window_starts = np.searchsorted(iteration_starts, np.flatnonzero(first_of_window))
    sizes = np.diff(window_starts, append=len(iteration_starts))
    numbers = np.arange(len(iteration_starts)) - np.repeat(window_starts, sizes) + 1
    return Layout(windows, window_starts, iteration_starts, numbers, len(window), np.array(recorded))


def _completed(rows: NDArray[np.void]) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """Windows that were completed, rising, and the calls of each."""
    windows = np.unique(rows["window"][rows["window_complete"]])
    every, counts = np.unique(rows["window"], return_counts=True)
    return windows, counts[np.searchsorted(every, windows)]


class RankTables:
    """What further tables say of each rank: in seconds per window, the mean of these windows.

    Arrays have shape (ranks,), NaN for ranks without a store and for what was not recorded.
    """

    def __init__(self, size: int, windows: NDArray[np.int64]) -> None:
        self._windows, self._ranks = windows, np.zeros(size, dtype=bool)
        self._sections: dict[str, Values] = {}
        self._counts: dict[str, Values] = {}
        self._vertices = np.full(size, np.nan)
        self.mpi, self.cpu = np.full(size, np.nan), np.full(size, np.nan)

    def add(self, store: RankFile) -> None:
        """Take the tables of one rank."""
        rank = int(store.metadata["rank"])
        self._ranks[rank] = True
        if len(self._windows):
            names, rows = store.names("sections"), self._counted(store, "sections")
            seconds = np.bincount(rows["name"], rows["duration_ns"], len(names)) * 1e-9 / len(self._windows)
            for name, mean in zip(names, seconds.tolist(), strict=True):
                values = self._sections.setdefault(name, np.full(len(self._ranks), np.nan))
                # Earlier versions cut long names, so that two may be the same.
                values[rank] = np.nansum([values[rank], mean])
        features = store.names("counts")
        for row in store.rows("counts"):
            values = self._counts.setdefault(features[row["name"]], np.full(len(self._ranks), np.nan))
            values[rank] = row["count"]
        meshes = store.rows("meshes")
        if len(meshes):
            self._vertices[rank] = meshes["vertices"].sum()
        for table, values in (("mpi", self.mpi), ("cpu", self.cpu)):
            rows = self._counted(store, table)
            # A rank that recorded it has a row for every window.
            if len(rows):
                values[rank] = rows[f"{table}_ns"].sum() * 1e-9 / len(self._windows)

    def _counted(self, store: RankFile, table: str) -> NDArray[np.void]:
        rows = store.rows(table)
        return rows[np.isin(rows["window"], self._windows)]

    @property
    def sections(self) -> dict[str, Values]:
        """Profiling sections by name; NaN for ranks without one."""
        return {name: values for name, values in self._sections.items() if np.nanmax(values) > 0}

    @property
    def counts(self) -> dict[str, Values]:
        """What each rank held in the end of each feature, by name; 0 where a rank said nothing of it."""
        return {name: self._with_zeros(values) for name, values in self._counts.items()}

    @property
    def vertices(self) -> Values:
        """Vertices of coupling meshes."""
        return self._with_zeros(self._vertices) if np.isfinite(self._vertices).any() else self._vertices

    def _with_zeros(self, values: Values) -> Values:
        return np.where(self._ranks & np.isnan(values), 0.0, values)
