"""Recorded runs in other forms: Chrome traces for Perfetto, CSV, pandas, one file per participant."""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np
from numpy.typing import NDArray

from precice_lb.case.coupling import roles_of
from precice_lb.dataset.runs import distinct_names, name_of
from precice_lb.dataset.windows import iteration_seconds, starts_of
from precice_lb.exceptions import DataError, StoreError
from precice_lb.ingest.profiling import enrich
from precice_lb.store.columns import ADVANCE_SPENDS
from precice_lb.store.merged import merged_image
from precice_lb.store.rank_file import writing_problem
from precice_lb.store.reader import group_ranks, read_runs, read_stores
from precice_lb.store.records import RankFile
from precice_lb.store.schema import merged_filename

if TYPE_CHECKING:
    import pandas as pd


Columns = dict[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class ExportedRun:
    """One coupled run, with ranks by participant, sorted; their rows are read when asked for."""

    # As `precice_lb.dataset.load_runs` names it.
    name: str
    participants: dict[str, Sequence[RankFile]]

    def ranks(self) -> Iterator[tuple[str, RankFile]]:
        """Give each rank with its participant, with mapping and wait from preCICE's profiling files."""
        for name, group in self.participants.items():
            for store in group:
                yield name, enrich([store])[0]


def exported_runs(sources: Sequence[str | Path]) -> list[ExportedRun]:
    """Find the runs in stores, in the order they started."""
    runs = [dict(sorted((str(group[0].metadata["participant"]), group) for group in run)) for run in read_runs(sources)]
    places = [
        Path(os.path.commonpath({store.directory.absolute() for group in run.values() for store in group}))
        for run in runs
    ]
    names = distinct_names([name_of(run) for run in runs], places)
    return [ExportedRun(name, run) for name, run in zip(names, runs, strict=True)]


def clock_shifts(run: ExportedRun) -> dict[str, int]:
    """Find by how much the clock of each participant has to be set for the order of sends and receives to hold.

    Where data goes from S to T in every time window, T cannot end the window before S begins to send. These are
    difference constraints, whose solution nearest below zero is that of shortest paths (Bellman and Ford). It is in ns
    to add to a participant's times, 0 where the clocks agree, or where nothing is known of who sends to whom.
    """
    shifts = dict.fromkeys(run.participants, 0)
    configuration = roles_of(next(iter(run.participants.values()))[0].configuration).configuration
    schemes = () if configuration is None else configuration.coupling_schemes
    pairs = {(exchange.source, exchange.target) for scheme in schemes for exchange in scheme.exchanges}
    calls = {name: _last_calls(group[0]) for name, group in run.participants.items()}
    # shift[source] - shift[target] <= the least time from the source's begin to the target's end.
    least: list[tuple[str, str, int]] = []
    for source, target in sorted(pairs):
        if source in calls and target in calls:
            _, sent, received = np.intersect1d(calls[source]["window"], calls[target]["window"], return_indices=True)
            if len(sent):
                between = calls[target]["end"][received] - calls[source]["begin"][sent]
                least.append((source, target, int(between.min())))
    for _ in range(len(shifts)):
        for source, target, slack in least:
            shifts[source] = min(shifts[source], shifts[target] + slack)
    return shifts


def _last_calls(store: RankFile) -> Columns:
    """Windows with begin and end of the ``advance`` that completed them, in ns of Unix time."""
    rows = store.advances
    rows = rows[rows["window_complete"]]
    begin = rows["begin_ns"] + (store.metadata["started_unix_ns"] - store.metadata["started_clock_ns"])
    return {"window": rows["window"], "begin": begin, "end": begin + rows["advance_ns"]}


QUANTITIES = {
    "solve": "time of the solver between two calls of advance",
    "mapping": "mapping of data, within advance",
    "wait": "waiting for partners, within advance",
    "overhead": "the rest of advance",
    "advance": "advance as a whole: mapping, wait and overhead",
}
"""What is told of each coupling iteration, and what it means."""

COLUMNS = ("run", "participant", "version", "ranks", "threads", "rank", "window", "iteration", "quantity", "seconds")
"""Columns of the tables. A version is empty where a participant has none; threads are those of each rank."""


def export_csv(sources: Sequence[str | Path], path: str | Path) -> int:
    """Write runs as a CSV file with one row per run, participant, rank, coupling iteration and quantity.

    Parameters
    ----------
    sources : sequence of path
        Store files, or directories that are searched with everything below them.
    path : path
        The file to write.

    Returns
    -------
    int
        Rows below the header. The columns are `COLUMNS`; seconds are empty where not measured. Ranks are read and
        written one after the other.

    Raises
    ------
    StoreError
        If a source holds no store, or a file cannot be read as one.
    DataError
        If the file cannot be written.
    """
    runs = exported_runs(sources)
    count = 0
    try:
        with Path(path).open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(COLUMNS)
            for table in _tables(runs):
                columns = [table[name].tolist() for name in COLUMNS[:-1]]
                seconds = ["" if math.isnan(value) else repr(value) for value in table["seconds"].tolist()]
                writer.writerows(zip(*columns, seconds, strict=True))
                count += len(seconds)
    except OSError as error:
        raise DataError(f"{path}: expected a file that can be written, found {error.strerror}") from error
    return count


def to_dataframe(sources: Sequence[str | Path]) -> pd.DataFrame:
    """Read runs as a tidy table of pandas.

    Parameters
    ----------
    sources : sequence of path
        Store files, or directories that are searched with everything below them.

    Returns
    -------
    pandas.DataFrame
        One row per run, participant, rank, coupling iteration and quantity of `QUANTITIES`, with the columns `COLUMNS`;
        run, participant, version and quantity are categories, seconds NaN where not measured. ``attrs`` hold the units.

    Raises
    ------
    StoreError
        If a source holds no store, or a file cannot be read as one.
    DataError
        If pandas is not installed.
    """
    try:
        import pandas
    except ImportError as error:
        raise DataError(
            "expected pandas to export tables, found it is not installed; pip install precice_lb[export]"
        ) from error
    tables = list(_tables(exported_runs(sources)))
    joined = {name: np.concatenate([table[name] for table in tables]) for name in COLUMNS}
    frame: pd.DataFrame = pandas.DataFrame(joined)
    for name in ("run", "participant", "version", "quantity"):
        frame[name] = frame[name].astype("category")
    frame.attrs = {"units": {"seconds": "s"}, "quantities": dict(QUANTITIES)}
    return frame


def _tables(runs: Sequence[ExportedRun]) -> Iterator[Columns]:
    """Tidy columns of each rank."""
    for run in runs:
        for name, store in run.ranks():
            rows, data = store.advances, store.metadata
            starts = starts_of(rows, "window", "iteration")
            seconds = iteration_seconds(rows, starts)
            count, kinds = len(starts), len(QUANTITIES)
            words = {"run": run.name, "participant": name, "version": str(data.get("version", ""))}
            numbers = {"ranks": data["size"], "threads": data.get("threads", 1), "rank": data["rank"]}
            columns: Columns = {key: np.full(count * kinds, word, dtype=object) for key, word in words.items()}
            columns |= {key: np.full(count * kinds, number, dtype=np.int64) for key, number in numbers.items()}
            for key in ("window", "iteration"):
                columns[key] = np.repeat(rows[key][starts].astype(np.int64), kinds)
            columns["quantity"] = np.tile(np.array(list(QUANTITIES), dtype=object), count)
            columns["seconds"] = np.stack([seconds[quantity] for quantity in QUANTITIES], axis=1).ravel()
            yield columns


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
    origin += min((shift for clocks in shifts for shift in clocks.values()), default=0) - _MARGIN_NS
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
        start, length = (f"{time // 1000}.{time % 1000:03d}" for time in (begin + zero, end - begin))
        return (
            f'{{"name":{json.dumps(name)},"cat":"{category}","ph":"X","pid":{pid},"tid":{rank},'
            f'"ts":{start},"dur":{length},"args":{json.dumps(arguments)}}}'
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
    earlier = np.append(before, rows["begin_ns"][:-1])
    solve_begin = np.clip(rows["begin_ns"] - rows["solve_ns"], earlier, rows["begin_ns"])
    # Mapping that solvers ask for just in time counts as part of advance, but took place before it.
    limit = np.append(solve_begin[1:], np.iinfo(np.int64).max)
    ends = np.minimum(rows["begin_ns"] + rows["advance_ns"], limit)
    inside = _sections_inside(store, solve_begin, rows["begin_ns"])
    for call, row in enumerate(rows):
        begin, end = int(row["begin_ns"]), int(ends[call])
        where = {"window": int(row["window"]), "iteration": int(row["iteration"])}
        yield event("solver.advance", SOLVER, int(solve_begin[call]), begin, **where)
        for name, start, duration in inside.get(call, ()):
            yield event(name, SOLVER, start, start + duration, **where)
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


def _sections_inside(
    store: RankFile, begins: NDArray[np.int64], ends: NDArray[np.int64]
) -> dict[int, list[tuple[str, int, int]]]:
    """Name, begin and duration of the solver's sections by the solve that they lie within, outer ones first.

    Others would not nest and are left out.
    """
    sections, names = store.rows("sections"), store.names("sections")
    inside: dict[int, list[tuple[str, int, int]]] = {}
    order = np.lexsort((-sections["duration_ns"], sections["begin_ns"]))
    calls = np.searchsorted(begins, sections["begin_ns"][order], "right") - 1
    for section, call in zip(sections[order], calls, strict=True):
        name, begin, duration = names[section["name"]], int(section["begin_ns"]), int(section["duration_ns"])
        if call >= 0 and begin + duration <= ends[call] and not name.startswith(ADVANCE_SPENDS):
            inside.setdefault(int(call), []).append((name, begin, duration))
    return inside


def export_merged(sources: Sequence[str | Path], directory: str | Path, *, force: bool = False) -> list[Path]:
    """Copy the ranks of each participant and run into one file, with mapping and wait from preCICE's profiling files.

    Nothing is removed. Beside its rank files a merged file counts once, and is what is read.

    Parameters
    ----------
    sources : sequence of path
        Store files, or directories that are searched with everything below them.
    directory : path
        Where to write, with the same directories below it as the stores have below the one that all are in.
    force : bool
        Whether to copy also what looks as if it were still being written.

    Returns
    -------
    list of Path
        The merged files. The ranks of one participant at a time are in memory.

    Raises
    ------
    StoreError
        If a source holds no store, a file cannot be read as one, or one is still being written: then nothing is copied.
    DataError
        If a file cannot be written.
    """
    groups = group_ranks(read_stores(sources))
    for group in groups:
        problem = None if force else next(filter(None, map(writing_problem, group)), None)
        if problem is not None:
            raise StoreError(
                f"{group[0].path}: expected participant {group[0].metadata['participant']!r} to have ended, found "
                f"that {problem}; export when the run has ended, or with --force if you know that it is over"
            )
    root = os.path.commonpath([group[0].directory for group in groups])
    written: list[Path] = []
    for group in groups:
        place = Path(directory) / group[0].directory.relative_to(root)
        participant, size = group[0].metadata["participant"], group[0].metadata["size"]
        number = max(store.metadata["attempt"] for store in group)
        while (target := place / merged_filename(participant, size, number)) in written:
            number += 1
        _write_whole(target, merged_image(enrich(group)))
        written.append(target)
    return written


def _write_whole(target: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    draft = target.with_name(f".{target.name}.{os.getpid()}.draft")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            draft.write_bytes(content)
            draft.replace(target)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise DataError(f"{target}: expected a file that can be written, found {error.strerror}") from error
