"""What a rank's profiling file says in the words of a store: metadata, rows of ``advance`` and of ``initialize``.

Which time window and coupling iteration a call of ``advance`` belongs to, preCICE's iterations log tells.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

import numpy as np

from precice_lb.exceptions import DataError
from precice_lb.ingest.profiling.files import Events, FileEvents, Header, read_header
from precice_lb.ingest.profiling.find import ProfiledCase, profiled_case
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


_COUNTED = ("solve_us", "jit_us", "mapping_us", "wait_us", "send_us", "steering_us", "sync_us", "exchanges")
CALL_DTYPE = np.dtype([(name, "<i8") for name in ("begin_us", "call_us", *_COUNTED)])
"""One row per ``advance`` or ``initialize`` that ended: when it began on the file's clock; its duration;
``solver.advance`` since the call before; just-in-time mapping within that; mapping within the call;
``waitAndReceiveData`` and ``receiveConvergence``; ``waitAndSendData``; what the coupling takes outside its own events,
where a time window size is received; barriers of ``synchronize="true"``; and how many exchanges it did, none in a call
within a time window."""

# Calls, with the event that encloses their coupling.
_COUPLING = {"advance": "advanceCoupling", "initialize": "initalizeCouplingScheme"}
_WAITS = frozenset({"waitAndReceiveData", "receiveConvergence"})
_EXCHANGES = _WAITS | {"waitAndSendData", "sendConvergence"}
_IMPLICIT = frozenset({"sendConvergence", "receiveConvergence", "accelerate"})
_SINCE_3_2 = _EXCHANGES | {"advanceCoupling"}
_JUST_IN_TIME = ("mapAndReadData.", "writeAndMapData.")
# Where events are the solver's own, and what preCICE itself records there (``ParticipantImpl.cpp``, level API).
_SOLVER = "solver.advance"
_OF_PRECICE = re.compile(r"solver\.advance\.sync|((set|get|reset)Mesh\w*|(map|read|write)\w*Data)\..*")


WAITS_UNKNOWN = "waits are not in these files: preCICE records them since 3.2; use that"
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
    events : FileEvents
        Where its events come from, with ``mesh_sizes`` (local vertices of the meshes that the rank provides) and
        ``last_us``, the last time in the file.
    calls : ndarray of CALL_DTYPE
        One row per ``advance``, of those that nobody has taken away.
    initialize : ndarray of CALL_DTYPE
        One row; none if the file ends before it does.
    finalized : bool
        Whether the file was closed: the participant was finalised.
    """

    def __init__(self, header: Header, case: ProfiledCase | None = None, *, user_events: bool = False) -> None:
        self.header, self._case = header, case or profiled_case("")
        self.events = FileEvents(header)
        self.mesh_sizes = self.events.mesh_sizes
        self.calls = self.initialize = np.zeros(0, dtype=CALL_DTYPE)
        self.finalized = False
        self._keeps_user_events = user_events
        self._names: dict[str, int] = {}
        # Events of the solver or its adapter, with how many calls of ``advance`` ended before in place of the window.
        self._user: list[Rows] = [SECTIONS.empty()]
        # Sums of the call that has not ended, and calls of ``advance`` that have.
        self._pending = np.zeros(1, dtype=CALL_DTYPE)
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
            blocks += map(self._take, self.events)
        finally:
            self.calls = np.concatenate(blocks)
        return self

    @property
    def last_us(self) -> int:
        """The last time in the file."""
        return self.events.last_us

    @property
    def user_names(self) -> tuple[str, ...]:
        """Names of events of the solver or its adapter; of preCICE's own in ``advance`` behind `ADVANCE_SPENDS`."""
        return tuple(self._names)

    @property
    def tells_waits(self) -> bool:
        """Whether the file has preCICE's events of the coupling, which came with 3.2; where nothing is in it, too."""
        return len(self.events.paths) == 1 or any(path[-1] in _SINCE_3_2 for path in self.events.paths[1:])

    @property
    def is_implicit(self) -> bool | None:
        """Whether the participant iterates within a time window, by its events; None where these do not tell."""
        if any(path[-1] in _IMPLICIT for path in self.events.paths[1:]):
            return True
        return False if self.tells_waits else None

    @property
    def receiving(self) -> dict[str, bool]:
        """What the store's metadata say of whether the rank waits for its partners' data."""
        receives = self._case.roles.receives_data(self.header.participant, self.mesh_sizes)
        return {} if receives is None else {"receives_data": receives}

    def take(self, count: int) -> Rows:
        """Take the first calls away.

        Parameters
        ----------
        count : int
            How many.

        Returns
        -------
        ndarray, shape (count,)
            Rows of `calls`.
        """
        taken, self.calls = self.calls[:count], self.calls[count:]
        return taken

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
        if not self.tells_waits:
            return np.full(len(rows), NOT_MEASURED, dtype=np.int64)
        waits = [rows[column] for column in self._case.waits(self.header.participant)]
        return 1000 * np.sum(waits, axis=0, dtype=np.int64)

    def mapped_ns(self, rows: Rows) -> Integers:
        """Sum up the mapping of calls; mapping that the solver asks for just in time is mapping, too.

        Parameters
        ----------
        rows : ndarray, shape (n,)
            Of `calls` or `initialize`.

        Returns
        -------
        ndarray, shape (n,)
            Nanoseconds.
        """
        return 1000 * (rows["mapping_us"] + rows["jit_us"]) if self.tells_waits else np.full(len(rows), NOT_MEASURED)

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
        rows = ADVANCES.unrecorded(len(calls))
        rows["window"], rows["iteration"], rows["window_complete"] = count_windows(
            calls["exchanges"], iterations, before
        )
        rows["begin_ns"] = calls["begin_us"] * 1000
        # Barriers are part of the call they belong to.
        rows["solve_ns"] = (calls["solve_us"] - calls["jit_us"]) * 1000
        rows["advance_ns"] = (calls["call_us"] + calls["jit_us"] + calls["sync_us"]) * 1000
        rows["mapping_ns"], rows["wait_ns"] = self.mapped_ns(calls), self.waited_ns(calls)
        return rows

    def initialize_rows(self) -> Rows:
        """Make rows of ``initialize`` of a store.

        Returns
        -------
        ndarray, shape (n,)
        """
        rows = INITIALIZE.unrecorded(len(self.initialize))
        for name, column in (("begin", "begin_us"), ("initialize", "call_us"), ("mapping", "mapping_us")):
            rows[f"{name}_ns"] = self.initialize[column] * 1000
        rows["wait_ns"] = self.waited_ns(self.initialize)
        return rows

    def section_rows(self, windows: Integers, first: int = 0) -> Rows:
        """Give the events of calls of ``advance``, from the first on, as profiling sections of these windows.

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
        sections = np.concatenate(self._user)
        calls = sections["window"] - first
        known = (calls >= 0) & (calls < len(windows))
        sections = sections[known]
        sections["window"] = windows[calls[known]]
        return sections

    def _take(self, events: Events) -> Rows:
        """Take the events of a block, and give a row of each ``advance`` that ended in it."""
        # By place in the nesting: what its events count in each column, and which name of `user_names` they have.
        paths = self.events.paths
        weights, spans = np.array([_weights(path) for path in paths]), map(_span_name, paths)
        numbers = np.array([self._names.setdefault(name, len(self._names)) if name else -1 for name in spans])
        ended = ("finalize",) in paths and paths.index(("finalize",)) in events.paths
        self.finalized |= ended or self.events.global_end_us is not None
        calls = np.flatnonzero(np.array([len(path) == 1 and path[0] in _COUPLING for path in paths])[events.paths])
        calls = calls[np.argsort(events.order[calls])]
        rows = np.zeros(len(calls) + 1, dtype=CALL_DTYPE)
        rows[:1] = self._pending
        # Events count in the call that ends next.
        call = np.searchsorted(events.order[calls], events.order)
        counts = weights[events.paths]
        which = np.flatnonzero(counts.any(axis=1))
        amounts = counts[which]
        # All but exchanges, the last column, count seconds.
        amounts[:, :-1] *= events.durations[which, None]
        np.add.at(rows.view(np.int64).reshape(len(rows), -1)[:, -len(_COUNTED) :], call[which], amounts)
        self._pending = rows[-1:].copy()
        rows = rows[:-1]
        rows["begin_us"], rows["call_us"] = events.begins[calls], events.durations[calls]
        is_advance = np.array([path[:1] == ("advance",) for path in paths])[events.paths[calls]]
        if not len(self.initialize):
            self.initialize = rows[~is_advance][:1]

        if self._keeps_user_events:
            mine = np.flatnonzero(numbers[events.paths] >= 0)
            mine = mine[np.argsort(events.order[mine])]
            user = SECTIONS.unrecorded(len(mine))
            user["name"] = numbers[events.paths[mine]]
            user["window"] = self._ended + np.searchsorted(events.order[calls[is_advance]], events.order[mine])
            user["begin_ns"], user["duration_ns"] = 1000 * events.begins[mine], 1000 * events.durations[mine]
            self._user.append(user)
        advances: Rows = rows[is_advance]
        if not self.tells_waits:
            advances["exchanges"] = 1
        self._ended += len(advances)
        return advances


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
    return Profile(read_header(path), user_events=True).read()


@lru_cache(maxsize=4096)
def _span_name(path: tuple[str, ...]) -> str:
    """Name of an event of the solver, or ``advance/`` and one of preCICE's in it; empty for others."""
    if len(path) == 2 and path[0] == _SOLVER:
        return "" if _OF_PRECICE.fullmatch(path[1]) else path[1]
    direct = path[:1] == ("advance",) and len(path) == 2 + (path[1:2] == ("advanceCoupling",))
    if not direct or path[-1] in {"mapping", *_WAITS} or path[-1].startswith("map.") or path[-1].endswith(".sync"):
        return ""
    return ADVANCE_SPENDS + path[-1]


@lru_cache(maxsize=4096)
def _weights(path: tuple[str, ...]) -> tuple[int, ...]:
    """How often an event counts in each column of calls, by its place in the nesting."""
    outer, name = (path[0], path[-1]) if path else ("", "")
    coupling = (outer, _COUPLING.get(outer, ""))
    is_within = len(path) > 1 and outer in _COUPLING
    counts = {
        "solve_us": path == (_SOLVER,),
        "jit_us": outer == _SOLVER and len(path) > 1 and name.startswith(_JUST_IN_TIME),
        "mapping_us": is_within and path == (outer, "mapping"),
        "wait_us": is_within and name in _WAITS,
        "send_us": is_within and name == "waitAndSendData",
        "steering_us": (path == coupling) - (path[:-1] == coupling),
        "sync_us": path in {("advance.sync",), ("solver.advance.sync",)},
        "exchanges": is_within and name in _EXCHANGES,
    }
    return tuple(int(counts[column]) for column in _COUNTED)
