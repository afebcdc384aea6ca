"""What precice-profiling says of a run, beside what `precice-lb summary --format json --per-rank --warmup 0` says."""

from __future__ import annotations

import csv
import re
import sqlite3
from collections import defaultdict
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, TypeAlias

from precice_lb.ingest.profiling.calls import Profile
from precice_lb.ingest.profiling.files import FileEvents

Totals: TypeAlias = Mapping[tuple[str, int], Mapping[str, int]]
"""By participant and rank: the total microseconds of each event."""

_TOTALS = """SELECT p.name, e.rank, n.name, e.total
FROM (SELECT pid, rank, eid, SUM(dur) AS total FROM events GROUP BY pid, rank, eid) e
INNER JOIN names n ON n.eid = e.eid INNER JOIN participants p ON p.pid = e.pid"""
_AFTER = """SELECT p.name, e.rank, n.name, SUM(e.dur) FROM events e
INNER JOIN names n ON n.eid = e.eid INNER JOIN participants p ON p.pid = e.pid
INNER JOIN (SELECT pid, rank, MAX(ts + dur) AS last FROM events NATURAL JOIN names WHERE name = 'advance'
            GROUP BY pid, rank) a ON a.pid = e.pid AND a.rank = e.rank
WHERE e.ts >= a.last GROUP BY 1, 2, 3"""
_WAITS = ("waitAndReceiveData", "receiveConvergence")
_JUST_IN_TIME = ("mapAndReadData.", "writeAndMapData.")
_OF_PRECICE = re.compile(r"(sync|((set|get|reset)Mesh\w*|(map|read|write)\w*Data)\..*)")


def totals_of(database: Path) -> Totals:
    """Sum the events of a database."""
    return _summed(database, _TOTALS)


def event_totals(profile: Profile) -> dict[str, tuple[int, int]]:
    """Count the events of a profiling file and sum up their microseconds, by names from the outermost inwards."""
    source = FileEvents(profile.header)
    totals: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for events in source:
        for number, duration in zip(events.paths.tolist(), events.durations.tolist(), strict=True):
            name = "/".join(source.paths[number])
            totals[name] = totals[name][0] + 1, totals[name][1] + duration
    if source.global_begin_us is not None and source.global_end_us is not None:
        totals["_GLOBAL"] = (1, source.global_end_us - source.global_begin_us)
    return dict(totals)


def totals_printed(participant: str, table: Path) -> Totals:
    """Read the sums that ``precice-profiling-analyze PARTICIPANT --unit us --output TABLE`` wrote."""
    found: dict[tuple[str, int], dict[str, int]] = {}
    with table.open(newline="") as file:
        for row in csv.DictReader(file):
            for column, cell in row.items():
                if column.endswith("sum") and cell:
                    rank = int(column[1:].partition(":")[0]) if ":" in column else 0
                    found.setdefault((participant, rank), {})[row["eid"]] = round(float(cell))
    return found


def differences(found: Mapping[str, Any], totals: Totals, database: Path, configuration: str) -> list[str]:
    """Compare every rank of a summarised run with its totals, to the microsecond; nothing if all agree.

    The summary's means per time window, times the windows, must be the totals, but for what it says otherwise:
    the last `solver.advance` follows the last window and is left out, just-in-time mapping counts as mapping, the
    second participant of a serial scheme waits for its first data in `initialize`, and on shared cores waits that hide
    in `waitAndSendData` count as waits, of which the summary says how long they are.
    """
    after = _summed(database, _AFTER)
    second = re.findall(r'<coupling-scheme:serial-\w+>.*?\bsecond="(.+?)"', configuration, re.DOTALL)
    waits = (*_WAITS, "waitAndSendData") if 'synchronize="true"' in configuration else _WAITS
    said: list[str] = []
    for (name, rank), events in totals.items():
        part = found["participants"][name]
        row = part["per_rank"][rank]
        own = {event: total - after.get((name, rank), {}).get(event, 0) for event, total in events.items()}
        expected = _expected(own, waits, first_wait=name in second)
        seconds = {key.removesuffix("_seconds"): value or 0.0 for key, value in row.items()}
        waited = seconds["partner_wait"] + seconds["own_rank_wait"]
        given = {
            "solve": seconds["solve"],
            "mapping": seconds["mapping"],
            "wait": waited - seconds["hidden_wait"],
            "advance": seconds["mapping"] + seconds["overhead"] + waited,
        }
        sections = {key: values[rank] for key, values in part["sections_per_rank"].items() if values[rank]}
        given |= {f"section {key}": value for key, value in sections.items()}
        for key in sorted(expected.keys() | given.keys()):
            microseconds = given.get(key, 0.0) * 1e6 * part["windows"]
            if not abs(microseconds - expected.get(key, 0)) < 0.5:
                said.append(f"{name} {rank}, {key}: {microseconds:.1f} us, by precice-profiling {expected.get(key, 0)}")
    return said


def _summed(database: Path, query: str) -> dict[tuple[str, int], dict[str, int]]:
    found: dict[tuple[str, int], dict[str, int]] = {}
    with closing(sqlite3.connect(database)) as connection:
        for participant, rank, event, total in connection.execute(query):
            found.setdefault((participant, rank), {})[event] = total
    return found


def _expected(events: Mapping[str, int], waits: tuple[str, ...], *, first_wait: bool) -> dict[str, int]:
    """Say what events up to the last `advance` count as, in microseconds."""

    def waited(outer: str) -> int:
        return sum(us for event, us in events.items() if event.startswith(outer) and event.rsplit("/", 1)[-1] in waits)

    inside = {event.split("/", 1)[1]: us for event, us in events.items() if event.startswith("solver.advance/")}
    just_in_time = sum(us for event, us in inside.items() if event.rsplit("/", 1)[-1].startswith(_JUST_IN_TIME))
    first = waited("initialize/") if first_wait else 0
    barriers = events.get("advance.sync", 0) + events.get("solver.advance.sync", 0)
    sections = {event: us for event, us in inside.items() if "/" not in event and not _OF_PRECICE.fullmatch(event)}
    return {
        "solve": events["solver.advance"] - just_in_time,
        "mapping": events.get("advance/mapping", 0) + just_in_time,
        "wait": waited("advance/") + first,
        "advance": events["advance"] + just_in_time + barriers + first,
        **{f"section {event}": us for event, us in sections.items() if us},
    }
