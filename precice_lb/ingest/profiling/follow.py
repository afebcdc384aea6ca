"""Following the profiling files of a running simulation: beside recorded ranks, or in their place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import DataError
from precice_lb.ingest.profiling.case import ProfiledCase
from precice_lb.ingest.profiling.enrich import aligned, filled, matching_headers, zero_of
from precice_lb.ingest.profiling.files import Header
from precice_lb.ingest.profiling.ranks import ProfiledParticipant, advance_rows, initialize_rows
from precice_lb.ingest.profiling.times import CALL_DTYPE, CallReader
from precice_lb.ingest.profiling.windows import WindowCounter, read_iterations_log
from precice_lb.store.records import RankStore
from precice_lb.store.schema import ADVANCE_DTYPE

__all__ = ["ProfileTail", "WaitsTail"]

# preCICE keeps its first records in memory; rows wait for so many calls of advance before they go without their waits.
_MOST_UNMATCHED_CALLS = 128


class WaitsTail:
    """Fills mapping and wait into the rows of a recorded rank while preCICE writes its profiling file."""

    def __init__(self, store: RankStore) -> None:
        #: What the file says of the rank, for its store: ``timing_source``, ``receives_data``, or ``timing_problem``.
        self.metadata: dict[str, Any] = {}
        self._store = store
        self._case = ProfiledCase.of(store.configuration)
        self._waits = self._case.waits(store.metadata["participant"])
        self._reader: CallReader | None = None
        self._rows: NDArray[np.void] = np.empty(0, dtype=ADVANCE_DTYPE)
        self._calls: NDArray[np.void] = np.empty(0, dtype=CALL_DTYPE)
        self._is_aligned = False

    def fill(self, rows: NDArray[np.void], *, is_last: bool) -> NDArray[np.void]:
        """Take new rows in the order of the calls, and give, each once, those whose times are in the file by now.

        With ``is_last`` nobody writes any more: then all are given, the last perhaps without their waits.
        """
        self._rows = np.concatenate([self._rows, rows])
        try:
            self._read()
            self._align()
            self.metadata.pop("timing_problem", None)
        except DataError as error:
            if not is_last and self._case.mode != "off" and len(self._rows) < _MOST_UNMATCHED_CALLS:
                return self._take(0)
            self.metadata["timing_problem"] = str(error)
            return self._take(len(self._rows))
        count = min(len(self._rows), len(self._calls)) if self._is_aligned else 0
        done = filled(self._take(count), self._calls[:count], self._waits)
        self._calls = self._calls[count:]
        return np.concatenate([done, self._take(len(self._rows))]) if is_last else done

    def _take(self, count: int) -> NDArray[np.void]:
        taken, self._rows = self._rows[:count], self._rows[count:]
        return taken

    def _read(self) -> None:
        if self._reader is None:
            problems: list[str] = []
            header = next(matching_headers(self._store, self._case, problems), None)
            if header is None:
                raise DataError(problems[0])
            self._reader = CallReader(header)
        self._calls = np.concatenate([self._calls, *self._reader])
        self.metadata["timing_source"] = f"precice-profiling {self._reader.header.mode}"
        receives = self._case.receives_data(self._store.metadata["participant"], self._reader.mesh_sizes)
        if receives is not None:
            self.metadata["receives_data"] = receives

    def _align(self) -> None:
        """Find, once, which row belongs to which call; what comes before is given up."""
        if self._is_aligned or self._reader is None or not (len(self._rows) and len(self._calls)):
            return
        profile = self._reader.profile(self._calls)
        rows, calls = aligned(self._store, self._rows, profile, zero_of(self._store, profile))
        self._rows, self._calls = self._rows[rows.start :], self._calls[calls.start :]
        self._is_aligned = True


class ProfileTail:
    """Reads the rows of ``advance`` of a rank without a recorder out of its profiling file, as they appear."""

    def __init__(self, header: Header, participant: ProfiledParticipant) -> None:
        self.path: Path = header.path
        #: Why the last `read` failed; empty if it did not.
        self.problem = ""
        self._participant = participant
        self._waits = participant.case.waits(header.participant)
        self._reader = CallReader(header)
        self._calls: NDArray[np.void] = np.empty(0, dtype=CALL_DTYPE)
        self._counted = 0
        empty: NDArray[np.void] = np.empty(0, dtype=ADVANCE_DTYPE)
        #: Everything but the rows.
        self.head = RankStore(
            path=header.path,
            metadata={**participant.metadata(header), "attempt": 1, "finished": False},
            configuration=participant.configuration,
            tables={"advances": empty, "initialize": initialize_rows(self._reader.initialize, self._waits)},
        )

    def read(self) -> NDArray[np.void]:
        """Read what is new since the last call; calls whose window the iterations log does not tell yet come later."""
        try:
            self._calls = np.concatenate([self._calls, *self._reader])
            rows = self._rows()
            self.problem = ""
        except DataError as error:
            self.problem = str(error)
            return np.empty(0, dtype=ADVANCE_DTYPE)
        metadata = dict(self.head.metadata)
        receives = self._participant.case.receives_data(metadata["participant"], self._reader.mesh_sizes)
        if receives is not None:
            metadata["receives_data"] = receives
        events = self._reader.events
        if self._reader.profile(self._calls[:0]).finalized:
            ended = self._reader.header.unix_us + events.last_us
            metadata.update(finished=True, ended_unix_ns=1000 * ended)
        initialize = initialize_rows(self._reader.initialize, self._waits)
        self.head = self.head.having(metadata, initialize=initialize)
        return rows

    def _rows(self) -> NDArray[np.void]:
        log = self._participant.log
        iterations = None if log is None else read_iterations_log(log)
        counter = WindowCounter(iterations)
        counter.counted = self._counted
        count = len(self._calls)
        if iterations is not None:
            # Of calls that the log does not reach it is not known which window they belong to.
            ends = self._counted + np.cumsum(self._calls["exchanges"] > 0)
            count = int(np.searchsorted(ends, int(iterations.sum()), side="right"))
        rows = advance_rows(self._calls[:count], counter, self._waits)
        self._counted = counter.counted
        self._calls = self._calls[count:]
        return rows
