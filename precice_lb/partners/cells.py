"""Cells of a partitioned mesh, and those of them that reach a rank."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["CellIndex", "LocalMesh", "with_faces"]

_SIZES = {"edges": 2, "triangles": 3, "tetrahedra": 4}


class CellIndex:
    """All cells of a mesh, found by their first vertex.

    Parameters
    ----------
    cells : mapping
        ``edges``, ``triangles`` and ``tetrahedra`` as arrays of vertex positions.
    rank_of : ndarray of int64, shape (vertices,)
        Rank of each vertex.
    """

    def __init__(self, cells: Mapping[str, NDArray[np.int64]], rank_of: NDArray[np.int64]) -> None:
        self.kinds = {}
        for kind, array in with_faces(cells).items():
            # Ranks send their cells one after the other.
            array = array[np.argsort(rank_of[array[:, 0]], kind="stable")]
            by_vertex = np.argsort(array[:, 0], kind="stable")
            self.kinds[kind] = (array, by_vertex, np.searchsorted(array[by_vertex, 0], np.arange(len(rank_of) + 1)))

    def among(self, chosen: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
        """Cells whose vertices are all among the chosen ones (ascending), as positions in these."""
        result = {}
        for kind, (array, by_vertex, starts) in self.kinds.items():
            begin, count = starts[chosen], starts[chosen + 1] - starts[chosen]
            rows = np.repeat(begin - np.cumsum(count) + count, count) + np.arange(count.sum())
            cells = array[np.sort(by_vertex[rows])]
            place = np.minimum(np.searchsorted(chosen, cells), max(len(chosen) - 1, 0))
            result[kind] = place[(chosen[place] == cells).all(axis=1)] if len(cells) else cells
        return result


def with_faces(cells: Mapping[str, NDArray[np.int64]]) -> dict[str, NDArray[np.int64]]:
    """Add the faces of tetrahedra and the edges of triangles, each once, in the order of preCICE's ``preprocess``."""
    given = {kind: cells.get(kind, np.empty((0, size), np.int64)) for kind, size in _SIZES.items()}
    every = {}
    for kind, array in given.items():
        rows = np.sort(array, axis=1)
        every[kind] = rows[_first_of_each(rows)]
    for kind, parent in (("triangles", "tetrahedra"), ("edges", "triangles")):
        size = _SIZES[parent]
        corners = [np.delete(np.arange(size), corner) for corner in range(size - 1, -1, -1)]
        implied = every[parent][:, corners].reshape(-1, size - 1)
        joined = np.concatenate([every[kind], implied])
        every[kind] = joined[np.sort(_first_of_each(joined))]
    return every


def _first_of_each(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return positions of the first of each different row, in the order of the rows."""
    order = np.lexsort(rows.T[::-1])
    ordered = rows[order]
    new = np.ones(len(rows), bool)
    new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    return order[new]


@dataclass(frozen=True)
class LocalMesh:
    """The part of a mesh that reaches a rank: some vertices, and the cells whose vertices are all among them."""

    points: NDArray[np.float64]
    cells: Mapping[str, NDArray[np.int64]]
