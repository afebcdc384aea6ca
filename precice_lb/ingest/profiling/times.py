"""From nested events to what each ``advance`` took: solve, mapping and wait, and the totals of every event."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from precice_lb.ingest.profiling.database import DatabaseEvents
from precice_lb.ingest.profiling.files import DATABASE, Header, read_header
from precice_lb.ingest.profiling.nesting import Events, EventSource, FileEvents

CALL_DTYPE = np.dtype(
    [
        ("begin_us", "<i8"),
        ("advance_us", "<i8"),
        ("solve_us", "<i8"),
        ("jit_us", "<i8"),
        ("mapping_us", "<i8"),
        ("wait_us", "<i8"),
        ("send_us", "<i8"),
        ("steering_us", "<i8"),
        ("sync_us", "<i8"),
        ("exchanges", "<i8"),
    ]
)
"""One row per ``advance`` that ended: when it began on the file's clock; its duration; ``solver.advance`` since the
call before; just-in-time mapping within that; mapping within ``advance``; ``waitAndReceiveData`` and
``receiveConvergence``; ``waitAndSendData``; what the coupling takes outside its own events, where a time window size is
received; barriers of ``synchronize="true"``; and how many exchanges it did, none in a call within a time window."""

INITIALIZE_DTYPE = np.dtype(
    [(name, "<i8") for name in ("begin_us", "initialize_us", "mapping_us", "wait_us", "send_us", "steering_us")]
)
"""The same of ``initialize``."""

USER_DTYPE = np.dtype([("name", "<i4"), ("call", "<i8"), ("begin_us", "<i8"), ("duration_us", "<i8")])
"""One row per event of the solver or its adapter: its name as a position in `Profile.user_names`, how many calls of
``advance`` ended before it, when it began on the file's clock, and its duration with everything in it."""

_WAITS = frozenset({"waitAndReceiveData", "receiveConvergence"})
_SENDS = frozenset({"waitAndSendData"})
_EXCHANGES = _WAITS | _SENDS | {"sendConvergence"}
_JUST_IN_TIME = ("mapAndReadData.", "writeAndMapData.")
_SYNC = {("advance.sync",), ("solver.advance.sync",)}
# Where events are the solver's own, and what preCICE itself records there (``ParticipantImpl.cpp``, level API).
_SOLVER = "solver.advance"
_OF_PRECICE = re.compile(r"solver\.advance\.sync|((set|get|reset)Mesh\w*|(map|read|write)\w*Data)\..*")


@dataclass(frozen=True, eq=False)
class Profile:
    """What one rank's profiling file says.

    Attributes
    ----------
    header : Header
        Whose file it is.
    calls : ndarray of CALL_DTYPE
        One row per ``advance``.
    initialize : ndarray of INITIALIZE_DTYPE
        One row; none if the file ends before it does.
    totals : dict of str to tuple of int
        How often each event ended and its total microseconds, by names from the outermost event inwards, joined by
        ``/``.
    mesh_sizes : dict of str to int
        Local vertices of the meshes the rank provides.
    finalized : bool
        Whether the file was closed: the participant was finalised.
    last_us : int
        The last time in the file.
    user : ndarray of USER_DTYPE
        Events between two ``advance`` that the solver or its adapter began, not those inside another one.
    user_names : tuple of str
        Their names.
    """

    header: Header
    calls: NDArray[np.void]
    initialize: NDArray[np.void]
    totals: dict[str, tuple[int, int]]
    mesh_sizes: dict[str, int] = field(default_factory=dict)
    finalized: bool = False
    last_us: int = 0
    user: NDArray[np.void] = field(default_factory=lambda: np.zeros(0, dtype=USER_DTYPE))
    user_names: tuple[str, ...] = ()


def waited_ns(rows: NDArray[np.void], columns: Sequence[str]) -> NDArray[np.int64]:
    """Nanoseconds waited; columns are those that `precice_lb.ingest.profiling.case.ProfiledCase.waits` names."""
    total: NDArray[np.int64] = 1000 * np.sum([rows[column] for column in columns], axis=0, dtype=np.int64)
    return total


def read_profile(path: str | Path) -> Profile:
    """Read one rank's profiling file.

    Parameters
    ----------
    path : path
        The file.

    Returns
    -------
    Profile
        What it holds up to its last whole record; events that had not ended are left out.

    Raises
    ------
    DataError
        If it is no profiling file of preCICE, or is damaged other than by its end being missing.
    """
    return profile_of(read_header(path))


def profile_of(header: Header) -> Profile:
    """Read what a profiling file, or a database, says of one rank."""
    reader = CallReader(header, user_events=True)
    return reader.profile(np.concatenate([np.empty(0, dtype=CALL_DTYPE), *reader]))


class CallReader:
    """Yields arrays of `CALL_DTYPE` block by block, then `profile` tells the rest; iterated again, what is new.

    The solver's own events are kept only where asked for: who follows a run for weeks has no use for them.
    """

    def __init__(self, header: Header, *, user_events: bool = False) -> None:
        self.header = header
        self.initialize = np.zeros(0, dtype=INITIALIZE_DTYPE)
        self.events: EventSource = DatabaseEvents(header) if header.layout == DATABASE else FileEvents(header)
        self._counts = np.zeros(0, dtype=np.int64)
        self._sums = np.zeros(0, dtype=np.int64)
        self._advance = _Accounts("advance", CALL_DTYPE)
        self._initialize = _Accounts("initialize", INITIALIZE_DTYPE)
        self._user = _UserEvents()
        self._keeps_user = user_events

    def __iter__(self) -> Iterator[NDArray[np.void]]:
        for events in self.events:
            self._total(events)
            if not len(self.initialize):
                self.initialize = self._initialize.take(events, self.events.paths)[:1]
            if self._keeps_user:
                self._user.take(events, self.events.paths)
            yield self._advance.take(events, self.events.paths)

    def profile(self, calls: NDArray[np.void]) -> Profile:
        """Everything the file says."""
        source = self.events
        totals = {
            "/".join(path): (int(count), int(total))
            for path, count, total in zip(source.paths, self._counts, self._sums, strict=False)
            if count
        }
        if source.global_begin_us is not None and source.global_end_us is not None:
            totals["_GLOBAL"] = (1, source.global_end_us - source.global_begin_us)
        finalized = source.global_end_us is not None or "finalize" in totals
        return Profile(
            self.header,
            calls,
            self.initialize,
            totals,
            source.mesh_sizes,
            finalized,
            source.last_us,
            np.concatenate([np.zeros(0, dtype=USER_DTYPE), *self._user.blocks]),
            tuple(self._user.names),
        )

    def _total(self, events: Events) -> None:
        size = len(self.events.paths)
        self._counts = np.concatenate([self._counts, np.zeros(size - len(self._counts), dtype=np.int64)])
        self._sums = np.concatenate([self._sums, np.zeros(size - len(self._sums), dtype=np.int64)])
        self._counts += np.bincount(events.paths, minlength=size)
        # Sums of a block stay far below 2^53, so they are exact.
        self._sums += np.bincount(events.paths, events.durations, size).astype(np.int64)


class _Accounts:
    """Sums what events count as by the call, of one name and outermost, that ends next, in rows of one type."""

    def __init__(self, name: str, dtype: np.dtype[np.void]) -> None:
        self._call = (name,)
        self._columns = {column: _COUNTS[name][column] for column in (dtype.names or ())[2:]}
        # What each place in the nesting counts in each column, and the sums of the call that has not ended.
        self._weights = np.zeros((0, len(self._columns)), dtype=np.int64)
        self._pending = np.zeros(1, dtype=dtype)

    def take(self, events: Events, paths: Sequence[tuple[str, ...]]) -> NDArray[np.void]:
        """Take the events of a block; return one row per call that ended in it."""
        if unknown := paths[len(self._weights) :]:
            added = [[count(path) for count in self._columns.values()] for path in unknown]
            self._weights = np.concatenate([self._weights, np.array(added, dtype=np.int64)])
        is_call = np.array([path == self._call for path in paths])[events.paths]
        calls = np.flatnonzero(is_call)
        calls = calls[np.argsort(events.order[calls])]
        rows = np.zeros(len(calls) + 1, dtype=self._pending.dtype)
        rows[:1] = self._pending
        owner = np.searchsorted(events.order[calls], events.order)
        for column, weights in zip(self._columns, self._weights.T, strict=True):
            which = np.flatnonzero(weights[events.paths])
            amounts = 1 if column == "exchanges" else events.durations[which]
            np.add.at(rows[column], owner[which], weights[events.paths[which]] * amounts)
        self._pending = rows[-1:].copy()
        begin, duration = (rows.dtype.names or ())[:2]
        rows[begin][:-1], rows[duration][:-1] = events.begins[calls], events.durations[calls]
        return rows[:-1]


class _UserEvents:
    """Collects the solver's own events."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.blocks: list[NDArray[np.void]] = []
        # Number of the name by place in the nesting, -1 for what is none of the solver's events.
        self._numbers = np.zeros(0, dtype=np.int32)
        self._calls = 0

    def take(self, events: Events, paths: Sequence[tuple[str, ...]]) -> None:
        """Take the events of a block."""
        for path in paths[len(self._numbers) :]:
            own = len(path) == 2 and path[0] == _SOLVER and not _OF_PRECICE.fullmatch(path[1])
            if own:
                self.names.append(path[1])
            self._numbers = np.append(self._numbers, np.int32(len(self.names) - 1 if own else -1))
        ends = np.sort(events.order[np.array([path == ("advance",) for path in paths])[events.paths]])
        mine = np.flatnonzero(self._numbers[events.paths] >= 0)
        rows = np.zeros(len(mine), dtype=USER_DTYPE)
        rows["name"], rows["call"] = self._numbers[events.paths[mine]], np.searchsorted(ends, events.order[mine])
        rows["call"] += self._calls
        rows["begin_us"], rows["duration_us"] = events.begins[mine], events.durations[mine]
        self._calls += len(ends)
        if len(rows):
            self.blocks.append(rows[np.argsort(events.order[mine])])


_Count: TypeAlias = Callable[[tuple[str, ...]], int]


def _counts(outer: str, coupling: str) -> dict[str, _Count]:
    """Say what an event within a call counts, by its place in the nesting; ``coupling`` encloses what has no event."""

    def within(names: frozenset[str]) -> _Count:
        return lambda path: len(path) > 1 and path[0] == outer and path[-1] in names

    return {
        "mapping_us": lambda path: path == (outer, "mapping"),
        "wait_us": within(_WAITS),
        "send_us": within(_SENDS),
        "steering_us": lambda path: (path == (outer, coupling)) - (path[:-1] == (outer, coupling)),
        "exchanges": within(_EXCHANGES),
    }


_COUNTS: dict[str, dict[str, _Count]] = {
    "advance": {
        **_counts("advance", "advanceCoupling"),
        "solve_us": lambda path: path == ("solver.advance",),
        "jit_us": lambda path: len(path) > 1 and path[0] == "solver.advance" and path[-1].startswith(_JUST_IN_TIME),
        "sync_us": lambda path: path in _SYNC,
    },
    "initialize": _counts("initialize", "initalizeCouplingScheme"),
}
"""What events count as, by call and column: microseconds, but in ``exchanges``."""
