"""The event logs of preCICE 1.3 to 2.5: when each rank started and stopped which event, in whole milliseconds.

Formats as written by preCICE's ``EventTimings`` (the sources of v1.0.0 to v2.5.1 were read, and files that they wrote):

- CSV, 1.3: ``precice-<P>-events.log`` with the columns RunTimestamp, RunName, Name, Rank, Timestamp, State. Every run
  appends its rows; only the first writes the header. Older logs, without RunName, do not time the solver.
- JSON, 1.4 to 2.5: ``precice-<P>-events.json``, one run per file, state changes by rank.

State 0 is stopped, 1 started, 2 paused.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import DataError
from precice_lb.ingest.files import one_line, read_text, whole_number

__all__ = ["LOG_NAME", "EventRun", "read_event_log"]

_WHAT = "an event log of preCICE 1.3 to 2.5"
LOG_NAME = re.compile(r"precice-(?P<participant>.+)-events\.(?:log|json)$")
"""How preCICE names the log."""

_HEADER = ["RunTimestamp", "RunName", "Name", "Rank", "Timestamp", "State"]
_TOTALS = ("Timestamp", "Rank", "Name", "Count", "Total")
_CUT_SHORT = "was the file cut short or edited?"
_STATES = _STOPPED, _STARTED, _PAUSED = 0, 1, 2

_Changes = dict[int, dict[str, list[tuple[int, int]]]]
"""By rank and event: time in milliseconds, and state."""


@dataclass(frozen=True, eq=False)
class EventRun:
    """One run of one participant."""

    #: File and, if it holds several, run.
    where: str
    #: What the log says of when it ran.
    name: str
    #: By rank and event, when it ran: from and to, in milliseconds of one clock per rank, in order. An event that was
    #: paused in between has several rows.
    ranks: list[dict[str, NDArray[np.int64]]]


def read_event_log(path: Path) -> list[EventRun]:
    """Read the runs of an event log, CSV or JSON, in the order of the file."""
    text = read_text(path, _WHAT)
    runs = _from_json(path, text) if text.lstrip()[:1] in {"{", "["} else _from_csv(path, text)
    found = []
    for name, changes in runs.items():
        where = str(path) if len(runs) == 1 else f"{path}, run {name}"
        size = max(changes, default=-1) + 1
        if len(changes) != size:
            missing = next(rank for rank in range(size) if rank not in changes)
            raise DataError(f"{where}: expected events of every rank, found none of rank {missing}; {_CUT_SHORT}")
        ranks = [
            {event: _intervals(where, rank, event, states) for event, states in changes[rank].items()}
            for rank in range(size)
        ]
        found.append(EventRun(where, name, ranks))
    return found


def _from_csv(path: Path, text: str) -> dict[str, _Changes]:
    runs: dict[str, _Changes] = {}
    begun = False
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        cells = [cell.strip() for cell in line.split(",")]
        if not begun:
            _check_header(path, number, cells)
            begun = True
            continue
        where = f"{path}, line {number}"
        if len(cells) < len(_HEADER):
            raise DataError(f"{where}: expected {len(_HEADER)} columns, found {len(cells)}; {_CUT_SHORT}")
        rank, time, state = (whole_number(cell) for cell in cells[-3:])
        if rank is None or rank < 0:
            raise DataError(f"{where}: expected a rank from 0, found {cells[-3]!r}")
        if time is None or state not in _STATES:
            found = ",".join(cells[-2:])
            raise DataError(f"{where}: expected whole milliseconds and a state of 0, 1 or 2, found {found!r}")
        run = " ".join(cells[:2]).strip()
        # An event may be named after a mesh, and a mesh may have a comma in its name.
        event = ",".join(cells[2:-3])
        runs.setdefault(run, {}).setdefault(rank, {}).setdefault(event, []).append((time, state))
    if not runs:
        raise DataError(f"{path}: expected {_WHAT}, found no event in it")
    return runs


def _check_header(path: Path, number: int, header: list[str]) -> None:
    if header == _HEADER:
        return
    if header == [name for name in _HEADER if name != "RunName"]:
        raise DataError(
            f"{path}: expected {_WHAT}, found one of preCICE 1.1 or 1.2, which does not time the solver; give seconds "
            "in a CSV file"
        )
    if all(name in header for name in _TOTALS):
        raise DataError(
            f"{path}: expected a log of single events, found totals per event; give the file precice-…-events.log that "
            "preCICE wrote beside it"
        )
    found = ",".join(header)[:80]
    raise DataError(f"{path}, line {number}: expected {_WHAT} with the columns {', '.join(_HEADER)}, found {found!r}")


def _from_json(path: Path, text: str) -> dict[str, _Changes]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: expected {_WHAT}, found damaged JSON: {one_line(error)}; {_CUT_SHORT}") from error
    ranks = document.get("Ranks") if isinstance(document, dict) else None
    if not isinstance(ranks, list) or not ranks:
        _refuse(path, 'a list "Ranks" with one entry per rank', ranks)
    changes: _Changes = {}
    for rank, entry in enumerate(ranks):
        states = entry.get("StateChanges") if isinstance(entry, dict) else None
        if not isinstance(states, list):
            _refuse(path, f'a list "StateChanges" for rank {rank}', states)
        events = changes.setdefault(rank, {})
        for change in states:
            given: Any = change if isinstance(change, dict) else {}
            name, time, state = (given.get(key) for key in ("Name", "Timestamp", "State"))
            # A bool is an int to Python, and none to the log.
            is_whole = type(time) is int and type(state) is int and abs(time) < 2**53
            if not (isinstance(name, str) and is_whole and state in _STATES):
                wanted = "Name, Timestamp (whole milliseconds) and State (0, 1 or 2)"
                _refuse(path, f'{wanted} in "StateChanges" of rank {rank}', change)
            events.setdefault(name, []).append((time, state))
    return {" ".join(str(document.get(key, "")) for key in ("Initialized", "Name")).strip(): changes}


def _refuse(path: Path, expected: str, found: object) -> NoReturn:
    shown = "nothing" if found is None else f"{one_line(ValueError(repr(found)))[:80]}"
    raise DataError(f"{path}: expected {_WHAT} with {expected}, found {shown}")


def _intervals(where: str, rank: int, event: str, states: list[tuple[int, int]]) -> NDArray[np.int64]:
    """Turn state changes into the times an event ran."""
    found = []
    since: int | None = None
    for time, state in states:
        if state == _STARTED and since is None:
            since = time
        elif state != _STARTED and since is not None:
            found.append((since, time))
            since = None
        elif state == _STARTED:
            raise DataError(f"{where}: expected {event} of rank {rank} to stop before it starts again; {_CUT_SHORT}")
    if since is not None:
        raise DataError(f"{where}: expected {event} of rank {rank} to stop, found its start only; {_CUT_SHORT}")
    times = np.array(found, dtype=np.int64).reshape(-1, 2)
    if (np.diff(times.reshape(-1)) < 0).any():
        raise DataError(f"{where}: expected the times of {event} of rank {rank} to rise; {_CUT_SHORT}")
    return times
