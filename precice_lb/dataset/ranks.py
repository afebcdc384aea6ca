"""What each rank of a participant held, and what it did within its solve time: arrays over all of its ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from precice_lb.store.records import RankStore

Values = NDArray[np.float64]


def sections_of(group: Sequence[RankStore], windows: NDArray[np.int64]) -> dict[str, Values]:
    """Mean seconds per window of the solver's profiling sections by name, shape (ranks,); NaN for ranks without one."""
    found: dict[str, Values] = {}
    for store in group if len(windows) else ():
        if not (names := store.section_names):
            continue
        rows = store.sections
        rows = rows[np.isin(rows["window"], windows)]
        seconds = np.bincount(rows["name"], rows["duration_ns"], len(names)) * 1e-9 / len(windows)
        for name, mean in zip(names, seconds.tolist(), strict=True):
            found.setdefault(name, _unknown(group))[store.metadata["rank"]] = mean
    return {name: each for name, each in found.items() if np.nanmax(each) > 0}


def counts_of(group: Sequence[RankStore]) -> dict[str, Values]:
    """Give what each rank held in the end of each feature, by name; 0 where a rank said nothing of it."""
    found: dict[str, Values] = {}
    ranks = [store.metadata["rank"] for store in group]
    for store in group:
        if names := store.count_names:
            for row in store.counts:
                name = names[row["name"]]
                if name not in found:
                    found[name] = _unknown(group)
                    found[name][ranks] = 0.0
                found[name][store.metadata["rank"]] = row["count"]
    return found


def vertices_of(group: Sequence[RankStore]) -> Values:
    """Count each rank's vertices of coupling meshes; NaN where nothing was recorded of any rank's meshes."""
    found, told = _unknown(group), False
    for store in group:
        rows = store.mesh_rows
        told = told or len(rows) > 0
        found[store.metadata["rank"]] = rows["vertices"].sum()
    return found if told else _unknown(group)


def mpi_of(group: Sequence[RankStore], windows: NDArray[np.int64]) -> Values:
    """Mean seconds per window that each rank spent in MPI within its solve time; NaN where not recorded."""
    return _mean_of(group, windows, lambda store: store.mpi, "mpi_ns")


def cpu_of(group: Sequence[RankStore], windows: NDArray[np.int64]) -> Values:
    """Mean CPU seconds per window of each rank within its solve time; NaN where not recorded."""
    return _mean_of(group, windows, lambda store: store.cpu, "cpu_ns")


def _mean_of(
    group: Sequence[RankStore], windows: NDArray[np.int64], table: Callable[[RankStore], NDArray[np.void]], column: str
) -> Values:
    found = _unknown(group)
    for store in group if len(windows) else ():
        rows = table(store)
        rows = rows[np.isin(rows["window"], windows)]
        # A rank that recorded it has a row for every window.
        if len(rows):
            found[store.metadata["rank"]] = rows[column].sum() * 1e-9 / len(windows)
    return found


def _unknown(group: Sequence[RankStore]) -> Values:
    return np.full(int(group[0].metadata["size"]), np.nan)
