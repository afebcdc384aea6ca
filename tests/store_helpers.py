"""Synthetic stores with planted times, through the real writer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from precice_lb.guess.columns import GUESSES
from precice_lb.store.columns import ADVANCES, COUNTS, CPU, INITIALIZE, MPI, recorded_meshes
from precice_lb.store.records import RankFile
from precice_lb.store.schema import case_fingerprint
from precice_lb.store.spool import StoreWriter

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


def row(window: int, solve: float, advance: float, wait: float, mapping: float = 0.0, **more: Any) -> tuple[Any, ...]:
    """One row; seconds, where None means not measured."""

    def ns(seconds: float | None) -> int:
        return -1 if seconds is None else round(seconds * 1e9)

    iteration, complete = more.get("iteration", 1), more.get("complete", True)
    return window, iteration, window * 1000, ns(solve), ns(advance), ns(mapping), ns(wait), 0.1, complete


def rows(tuples: Iterable[tuple[Any, ...]]) -> np.ndarray:
    return np.array(list(tuples), dtype=ADVANCES.dtype)


def contents(store: RankFile) -> tuple[Any, ...]:
    """Everything that one rank recorded, the same in its own file and in a merged one."""
    sections, meshes = store.rows("sections"), recorded_meshes(store)
    named = [(store.names("sections")[section["name"]], *section.tolist()[1:]) for section in sections]
    guesses = [
        (store.names("guesses")[name], window, cost, str(error))
        for window, name, cost, error in store.rows("guesses").tolist()
    ]
    counts = [(store.names("counts")[name], window, count) for window, name, count in store.rows("counts").tolist()]
    lines = [(meshes.names[line["name"]], str(line[list(line.dtype.names[2:])])) for line in meshes.rows]
    return (
        json.dumps(store.metadata, sort_keys=True),
        store.configuration,
        store.advances.tobytes(),
        store.initialize.tobytes(),
        named,
        guesses,
        counts,
        store.rows("mpi").tobytes(),
        store.rows("cpu").tobytes(),
        lines,
        meshes.coordinates.tobytes(),
        meshes.cells.tobytes(),
    )


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
    guesses: Sequence[tuple[int, str, float, float]] = (),
    counts: Mapping[str, float] | None = None,
    mpi: Sequence[tuple[int, float]] = (),
    cpu: Sequence[tuple[int, float]] = (),
    **more: Any,
) -> Path:
    configuration = more.get("configuration", PARALLEL)
    data = metadata(participant, rank, size, **more)
    writer = StoreWriter(directory, data, configuration)
    writer.append(initialize=np.array([(500, 1000, 0, round(initialize_wait * 1e9))], dtype=INITIALIZE.dtype))
    # Of each: time window, predictor, seconds, error.
    names = list(dict.fromkeys(name for _, name, _, _ in guesses))
    told = [(window, names.index(name), round(cost * 1e9), error) for window, name, cost, error in guesses]
    counted = [(1, at, count) for at, count in enumerate((counts or {}).values())]
    writer.append(
        rows(advances),
        {"guesses": names, "counts": list(counts or {})},
        guesses=np.array(told, dtype=GUESSES.dtype),
        counts=np.array(counted, dtype=COUNTS.dtype),
        mpi=np.array([(window, round(seconds * 1e9)) for window, seconds in mpi], dtype=MPI.dtype),
        cpu=np.array([(window, round(seconds * 1e9)) for window, seconds in cpu], dtype=CPU.dtype),
    )
    writer.close(finished=finished, ended_unix_ns=data["started_unix_ns"] + round(seconds * 1e9))
    return writer.path
