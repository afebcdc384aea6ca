"""The times and the meshes of all ranks of a participant at once, whatever files they lie in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.store.merged import MergedRank, MergedStore
from precice_lb.store.meshes import RecordedMeshes
from precice_lb.store.records import RankStore

__all__ = ["RankColumns", "aligned_columns", "aligned_meshes"]

_CALLS = ("window", "iteration", "window_complete")


@dataclass(frozen=True, eq=False)
class RankColumns:
    """Rows of ``advance`` that all ranks of a participant have in common.

    Attributes
    ----------
    window, iteration, window_complete : ndarray, shape (N,)
        As in `precice_lb.store.schema.ADVANCE_DTYPE`, the same on all ranks.
    values : dict of str to ndarray, shape (R, N)
        Further columns by name; nanoseconds, -1 where not measured.
    """

    window: NDArray[np.int64]
    iteration: NDArray[np.int32]
    window_complete: NDArray[np.bool_]
    values: dict[str, NDArray[np.int64]]


def aligned_columns(
    group: Sequence[RankStore], names: Sequence[str] = ("solve_ns", "advance_ns", "mapping_ns", "wait_ns")
) -> RankColumns | None:
    """Read columns of all ranks of a participant as arrays; of a merged store, only what is asked for is read."""
    merged = _merged(group, "advances")
    tables = [store.advances for store in group] if merged is None else []
    ranks = np.array([store.read.position for store in group if isinstance(store.read, MergedRank)], dtype=np.int64)
    count = min(map(len, tables), default=0) if merged is None else int(merged.index["rows"][ranks].min())

    def column(name: str) -> NDArray[Any]:
        if merged is not None:
            return merged.column(name, ranks, slice(0, count))
        return np.stack([table[name][:count] for table in tables])

    if not count:
        return None
    calls = [column(name) for name in _CALLS]
    if any((values != values[0]).any() for values in calls):
        return None
    window, iteration, complete = (values[0].copy() for values in calls)
    return RankColumns(window, iteration, complete, {name: column(name) for name in names})


def aligned_meshes(group: Sequence[RankStore]) -> RecordedMeshes:
    """Read what all ranks of a participant said about their meshes; of a merged store, in one go."""
    merged = _merged(group, "meshes")
    if merged is not None and len(group) == len(merged.index):
        return merged.meshes()
    return RecordedMeshes.joined([store.meshes() for store in group])


def _merged(group: Sequence[RankStore], table: str) -> MergedStore | None:
    """Find the one merged store that a table of all ranks is still in."""
    found = [store.read for store in group if isinstance(store.read, MergedRank) and table not in store.tables]
    return found[0].store if len(found) == len(group) and len({id(each.store) for each in found}) == 1 else None
