"""One participant of a coupled run: from the rows of its ranks to wait and compute time per time window."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.dataset.places import Places, places_of
from precice_lb.dataset.records import ParticipantRun
from precice_lb.dataset.rows import Block, Layout, blocks, layout_of
from precice_lb.store.reader import RankStore

__all__ = ["ParticipantTimes", "move_to_wait", "participant_times", "steady_iterations"]

Seconds = NDArray[np.float64]


@dataclass(eq=False)
class ParticipantTimes:
    """Seconds of one participant, reduced over its ranks.

    Attributes
    ----------
    layout : Layout
        Its windows and iterations.
    metadata : dict
        Metadata of the lowest recorded rank.
    wait, busy : ndarray, shape (G,)
        Of each iteration, the least wait of a rank that receives data, and the wall time without it.
    overhead : ndarray, shape (G,)
        Of each iteration, the mean overhead of the ranks that receive data.
    hidden : float
        Median seconds per iteration that counted as overhead at first and were waiting (`serial_pair`).
    places : Places
        Hosts of its ranks.
    first_wait : float
        The wait inside ``initialize``, likewise.
    rank : dict of str to ndarray, shape (ranks,)
        Mean seconds per window after warm-up: solve, mapping, wait, overhead.
    least_overhead : float
        Least overhead of an iteration after warm-up on a rank that receives data; NaN where it was not measured.
    receiving : ndarray of bool, shape (ranks,)
        Ranks whose wait is a wait for partners.
    wall : ndarray, shape (G,)
        Wall time of each iteration on the rank that took longest in all.
    problems : dict of str to int
        Why waits were not measured, with the number of ranks.
    second : bool
        Whether each wait, from the one in ``initialize`` on, is for the data of the iteration after the call.
    """

    layout: Layout
    metadata: dict[str, Any]
    wait: Seconds
    busy: Seconds
    overhead: Seconds
    first_wait: float
    rank: dict[str, Seconds]
    least_overhead: float
    receiving: NDArray[np.bool_]
    wall: Seconds
    problems: dict[str, int]
    second: bool
    hidden: float = 0.0
    places: Places = field(default_factory=dict)

    @property
    def receives(self) -> bool:
        """Whether some rank waits for a partner at all."""
        return bool(self.receiving.any())

    def least_wait(self, warmup: int) -> float:
        """Least seconds that the participant waited in an iteration after warm-up; NaN if it never waits."""
        steady = steady_iterations(self.layout, warmup)
        waits = self.wait[steady & np.isfinite(self.wait)]
        return float(waits.min()) if self.receives and len(waits) else np.nan

    def run(self, floor: float, warmup: int) -> ParticipantRun:
        """Add the transfer floor.

        Parameters
        ----------
        floor : float
            Seconds per iteration that the transfer of data takes without waiting.
        warmup : int
            Windows up to this one are warm-up.

        Returns
        -------
        ParticipantRun
        """
        layout, wait = self.layout, self.wait
        if self.second:
            # The wait for an iteration whose own end is lost is left out with it.
            wait = np.where(np.isfinite(wait), _shifted(wait, np.array(self.first_wait), self.metadata), np.nan)
        own = self.busy + (floor if self.receives else 0.0)
        measured = bool(np.isfinite(self.busy).any())
        steady = steady_iterations(layout, warmup)
        numbers = layout.iteration_numbers
        each = [steady & (numbers == number) for number in range(1, int(numbers.max(initial=0)) + 1)]
        return ParticipantRun(
            participant=str(self.metadata["participant"]),
            ranks=int(self.metadata["size"]),
            windows=layout.windows,
            window_seconds=layout.of_windows(self.busy + wait) if measured else layout.of_windows(self.wall),
            compute_seconds=layout.of_windows(own),
            wait_seconds=layout.of_windows(wait),
            iterations=layout.iterations,
            rank_solve=self.rank["solve"],
            rank_mapping=self.rank["mapping"],
            rank_wait=self.rank["wait"],
            rank_overhead=self.rank["overhead"],
            metadata=self.metadata,
            receiving=self.receiving,
            iteration_windows=np.array([int(where.sum()) for where in each], dtype=np.int64),
            iteration_compute=np.array([_mean(own[where]) for where in each]),
            iteration_wait=np.array([_mean(wait[where]) for where in each]),
            timing_problems=self.problems,
            hidden_wait=self.hidden,
            places=self.places,
        )


def participant_times(group: Sequence[RankStore], warmup: int, *, second: bool = False) -> ParticipantTimes:
    """Reduce the ranks of a participant.

    Parameters
    ----------
    group : sequence of RankStore
        Its ranks.
    warmup : int
        Windows up to this one are left out of means.
    second : bool
        Whether the participant is second in a serial scheme.

    Returns
    -------
    ParticipantTimes
    """
    layout, units = layout_of(group)
    # Where the first windows are missing, so is the wait before them.
    second = second and layout.from_the_start
    metadata = group[0].metadata
    size = int(metadata["size"])
    rank = {name: np.full(size, np.nan) for name in ("solve", "mapping", "wait", "overhead")}
    receiving = np.zeros(size, dtype=bool)
    everyone, receivers = _Reduction.empty(layout), _Reduction.empty(layout)
    longest, wall = -np.inf, np.full(len(layout.iteration_starts), np.nan)
    steady = layout.windows > warmup
    iterations_after = steady_iterations(layout, warmup)
    least_overhead = np.nan
    for block in blocks(units):
        overhead = layout.of_iterations(block.advance - block.mapping - block.wait)
        waits, walls = layout.of_iterations(block.wait), layout.of_iterations(block.solve + block.advance)
        first = _first_waits(block)
        for name, seconds in (
            ("solve", _where_known(layout.of_iterations(block.solve), waits)),
            ("mapping", layout.of_iterations(block.mapping)),
            ("wait", _where_known(_shifted(waits, first, metadata), waits) if second else waits),
            ("overhead", overhead),
        ):
            rank[name][block.ranks] = _row_means(layout.of_windows(seconds)[:, steady])
        measured = np.isfinite(waits).any(axis=1)
        receives = _receives(block, waits) & measured
        receiving[block.ranks] = receives
        spent = overhead[receives][:, iterations_after]
        least_overhead = float(np.fmin(least_overhead, np.fmin.reduce(spent, axis=None, initial=np.nan)))
        receivers.add(waits[receives], walls[receives], overhead[receives], first[receives])
        everyone.add(waits[measured], walls[measured], overhead[measured], first[measured])
        totals = np.nansum(walls, axis=1)
        if len(totals) and totals.max() > longest:
            longest, wall = float(totals.max()), walls[int(totals.argmax())].copy()
    chosen = receivers if receiving.any() else everyone
    wait, busy, overhead, first_wait = chosen.result()
    return ParticipantTimes(
        layout=layout,
        metadata=metadata,
        wait=wait,
        busy=busy,
        overhead=overhead,
        first_wait=first_wait,
        rank=rank,
        least_overhead=least_overhead,
        receiving=receiving,
        wall=wall,
        problems=_problems(group),
        second=second,
        places=places_of(group),
    )


def move_to_wait(times: ParticipantTimes, hidden: Seconds, warmup: int) -> None:
    """Count overhead of ranks that receive data as waiting, as much of it as windows hide in the mean."""
    layout = times.layout
    steady, overhead = layout.windows > warmup, times.rank["overhead"][times.receiving]
    waited = _shifted(hidden, np.array(0.0), times.metadata) if times.second else hidden
    moved, counted = (_mean(layout.of_windows(seconds)[steady]) for seconds in (hidden, waited))
    if moved > 0:
        share = np.minimum(overhead / moved, 1.0)
        times.rank["overhead"][times.receiving] -= share * moved
        times.rank["wait"][times.receiving] += share * counted


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

    def add(self, waits: Seconds, walls: Seconds, overhead: Seconds, first: Seconds) -> None:
        if len(waits):
            self.wait = np.fmin(self.wait, np.fmin.reduce(waits, axis=0))
            self.first = float(np.fmin(self.first, np.fmin.reduce(first)))
            known = np.isfinite(walls)
            self.wall += np.where(known, walls, 0.0).sum(axis=0)
            self.overhead += np.nan_to_num(overhead).sum(axis=0)
            self.count += known.sum(axis=0)

    def result(self) -> tuple[Seconds, Seconds, Seconds, float]:
        """Wait, wall without it, overhead, and wait in ``initialize``."""
        wall, overhead = np.full(len(self.wall), np.nan), np.full(len(self.wall), np.nan)
        np.divide(self.wall, self.count, out=wall, where=self.count > 0)
        np.divide(self.overhead, self.count, out=overhead, where=self.count > 0)
        return self.wait, wall - self.wait, overhead, self.first


def _where_known(seconds: Seconds, waits: Seconds) -> Seconds:
    """Leave out, of ranks whose wait is known in some iterations, the others: all means are over the same windows."""
    known = np.isfinite(waits)
    return np.where(known | ~known.any(axis=1, keepdims=True), seconds, np.nan)


def steady_iterations(layout: Layout, warmup: int) -> NDArray[np.bool_]:
    """Tell the iterations of windows after warm-up."""
    return np.repeat(layout.windows > warmup, layout.iterations.astype(int))


def _shifted(waits: Seconds, first: Seconds, metadata: Mapping[str, Any]) -> Seconds:
    """Move waits, iterations on the last axis, into the iteration that the data is for, from ``first`` on."""
    if not waits.shape[-1]:
        return waits
    moved = np.concatenate([first[..., np.newaxis], waits[..., :-1]], axis=-1)
    if metadata["finished"]:
        # Without a next window the last call waits only for partners in other schemes.
        moved[..., -1] += np.nan_to_num(waits[..., -1])
    return moved


def _problems(group: Sequence[RankStore]) -> dict[str, int]:
    """Count the ranks that say why something was not measured; a file name with their number counts as the same."""
    found: Counter[str] = Counter()
    for store in group:
        data = store.metadata
        if "timing_problem" in data:
            found[data["timing_problem"].replace(f"-{data['rank']}-{data['size']}.", f"-*-{data['size']}.")] += 1
    return dict(found.most_common())


def _receives(block: Block, waits: Seconds) -> NDArray[np.bool_]:
    """Ranks that receive data: as the metadata say, else those that ever waited."""
    waited = np.nansum(waits, axis=1) > 0
    told = [store.metadata.get("receives_data") for store in block.stores]
    return np.array([found if says is None else says for found, says in zip(waited, told, strict=True)], dtype=bool)


def _first_waits(block: Block) -> Seconds:
    waits = [int(store.initialize["wait_ns"][0]) if len(store.initialize) else -1 for store in block.stores]
    return np.array([wait * 1e-9 if wait >= 0 else np.nan for wait in waits])


def _mean(values: Seconds) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else float(np.nan)


def _row_means(values: Seconds) -> Seconds:
    """Mean of each row over what is known in it; NaN where nothing is."""
    known = np.isfinite(values)
    count = known.sum(axis=1)
    means = np.full(len(values), np.nan)
    np.divide(np.where(known, values, 0.0).sum(axis=1), count, out=means, where=count > 0)
    return means
