"""The latest rows of one rank of a running simulation, wherever they come from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from precice_lb.ingest.profiling.follow import ProfileTail, WaitsTail
from precice_lb.store.liveness import writing_problem
from precice_lb.store.records import RankStore
from precice_lb.store.schema import ADVANCE_DTYPE, NOT_MEASURED
from precice_lb.store.tail import StoreTail

__all__ = ["FixedTail", "LiveRank"]

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
    def has_more(self) -> bool:
        """Whether `update` has left rows in the file that are there already."""
        return isinstance(self._tail, StoreTail) and self._tail.has_more

    @property
    def store(self) -> RankStore:
        """The rank as a store with the rows that were not forgotten; only where `is_known`."""
        head = self._tail.head
        assert head is not None
        metadata = head.metadata if self._waits is None else {**head.metadata, **self._waits.metadata}
        return RankStore(head.path, metadata, head.configuration, self.rows, head.initialize)

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
