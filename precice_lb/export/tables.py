"""Runs as tidy tables: CSV, a DataFrame of pandas."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import DataError
from precice_lb.export.runs import ExportedRun, exported_runs
from precice_lb.store.records import RankFile

if TYPE_CHECKING:
    import pandas as pd

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

_COUNTS = ("ranks", "threads", "rank")
Columns = dict[str, NDArray[Any]]


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
            table = _iterations(store)
            count, kinds = len(table["window"]), len(QUANTITIES)
            repeated = {"run": run.name, "participant": name, "version": str(store.metadata.get("version", ""))}
            columns: Columns = {key: np.full(count * kinds, value, dtype=object) for key, value in repeated.items()}
            threads = store.metadata.get("threads", 1)
            for key, value in zip(_COUNTS, (store.metadata["size"], threads, store.metadata["rank"]), strict=True):
                columns[key] = np.full(count * kinds, value, dtype=np.int64)
            for key in ("window", "iteration"):
                columns[key] = np.repeat(table[key], kinds)
            columns["quantity"] = np.tile(np.array(list(QUANTITIES), dtype=object), count)
            columns["seconds"] = np.stack([table[name] for name in QUANTITIES], axis=1).ravel()
            yield columns


def _iterations(store: RankFile) -> Columns:
    """Seconds of each coupling iteration of a rank, all its calls of ``advance`` together."""
    rows = store.advances
    changes = (np.diff(rows["window"], prepend=0) != 0) | (np.diff(rows["iteration"], prepend=0) != 0)
    starts = np.flatnonzero(changes)
    seconds = {}
    for name in ("solve", "advance", "mapping", "wait"):
        nanoseconds = rows[f"{name}_ns"]
        values = np.where(nanoseconds < 0, np.nan, nanoseconds * 1e-9)
        seconds[name] = np.add.reduceat(values, starts) if len(starts) else np.empty(0)
    seconds["overhead"] = seconds["advance"] - seconds["mapping"] - seconds["wait"]
    return {
        "window": rows["window"][starts].astype(np.int64),
        "iteration": rows["iteration"][starts].astype(np.int64),
        **seconds,
    }
