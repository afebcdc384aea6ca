"""Event logs with planted times, written as preCICE 1.3 (CSV) and 1.4 to 2.5 (JSON) write them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from precice_lb.dataset import Measurements
from precice_lb.exceptions import DataError

STOPPED, STARTED, PAUSED = 0, 1, 2
Changes = dict[str, list[tuple[int, int]]]


@dataclass(frozen=True)
class Rank:
    """Whole milliseconds of one rank, by call of advance; the first solve lies in solver.initialize."""

    solve: list[int]
    receive: list[int] | None = None
    mapping: list[int] | None = None
    accelerate: list[int] | None = None

    def changes(self, clock: int = 4_569_525) -> Changes:
        found: Changes = {"_GLOBAL": [(clock, STARTED)], "solver.initialize": [(clock, STARTED)]}

        def run(name: str, milliseconds: int) -> None:
            found.setdefault(name, []).append((now, STARTED))
            found[name].append((now + milliseconds, STOPPED))

        now = clock + 20
        found["solver.initialize"] += [(now, PAUSED), (now + 35, STARTED)]
        run("initialize", 35)
        run("initialize/map.nn.computeMapping.FromMeshAToMesh,B", 30)
        now += 35
        for call, solve in enumerate(self.solve):
            now += solve
            if call:
                found["solver.advance"].append((now, STOPPED))
            else:
                found["solver.initialize"].append((now, STOPPED))
            begin = now
            now += 1
            for name, times in (
                ("advance/m2n.receiveData", self.receive),
                ("advance/map.nn.mapData.FromMeshAToMesh,B", self.mapping),
                ("advance/cpl.computeQuasiNewtonUpdate", self.accelerate),
            ):
                if times is not None:
                    run(name, times[call])
                    if "mapData" in name:
                        run(f"{name}.kernel", times[call] // 2)
                    now += times[call]
            found.setdefault("advance", []).extend([(begin, STARTED), (now, STOPPED)])
            found.setdefault("solver.advance", []).append((now, STARTED))
        found["solver.advance"].append((now + 3, STOPPED))
        found["_GLOBAL"].append((now + 9, STOPPED))
        return found


def own_milliseconds(rank: Rank) -> list[int]:
    """What each advance but the first cost, by the rule solve + mapping + acceleration."""
    none = [0] * len(rank.solve)
    parts = zip(rank.solve, rank.mapping or none, rank.accelerate or none, strict=True)
    return [sum(part) for part in parts][1:]


def csv_log(ranks: list[Rank], stamp: str = "2018-11-20T11:25:15. 94", *, header: bool = True) -> str:
    """One run as preCICE 1.3 appends it: by event, then by rank; the fraction of its stamp is padded with blanks."""
    changes = [rank.changes() for rank in ranks]
    lines = ["RunTimestamp,RunName,Name,Rank,Timestamp,State"] if header else []
    for name in sorted({name for each in changes for name in each}):
        for rank, each in enumerate(changes):
            lines += [f"{stamp},,{name},{rank},{time},{state}" for time, state in each.get(name, [])]
    return "\n".join(lines) + "\n"


def json_log(ranks: list[Rank], stamp: str = "2019-10-15T14:52:51.384") -> str:
    """One run as preCICE 1.4 to 2.5 writes it; times count from the first rank's start."""
    entries = []
    for rank in ranks:
        states = [
            {"Name": name, "State": state, "Timestamp": time}
            for name, changes in sorted(rank.changes(clock=2).items())
            for time, state in changes
        ]
        entries.append({"Finalized": stamp, "Initialized": stamp, "StateChanges": states, "Timings": {}})
    return json.dumps({"Finalized": stamp, "Initialized": stamp, "Name": "", "Ranks": entries}, indent=2) + "\n"


def write(path: Path, text: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def steady(milliseconds: int, windows: int = 5, *, receive: int = 4) -> list[Rank]:
    """One rank whose every window costs the same."""
    return [Rank([milliseconds] * windows, receive=[receive] * windows)]


def refused(call: Callable[[], object], *words: str) -> str:
    """Call, expect a one-line DataError with all words, and return its message."""
    with pytest.raises(DataError) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message
    assert all(word in message for word in words), message
    return message


def read_or_refusal(call: Callable[[], Measurements]) -> Measurements | str:
    """What was read, or the one line of the refusal."""
    try:
        return call()
    except DataError as error:
        message = str(error)
    assert message
    assert "\n" not in message
    return message
