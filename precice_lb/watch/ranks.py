"""The latest rows of one rank of a running simulation, wherever they come from, and seconds per window of all ranks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from precice_lb.dataset.guesses import GUESSED, Columns, guesses_of
from precice_lb.dataset.participants import participant_times
from precice_lb.ingest.profiling.calls import ProfileTail
from precice_lb.ingest.profiling.enrich import WaitsTail
from precice_lb.store.rank_file import StoreTail, writing_problem
from precice_lb.store.records import RankStore
from precice_lb.store.schema import ADVANCE_DTYPE, NOT_MEASURED

Array = NDArray[np.float64]

_NO_ROWS: NDArray[np.void] = np.empty(0, dtype=ADVANCE_DTYPE)


class FixedTail:
    """A rank whose rows are all there: one of a merged store."""

    problem = ""

    def __init__(self, store: RankStore) -> None:
        self.path = store.path
        self.head: RankStore | None = store
        self._is_read = False

    def read(self) -> NDArray[np.void]:
        """Read all rows, once."""
        if not self._is_read and self.head is not None:
            self._is_read = True
            return np.asarray(self.head.advances)
        return _NO_ROWS


class LiveRank:
    """One rank: what its file says by now, with the rows of the windows that were not forgotten."""

    def __init__(self, tail: StoreTail | ProfileTail | FixedTail) -> None:
        self.rows = _NO_ROWS
        self._tail = tail
        self._waits: WaitsTail | None = None

    @property
    def path(self) -> Path:
        """The file."""
        return self._tail.path

    @property
    def problem(self) -> str:
        """Why the file could not be read just now; empty if it could."""
        return self._tail.problem

    @property
    def is_known(self) -> bool:
        """Whether the file could be read at least once."""
        return self._tail.head is not None

    @property
    def is_recorded(self) -> bool:
        """Whether the recorder has counted its iterations."""
        return not isinstance(self._tail, ProfileTail)

    @property
    def is_replaced(self) -> bool:
        """Whether another run writes to its file by now, as solvers without a recorder do."""
        return isinstance(self._tail, ProfileTail) and self._tail.is_replaced

    @property
    def has_more(self) -> bool:
        """Whether `update` has left rows in the file that are there already."""
        return isinstance(self._tail, StoreTail) and self._tail.has_more

    @property
    def store(self) -> RankStore:
        """The rank as a store with the rows that were not forgotten; only where `is_known`."""
        head = self._tail.head
        assert head is not None
        return head.having({} if self._waits is None else self._waits.metadata, advances=self.rows)

    @property
    def state(self) -> str:
        """What its writer does: ``running``, ``ended``, or ``stopped`` before the end of the coupling."""
        store = self.store
        if "ended_unix_ns" in store.metadata:
            return "ended" if store.metadata["finished"] else "stopped"
        return "stopped" if writing_problem(store) is None else "running"

    def update(self) -> None:
        """Read what is new."""
        rows = self._tail.read()
        head = self._tail.head
        if head is None:
            return
        if self._waits is None and "timing_source" not in head.metadata and (rows["wait_ns"] == NOT_MEASURED).any():
            self._waits = WaitsTail(head)
        if self._waits is not None:
            is_last = not self.has_more and self.state != "running"
            rows = self._waits.fill(rows, is_last=is_last)
        if len(rows):
            self.rows = np.concatenate([self.rows, rows])

    def forget(self, window: int) -> None:
        """Drop the rows of all windows before this one."""
        kept = self.rows["window"] >= window
        if not kept.all():
            self.rows = self.rows[kept]


class Series:
    """What a participant did in each time window, reduced over its ranks; grows as the run goes on.

    Every wait counts in the window of the call that waits. So the second participant of a serial scheme, whose wait is
    for the window after, is one window off what `precice_lb.dataset.load_runs` says; its compute seconds are the same.
    """

    def __init__(self) -> None:
        # Time windows that all ranks have completed, rising, shape (W,).
        self.windows: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        # Seconds of each without waiting for partners and without the transfer floor, seconds of waiting, wall seconds,
        # coupling iterations, and first guesses; NaN where not measured.
        self.busy: Array = np.empty(0)
        self.wait: Array = np.empty(0)
        self.wall: Array = np.empty(0)
        self.iterations: Array = np.empty(0)
        self.guesses: NDArray[np.void] = np.empty(0, GUESSED)
        # The least of an iteration so far, but for the first windows; NaN if there was none.
        self.least_wait = self.least_overhead = np.nan
        # Why waits were not measured, with the number of ranks.
        self.problems: dict[str, int] = {}

    @property
    def last_window(self) -> int:
        """The last of `windows`; 0 if there is none."""
        return int(self.windows[-1]) if len(self.windows) else 0

    def add(self, group: Sequence[RankStore], warmup: int) -> None:
        """Take the windows that all ranks, each with at least its rows since then, have completed after the last."""
        # Nothing is worked out before every rank has completed another window.
        for store in group:
            rows = store.advances
            if not len(rows) or rows["window"][-1] <= self.last_window:
                return
        times = participant_times(group, warmup)
        layout = times.layout
        new = layout.windows > self.last_window
        if not new.any():
            return
        self.problems = times.problems
        self.windows = np.concatenate([self.windows, layout.windows[new]])
        wait, busy, wall = (layout.of_windows(values)[new] for values in (times.wait, times.busy, times.wall))
        self.wait, self.busy = np.concatenate([self.wait, wait]), np.concatenate([self.busy, busy])
        self.wall = np.concatenate([self.wall, np.where(np.isfinite(busy), busy + wait, wall)])
        self.iterations = np.concatenate([self.iterations, layout.iterations[new]])
        # How well a window was guessed may be written after its rows.
        first = int(np.searchsorted(self.windows, layout.windows[0]))
        self.guesses = np.concatenate([self.guesses[:first], guesses_of(group, self.windows[first:])])
        self.least_wait = float(np.fmin(self.least_wait, times.least_wait))
        self.least_overhead = float(np.fmin(self.least_overhead, times.least_overhead))

    def guessed(self, warmup: int) -> Columns:
        """Return what tells the predictors of windows after warm-up."""
        steady = self.windows > warmup
        return self.windows[steady], self.iterations[steady], self.wall[steady], self.guesses[steady]

    def own(self, floor: float) -> Array:
        """Compute seconds of each window, shape (W,), with the transfer floor in seconds per iteration."""
        return self.busy + (floor if np.isfinite(self.least_wait) else 0.0) * self.iterations
