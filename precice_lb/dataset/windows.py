"""From the rows of the ranks of a participant to its time windows, one rank after the other.

Every rank of a participant makes the same calls, so that the k-th row of one rank belongs to the k-th row of another.
The memory needed does not grow with their number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.dataset.records import Guesses, ParticipantRun, mean_known, places_of
from precice_lb.store.columns import ADVANCE_SPENDS, CALLS, NOT_MEASURED, TABLES, Array, Integers, Rows
from precice_lb.store.records import Complete, RankFile

# What is kept of the ranks of a participant for another look at them.
_KEPT_BYTES = 1 << 23


@dataclass(eq=False)
class Ranks:
    """Ranks of a participant, sorted: iterated, each with its tables and what was measured beside it.

    Those of short runs stay in memory for the next time.
    """

    stores: Sequence[RankFile]
    complete: Complete | None = None
    # The first ones, and bytes of all so far.
    _kept: list[RankFile] = field(default_factory=list)
    _bytes: int = 0

    def __iter__(self) -> Iterator[RankFile]:
        yield from self._kept
        for store in self.stores[len(self._kept) :]:
            # But coordinates and cells of meshes, which may be many.
            found = store.loaded(*(name for name, table in TABLES.items() if table.counted is None))
            if self.complete is not None:
                (found,) = self.complete([found])
            self._bytes += sum(rows.nbytes for rows in found.tables.values())
            if self._bytes <= _KEPT_BYTES:
                self._kept.append(found)
            yield found


@dataclass(frozen=True, eq=False)
class Windows:
    """Which rows count, and which coupling iteration and time window each belongs to."""

    # Time windows that all recorded ranks completed, rising, shape (W,).
    windows: Integers
    # Index of the first iteration of each window, shape (W,), among all G iterations of all windows.
    window_starts: NDArray[np.intp]
    # Index of the first row of each iteration, and its number in its window, from 1, shape (G,).
    iteration_starts: NDArray[np.intp]
    iteration_numbers: Integers
    # Calls that each rank recorded, of those that there are records of.
    calls: list[int]

    @property
    def iterations(self) -> Array:
        """Coupling iterations of each window, shape (W,)."""
        return np.diff(self.window_starts, append=len(self.iteration_starts)).astype(np.float64)

    def of_windows(self, values: Array) -> Array:
        """Sum iterations to windows."""
        return np.add.reduceat(values, self.window_starts)

    def seconds(self, rows: Rows, *, waits: bool = True) -> dict[str, Array]:
        """Seconds of a rank in each iteration by quantity, shape (G,); NaN where not measured, or without ``waits``."""
        rows = rows[np.isin(rows["window"], self.windows)]
        if not waits:
            rows["wait_ns"] = NOT_MEASURED
        found = {}
        for name in ("solve", "advance", "mapping", "wait"):
            nanoseconds = rows[f"{name}_ns"]
            found[name] = np.where(nanoseconds < 0, np.nan, nanoseconds * 1e-9)
        found["overhead"] = found["advance"] - found["mapping"] - found["wait"]
        found["wall"] = found["solve"] + found["advance"]
        return {name: np.add.reduceat(values, self.iteration_starts) for name, values in found.items()}


def windows_of(group: Iterable[RankFile]) -> Windows:
    """Find the windows that all ranks of a participant completed with the same number of calls."""
    first: Rows | None = None
    recorded = []
    for store in group:
        rows = store.advances[[*CALLS]]
        recorded.append(len(rows))
        if first is None:
            first = rows.copy()
            windows, counts = _completed(rows)
        elif not np.array_equal(rows, first):
            # A kill or a lost record cuts some ranks shorter than others.
            other, other_counts = _completed(rows)
            _, here, there = np.intersect1d(windows, other, assume_unique=True, return_indices=True)
            same = counts[here] == other_counts[there]
            windows, counts = windows[here[same]], counts[here[same]]
    assert first is not None
    rows = first[np.isin(first["window"], windows)]
    iteration_starts = starts_of(rows, "window", "iteration")
    window_starts = np.searchsorted(iteration_starts, starts_of(rows, "window"))
    sizes = np.diff(window_starts, append=len(iteration_starts))
    numbers = np.arange(len(iteration_starts)) - np.repeat(window_starts, sizes) + 1
    return Windows(windows, window_starts, iteration_starts, numbers, recorded)


def starts_of(rows: Rows, *columns: str) -> NDArray[np.intp]:
    """Find the rows, not those of window 0, that differ from the one before in one of the columns."""
    return np.flatnonzero(np.any([np.diff(rows[name], prepend=0) != 0 for name in columns], axis=0))


def _completed(rows: Rows) -> tuple[Integers, NDArray[np.intp]]:
    """Windows that were completed, rising, and the calls of each."""
    windows = np.unique(rows["window"][rows["window_complete"]])
    every, counts = np.unique(rows["window"], return_counts=True)
    return windows, counts[np.searchsorted(every, windows)]


def rank_values(store: RankFile, windows: Integers) -> dict[tuple[str, str], float]:
    """Say what further tables tell of a rank, by table and name, the latter empty where a table has none.

    In seconds per window, the mean of these windows; of counts the last; of meshes the vertices.
    """
    found: dict[tuple[str, str], float] = {}
    for table in ("sections", "mpi", "cpu"):
        rows = store.rows(table)
        rows = rows[np.isin(rows["window"], windows)]
        # A rank that recorded it has a row for every window.
        if TABLES[table].names and len(windows):
            names = store.names(table)
            seconds = np.bincount(rows["name"], rows["duration_ns"], len(names)) * 1e-9 / len(windows)
            for name, mean in zip(names, seconds.tolist(), strict=True):
                # Earlier versions cut long names, so that two may be the same.
                found[table, name] = found.get((table, name), 0.0) + mean
        elif len(rows):
            found[table, ""] = rows[f"{table}_ns"].sum() * 1e-9 / len(windows)
    features = store.names("counts")
    for row in store.rows("counts"):
        found["counts", features[row["name"]]] = row["count"]
    if len(meshes := store.rows("meshes")):
        found["meshes", ""] = meshes["vertices"].sum()
    return found


class ParticipantTimes:
    """Seconds of one participant, reduced over its ranks, before it is known what a transfer between partners takes.

    Of its ranks, sorted, one by one; ``whole`` also their tables but calls. In a serial scheme each wait of the
    ``second``, from the one in ``initialize`` on, is for the data of the iteration after the call.
    """

    def __init__(
        self, ranks: Iterable[RankFile], layout: Windows, warmup: int, *, second: bool = False, whole: bool = True
    ) -> None:
        self.layout, self._after = layout, layout.windows > warmup
        # The iterations of windows after warm-up, shape (G,).
        self.steady = np.repeat(self._after, layout.iterations.astype(int))
        # Where the first windows are missing, so is the wait before them.
        self._second = second and np.array_equal(layout.windows, np.arange(1, len(layout.windows) + 1))
        # Without their tables.
        self.group: list[RankFile] = []
        # Mean seconds per window after warm-up by rank; what of the wait is hidden; and what further tables say.
        self.rank: dict[str, Array] = {}
        self._told: dict[tuple[str, str], Array] = {}
        self._guesses = Guesses(layout.windows)
        # Least overhead of an iteration after warm-up on a rank that receives data; NaN where it was not measured.
        self.least_overhead = np.nan
        # Median seconds per iteration that counted as overhead at first and were waiting (`precice_lb.dataset.runs`).
        self._hidden = 0.0
        # Of each iteration the wall time of the rank that took longest in all.
        longest, self.wall = -np.inf, np.full(len(self.steady), np.nan)
        for store in ranks:
            number, size = int(store.metadata["rank"]), int(store.metadata["size"])
            if not self.group:
                self.rank = {
                    name: np.full(size, np.nan) for name in ("solve", "advance", "mapping", "wait", "overhead")
                }
                # Ranks whose wait is a wait for partners.
                self.receiving = np.zeros(size, dtype=bool)
                self._reset()
            self.group.append(RankFile(store.path, store.metadata, store.configuration))
            found = layout.seconds(store.advances, waits=_knows_waits(self.group[0]))
            first, known = _first_wait(store), np.isfinite(found["wait"])
            for name, values in self.rank.items():
                seconds = found[name]
                if name == "wait" and self._second:
                    seconds = self._moved(seconds, first)
                if name in ("solve", "wait") and known.any():
                    # All means are over the same windows.
                    seconds = np.where(known, seconds, np.nan)
                values[number] = mean_known(layout.of_windows(seconds)[self._after])
            if known.any():
                # As the metadata say, else who ever waited.
                receives = bool(store.metadata.get("receives_data", np.nansum(found["wait"]) > 0))
                if receives and not self.receives:
                    self._reset()
                self.receiving[number] = receives
                if receives:
                    overhead = found["overhead"][self.steady]
                    self.least_overhead = float(np.fmin.reduce(overhead, initial=self.least_overhead))
                if receives or not self.receives:
                    self._add(found, first)
            total = float(np.nansum(found["wall"]))
            if total > longest:
                longest, self.wall = total, found["wall"]
            if whole:
                for key, value in rank_values(store, layout.windows[self._after]).items():
                    self._told.setdefault(key, np.full(size, np.nan))[number] = value
                self._guesses.add(store)
        # Of the ranks that were reduced, the mean.
        self.overhead, wall = self._sums[:2] / np.where(self._sums[2] > 0, self._sums[2], np.nan)
        # The wall time without the wait.
        self.busy = wall - self.wait

    def _reset(self) -> None:
        """Begin the reduction over ranks: over those that receive data, once there is one.

        Ranks of one participant end a window together. So the mean of their wall times is its period, free of the
        jitter of single ranks, which their maximum would add up.
        """
        # The least wait of each iteration, and the one inside ``initialize``.
        self.wait, self._first_wait = np.full(len(self.steady), np.nan), np.nan
        # Overhead, wall time and number of ranks that know them.
        self._sums = np.zeros((3, len(self.steady)))

    def _add(self, found: Mapping[str, Array], first: float) -> None:
        self.wait = np.fmin(self.wait, found["wait"])
        self._first_wait = float(np.fmin(self._first_wait, first))
        known = np.isfinite(found["wall"])
        self._sums += np.stack([np.nan_to_num(found["overhead"]), np.where(known, found["wall"], 0.0), known])

    def _moved(self, waits: Array, first: float) -> Array:
        """Move waits of iterations into the one that the data is for, from ``first`` on."""
        if not len(waits):
            return waits
        moved = np.append(first, waits[:-1])
        if self.metadata["finished"]:
            # Without a next window the last call waits only for partners in other schemes.
            moved[-1] += np.nan_to_num(waits[-1])
        return moved

    @property
    def metadata(self) -> dict[str, Any]:
        """Metadata of the lowest recorded rank."""
        return self.group[0].metadata

    @property
    def receives(self) -> bool:
        """Whether some rank waits for a partner at all."""
        return bool(self.receiving.any())

    @property
    def least_wait(self) -> float:
        """Least seconds that the participant waited in an iteration after warm-up; NaN if it never waits."""
        return float(np.fmin.reduce(self.wait[self.steady], initial=np.nan)) if self.receives else np.nan

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
        self._hidden = float(np.median(hidden[self.steady]))
        waited = self._moved(hidden, 0.0) if self._second else hidden
        moved, counted = (mean_known(self.layout.of_windows(seconds)[self._after]) for seconds in (hidden, waited))
        if moved > 0:
            share = np.where(self.receiving, np.minimum(self.rank["overhead"] / moved, 1.0), 0.0)
            self.rank["overhead"] -= share * moved
            self.rank["wait"] += share * counted
            self.rank["hidden"] = share * counted

    def run(self, floor: float) -> ParticipantRun:
        """Add the transfer floor."""
        layout, wait, numbers = self.layout, self.wait, self.layout.iteration_numbers
        if self._second:
            # The wait for an iteration whose own end is lost is left out with it.
            wait = np.where(np.isfinite(wait), self._moved(wait, self._first_wait), np.nan)
        own = self.busy + (floor if self.receives else 0.0)
        measured = bool(np.isfinite(self.busy).any())
        recorded = [int(store.metadata["rank"]) for store in self.group]
        sections = {name: seconds for name, seconds in self._of("sections").items() if np.nanmax(seconds) > 0}
        spent = [name for name in sections if name.startswith(ADVANCE_SPENDS)]
        nothing = np.full(len(self.receiving), np.nan)
        # Where a rank said nothing of what others hold, it holds none.
        for table in ("counts", "meshes"):
            for values in self._of(table).values():
                values[recorded] = np.nan_to_num(values[recorded])
        return ParticipantRun(
            participant=str(self.metadata["participant"]),
            ranks=int(self.metadata["size"]),
            windows=layout.windows,
            window_seconds=layout.of_windows(self.busy + wait if measured else self.wall),
            compute_seconds=layout.of_windows(own),
            wait_seconds=layout.of_windows(wait),
            iterations=layout.iterations,
            metadata=self.metadata,
            receiving=self.receiving,
            iteration_windows=np.bincount(numbers[self.steady], minlength=int(numbers.max(initial=0)) + 1)[1:],
            iteration_compute=_means_by(numbers, np.where(self.steady, own, np.nan)),
            iteration_wait=_means_by(numbers, np.where(self.steady, wait, np.nan)),
            timing_problems=self.problems,
            hidden_wait=self._hidden,
            places=places_of(self.group),
            rank_sections={name: seconds for name, seconds in sections.items() if name not in spent},
            rank_spent={name.removeprefix(ADVANCE_SPENDS): sections[name] for name in spent},
            guesses=self._guesses.rows,
            rank_counts=self._of("counts"),
            rank_vertices=self._told.get(("meshes", ""), nothing),
            rank_mpi=self._told.get(("mpi", ""), nothing),
            rank_cpu=self._told.get(("cpu", ""), nothing),
            rank_calls=dict(zip(recorded, layout.calls, strict=True)),
            threads=max(int(store.metadata.get("threads", 1)) for store in self.group),
            # Of `rank_solve` and so on.
            **{f"rank_{name}": seconds for name, seconds in {"hidden": np.zeros(len(nothing)), **self.rank}.items()},
        )

    def _of(self, table: str) -> dict[str, Array]:
        return {name: values for (of, name), values in self._told.items() if of == table}


RANK_0_MISSING = "rank 0 is missing, and what others wait for may be that; give its file too"
"""What to say of a participant whose primary rank, the one that is connected to its partners, was not recorded."""


def _knows_waits(lowest: RankFile) -> bool:
    """Whether waits that preCICE's profiling files tell are for partners: secondary ranks wait for the primary one."""
    metadata = lowest.metadata
    return metadata["rank"] == 0 or "timing_source" not in metadata


def _first_wait(store: RankFile) -> float:
    waits = store.initialize["wait_ns"][:1]
    return int(waits[0]) * 1e-9 if len(waits) and waits[0] >= 0 else np.nan


def _means_by(numbers: Integers, values: Array) -> Array:
    """Mean of what is known by number, from 1 on; NaN where nothing is."""
    known, end = np.isfinite(values), int(numbers.max(initial=0)) + 1
    count = np.bincount(numbers[known], minlength=end)
    means = np.full(end, np.nan)
    np.divide(np.bincount(numbers[known], values[known], end), count, out=means, where=count > 0)
    return means[1:]
