"""What a rank's profiling file says in the words of a store: metadata, rows of ``advance`` and of ``initialize``.

Which time window and coupling iteration a call of ``advance`` belongs to, preCICE's iterations log tells.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np

from precice_lb.exceptions import DataError
from precice_lb.ingest.profiling.case import ProfiledCase
from precice_lb.ingest.profiling.files import DATABASE, Events, EventSource, FileEvents, Header, read_header
from precice_lb.ingest.profiling.tables import DatabaseEvents
from precice_lb.store.columns import ADVANCE_SPENDS, ADVANCES, INITIALIZE, NOT_MEASURED, SECTIONS, Integers, Mask, Rows


def count_windows(
    exchanges: Integers, iterations: Integers | None = None, before: int = 0
) -> tuple[Integers, Integers, Mask]:
    """Tell window and iteration of each call, and whether it ends its window, each of shape (calls,).

    A call that exchanges nothing ends before its window does: a solver with smaller steps than the coupling. Every
    other call ends an iteration, and a window if the log says so; without a log every iteration is a window. So many
    iterations ended before the first call.
    """
    ends = exchanges > 0
    number = before + np.cumsum(ends) - ends
    if iterations is None:
        return number + 1, np.ones_like(number), ends
    last = np.cumsum(iterations)
    window = np.searchsorted(last, number, side="right")
    starts = np.concatenate([[0], last])
    done = np.append(last, np.iinfo(np.int64).max)[window] == number + 1
    return window + 1, number - starts[window] + 1, ends & done


_COUNTED = ("mapping_us", "wait_us", "send_us", "steering_us")
CALL_DTYPE = np.dtype(
    [(name, "<i8") for name in ("begin_us", "advance_us", "solve_us", "jit_us", *_COUNTED, "sync_us", "exchanges")]
)
"""One row per ``advance`` that ended: when it began on the file's clock; its duration; ``solver.advance`` since the
call before; just-in-time mapping within that; mapping within ``advance``; ``waitAndReceiveData`` and
``receiveConvergence``; ``waitAndSendData``; what the coupling takes outside its own events, where a time window size is
received; barriers of ``synchronize="true"``; and how many exchanges it did, none in a call within a time window."""

INITIALIZE_CALLS_DTYPE = np.dtype([(name, "<i8") for name in ("begin_us", "initialize_us", *_COUNTED)])
"""The same of ``initialize``."""

USER_DTYPE = np.dtype([("name", "<i4"), ("call", "<i8"), ("begin_us", "<i8"), ("duration_us", "<i8")])
"""One row per event of the solver or its adapter: its name as a position in `Profile.user_names`, how many calls of
``advance`` ended before it, when it began on the file's clock, and its duration with everything in it."""

_WAITS = frozenset({"waitAndReceiveData", "receiveConvergence"})
_SENDS = frozenset({"waitAndSendData"})
_EXCHANGES = _WAITS | _SENDS | {"sendConvergence"}
# Since preCICE 3.2 they lie within those, in mode ``all``.
_M2N = frozenset({"m2n.sendData", "m2n.receiveData"})
_IMPLICIT = frozenset({"sendConvergence", "receiveConvergence", "accelerate"})
_SINCE_3_2 = _EXCHANGES | {"advanceCoupling"}
_JUST_IN_TIME = ("mapAndReadData.", "writeAndMapData.")
_SYNC = {("advance.sync",), ("solver.advance.sync",)}
# Where events are the solver's own, and what preCICE itself records there (``ParticipantImpl.cpp``, level API).
_SOLVER = "solver.advance"
_OF_PRECICE = re.compile(r"solver\.advance\.sync|((set|get|reset)Mesh\w*|(map|read|write)\w*Data)\..*")


WAITS_UNKNOWN = (
    "waits are not in these files: preCICE records them since 3.2; use that, or, where no scheme is implicit, "
    '<profiling mode="all"/>'
)
"""What to say of files that do not tell waits."""


class Profile:
    """What one rank's profiling file says; read again, what is new in it too.

    Parameters
    ----------
    header : Header
        Of the file.
    case : ProfiledCase
        What the configuration says, if that is known.
    user_events : bool
        Whether to keep the solver's own events: who follows a run for weeks has no use for them.

    Attributes
    ----------
    header : Header
        Whose file it is.
    events : EventSource
        Where its events come from, with ``mesh_sizes`` (local vertices of the meshes that the rank provides) and
        ``last_us``, the last time in the file.
    calls : ndarray of CALL_DTYPE
        One row per ``advance``, of those that nobody has taken away.
    initialize : ndarray of INITIALIZE_CALLS_DTYPE
        One row; none if the file ends before it does.
    """

    def __init__(self, header: Header, case: ProfiledCase | None = None, *, user_events: bool = False) -> None:
        self.header, self._case = header, case or ProfiledCase.of("")
        self.events: EventSource = DatabaseEvents(header) if header.layout == DATABASE else FileEvents(header)
        self.mesh_sizes = self.events.mesh_sizes
        self.calls = np.zeros(0, dtype=CALL_DTYPE)
        self.initialize = np.zeros(0, dtype=INITIALIZE_CALLS_DTYPE)
        # How often the event of each path ended, and its microseconds.
        self._totals = np.zeros((2, 0), dtype=np.int64)
        self._advance = _Accounts("advance", CALL_DTYPE)
        self._initialize = _Accounts("initialize", INITIALIZE_CALLS_DTYPE)
        # Names of the solver's own events, and of preCICE's that say what ``advance`` spends; their rows; the number of
        # the name by place in the nesting, -1 for what is none of these events; and calls that ended so far.
        self._keeps_user_events = user_events
        self._names: dict[str, int] = {}
        self._user: list[Rows] = []
        self._numbers = np.zeros(0, dtype=np.int32)
        self._ended = 0

    def read(self) -> Profile:
        """Read up to the last whole record; events that have not ended are left out.

        Returns
        -------
        Profile
            This one.

        Raises
        ------
        DataError
            As of `read_profile`.
        """
        blocks = [self.calls]
        try:
            for events in self.events:
                self._total(events)
                if not len(self.initialize):
                    self.initialize = self._initialize.take(events, self.events.paths)[0][:1]
                rows, calls = self._advance.take(events, self.events.paths)
                if self._keeps_user_events:
                    self._take_user_events(events, self._ended + calls)
                self._ended += len(rows)
                blocks.append(rows)
                if not self.tells_windows:
                    blocks[-1]["exchanges"] = 1
        finally:
            self.calls = np.concatenate(blocks)
        return self

    @property
    def totals(self) -> dict[str, tuple[int, int]]:
        """How often each event ended and its microseconds, by names from the outermost inwards, joined by ``/``."""
        source = self.events
        totals = {
            "/".join(path): (int(count), int(total))
            for path, count, total in zip(source.paths, *self._totals, strict=False)
            if count
        }
        if source.global_begin_us is not None and source.global_end_us is not None:
            totals["_GLOBAL"] = (1, source.global_end_us - source.global_begin_us)
        return totals

    @property
    def last_us(self) -> int:
        """The last time in the file."""
        return self.events.last_us

    @property
    def finalized(self) -> bool:
        """Whether the file was closed: the participant was finalised."""
        return self.events.global_end_us is not None or "finalize" in self.totals

    @property
    def user_names(self) -> tuple[str, ...]:
        """Names of events of the solver or its adapter; of preCICE's own in ``advance`` behind `ADVANCE_SPENDS`."""
        return tuple(self._names)

    @property
    def tells_waits(self) -> bool:
        """Whether the file has preCICE's events of the coupling, which came with 3.2; where nothing is in it, too."""
        return len(self.events.paths) == 1 or any(path[-1] in _SINCE_3_2 for path in self.events.paths[1:])

    @property
    def tells_windows(self) -> bool:
        """Whether the file says which calls end an iteration, and mapping; up to preCICE 3.1 in mode ``all`` only."""
        return self.tells_waits or any(path[0] == "advance" and path[-1] in _M2N for path in self.events.paths[1:])

    @property
    def is_implicit(self) -> bool | None:
        """Whether the participant iterates within a time window, by its events; None where these do not tell."""
        if any(path.rpartition("/")[2] in _IMPLICIT for path in self.totals):
            return True
        return False if self.tells_waits else None

    @property
    def waits(self) -> tuple[str, ...]:
        """Columns of calls that the participant waits in; none where the file does not tell how long it waits."""
        name = self.header.participant
        known = self.tells_waits or (self.tells_windows and self._case.roles.waits_for_data_alone(name))
        return self._case.waits(name) if known else ()

    @property
    def receiving(self) -> dict[str, bool]:
        """What the store's metadata say of whether the rank waits for its partners' data."""
        receives = self._case.roles.receives_data(self.header.participant, self.mesh_sizes)
        return {} if receives is None else {"receives_data": receives}

    def require_calls(self) -> None:
        """Refuse a file without calls of ``advance``.

        Raises
        ------
        DataError
            If there is none.
        """
        if not len(self.calls):
            raise DataError(
                f"{self.header.path}: expected records of advance, found none; the run ended before preCICE wrote "
                f"them: {self._case.flush_remedy}"
            )

    def waited_ns(self, rows: Rows) -> Integers:
        """Sum up what was waited in calls.

        Parameters
        ----------
        rows : ndarray, shape (n,)
            Of `calls` or `initialize`.

        Returns
        -------
        ndarray, shape (n,)
            Nanoseconds.
        """
        if not self.waits:
            return np.full(len(rows), NOT_MEASURED, dtype=np.int64)
        total: Integers = 1000 * np.sum([rows[column] for column in self.waits], axis=0, dtype=np.int64)
        return total

    def advance_rows(self, calls: Rows, iterations: Integers | None, before: int = 0) -> Rows:
        """Make rows of ``advance`` of a store.

        Parameters
        ----------
        calls : ndarray, shape (n,)
            Rows of `calls`.
        iterations : ndarray, shape (windows,), or None
            Coupling iterations of each time window; by default every iteration is one.
        before : int
            Iterations that ended before the first call.

        Returns
        -------
        ndarray, shape (n,)
        """
        rows = ADVANCES.blank(len(calls))
        rows["window"], rows["iteration"], rows["window_complete"] = count_windows(
            calls["exchanges"], iterations, before
        )
        rows["begin_ns"] = calls["begin_us"] * 1000
        # Just-in-time mapping is mapping although the solver asks for it; barriers are part of the call they belong to.
        rows["solve_ns"] = (calls["solve_us"] - calls["jit_us"]) * 1000
        rows["advance_ns"] = (calls["advance_us"] + calls["jit_us"] + calls["sync_us"]) * 1000
        rows["mapping_ns"] = (calls["mapping_us"] + calls["jit_us"]) * 1000 if self.tells_windows else NOT_MEASURED
        rows["wait_ns"] = self.waited_ns(calls)
        rows["computed_dt"] = np.nan
        return rows

    def initialize_rows(self) -> Rows:
        """Make rows of ``initialize`` of a store.

        Returns
        -------
        ndarray, shape (n,)
        """
        rows = INITIALIZE.blank(len(self.initialize))
        for name in ("begin", "initialize", "mapping"):
            rows[f"{name}_ns"] = self.initialize[f"{name}_us"] * 1000
        rows["wait_ns"] = self.waited_ns(self.initialize)
        return rows

    def section_rows(self, windows: Integers, first: int = 0) -> Rows:
        """Give the events of calls of ``advance``, from the first on, as profiling sections of these windows.

        Up to preCICE 3.1 receiving is no part of what ``advance`` spends where it is the wait.

        Parameters
        ----------
        windows : ndarray, shape (calls,)
            Time window of each call.
        first : int
            Calls before these.

        Returns
        -------
        ndarray, shape (n,)
        """
        user = np.concatenate([np.zeros(0, dtype=USER_DTYPE), *self._user])
        user = user[(user["call"] >= first) & (user["call"] < first + len(windows))]
        if self.waits and not self.tells_waits:
            counts = np.array([name != f"{ADVANCE_SPENDS}m2n.receiveData" for name in self.user_names], dtype=bool)
            user = user[counts[user["name"]]]
        sections = np.zeros(len(user), dtype=SECTIONS.dtype)
        sections["name"], sections["window"] = user["name"], windows[user["call"] - first]
        sections["begin_ns"], sections["duration_ns"] = 1000 * user["begin_us"], 1000 * user["duration_us"]
        return sections

    def _take_user_events(self, events: Events, calls: Integers) -> None:
        """Take the events of a block, given how many calls of ``advance`` ended before each."""
        for path in self.events.paths[len(self._numbers) :]:
            name = _span_name(path)
            number = self._names.setdefault(name, len(self._names)) if name else -1
            self._numbers = np.append(self._numbers, np.int32(number))
        mine = np.flatnonzero(self._numbers[events.paths] >= 0)
        mine = mine[np.argsort(events.order[mine])]
        rows = np.zeros(len(mine), dtype=USER_DTYPE)
        rows["name"], rows["call"] = self._numbers[events.paths[mine]], calls[mine]
        rows["begin_us"], rows["duration_us"] = events.begins[mine], events.durations[mine]
        self._user.append(rows)

    def _total(self, events: Events) -> None:
        size = len(self.events.paths)
        self._totals = np.pad(self._totals, ((0, 0), (0, size - self._totals.shape[1])))
        # Sums of a block stay far below 2^53, so they are exact.
        for totals, weights in zip(self._totals, (None, events.durations), strict=True):
            totals += np.bincount(events.paths, weights, size).astype(np.int64)


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


def profile_of(header: Header, case: ProfiledCase | None = None) -> Profile:
    """Read what a profiling file, or a database, says of one rank."""
    return Profile(header, case, user_events=True).read()


class _Accounts:
    """Sums what events count as by the call, of one name and outermost, that ends next, in rows of one type."""

    def __init__(self, name: str, dtype: np.dtype[np.void]) -> None:
        self._call = (name,)
        self._columns = {column: _COUNTS[name][column] for column in (dtype.names or ())[2:]}
        # What each place in the nesting counts in each column, and the sums of the call that has not ended.
        self._weights = np.zeros((0, len(self._columns)), dtype=np.int64)
        self._pending = np.zeros(1, dtype=dtype)

    def take(self, events: Events, paths: Sequence[tuple[str, ...]]) -> tuple[Rows, Integers]:
        """Take the events of a block; return one row per call that ended in it, and how many did before each event."""
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
        return rows[:-1], owner


def _span_name(path: tuple[str, ...]) -> str:
    """Name of an event of the solver, or ``advance/`` and one of preCICE's in it; empty for others."""
    if len(path) == 2 and path[0] == _SOLVER:
        return "" if _OF_PRECICE.fullmatch(path[1]) else path[1]
    direct = path[:1] == ("advance",) and len(path) == 2 + (path[1:2] == ("advanceCoupling",))
    if not direct or path[-1] in {"mapping", *_WAITS} or path[-1].startswith("map.") or path[-1].endswith(".sync"):
        return ""
    return ADVANCE_SPENDS + path[-1]


_Count: TypeAlias = Callable[[tuple[str, ...]], int]


def _counts(outer: str, coupling: str) -> dict[str, _Count]:
    """Say what an event within a call counts, by its place in the nesting; ``coupling`` encloses what has no event."""

    def within(names: frozenset[str]) -> _Count:
        return lambda path: len(path) > 1 and path[0] == outer and path[-1] in names

    return {
        # Up to preCICE 3.1 in mode ``all`` without an event around it.
        "mapping_us": lambda path: (
            path == (outer, "mapping")
            or (len(path) == 2 and path[0] == outer and path[1].startswith("map.") and not path[1].endswith(".sync"))
        ),
        "wait_us": lambda path: within(_WAITS)(path) or path == (outer, "m2n.receiveData"),
        "send_us": lambda path: within(_SENDS)(path) or path == (outer, "m2n.sendData"),
        "steering_us": lambda path: (path == (outer, coupling)) - (path[:-1] == (outer, coupling)),
        "exchanges": lambda path: within(_EXCHANGES)(path) or (len(path) == 2 and within(_M2N)(path)),
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
