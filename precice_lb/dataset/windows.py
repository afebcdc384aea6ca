"""From the rows of the ranks of a participant to its time windows, one rank after the other.

Every rank of a participant makes the same calls, so that the k-th row of one rank belongs to the k-th row of another.
The memory needed does not grow with their number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from precice_lb.dataset.guesses import Guesses
from precice_lb.dataset.records import ParticipantRun, mean_known, places_of
from precice_lb.store.columns import ADVANCE_SPENDS, CALLS, TABLES
from precice_lb.store.records import Complete, RankFile

Array: TypeAlias = NDArray[np.float64]

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
class Windows:
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

    def seconds(self, rows: NDArray[np.void]) -> dict[str, Array]:
        """Seconds of a rank's rows that count, by quantity, shape (rows,); NaN where not measured."""
        counts = np.isin(rows["window"], self.windows)
        if not counts.all():
            rows = rows[counts]
        found = {}
        for name in ("solve", "advance", "mapping", "wait"):
            nanoseconds = rows[f"{name}_ns"]
            found[name] = np.where(nanoseconds < 0, np.nan, nanoseconds * 1e-9)
        return found


def windows_of(group: Iterable[RankFile]) -> Windows:
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
    return Windows(windows, window_starts, iteration_starts, numbers, len(window), np.array(recorded))


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
        self._sections: dict[str, Array] = {}
        self._counts: dict[str, Array] = {}
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
    def sections(self) -> dict[str, Array]:
        """Profiling sections by name; NaN for ranks without one."""
        return {name: values for name, values in self._sections.items() if np.nanmax(values) > 0}

    @property
    def counts(self) -> dict[str, Array]:
        """What each rank held in the end of each feature, by name; 0 where a rank said nothing of it."""
        return {name: self._with_zeros(values) for name, values in self._counts.items()}

    @property
    def vertices(self) -> Array:
        """Vertices of coupling meshes."""
        return self._with_zeros(self._vertices) if np.isfinite(self._vertices).any() else self._vertices

    def _with_zeros(self, values: Array) -> Array:
        return np.where(self._ranks & np.isnan(values), 0.0, values)


@dataclass(eq=False)
class ParticipantTimes:
    """Seconds of one participant, reduced over its ranks, before it is known what a transfer between partners takes."""

    # Without their tables.
    group: Sequence[RankFile]
    layout: Windows
    warmup: int
    # Of each iteration: the least wait of a rank that receives data, the wall time without it, the mean overhead of
    # the ranks that receive data, and the wall time of the rank that took longest in all.
    wait: Array
    busy: Array
    overhead: Array
    wall: Array
    # The wait inside ``initialize``, likewise.
    first_wait: float
    # Mean seconds per window after warm-up by rank: solve, advance, mapping, wait, overhead, hidden (of the wait).
    rank: dict[str, Array]
    # Least overhead of an iteration after warm-up on a rank that receives data; NaN where it was not measured.
    least_overhead: float
    # Ranks whose wait is a wait for partners.
    receiving: NDArray[np.bool_]
    # Whether each wait, from the one in ``initialize`` on, is for the data of the iteration after the call.
    second: bool
    # Where asked for, what further tables say.
    tables: RankTables
    guesses: Guesses
    # Median seconds per iteration that counted as overhead at first and were waiting (`precice_lb.dataset.runs`).
    hidden: float = 0.0

    @property
    def metadata(self) -> dict[str, Any]:
        """Metadata of the lowest recorded rank."""
        return self.group[0].metadata

    @property
    def receives(self) -> bool:
        """Whether some rank waits for a partner at all."""
        return bool(self.receiving.any())

    @property
    def steady(self) -> NDArray[np.bool_]:
        """The iterations of windows after warm-up, shape (G,)."""
        return _of_windows_after(self.layout, self.warmup)

    @property
    def least_wait(self) -> float:
        """Least seconds that the participant waited in an iteration after warm-up; NaN if it never waits."""
        waits = self.wait[self.steady & np.isfinite(self.wait)]
        return float(waits.min()) if self.receives and len(waits) else np.nan

    @property
    def problems(self) -> dict[str, int]:
        """Why something was not measured, with the number of ranks that say so; their files' names count as one."""
        found: Counter[str] = Counter()
        if not _knows_waits(self.group[0]):
            found[RANK_0_MISSING] = len(self.group)
        for store in self.group:
            data = store.metadata
            if "timing_problem" in data:
                found[data["timing_problem"].replace(f"-{data['rank']}-{data['size']}.", f"-*-{data['size']}.")] += 1
        return dict(found.most_common())

    def hide(self, hidden: Array) -> None:
        """Count seconds of iterations as waiting that were overhead; of ranks, as much as windows hide in the mean."""
        self.busy = self.busy - hidden
        self.wait = self.wait + hidden
        self.hidden = float(np.median(hidden[self.steady]))
        layout, overhead = self.layout, self.rank["overhead"][self.receiving]
        waited = _shifted(hidden, 0.0, self.metadata) if self.second else hidden
        after = layout.windows > self.warmup
        moved, counted = (mean_known(layout.of_windows(seconds)[after]) for seconds in (hidden, waited))
        if moved > 0:
            share = np.minimum(overhead / moved, 1.0)
            self.rank["overhead"][self.receiving] -= share * moved
            self.rank["wait"][self.receiving] += share * counted
            self.rank["hidden"][self.receiving] = share * counted

    def run(self, floor: float) -> ParticipantRun:
        """Add the transfer floor."""
        layout, wait = self.layout, self.wait
        if self.second:
            # The wait for an iteration whose own end is lost is left out with it.
            wait = np.where(np.isfinite(wait), _shifted(wait, self.first_wait, self.metadata), np.nan)
        own = self.busy + (floor if self.receives else 0.0)
        measured = bool(np.isfinite(self.busy).any())
        steady = self.steady
        numbers = layout.iteration_numbers
        tables = self.tables
        sections = tables.sections
        spent = [name for name in sections if name.startswith(ADVANCE_SPENDS)]
        return ParticipantRun(
            participant=str(self.metadata["participant"]),
            ranks=int(self.metadata["size"]),
            windows=layout.windows,
            window_seconds=layout.of_windows(self.busy + wait) if measured else layout.of_windows(self.wall),
            compute_seconds=layout.of_windows(own),
            wait_seconds=layout.of_windows(wait),
            iterations=layout.iterations,
            metadata=self.metadata,
            receiving=self.receiving,
            iteration_windows=np.bincount(numbers[steady], minlength=int(numbers.max(initial=0)) + 1)[1:],
            iteration_compute=_means_by(numbers, np.where(steady, own, np.nan)),
            iteration_wait=_means_by(numbers, np.where(steady, wait, np.nan)),
            timing_problems=self.problems,
            hidden_wait=self.hidden,
            places=places_of(self.group),
            rank_sections={name: seconds for name, seconds in sections.items() if name not in spent},
            rank_spent={name.removeprefix(ADVANCE_SPENDS): sections[name] for name in spent},
            guesses=self.guesses.rows,
            rank_counts=tables.counts,
            rank_vertices=tables.vertices,
            rank_mpi=tables.mpi,
            rank_cpu=tables.cpu,
            recorded_ranks=tuple(int(store.metadata["rank"]) for store in self.group),
            rank_calls=layout.calls,
            threads=max(int(store.metadata.get("threads", 1)) for store in self.group),
            # Of `rank_solve` and so on.
            **{f"rank_{name}": seconds for name, seconds in self.rank.items()},
        )


def participant_times(
    ranks: Iterable[RankFile], layout: Windows, warmup: int, *, second: bool = False, whole: bool = True
) -> ParticipantTimes:
    """Reduce the ranks of a participant, sorted, one by one; ``whole`` also their tables but calls."""
    # Where the first windows are missing, so is the wait before them.
    second = second and layout.from_the_start
    group: list[RankFile] = []
    rank: dict[str, Array] = {}
    everyone, receivers = _Reduction.empty(layout), _Reduction.empty(layout)
    longest, wall = -np.inf, np.full(len(layout.iteration_starts), np.nan)
    steady = layout.windows > warmup
    iterations_after = _of_windows_after(layout, warmup)
    least_overhead = np.nan
    guesses = Guesses(layout.windows)
    for store in ranks:
        metadata = store.metadata
        number, size = int(metadata["rank"]), int(metadata["size"])
        if not group:
            rank = {name: np.full(size, np.nan) for name in ("solve", "advance", "mapping", "wait", "overhead")}
            rank["hidden"] = np.zeros(size)
            receiving, tables = np.zeros(size, dtype=bool), RankTables(size, layout.windows[steady])
        group.append(RankFile(store.path, metadata, store.configuration))
        row = layout.seconds(store.advances)
        if not _knows_waits(group[0]):
            row["wait"][:] = np.nan
        overhead = layout.of_iterations(row["advance"] - row["mapping"] - row["wait"])
        waits, walls = layout.of_iterations(row["wait"]), layout.of_iterations(row["solve"] + row["advance"])
        first = _first_wait(store)
        for name, seconds in (
            ("solve", _where_known(layout.of_iterations(row["solve"]), waits)),
            ("advance", layout.of_iterations(row["advance"])),
            ("mapping", layout.of_iterations(row["mapping"])),
            ("wait", _where_known(_shifted(waits, first, metadata), waits) if second else waits),
            ("overhead", overhead),
        ):
            rank[name][number] = mean_known(layout.of_windows(seconds)[steady])
        if np.isfinite(waits).any():
            everyone.add(waits, walls, overhead, first)
            # As the metadata say, else who ever waited.
            receiving[number] = metadata.get("receives_data", np.nansum(waits) > 0)
            if receiving[number]:
                receivers.add(waits, walls, overhead, first)
                least_overhead = float(np.fmin.reduce(overhead[iterations_after], initial=least_overhead))
        total = float(np.nansum(walls))
        if total > longest:
            longest, wall = total, walls
        if whole:
            tables.add(store)
            guesses.add(store)
    wait, busy, overhead, first_wait = (receivers if receiving.any() else everyone).result()
    return ParticipantTimes(
        group, layout, warmup, wait, busy, overhead, wall, first_wait, rank, least_overhead, receiving, second, tables,
        guesses,
    )  # fmt: skip


RANK_0_MISSING = "rank 0 is missing, and what others wait for may be that; give its file too"
"""What to say of a participant whose primary rank, the one that is connected to its partners, was not recorded."""


def _knows_waits(lowest: RankFile) -> bool:
    """Whether waits that preCICE's profiling files tell are for partners: secondary ranks wait for the primary one."""
    metadata = lowest.metadata
    return metadata["rank"] == 0 or "timing_source" not in metadata


@dataclass(eq=False)
class _Reduction:
    """Least wait and mean wall time over ranks, by iteration.

    Ranks of one participant end a window together. So the mean of their wall times is its period, free of the jitter
    of single ranks, which their maximum would add up.
    """

    wait: Array
    wall: Array
    overhead: Array
    count: NDArray[np.int64]
    first: float = field(default=np.nan)

    @classmethod
    def empty(cls, layout: Windows) -> _Reduction:
        shape = len(layout.iteration_starts)
        return cls(np.full(shape, np.nan), np.zeros(shape), np.zeros(shape), np.zeros(shape, dtype=np.int64))

    def add(self, waits: Array, walls: Array, overhead: Array, first: float) -> None:
        self.wait = np.fmin(self.wait, waits)
        self.first = float(np.fmin(self.first, first))
        known = np.isfinite(walls)
        self.wall += np.where(known, walls, 0.0)
        self.overhead += np.nan_to_num(overhead)
        self.count += known

    def result(self) -> tuple[Array, Array, Array, float]:
        """Wait, wall without it, overhead, and wait in ``initialize``."""
        wall, overhead = np.full(len(self.wall), np.nan), np.full(len(self.wall), np.nan)
        np.divide(self.wall, self.count, out=wall, where=self.count > 0)
        np.divide(self.overhead, self.count, out=overhead, where=self.count > 0)
        return self.wait, wall - self.wait, overhead, self.first


def _where_known(seconds: Array, waits: Array) -> Array:
    """Leave out the iterations whose wait is not known, where it is in others: all means are over the same windows."""
    known = np.isfinite(waits)
    return np.where(known | (not known.any()), seconds, np.nan)


def _of_windows_after(layout: Windows, warmup: int) -> NDArray[np.bool_]:
    """Tell the iterations of windows after warm-up."""
    return np.repeat(layout.windows > warmup, layout.iterations.astype(int))


def _shifted(waits: Array, first: float, metadata: Mapping[str, Any]) -> Array:
    """Move waits of iterations into the one that the data is for, from ``first`` on."""
    if not len(waits):
        return waits
    moved = np.append(first, waits[:-1])
    if metadata["finished"]:
        # Without a next window the last call waits only for partners in other schemes.
        moved[-1] += np.nan_to_num(waits[-1])
    return moved


def _first_wait(store: RankFile) -> float:
    waits = store.initialize["wait_ns"][:1]
    return int(waits[0]) * 1e-9 if len(waits) and waits[0] >= 0 else np.nan


def _means_by(numbers: NDArray[np.int64], values: Array) -> Array:
    """Mean of what is known by number, from 1 on; NaN where nothing is."""
    known, end = np.isfinite(values), int(numbers.max(initial=0)) + 1
    count = np.bincount(numbers[known], minlength=end)
    means = np.full(end, np.nan)
    np.divide(np.bincount(numbers[known], values[known], end), count, out=means, where=count > 0)
    return means[1:]
