"""Which vertices a nearest-neighbour, nearest-projection or linear-cell mapping uses: preCICE's ``query/Index.cpp``.

Edges are ranked by their true distance, triangles and tetrahedra by that of their bounding boxes; the four nearest are
tried. A projection counts when it lies inside the cell, and only while it is no farther than the nearest vertex.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

__all__ = ["CellIndex", "LocalMesh", "cells_used", "nearest_vertices"]

_ZERO = 1e-14
_SAME = 1e-12
_TRIED = 4
_BLOCK = 2**20


class CellIndex:
    """All cells of a mesh, sorted by their first vertex.

    Parameters
    ----------
    cells : mapping
        ``edges``, ``triangles`` and ``tetrahedra`` as arrays of vertex positions.
    vertices : int
        Number of vertices of the mesh.
    """

    def __init__(self, cells: Mapping[str, NDArray[np.int64]], vertices: int) -> None:
        self.kinds = {}
        for kind, array in with_faces(cells).items():
            ordered = array[np.argsort(array[:, 0], kind="stable")]
            self.kinds[kind] = (ordered, np.searchsorted(ordered[:, 0], np.arange(vertices + 1)))

    def among(self, chosen: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
        """Cells whose vertices are all among the chosen ones (ascending), as positions in these."""
        result = {}
        for kind, (ordered, starts) in self.kinds.items():
            begin, count = starts[chosen], starts[chosen + 1] - starts[chosen]
            rows = np.repeat(begin - np.cumsum(count) + count, count) + np.arange(count.sum())
            cells = ordered[rows]
            place = np.minimum(np.searchsorted(chosen, cells), max(len(chosen) - 1, 0))
            result[kind] = place[(chosen[place] == cells).all(axis=1)] if len(cells) else cells
        return result


def with_faces(cells: Mapping[str, NDArray[np.int64]]) -> dict[str, NDArray[np.int64]]:
    """Add the faces of tetrahedra and the edges of triangles, each once: preCICE's ``Mesh::preprocess``."""
    tetrahedra = np.sort(cells.get("tetrahedra", np.empty((0, 4), np.int64)), axis=1)
    faces = [tetrahedra[:, np.delete(np.arange(4), corner)] for corner in range(4)]
    triangles = np.sort(np.concatenate([cells.get("triangles", np.empty((0, 3), np.int64)), *faces]), axis=1)
    sides = [triangles[:, np.delete(np.arange(3), corner)] for corner in range(3)]
    edges = np.sort(np.concatenate([cells.get("edges", np.empty((0, 2), np.int64)), *sides]), axis=1)
    every = {"edges": edges, "triangles": triangles, "tetrahedra": tetrahedra}
    return {kind: np.unique(array, axis=0) if len(array) else array for kind, array in every.items()}


@dataclass(frozen=True)
class LocalMesh:
    """The part of a mesh that reaches a rank: some vertices, and the cells whose vertices are all among them."""

    points: NDArray[np.float64]
    cells: Mapping[str, NDArray[np.int64]]


def cells_used(kind: str, origin: NDArray[np.float64], mesh: LocalMesh, tree: cKDTree) -> tuple[NDArray[np.int64], int]:
    """Vertices with a weight above zero for any of the points.

    Parameters
    ----------
    kind : str
        ``nearest-neighbor``, ``nearest-projection`` or ``linear-cell-interpolation``.
    origin : ndarray, shape (points, dimensions)
        Points of the receiver.
    mesh : LocalMesh
        What reaches the rank.
    tree : cKDTree
        Of the mesh's points.

    Returns
    -------
    vertices : ndarray of int64
        Positions in the local mesh, ascending.
    open_choices : int
        Points for which several vertices or cells are equally near.
    """
    nearest, tied = nearest_vertices(tree, origin)
    if kind == "nearest-neighbor":
        return np.unique(nearest), int(tied.sum())
    used, unsure = [], 0
    for begin in range(0, len(origin), 512):
        part = slice(begin, begin + 512)
        found, open_choices = _project(kind, origin[part], nearest[part], tied[part], mesh)
        used.append(found)
        unsure += open_choices
    return np.unique(np.concatenate(used)), unsure


def nearest_vertices(tree: cKDTree, origin: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Nearest point of a tree to each origin; of equally near ones the first, with a flag.

    Parameters
    ----------
    tree : cKDTree
        At least one point.
    origin : ndarray, shape (points, dimensions)
        Where to search from.

    Returns
    -------
    nearest : ndarray of int64, shape (points,)
        Positions in the tree's data.
    tied : ndarray of bool, shape (points,)
        Whether another point is as near, within rounding.
    """
    if tree.n == 1:
        return np.zeros(len(origin), np.int64), np.zeros(len(origin), bool)
    distance, index = tree.query(origin, k=2, workers=-1)
    tied = distance[:, 1] - distance[:, 0] <= _SAME * distance[:, 1]
    return np.where(tied, index.min(axis=1), index[:, 0]).astype(np.int64), np.asarray(tied)


def _project(
    kind: str,
    origin: NDArray[np.float64],
    nearest: NDArray[np.int64],
    tied: NDArray[np.bool_],
    mesh: LocalMesh,
) -> tuple[NDArray[np.int64], int]:
    """Follow preCICE's fallbacks: cell, triangle (in three dimensions), edge, vertex."""
    flat = origin.shape[1] == 2
    used: list[NDArray[np.int64]] = []
    left = np.ones(len(origin), bool)
    unsure = 0
    vertex_distance = np.linalg.norm(origin - mesh.points[nearest], axis=1)
    if kind == "linear-cell-interpolation":
        cells = mesh.cells["triangles" if flat else "tetrahedra"]
        # Enclosing tetrahedra are all tried.
        found, chosen, many = _best(
            origin, cells, mesh.points, tried=_TRIED if flat else len(cells), enclosing=not flat
        )
        used.append(chosen)
        unsure += many
        left &= ~found
    steps = ["edges"] if flat else ["triangles", "edges"]
    for step in steps:
        cells = mesh.cells[step]
        rows = np.flatnonzero(left)
        if not len(rows) or not len(cells):
            continue
        found, chosen, many = _best(origin[rows], cells, mesh.points, tried=_TRIED, limit=vertex_distance[rows])
        used.append(chosen)
        unsure += many
        left[rows[found]] = False
    used.append(nearest[left])
    return np.concatenate(used), unsure + int((tied & left).sum())


def _best(
    origin: NDArray[np.float64],
    cells: NDArray[np.int64],
    points: NDArray[np.float64],
    *,
    tried: int,
    limit: NDArray[np.float64] | None = None,
    enclosing: bool = False,
) -> tuple[NDArray[np.bool_], NDArray[np.int64], int]:
    """For each point the best of the cells that are tried: whether there is one, vertices used, undecided points."""
    found = np.zeros(len(origin), bool)
    if not len(cells):
        return found, np.empty(0, np.int64), 0
    used = []
    unsure = 0
    rows = max(_BLOCK // len(cells), 1)
    for begin in range(0, len(origin), rows):
        part = slice(begin, begin + rows)
        where = origin[part]
        distance = _distances(where, cells, points)
        if enclosing:
            near = distance == 0
        else:
            count = min(tried, len(cells))
            last = np.partition(distance, count - 1, axis=1)[:, count - 1]
            # Equally near ones are all tried: which of them preCICE takes depends on its tree.
            near = distance <= last[:, None] * (1 + _SAME)
        point, cell = np.nonzero(near)
        weights, away = _weights(where[point], points[cells[cell]])
        inside = (weights >= -_ZERO).all(axis=1)
        if limit is not None:
            inside &= away <= limit[part][point]
        if not enclosing:
            crowded = near.sum(axis=1) > min(tried, len(cells))
            unsure += int(crowded[np.unique(point[inside])].sum()) if inside.any() else 0
        point, cell, weights, away = point[inside], cell[inside], weights[inside], away[inside]
        order = np.lexsort((away, point))
        first = order[np.unique(point[order], return_index=True)[1]]
        found[begin + point[first]] = True
        used.append(cells[cell[first]][np.abs(weights[first]) > _ZERO])
    return found, np.concatenate(used), unsure


def _distances(
    origin: NDArray[np.float64], cells: NDArray[np.int64], points: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Distance of each point to each edge, or to each cell's bounding box; shape (points, cells)."""
    corners = points[cells]
    if cells.shape[1] == 2:
        start, along = corners[:, 0], corners[:, 1] - corners[:, 0]
        length = np.maximum((along**2).sum(axis=1), np.finfo(float).tiny)
        behind = origin[:, None] - start[None]
        share = np.clip((behind * along).sum(axis=2) / length, 0.0, 1.0)
        return np.asarray(np.linalg.norm(behind - share[:, :, None] * along, axis=2))
    low, high = corners.min(axis=1), corners.max(axis=1)
    beyond = np.maximum(np.maximum(low[None] - origin[:, None], origin[:, None] - high[None]), 0.0)
    return np.asarray(np.linalg.norm(beyond, axis=2))


def _weights(
    where: NDArray[np.float64], corners: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Barycentric weights of each point's projection in its cell, and the distance to it (0 in a tetrahedron)."""
    count = corners.shape[1]
    edges = corners[:, 1:] - corners[:, :1]
    offset = where - corners[:, 0]
    gram = np.einsum("nik,njk->nij", edges, edges)
    right = np.einsum("nik,nk->ni", edges, offset)
    # A cell without extent has no weights.
    fine = np.abs(np.linalg.det(gram)) > 0
    weights = np.full((len(where), count), -1.0)
    weights[fine, 1:] = np.linalg.solve(gram[fine], right[fine][:, :, None])[:, :, 0]
    weights[fine, 0] = 1.0 - weights[fine, 1:].sum(axis=1)
    projected = np.einsum("nc,nck->nk", weights, corners)
    away = np.linalg.norm(where - projected, axis=1)
    return weights, away if count < 4 else np.zeros(len(where))
