"""Runs as traces that ui.perfetto.dev and chrome://tracing show: one process per participant, one thread per rank.

The format is the JSON of the Trace Event Format. Events are called as preCICE calls them, and so they have the same
colours as in the traces of ``precice-profiling trace``: the viewers colour by name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import DataError
from precice_lb.export.runs import ExportedRun, clock_shifts, exported_runs
from precice_lb.store.columns import ADVANCE_SPENDS
from precice_lb.store.records import RankFile

_MARGIN_NS = 1_000_000

SOLVER, PRECICE = "Solver", "preCICE"
"""Categories of events, as in preCICE's own traces."""


def export_trace(sources: Sequence[str | Path], path: str | Path) -> int:
    """Write runs as one trace.

    Every ``advance`` is a slice ``advance`` after one ``solver.advance``; inside it lie ``waitAndReceiveData`` (all
    waiting for partners) and ``mapping``, in the place that they mostly have: a store knows how long they took, not
    when they began. Profiling sections of the solver lie in ``solver.advance``. Arguments of a slice are its time
    window and coupling iteration. Clocks of participants are set so that no data arrives before it is sent.

    Parameters
    ----------
    sources : sequence of path
        Store files, or directories that are searched with everything below them.
    path : path
        The JSON file to write.

    Returns
    -------
    int
        Number of slices. Ranks are read and written one after the other.

    Raises
    ------
    StoreError
        If a source holds no store, or a file cannot be read as one.
    DataError
        If the file cannot be written.
    """
    runs = exported_runs(sources)
    origin = min(
        store.metadata["started_unix_ns"] for run in runs for group in run.participants.values() for store in group
    )
    try:
        with Path(path).open("w", encoding="ascii") as file:
            return _write(file, runs, origin)
    except OSError as error:
        raise DataError(f"{path}: expected a file that can be written, found {error.strerror}") from error


def _write(file: TextIO, runs: Sequence[ExportedRun], origin: int) -> int:
    shifts = [clock_shifts(run) for run in runs]
    # No time may be negative, whatever was recorded at the very start.
    origin += min((shift for each in shifts for shift in each.values()), default=0) - _MARGIN_NS
    file.write('{"displayTimeUnit":"ms","otherData":')
    file.write(json.dumps({"start_unix_us": str(origin // 1000), "runs": [run.name for run in runs]}))
    file.write(',"traceEvents":[')
    count, pid, comma = 0, 0, ""
    for run, shift in zip(runs, shifts, strict=True):
        numbers: dict[str, int] = {}
        for name, store in run.ranks():
            rank = store.metadata["rank"]
            who = f"Secondary ({rank})" if rank else "Primary (0)"
            heads = [("thread_name", rank, {"name": who}), ("thread_sort_index", rank, {"sort_index": rank})]
            if name not in numbers:
                pid += 1
                numbers[name] = pid
                title = name if len(runs) == 1 else f"{run.name}: {name}"
                heads = [("process_name", 0, {"name": title}), ("process_sort_index", 0, {"sort_index": pid}), *heads]
            for what, thread, arguments in heads:
                event = {"name": what, "ph": "M", "pid": pid, "tid": thread, "args": arguments}
                file.write(f"{comma}\n{json.dumps(event)}")
                comma = ","
            zero = store.metadata["started_unix_ns"] - store.metadata["started_clock_ns"] + shift.get(name, 0) - origin
            for slice_ in _slices(store, zero, pid):
                file.write(f",\n{slice_}")
                count += 1
    file.write("\n]}\n")
    return count


def _slices(store: RankFile, zero: int, pid: int) -> Iterator[str]:
    """Events of one rank as JSON, times in microseconds."""
    rank = store.metadata["rank"]

    def event(name: str, category: str, begin: int, end: int, **arguments: Any) -> str:
        # Written by hand, as a rank may have millions; times in whole nanoseconds, so that slices nest exactly.
        return (
            f'{{"name":{json.dumps(name)},"cat":"{category}","ph":"X","pid":{pid},"tid":{rank},'
            f'"ts":{_micro(begin + zero)},"dur":{_micro(end - begin)},"args":{json.dumps(arguments)}}}'
        )

    rows = store.advances
    before = np.int64(0)
    for row in store.initialize:
        begin = int(row["begin_ns"])
        before = np.append(rows["begin_ns"][:1], begin + row["initialize_ns"]).min()
        yield event("initialize", PRECICE, begin, int(before))
        yield from _parts(event, begin, int(before), int(row["mapping_ns"]), int(row["wait_ns"]))
    if not len(rows):
        return
    sections, names = store.rows("sections"), store.names("sections")
    of_solver = np.array([not name.startswith(ADVANCE_SPENDS) for name in names], dtype=bool)
    sections = sections[of_solver[sections["name"]]]
    earlier = np.append(before, rows["begin_ns"][:-1])
    solve_begin = np.clip(rows["begin_ns"] - rows["solve_ns"], earlier, rows["begin_ns"])
    # Mapping that solvers ask for just in time counts as part of advance, but took place before it.
    limit = np.append(solve_begin[1:], np.iinfo(np.int64).max)
    ends = np.minimum(rows["begin_ns"] + rows["advance_ns"], limit)
    inside = _inner(sections, solve_begin, rows["begin_ns"])
    for at, row in enumerate(rows):
        begin, end = int(row["begin_ns"]), int(ends[at])
        where = {"window": int(row["window"]), "iteration": int(row["iteration"])}
        yield event("solver.advance", SOLVER, int(solve_begin[at]), begin, **where)
        for number in inside.get(at, ()):
            section = sections[number]
            start = int(section["begin_ns"])
            yield event(names[section["name"]], SOLVER, start, start + int(section["duration_ns"]), **where)
        yield event("advance", PRECICE, begin, end, **where)
        yield from _parts(event, begin, end, int(row["mapping_ns"]), int(row["wait_ns"]))


def _parts(event: Any, begin: int, end: int, mapping: int, wait: int) -> Iterator[str]:
    """Wait and mapping, as far as measured, one after the other at the end of the call."""
    middle = max(end - max(mapping, 0), begin)
    first = max(middle - max(wait, 0), begin)
    if middle > first:
        yield event("waitAndReceiveData", PRECICE, first, middle)
    if end > middle:
        yield event("mapping", PRECICE, middle, end)


def _inner(sections: NDArray[np.void], begins: NDArray[np.int64], ends: NDArray[np.int64]) -> dict[int, list[int]]:
    """Which sections lie within which solve, outer ones first; others would not nest and are left out."""
    if not len(sections):
        return {}
    begin, end = sections["begin_ns"], sections["begin_ns"] + sections["duration_ns"]
    at = np.searchsorted(begins, begin, side="right") - 1
    fits = (at >= 0) & (end <= ends[np.maximum(at, 0)])
    found: dict[int, list[int]] = {}
    for number in np.lexsort((-end, begin)):
        if fits[number]:
            found.setdefault(int(at[number]), []).append(int(number))
    return found


def _micro(nanoseconds: int) -> str:
    return f"{nanoseconds // 1000}.{nanoseconds % 1000:03d}"
