"""From the rows of the ranks of a participant to its time windows, one rank after the other.

Every rank of a participant makes the same calls, so that the k-th row of one rank belongs to the k-th row of another.
The memory needed does not grow with their number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.dataset.records import ParticipantRun, mean_known, places_of
from precice_lb.store.columns import ADVANCE_SPENDS, CALLS, NOT_MEASURED, TABLES, Array, Integers, Rows
from precice_lb.store.records import Complete, RankFile

# What is kept of the ranks of a participant for another look at them.
_KEPT_BYTES = 1 << 23

RANK_0_MISSING = "rank 0 is missing, and what others wait for may be that; give its file too"
"""What to say of a participant whose primary rank, the one that is connected to its partners, was not recorded."""


class Ranks:
    """Ranks of a participant, sorted, with the time windows that all of them completed with as many calls.

    Iterated, each comes with its tables and what was measured beside it; those of short runs stay in memory.
    """

    def __init__(self, stores: Sequence[RankFile], complete: Complete | None = None) -> None:
        self.stores = stores
        self._complete = complete
        # The first ones, and bytes of all so far.
        self._kept: list[RankFile] = []
        self._bytes = 0
        #: Calls of ``advance`` that were recorded, by rank.
        self.calls: dict[int, int] = {}
        first: Rows | None = None
        for store in stores:
            rows = store.advances[[*CALLS]]
            self.calls[int(store.metadata["rank"])] = len(rows)
            if first is None:
                first, common = rows.copy(), _completed(rows)
            elif not np.array_equal(rows, first):
                # A kill or a lost record cuts some ranks shorter than others.
                common = np.intersect1d(common, _completed(rows))
        assert first is not None
        #: The windows, rising, shape (W,).
        self.windows: Integers = common["window"]
        rows = first[np.isin(first["window"], self.windows)]
        # Indices of the first row of each iteration, shape (G,), and of the first iteration of each window.
        self._iteration_starts = starts_of(rows, "window", "iteration")
        self._window_starts = np.searchsorted(self._iteration_starts, starts_of(rows, "window"))
        #: Coupling iterations of each window, shape (W,), and the number of each in its window, from 1, shape (G,).
        self.iterations = np.diff(self._window_starts, append=len(self._iteration_starts)).astype(np.float64)
        before = np.repeat(self._window_starts, self.iterations.astype(int))
        self.numbers: Integers = np.arange(len(self._iteration_starts)) - before + 1

    def __iter__(self) -> Iterator[RankFile]:
        yield from self._kept
        for store in self.stores[len(self._kept) :]:
            # But coordinates and cells of meshes, which may be many.
            rank = store.loaded(*(name for name, table in TABLES.items() if table.counted is None))
            if self._complete is not None:
                (rank,) = self._complete([rank])
            self._bytes += sum(rows.nbytes for rows in rank.tables.values())
            if self._bytes <= _KEPT_BYTES:
                self._kept.append(rank)
            yield rank

    def of_windows(self, values: Array) -> Array:
        """Sum iterations to windows."""
        return np.add.reduceat(values, self._window_starts)

    def seconds(self, rows: Rows, *, waits: bool = True) -> dict[str, Array]:
        """Seconds of a rank in each iteration by quantity, shape (G,); NaN where not measured, or without ``waits``."""
        known = np.isin(rows["window"], self.windows)
        rows = rows if waits and known.all() else rows[known]
        if not waits:
            rows["wait_ns"] = NOT_MEASURED
        return iteration_seconds(rows, self._iteration_starts)


def iteration_seconds(rows: Rows, starts: NDArray[np.intp]) -> dict[str, Array]:
    """Seconds of a rank by quantity in the iterations that begin at these rows; NaN where not measured."""
    seconds = {}
    for name in ("solve", "advance", "mapping", "wait"):
        values = np.where(rows[f"{name}_ns"] < 0, np.nan, rows[f"{name}_ns"] * 1e-9)
        # Most often an iteration is one row.
        seconds[name] = values if len(starts) == len(values) else np.add.reduceat(values, starts)
    seconds["overhead"] = seconds["advance"] - seconds["mapping"] - seconds["wait"]
    return seconds


def starts_of(rows: Rows, *columns: str) -> NDArray[np.intp]:
    """Find the rows, not those of window 0, that differ from the one before in one of the columns."""
    return np.flatnonzero(np.any([np.diff(rows[name], prepend=0) != 0 for name in columns], axis=0))


def _completed(rows: Rows) -> NDArray[np.void]:
    """Windows that were completed, rising, with the calls of each."""
    windows, calls = np.unique(rows["window"], return_counts=True)
    whole = np.isin(windows, rows["window"][rows["window_complete"]])
    completed = np.empty(int(whole.sum()), [("window", np.int64), ("calls", np.int64)])
    completed["window"], completed["calls"] = windows[whole], calls[whole]
    return completed


def rank_values(store: RankFile, windows: Integers) -> dict[tuple[str, str], float]:
    """Say what further tables tell of a rank, by table and name, the latter empty where a table has none.

    In seconds per window, the mean of these windows; of counts the last; of meshes the vertices.
    """
    values: dict[tuple[str, str], float] = {}
    for table, column in (("sections", "duration_ns"), ("mpi", "mpi_ns"), ("cpu", "cpu_ns")):
        rows, names = store.rows(table), store.names(table) or ("",)
        rows = rows[np.isin(rows["window"], windows)]
        # A rank that recorded it has a row for every window, but of sections.
        if len(windows) and (len(rows) or names != ("",)):
            numbers = rows["name"] if TABLES[table].names else np.zeros(len(rows), np.int64)
            seconds = np.bincount(numbers, rows[column], len(names)) * 1e-9 / len(windows)
            for name, mean in zip(names, seconds.tolist(), strict=True):
                values[table, name] = mean
    features = store.names("counts")
    values |= {("counts", features[row["name"]]): row["count"] for row in store.rows("counts")}
    if len(meshes := store.rows("meshes")):
        values["meshes", ""] = meshes["vertices"].sum()
    return values


class Reduction:
    """Seconds of one participant, reduced over its ranks, before it is known what a transfer between partners takes.

    Ranks of one participant end a window together. So the mean of the wall times of those that receive data is its
    period, free of the jitter of single ranks, which their maximum would add up; the least of their waits is the wait
    for partners. In a serial scheme each wait of the ``second``, from the one in ``initialize`` on, is for the data of
    the iteration after the call. Unless ``whole``, only calls count, of stores as they are.
    """

    def __init__(self, ranks: Ranks, warmup: int, *, second: bool = False, whole: bool = True) -> None:
        self.ranks, self._after = ranks, ranks.windows > warmup
        # The iterations of windows after warm-up, shape (G,).
        self.steady = np.repeat(self._after, ranks.iterations.astype(int))
        # Where the first windows are missing, so is the wait before them.
        self._second = second and np.array_equal(ranks.windows, np.arange(1, len(ranks.windows) + 1))
        size, count = int(ranks.stores[0].metadata["size"]), len(self.steady)
        # Of each rank, by table and name: mean seconds per window after warm-up, and what `rank_values` says.
        self._values: dict[tuple[str, str], Array] = {}
        # Ranks whose wait is a wait for partners, as the metadata say, else who ever waited.
        self.receiving = np.zeros(size, dtype=bool)
        # Least overhead of an iteration after warm-up on a rank that receives data; NaN where it was not measured.
        self.least_overhead = np.nan
        # Median seconds per iteration that counted as overhead at first and were waiting (`precice_lb.dataset.runs`).
        self._hidden = 0.0
        # The ranks, but for the rows of their tables.
        self.heads: list[RankFile] = []
        # Of each iteration the wall time of the rank that took longest in all.
        longest, self.wall = -np.inf, np.full(count, np.nan)
        # Of ranks that receive no data, and of those that do: least waits, from the one in ``initialize`` on, and sums
        # of overhead, wall time and ranks.
        waits, sums = np.full((2, count + 1), np.nan), np.zeros((2, 3, count))
        for store in ranks if whole else ranks.stores:
            # Nobody has to read its file again to know which tables are empty.
            self.heads.append(replace(store, tables={k: rows for k, rows in store.tables.items() if not len(rows)}))
            seconds = ranks.seconds(store.advances, waits=_knows_waits(self.heads[0]))
            wall, known = seconds["solve"] + seconds["advance"], np.isfinite(seconds["wait"])
            wait = np.append(_first_wait(store), seconds["wait"])
            number = int(store.metadata["rank"])
            if known.any():
                receives = bool(store.metadata.get("receives_data", np.nansum(seconds["wait"]) > 0))
                self.receiving[number] = receives
                if receives:
                    overhead = seconds["overhead"][self.steady]
                    self.least_overhead = float(np.fmin.reduce(overhead, initial=self.least_overhead))
                side, has_wall = int(receives), np.isfinite(wall)
                waits[side] = np.fmin(waits[side], wait)
                sums[side] += [np.nan_to_num(seconds["overhead"]), np.where(has_wall, wall, 0), has_wall]
            if (total := float(np.nansum(wall))) > longest:
                longest, self.wall = total, wall
            if whole:
                # All means are over the same windows.
                solve = np.where(known, seconds["solve"], np.nan) if known.any() else seconds["solve"]
                moved = np.where(known, self._moved(wait), np.nan)
                means = {name: self._mean(v) for name, v in {**seconds, "solve": solve, "wait": moved}.items()}
                values = {("calls", name): mean for name, mean in means.items()}
                for key, value in (values | rank_values(store, ranks.windows[self._after])).items():
                    self._values.setdefault(key, np.full(size, np.nan))[number] = value
        chosen = int(self.receives)
        # Seconds that the participant waited, by the iteration whose call waits, shape (G,), and before the first.
        self._waits = waits[chosen]
        self.wait: Array = self._waits[1:]
        self.overhead, mean_wall = sums[chosen, :2] / np.where(sums[chosen, 2] > 0, sums[chosen, 2], np.nan)
        # The wall time without the wait.
        self.busy = mean_wall - self.wait

    def _moved(self, waits: Array) -> Array:
        """Put waits, from the one in ``initialize`` on, into the iterations that the data is for."""
        moved: Array = waits[:-1].copy() if self._second else waits[1:]
        if self._second and len(moved) and self.metadata["finished"]:
            # Without a next window the last call waits only for partners in other schemes.
            moved[-1] += np.nan_to_num(waits[-1])
        return moved

    def _mean(self, values: Array) -> float:
        """Mean per window after warm-up of what is known, of iterations."""
        return mean_known(self.ranks.of_windows(values)[self._after])

    @property
    def metadata(self) -> dict[str, Any]:
        """Metadata of the lowest recorded rank."""
        return self.heads[0].metadata

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
        ranks: Counter[str] = Counter()
        if not _knows_waits(self.heads[0]):
            ranks[RANK_0_MISSING] = len(self.heads)
        for data in (store.metadata for store in self.heads if "timing_problem" in store.metadata):
            ranks[data["timing_problem"].replace(f"-{data['rank']}-{data['size']}.", f"-*-{data['size']}.")] += 1
        return dict(ranks.most_common())

    def reclassify_as_wait(self, hidden: Array) -> None:
        """Count seconds of iterations as waiting that were overhead; of ranks, as much as windows hide in the mean."""
        self.busy = self.busy - hidden
        self.wait += hidden
        self._hidden = float(np.median(hidden[self.steady]))
        spent = self._mean(hidden)
        if spent > 0:
            calls = self._of("calls")
            share = np.where(self.receiving, np.minimum(calls["overhead"] / spent, 1.0), 0.0)
            self._values["calls", "hidden"] = waited = share * self._mean(self._moved(np.append(0.0, hidden)))
            calls["overhead"] -= share * spent
            calls["wait"] += waited

    def run(self, floor: float) -> ParticipantRun:
        """Add the transfer floor."""
        ranks, recorded = self.ranks, list(self.ranks.calls)
        # The wait for an iteration whose own end is lost is left out with it.
        wait = np.where(np.isfinite(self.wait), self._moved(self._waits), np.nan)
        compute = self.busy + (floor if self.receives else 0.0)
        sections = {name: seconds for name, seconds in self._of("sections").items() if np.nanmax(seconds) > 0}
        spent = {name: seconds for name, seconds in sections.items() if name.startswith(ADVANCE_SPENDS)}
        nothing = np.full(len(self.receiving), np.nan)
        # Where a rank said nothing of what others hold, it holds none.
        for values in (*self._of("counts").values(), *self._of("meshes").values()):
            values[recorded] = np.nan_to_num(values[recorded])
        # Iterations after warm-up that are the first, second, ... of their window.
        numbers = [self.steady & (ranks.numbers == n) for n in range(1, int(ranks.numbers.max(initial=0)) + 1)]
        return ParticipantRun(
            participant=str(self.metadata["participant"]),
            ranks=int(self.metadata["size"]),
            windows=ranks.windows,
            window_seconds=ranks.of_windows(self.busy + wait if np.isfinite(self.busy).any() else self.wall),
            compute_seconds=ranks.of_windows(compute),
            wait_seconds=ranks.of_windows(wait),
            iterations=ranks.iterations,
            metadata=self.metadata,
            receiving=self.receiving,
            iteration_windows=np.array([np.count_nonzero(steady) for steady in numbers], np.int64),
            iteration_compute=np.array([mean_known(compute[steady]) for steady in numbers]),
            iteration_wait=np.array([mean_known(wait[steady]) for steady in numbers]),
            timing_problems=self.problems,
            hidden_wait=self._hidden,
            places=places_of(self.heads),
            rank_sections={name: seconds for name, seconds in sections.items() if name not in spent},
            rank_spent={name.removeprefix(ADVANCE_SPENDS): seconds for name, seconds in spent.items()},
            rank_counts=self._of("counts"),
            rank_vertices=self._values.get(("meshes", ""), nothing),
            rank_mpi=self._values.get(("mpi", ""), nothing),
            rank_cpu=self._values.get(("cpu", ""), nothing),
            rank_calls=ranks.calls,
            threads=max(int(store.metadata.get("threads", 1)) for store in self.heads),
            stores=self.heads,
            # Of `rank_solve` and so on.
            **{
                f"rank_{name}": seconds
                for name, seconds in {"hidden": np.zeros(len(nothing)), **self._of("calls")}.items()
            },
        )

    def _of(self, table: str) -> dict[str, Array]:
        """Give what is known of the ranks by name, of one table."""
        return {name: values for (of, name), values in self._values.items() if of == table}


def _knows_waits(lowest: RankFile) -> bool:
    """Whether waits that preCICE's profiling files tell are for partners: secondary ranks wait for the primary one."""
    metadata = lowest.metadata
    return metadata["rank"] == 0 or "timing_source" not in metadata


def _first_wait(store: RankFile) -> float:
    waits = store.initialize["wait_ns"][:1]
    return int(waits[0]) * 1e-9 if len(waits) and waits[0] >= 0 else np.nan
