"""Recorded runs in other forms: Chrome traces for Perfetto, CSV, pandas, one file per participant."""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeAlias

import numpy as np
from numpy.typing import NDArray

from precice_lb.dataset.runs import named_runs
from precice_lb.dataset.windows import iteration_seconds, starts_of
from precice_lb.exceptions import DataError
from precice_lb.ingest.profiling import enrich
from precice_lb.store.columns import ADVANCE_SPENDS, NOT_MEASURED
from precice_lb.store.merged import merged_image
from precice_lb.store.reader import group_ranks, read_stores
from precice_lb.store.records import RankFile
from precice_lb.store.schema import merged_filename

if TYPE_CHECKING:
    import pandas as pd


ExportedRank: TypeAlias = tuple[str, str, RankFile]
"""Name of the run, as `precice_lb.dataset.load_runs` names it, participant and rank, whose rows are not read yet."""


def exported_ranks(sources: Sequence[str | Path]) -> list[ExportedRank]:
    """Find the ranks in stores, by run in the order they started, then by participant."""
    return [
        (name, participant, store)
        for name, groups, *_ in named_runs(sources)
        for participant, group in groups.items()
        for store in group
    ]


@contextmanager
def _written(path: str | Path, encoding: str = "utf-8") -> Iterator[TextIO]:
    """Open a file to write; one error with its name where that fails."""
    try:
        with Path(path).open("w", encoding=encoding, newline="") as file:
            yield file
    except OSError as error:
        raise DataError(f"{path}: expected a file that can be written, found {error.strerror}") from error


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
    ranks = exported_ranks(sources)
    count = 0
    with _written(path) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for table in map(_table, ranks):
            columns = [table[name].tolist() for name in COLUMNS[:-1]]
            seconds = ["" if math.isnan(value) else repr(value) for value in table["seconds"].tolist()]
            writer.writerows(zip(*columns, seconds, strict=True))
            count += len(seconds)
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
    tables = [_table(rank) for rank in exported_ranks(sources)]
    frame: pd.DataFrame = pandas.DataFrame(
        {name: np.concatenate([table[name] for table in tables]) for name in COLUMNS}
    )
    for name in ("run", "participant", "version", "quantity"):
        frame[name] = frame[name].astype("category")
    frame.attrs = {"units": {"seconds": "s"}, "quantities": dict(QUANTITIES)}
    return frame


def _table(exported: ExportedRank) -> dict[str, NDArray[Any]]:
    """Tidy columns of a rank, shape (n,) each."""
    run, participant, unread = exported
    (store,) = enrich([unread])
    rows, data = store.advances, store.metadata
    starts = starts_of(rows, "window", "iteration")
    seconds = iteration_seconds(rows, starts)
    window, iteration = (np.repeat(rows[key][starts], len(QUANTITIES)) for key in ("window", "iteration"))
    values = [
        *(run, participant, data.get("version", ""), data["size"], data.get("threads", 1), data["rank"]),
        *(window, iteration, np.tile(list(QUANTITIES), len(starts))),
        np.stack([seconds[quantity] for quantity in QUANTITIES], axis=1).ravel(),
    ]
    return dict(zip(COLUMNS, np.broadcast_arrays(*values), strict=True))


# Categories of events, as in preCICE's own traces.
_SOLVER, _PRECICE = "Solver", "preCICE"
# No time may be negative, whatever was recorded at the very start.
_MARGIN_NS = 1_000_000


def export_trace(sources: Sequence[str | Path], path: str | Path) -> int:
    """Write runs as one trace.

    Every ``advance`` is a slice ``advance`` after one ``solver.advance``; inside it lie ``waitAndReceiveData`` (all
    waiting for partners) and ``mapping``, in the place that they mostly have: a store knows how long they took, not
    when they began. Profiling sections of the solver lie in ``solver.advance``. Arguments of a slice are its time
    window and coupling iteration. Times are those of the clocks of the hosts.

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
    ranks = exported_ranks(sources)
    with _written(path, "ascii") as file:
        return _write(file, ranks)


def _write(file: TextIO, ranks: Sequence[ExportedRank]) -> int:
    origin = min(store.metadata["started_unix_ns"] for *_, store in ranks) - _MARGIN_NS
    runs = list(dict.fromkeys(run for run, *_ in ranks))
    file.write('{"displayTimeUnit":"ms","otherData":')
    file.write(json.dumps({"start_unix_us": str(origin // 1000), "runs": runs}))
    file.write(',"traceEvents":[')
    count, comma, numbers = 0, "", dict[tuple[str, str], int]()
    for run, participant, unread in ranks:
        (store,) = enrich([unread])
        data = store.metadata
        rank, who = data["rank"], f"Secondary ({data['rank']})" if data["rank"] else "Primary (0)"
        heads = [("thread_name", rank, {"name": who}), ("thread_sort_index", rank, {"sort_index": rank})]
        pid = numbers.setdefault((run, participant), len(numbers) + 1)
        title = participant if len(runs) == 1 else f"{run}: {participant}"
        heads += [("process_name", 0, {"name": title}), ("process_sort_index", 0, {"sort_index": pid})]
        for what, thread, arguments in heads:
            file.write(comma + "\n")
            file.write(json.dumps({"name": what, "ph": "M", "pid": pid, "tid": thread, "args": arguments}))
            comma = ","
        zero = data["started_unix_ns"] - data["started_clock_ns"] - origin
        for name, category, begin, end, arguments in _slices(store):
            # Written by hand, as a rank may have millions; times in whole nanoseconds, so that slices nest exactly.
            start, length = (f"{time // 1000}.{time % 1000:03d}" for time in (begin + zero, end - begin))
            file.write(
                f',\n{{"name":{json.dumps(name)},"cat":"{category}","ph":"X","pid":{pid},"tid":{rank},'
                f'"ts":{start},"dur":{length},"args":{json.dumps(arguments)}}}'
            )
            count += 1
    file.write("\n]}\n")
    return count


_Slice: TypeAlias = tuple[str, str, int, int, dict[str, int]]


def _slices(store: RankFile) -> Iterator[_Slice]:
    """Name, category, begin, end in ns of the rank's clock, and arguments; one that holds others comes before them."""
    rows, ready = store.advances, 0
    begins = rows["begin_ns"]
    for row in store.initialize:
        begin = int(row["begin_ns"])
        ready = int(np.append(begins[:1], begin + row["initialize_ns"]).min())
        yield from _call("initialize", begin, ready, row, {})
    solve_begins = np.clip(begins - rows["solve_ns"], np.append(ready, begins)[: len(rows)], begins)
    # Mapping that solvers ask for just in time counts as part of advance, but took place before it.
    limits = np.append(solve_begins[1:], np.iinfo(np.int64).max)[: len(rows)]
    ends = np.minimum(begins + rows["advance_ns"], limits)
    where = [{"window": window, "iteration": n} for window, n in rows[["window", "iteration"]].tolist()]
    for row, solve_begin, end, arguments in zip(rows, solve_begins.tolist(), ends.tolist(), where, strict=True):
        begin = int(row["begin_ns"])
        yield "solver.advance", _SOLVER, solve_begin, begin, arguments
        yield from _call("advance", begin, end, row, arguments)
    names, sections = store.names("sections"), store.rows("sections")
    sections = sections[sections["begin_ns"] != NOT_MEASURED]
    sections = sections[np.lexsort((-sections["duration_ns"], sections["begin_ns"]))]
    calls = np.searchsorted(solve_begins, sections["begin_ns"], "right") - 1
    spans = sections[["name", "begin_ns", "duration_ns"]]
    for (number, begin, duration), call in zip(spans.tolist(), calls.tolist(), strict=True):
        # Others would not nest.
        if call >= 0 and begin + duration <= begins[call] and not names[number].startswith(ADVANCE_SPENDS):
            yield names[number], _SOLVER, begin, begin + duration, where[call]


def _call(name: str, begin: int, end: int, row: np.void, arguments: dict[str, int]) -> Iterator[_Slice]:
    """Give a call of preCICE, with wait and mapping as far as measured, one after the other at its end."""
    yield name, _PRECICE, begin, end, arguments
    middle = max(end - max(int(row["mapping_ns"]), 0), begin)
    first = max(middle - max(int(row["wait_ns"]), 0), begin)
    if middle > first:
        yield "waitAndReceiveData", _PRECICE, first, middle, arguments
    if end > middle:
        yield "mapping", _PRECICE, middle, end, arguments


def export_merged(sources: Sequence[str | Path], directory: str | Path) -> list[Path]:
    """Copy the ranks of each participant and run into one file, with mapping and wait from preCICE's profiling files.

    Nothing is removed. Beside its rank files a merged file counts once, and is what is read, unless they went on since.

    Parameters
    ----------
    sources : sequence of path
        Store files, or directories that are searched with everything below them.
    directory : path
        Where to write, with the same directories below it as the stores have below the one that all are in.

    Returns
    -------
    list of Path
        The merged files. The ranks of one participant at a time are in memory.

    Raises
    ------
    StoreError
        If a source holds no store, or a file cannot be read as one.
    DataError
        If a file cannot be written.
    """
    groups = group_ranks(read_stores(sources))
    root = os.path.commonpath([group[0].directory for group in groups])
    written: list[Path] = []
    for group in groups:
        place = Path(directory) / group[0].directory.relative_to(root)
        participant, size = group[0].metadata["participant"], group[0].metadata["size"]
        number = max(store.metadata["attempt"] for store in group)
        while (target := place / merged_filename(participant, size, number)) in written:
            number += 1
        draft, content = target.with_name(f".{target.name}.{os.getpid()}.draft"), merged_image(enrich(group))
        try:
            place.mkdir(parents=True, exist_ok=True)
            try:
                draft.write_bytes(content)
                draft.replace(target)
            finally:
                draft.unlink(missing_ok=True)
        except OSError as error:
            raise DataError(f"{target}: expected a file that can be written, found {error.strerror}") from error
        written.append(target)
    return written
