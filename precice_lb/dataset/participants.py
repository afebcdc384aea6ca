"""One participant of a coupled run: from the rows of its ranks to wait and compute time per time window."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.dataset.guesses import Guesses
from precice_lb.dataset.records import ParticipantRun, mean_known, places_of
from precice_lb.dataset.rows import Layout, RankTables
from precice_lb.store.columns import ADVANCE_SPENDS
from precice_lb.store.records import RankFile

Seconds = NDArray[np.float64]


@dataclass(eq=False)
class ParticipantTimes:
    """Seconds of one participant, reduced over its ranks, before it is known what a transfer between partners takes."""

    # Without their tables.
    group: Sequence[RankFile]
    layout: Layout
    warmup: int
    # Of each iteration: the least wait of a rank that receives data, the wall time without it, the mean overhead of
    # the ranks that receive data, and the wall time of the rank that took longest in all.
    wait: Seconds
    busy: Seconds
    overhead: Seconds
    wall: Seconds
    # The wait inside ``initialize``, likewise.
    first_wait: float
    # Mean seconds per window after warm-up by rank: solve, advance, mapping, wait, overhead, hidden (of the wait).
    rank: dict[str, Seconds]
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

    def hide(self, hidden: Seconds) -> None:
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
    ranks: Iterable[RankFile], layout: Layout, warmup: int, *, second: bool = False, whole: bool = True
) -> ParticipantTimes:
    """Reduce the ranks of a participant, sorted, one by one; ``whole`` also their tables but calls."""
    # Where the first windows are missing, so is the wait before them.
    second = second and layout.from_the_start
    group: list[RankFile] = []
    rank: dict[str, Seconds] = {}
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

    wait: Seconds
    wall: Seconds
    overhead: Seconds
    count: NDArray[np.int64]
    first: float = field(default=np.nan)

    @classmethod
    def empty(cls, layout: Layout) -> _Reduction:
        shape = len(layout.iteration_starts)
        return cls(np.full(shape, np.nan), np.zeros(shape), np.zeros(shape), np.zeros(shape, dtype=np.int64))

    def add(self, waits: Seconds, walls: Seconds, overhead: Seconds, first: float) -> None:
        self.wait = np.fmin(self.wait, waits)
        self.first = float(np.fmin(self.first, first))
        known = np.isfinite(walls)
        self.wall += np.where(known, walls, 0.0)
        self.overhead += np.nan_to_num(overhead)
        self.count += known

    def result(self) -> tuple[Seconds, Seconds, Seconds, float]:
        """Wait, wall without it, overhead, and wait in ``initialize``."""
        wall, overhead = np.full(len(self.wall), np.nan), np.full(len(self.wall), np.nan)
        np.divide(self.wall, self.count, out=wall, where=self.count > 0)
        np.divide(self.overhead, self.count, out=overhead, where=self.count > 0)
        return self.wait, wall - self.wait, overhead, self.first


def _where_known(seconds: Seconds, waits: Seconds) -> Seconds:
    """Leave out the iterations whose wait is not known, where it is in others: all means are over the same windows."""
    known = np.isfinite(waits)
    return np.where(known | (not known.any()), seconds, np.nan)


def _of_windows_after(layout: Layout, warmup: int) -> NDArray[np.bool_]:
    """Tell the iterations of windows after warm-up."""
    return np.repeat(layout.windows > warmup, layout.iterations.astype(int))


def _shifted(waits: Seconds, first: float, metadata: Mapping[str, Any]) -> Seconds:
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


def _means_by(numbers: NDArray[np.int64], values: Seconds) -> Seconds:
    """Mean of what is known by number, from 1 on; NaN where nothing is."""
    known, end = np.isfinite(values), int(numbers.max(initial=0)) + 1
    count = np.bincount(numbers[known], minlength=end)
    means = np.full(end, np.nan)
    np.divide(np.bincount(numbers[known], values[known], end), count, out=means, where=count > 0)
    return means[1:]
