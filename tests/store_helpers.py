"""Synthetic stores with planted times, through the real writer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from precice_lb.rooms import hooks
from precice_lb.store import (
    ADVANCES,
    INITIALIZE,
    TABLES,
    RankFile,
    RecordedMeshes,
    StoreWriter,
    case_fingerprint,
    recorded_meshes,
)
from precice_lb.store.columns import StoreTable

PARALLEL = "<precice-configuration><coupling-scheme:parallel-explicit/></precice-configuration>"
START = 1_700_000_000_000_000_000


def metadata(participant: str = "A", rank: int = 0, size: int = 1, **more: Any) -> dict[str, Any]:
    configuration = more.pop("configuration", PARALLEL)
    return {
        "participant": participant,
        "rank": rank,
        "size": size,
        "backend": "embedded",
        "case": case_fingerprint(configuration),
        "configuration_hash": hashlib.sha256(configuration.encode()).hexdigest(),
        "clock": "clock_gettime(CLOCK_MONOTONIC)",
        "started_clock_ns": 1_000,
        "started_unix_ns": START,
        **more,
    }


def row(window: int, solve: float, advance: float, wait: float | None, mapping: float | None = 0.0, **more: Any) -> Any:
    """One row; seconds, where None means not measured."""
    nanoseconds = [-1 if seconds is None else round(seconds * 1e9) for seconds in (solve, advance, mapping, wait)]
    return window, more.get("iteration", 1), window * 1000, *nanoseconds, 0.1, more.get("complete", True)


ADVANCE_COLUMNS = (
    "window", "iteration", "begin_ns", "solve_ns", "advance_ns", "mapping_ns", "wait_ns", "computed_dt",
    "window_complete",
)  # fmt: skip
INITIALIZE_COLUMNS = ("begin_ns", "initialize_ns", "mapping_ns", "wait_ns")


def rows_of(table: StoreTable, columns: Sequence[str], tuples: Iterable[tuple[Any, ...]]) -> np.ndarray:
    """Rows of a table with values for some of its columns."""
    given = np.array(list(tuples), [(name, table.dtype[name]) for name in columns])
    return table.completed(given)


def rows(tuples: Iterable[tuple[Any, ...]]) -> np.ndarray:
    return rows_of(ADVANCES, ADVANCE_COLUMNS, tuples)


def contents(store: RankFile) -> tuple[Any, ...]:
    """Everything that one rank recorded, the same in its own file and in a merged one."""
    meshes = recorded_meshes(store)
    named = {
        table: [
            (store.names(table)[values["name"]], *(str(values[key]) for key in values.dtype.names if key != "name"))
            for values in store.rows(table)
        ]
        for table in ("sections", "guesses", "counts")
        if table in TABLES
    }
    lines = [(meshes.names[line["name"]], str(line[list(line.dtype.names[2:])])) for line in meshes.rows]
    tables = (store.advances, store.initialize, store.rows("mpi"), store.rows("cpu"), meshes.coordinates, meshes.cells)
    return json.dumps(store.metadata, sort_keys=True), store.configuration, named, lines, [x.tobytes() for x in tables]


def write_store(
    directory: Path,
    advances: Iterable[tuple[Any, ...]],
    participant: str = "A",
    rank: int = 0,
    size: int = 1,
    *,
    seconds: float = 10.0,
    finished: bool = True,
    initialize_wait: float = 0.0,
    initialize: Sequence[tuple[int, ...]] | None = None,
    guesses: Sequence[tuple[int, str, float, float]] = (),
    sections: Sequence[tuple[str, int, int, int]] = (),
    counts: Mapping[str, float] | None = None,
    mpi: Sequence[tuple[int, float]] = (),
    cpu: Sequence[tuple[int, float]] = (),
    meshes: RecordedMeshes | None = None,
    spool: bool = False,
    **more: Any,
) -> Path:
    """Write a rank's store: guesses by window, predictor, seconds and error, sections by name, window and ns."""
    data = metadata(participant, rank, size, **more)
    writer = StoreWriter(directory, data, more.get("configuration", PARALLEL), keep_spool=spool)
    if meshes is not None:
        writer.append(None, None, {"meshes": 1}, **meshes.arrays())
    begun = [(500, 1000, 0, round(initialize_wait * 1e9))] if initialize is None else initialize
    writer.append(initialize=rows_of(INITIALIZE, INITIALIZE_COLUMNS, begun))
    names = {
        "guesses": list(dict.fromkeys(name for _, name, _, _ in guesses)),
        "sections": list(dict.fromkeys(name for name, *_ in sections)),
        "counts": list(counts or {}),
    }
    planted = {
        "guesses": [
            (window, names["guesses"].index(name), round(s * 1e9), error) for window, name, s, error in guesses
        ],
        "sections": [(names["sections"].index(name), *section) for name, *section in sections],
        "counts": [(1, position, count) for position, count in enumerate((counts or {}).values())],
        "mpi": [(window, round(seconds * 1e9)) for window, seconds in mpi],
        "cpu": [(window, round(seconds * 1e9)) for window, seconds in cpu],
    }
    # Without a room there is no table of it.
    hooks("columns")
    names = {name: values for name, values in names.items() if name in TABLES}
    tables = {name: np.array(values, TABLES[name].dtype) for name, values in planted.items() if name in TABLES}
    writer.append(rows(advances), names, **tables)
    writer.close(finished=finished, ended_unix_ns=data["started_unix_ns"] + round(seconds * 1e9))
    return writer.path


def write_coupled(
    directory: Path,
    costs: Mapping[str, Sequence[float]],
    ranks: Mapping[str, int] | None = None,
    *,
    transfer: float = 0.002,
    warmup: float = 0.0,
    **more: Any,
) -> None:
    """Stores of a parallel coupling, by participant and window: each takes the largest cost and the transfer."""
    longest = np.max(list(costs.values()), axis=0) + transfer
    for name, seconds in costs.items():
        size = (ranks or {}).get(name, 1)
        calls = [
            row(window, cost + first, wall - cost, wall - cost)
            for window, (cost, wall) in enumerate(zip(seconds, longest, strict=True), start=1)
            for first in [warmup if window == 1 else 0.0]
        ]
        for rank in range(size):
            write_store(directory, calls, name, rank, size, **more)
