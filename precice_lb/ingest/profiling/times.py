"""From nested events to what each ``advance`` took: solve, mapping and wait, and the totals of every event."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from precice_lb.ingest.profiling.database import DatabaseEvents
from precice_lb.ingest.profiling.files import DATABASE, Header, read_header
from precice_lb.ingest.profiling.nesting import Events, EventSource, FileEvents

__all__ = ["CALL_DTYPE", "INITIALIZE_DTYPE", "CallReader", "Profile", "profile_of", "read_profile", "waited_ns"]

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

_WAITS = frozenset({"waitAndReceiveData", "receiveConvergence"})
_SENDS = frozenset({"waitAndSendData"})
_EXCHANGES = _WAITS | _SENDS | {"sendConvergence"}
_JUST_IN_TIME = ("mapAndReadData.", "writeAndMapData.")
_SYNC = {("advance.sync",), ("solver.advance.sync",)}


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
    """

    header: Header
    calls: NDArray[np.void]
    initialize: NDArray[np.void]
    totals: dict[str, tuple[int, int]]
    mesh_sizes: dict[str, int] = field(default_factory=dict)
    finalized: bool = False
    last_us: int = 0


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
    reader = CallReader(header)
    return reader.profile(np.concatenate([np.empty(0, dtype=CALL_DTYPE), *reader]))


class CallReader:
    """Yields arrays of `CALL_DTYPE` block by block, then `profile` tells the rest; iterated again, what is new."""

    def __init__(self, header: Header) -> None:
        self.header = header
        self.initialize = np.zeros(0, dtype=INITIALIZE_DTYPE)
        self.events: EventSource = DatabaseEvents(header) if header.layout == DATABASE else FileEvents(header)
        self._counts = np.zeros(0, dtype=np.int64)
        self._sums = np.zeros(0, dtype=np.int64)
        self._kinds = np.zeros((0, len(_COLUMNS)), dtype=bool)
        self._pending = np.zeros(1, dtype=CALL_DTYPE)
        self._initializing = np.zeros(1, dtype=INITIALIZE_DTYPE)

    def __iter__(self) -> Iterator[NDArray[np.void]]:
        for events in self.events:
            yield self._rows(events)

    @property
    def mesh_sizes(self) -> dict[str, int]:
        """Local vertices of the meshes that the rank provides, as far as read."""
        return self.events.mesh_sizes

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
        return Profile(self.header, calls, self.initialize, totals, source.mesh_sizes, finalized, source.last_us)

    def _rows(self, events: Events) -> NDArray[np.void]:
        """Account the events of a block to the calls of ``advance`` that end in it or later."""
        self._total(events)
        if unknown := self.events.paths[len(self._kinds) :]:
            kinds = [[test(path) for test in _COLUMNS.values()] for path in unknown]
            self._kinds = np.concatenate([self._kinds, np.array(kinds)])
        chosen = {name: self._kinds[events.paths, column] for column, name in enumerate(_COLUMNS)}
        if not len(self.initialize):
            self._initialize(events, chosen)
        calls = np.flatnonzero(chosen["advance_us"])
        calls = calls[np.argsort(events.order[calls])]
        ends = events.order[calls]
        rows = np.zeros(len(calls) + 1, dtype=CALL_DTYPE)
        rows["begin_us"][:-1] = events.begins[calls]
        for name in ("solve_us", "jit_us", "mapping_us", "wait_us", "send_us", "steering_us", "sync_us", "exchanges"):
            which = np.flatnonzero(chosen[name])
            owner = np.searchsorted(ends, events.order[which])
            weights = np.ones(len(which)) if name == "exchanges" else events.durations[which]
            rows[name] = np.bincount(owner, weights, len(rows))
        inner = np.flatnonzero(chosen["inner_us"])
        owner = np.searchsorted(ends, events.order[inner])
        rows["steering_us"] -= np.bincount(owner, events.durations[inner], len(rows)).astype(np.int64)
        for name in CALL_DTYPE.names or ():
            rows[name][0] += self._pending[name][0]
        rows["begin_us"][:-1] = events.begins[calls]
        rows["advance_us"][:-1] = events.durations[calls]
        self._pending = rows[-1:].copy()
        self._pending["begin_us"] = 0
        return rows[:-1]

    def _total(self, events: Events) -> None:
        size = len(self.events.paths)
        self._counts = np.concatenate([self._counts, np.zeros(size - len(self._counts), dtype=np.int64)])
        self._sums = np.concatenate([self._sums, np.zeros(size - len(self._sums), dtype=np.int64)])
        self._counts += np.bincount(events.paths, minlength=size)
        # Sums of a block stay far below 2^53, so they are exact.
        self._sums += np.bincount(events.paths, events.durations, size).astype(np.int64)

    def _initialize(self, events: Events, chosen: dict[str, NDArray[np.bool_]]) -> None:
        def total(name: str) -> int:
            return int(events.durations[chosen[name]].sum())

        row = self._initializing
        for name in ("mapping", "wait", "send", "steering"):
            row[f"{name}_us"] += total(f"initialize_{name}")
        row["steering_us"] -= total("initialize_inner")
        done = np.flatnonzero(chosen["initialize"])
        if len(done):
            row["begin_us"], row["initialize_us"] = events.begins[done[0]], events.durations[done[0]]
            self.initialize = row


def _is_within(path: tuple[str, ...], outer: str, names: frozenset[str]) -> bool:
    return len(path) > 1 and path[0] == outer and path[-1] in names


_COLUMNS: dict[str, Callable[[tuple[str, ...]], bool]] = {
    "advance_us": lambda path: path == ("advance",),
    "solve_us": lambda path: path == ("solver.advance",),
    "jit_us": lambda path: len(path) > 1 and path[0] == "solver.advance" and path[-1].startswith(_JUST_IN_TIME),
    "mapping_us": lambda path: path == ("advance", "mapping"),
    "wait_us": lambda path: _is_within(path, "advance", _WAITS),
    "send_us": lambda path: _is_within(path, "advance", _SENDS),
    "steering_us": lambda path: path == ("advance", "advanceCoupling"),
    "inner_us": lambda path: path[:-1] == ("advance", "advanceCoupling"),
    "sync_us": lambda path: path in _SYNC,
    "exchanges": lambda path: _is_within(path, "advance", _EXCHANGES),
    "initialize": lambda path: path == ("initialize",),
    "initialize_mapping": lambda path: path == ("initialize", "mapping"),
    "initialize_wait": lambda path: _is_within(path, "initialize", _WAITS),
    "initialize_send": lambda path: _is_within(path, "initialize", _SENDS),
    "initialize_steering": lambda path: path == ("initialize", "initalizeCouplingScheme"),
    "initialize_inner": lambda path: path[:-1] == ("initialize", "initalizeCouplingScheme"),
}
"""What each event counts as, by its place in the nesting."""
