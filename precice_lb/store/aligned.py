"""The times and the meshes of all ranks of a participant at once, whatever files they lie in."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from precice_lb.store.columns import DURATIONS, RankColumns, row_slice
from precice_lb.store.merged import MergedTable
from precice_lb.store.meshes import RecordedMeshes
from precice_lb.store.records import RankStore

__all__ = ["aligned_columns", "aligned_meshes"]


def aligned_columns(
    group: Sequence[RankStore],
    names: Sequence[str] = DURATIONS,
    *,
    windows: tuple[int, int] | None = None,
) -> RankColumns | None:
    """Read columns of all ranks of a participant as arrays; of a merged store, only what is asked for is read.

    Parameters
    ----------
    group : sequence of RankStore
        Ranks of one participant, as from `precice_lb.store.reader.read_runs`.
    names : sequence of str
        Columns of `precice_lb.store.schema.ADVANCE_DTYPE`.
    windows : tuple of int, optional
        First and last time window, both included; by default all.

    Returns
    -------
    RankColumns or None
        Up to the last row that every rank has. None if the ranks differ in windows, iterations or completed windows.
    """
    lazy = [store.__dict__["advances"] for store in group]
    merged = {table.store for table in lazy if isinstance(table, MergedTable)}
    if len(merged) == 1 and all(isinstance(table, MergedTable) for table in lazy):
        return merged.pop().columns([table.position for table in lazy], names, windows=windows)
    rows = [store.advances for store in group]
    count = min((len(table) for table in rows), default=0)
    if not count:
        return None
    first = rows[0][:count]
    for table in rows[1:]:
        if any(
            not np.array_equal(first[name], table[name][:count]) for name in ("window", "iteration", "window_complete")
        ):
            return None
    chosen = row_slice(first["window"], windows)
    return RankColumns(
        ranks=np.array([store.metadata["rank"] for store in group], dtype=np.int64),
        window=first["window"][chosen].copy(),
        iteration=first["iteration"][chosen].copy(),
        window_complete=first["window_complete"][chosen].copy(),
        values={name: np.stack([table[name][:count][chosen] for table in rows]) for name in names},
    )


def aligned_meshes(group: Sequence[RankStore]) -> RecordedMeshes:
    """Read what all ranks of a participant said about their meshes; of a merged store, in one go.

    Parameters
    ----------
    group : sequence of RankStore
        Ranks of one participant, as from `precice_lb.store.reader.read_runs`.

    Returns
    -------
    RecordedMeshes
        Rank by rank.

    Raises
    ------
    StoreError
        If they cannot be read.
    """
    tables = [store.meshes for store in group]
    merged = {table.store for table in tables if isinstance(table, MergedTable)}
    if len(merged) == 1 and len(tables) == sum(isinstance(table, MergedTable) for table in tables):
        store = merged.pop()
        if len(tables) == len(store.index):
            return store.meshes()
    return RecordedMeshes.joined([read() for read in tables])
