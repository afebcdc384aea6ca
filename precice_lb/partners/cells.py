"""Cells of a partitioned mesh, and those of them that reach a rank."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["CellIndex", "LocalMesh"]

_SIZES = {"edges": 2, "triangles": 3, "tetrahedra": 4}


class CellIndex:
    """All cells of a mesh, found by their first vertex."""

    def __init__(self, cells: Mapping[str, NDArray[np.int64]], vertices: int) -> None:
        self.kinds = {
            kind: (array, np.searchsorted(array[:, 0], np.arange(vertices + 1)))
            for kind, array in _with_faces(cells).items()
        }

    def among(self, chosen: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
        """Cells whose vertices are all among the chosen ones (ascending), as positions in these."""
        result = {}
        for kind, (array, starts) in self.kinds.items():
            begin, count = starts[chosen], starts[chosen + 1] - starts[chosen]
            cells = array[np.repeat(begin - np.cumsum(count) + count, count) + np.arange(count.sum())]
            place = np.minimum(np.searchsorted(chosen, cells), max(len(chosen) - 1, 0))
            result[kind] = place[(chosen[place] == cells).all(axis=1)] if len(cells) else cells
        return result


def _with_faces(cells: Mapping[str, NDArray[np.int64]]) -> dict[str, NDArray[np.int64]]:
    """Add the faces of tetrahedra and the edges of triangles; each once, and in ascending order of vertices."""
    every = {kind: cells.get(kind, np.empty((0, size), np.int64)) for kind, size in _SIZES.items()}
    for kind, parent in (("triangles", "tetrahedra"), ("edges", "triangles")):
        size = _SIZES[parent]
        corners = list(itertools.combinations(range(size), size - 1))
        every[kind] = np.concatenate([every[kind], every[parent][:, corners].reshape(-1, size - 1)])
    return {kind: np.unique(np.sort(array, axis=1), axis=0) for kind, array in every.items()}


@dataclass(frozen=True)
class LocalMesh:
    """The part of a mesh that reaches a rank: some vertices, and the cells whose vertices are all among them."""

    points: NDArray[np.float64]
    cells: Mapping[str, NDArray[np.int64]]
