"""What ranks hold and how long they are busy, from tables as CSV."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import DataError
from precice_lb.ingest.csv import checked_number, read_rows, whole_number
from precice_lb.inside.records import RankLoad
from precice_lb.plural import plural

Key = TypeVar("Key")

Counts = tuple[tuple[str, ...], NDArray[np.float64]]
"""Features, and how much of each every rank holds: shape (ranks, features)."""


def read_counts(path: Path) -> dict[str, Counts]:
    """Read the columns ``rank``, ``feature``, ``count`` and perhaps ``run``, by run; what is not said is 0."""
    values: dict[str, dict[tuple[int, str], float]] = {}
    for where, row in read_rows(path, ("rank", "feature", "count"), ("run",)):
        rank, feature = _rank(where, row["rank"]), row["feature"]
        if not feature:
            raise DataError(f"{where}: expected the name of a feature in column feature, found nothing")
        count = checked_number(where, "count", row["count"], "a number of at least 0", lambda x: x >= 0)
        _add(values, row.get("run", ""), (rank, feature), count, f"{where}: expected each feature of a rank once")
    features = tuple(dict.fromkeys(feature for run in values.values() for _, feature in run))
    tables = {}
    for name, run in values.items():
        table = np.zeros((_ranks(path, name, {rank for rank, _ in run}), len(features)))
        for (rank, feature), count in run.items():
            table[rank, features.index(feature)] = count
        tables[name] = (features, table)
    return tables


def read_seconds(path: Path) -> dict[str, NDArray[np.float64]]:
    """Read the columns ``rank``, ``seconds`` (busy ones per time window), perhaps ``run``: shape (ranks,), by run."""
    values: dict[str, dict[int, float]] = {}
    for where, row in read_rows(path, ("rank", "seconds"), ("run",)):
        rank = _rank(where, row["rank"])
        seconds = checked_number(where, "seconds", row["seconds"], "seconds of at least 0", lambda x: x >= 0)
        _add(values, row.get("run", ""), rank, seconds, f"{where}: expected each rank once")
    return {name: np.array([run[rank] for rank in range(_ranks(path, name, set(run)))]) for name, run in values.items()}


def loads_of_tables(counts: Mapping[str, Counts], seconds: Mapping[str, NDArray[np.float64]]) -> list[RankLoad]:
    """Join both tables, which must be of the same runs and ranks."""
    for name in dict.fromkeys([*counts, *seconds]):
        if name not in counts or name not in seconds:
            there, other = ("counts", "seconds") if name in counts else ("seconds", "counts")
            found = f"run {name!r}" if name else "rows without a run"
            raise DataError(
                f"expected the same runs in the tables of counts and of seconds, found {found} in that of {there} "
                f"alone; add it to that of {other}, or leave it out"
            )
        held, timed = len(counts[name][1]), len(seconds[name])
        if held != timed:
            raise DataError(
                f"{_of(name)}expected counts and seconds of the same ranks, found counts of {plural(held, 'rank')} and "
                f"seconds of {timed}; give tables of one partition"
            )
    return [RankLoad(name, *counts[name], timed) for name, timed in seconds.items()]


def _add(values: dict[str, dict[Key, float]], run: str, key: Key, value: float, expected: str) -> None:
    rows = values.setdefault(run, {})
    if key in rows:
        raise DataError(f"{expected}{f' in run {run!r}' if run else ''}, found this one again; leave one out")
    rows[key] = value


def _rank(where: str, text: str) -> int:
    rank = whole_number(text)
    if rank is None or rank < 0:
        raise DataError(f"{where}: expected a rank, a whole number from 0, in column rank, found {text!r}")
    return rank


def _ranks(path: Path, run: str, ranks: set[int]) -> int:
    """Count the ranks of a run, which are numbered from 0 without a gap."""
    missing = next((rank for rank in range(len(ranks)) if rank not in ranks), None)
    if missing is not None:
        raise DataError(
            f"{path}: {_of(run)}expected ranks from 0 to {max(ranks)}, found none with number {missing}; add its rows "
            "(a count of 0 where it holds nothing)"
        )
    return len(ranks)


def _of(run: str) -> str:
    return f"run {run!r}: " if run else ""
