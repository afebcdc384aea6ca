"""Which vertices a nearest-neighbour, nearest-projection or linear-cell mapping uses: preCICE's ``query/Index.cpp``.

Edges are ranked by their true distance, triangles and tetrahedra by that of their bounding boxes; the four nearest are
tried. A projection counts when it lies inside the cell, and only while it is no farther than the nearest vertex. Where
several are equally near, the order of preCICE's search tree decides.
"""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from precice_lb.partners.cell_search import CellSearch
from precice_lb.partners.cells import LocalMesh
from precice_lb.partners.search_tree import SearchTree

__all__ = ["cells_used", "nearest_vertices", "settled"]

_ZERO = 1e-14
_SAME = 1e-12
_TRIED = 4
_BLOCK = 2**14
# Beyond, what several equally near elements leave open is not looked up in preCICE's tree.
_SEARCHED = 20_000


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
        return np.unique(settled(nearest, tied, origin, mesh.points)), int(tied.sum())
    nearest = settled(nearest, tied, origin, mesh.points)
    used, unsure = _project(kind, origin, nearest, tied, mesh)
    return np.unique(used), unsure


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
            origin, cells, mesh.points, tried=_TRIED if flat else len(cells), enclosing=not flat, first_wins=True
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
    first_wins: bool = False,
) -> tuple[NDArray[np.bool_], NDArray[np.int64], int]:
    """For each point the best of the cells that are tried: whether there is one, vertices used, undecided points."""
    found = np.zeros(len(origin), bool)
    if not len(cells):
        return found, np.empty(0, np.int64), 0
    used = []
    unsure = 0
    search = CellSearch(cells, points)
    for begin in range(0, len(origin), _BLOCK):
        part = slice(begin, begin + _BLOCK)
        where = origin[part]
        point, cell, turn, open_choices = _tried(
            where, cells, points, search, min(tried, len(cells)), first_wins, enclosing
        )
        weights, away = _weights(where[point], points[cells[cell]])
        inside = (weights >= -_ZERO).all(axis=1)
        if limit is not None:
            inside &= away <= limit[part][point]
        unsure += int(open_choices[np.unique(point[inside])].sum())
        point, cell, turn, weights, away = point[inside], cell[inside], turn[inside], weights[inside], away[inside]
        order = np.lexsort((turn, point)) if first_wins else np.lexsort((turn, away, point))
        first = order[np.unique(point[order], return_index=True)[1]]
        found[begin + point[first]] = True
        used.append(cells[cell[first]][np.abs(weights[first]) > _ZERO])
    return found, np.concatenate(used), unsure


def _tried(
    where: NDArray[np.float64],
    cells: NDArray[np.int64],
    points: NDArray[np.float64],
    search: CellSearch,
    tried: int,
    first_wins: bool,
    enclosing: bool,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Pairs of point and cell to try, their turn, and for which points the search tree decides about them."""
    point, cell = search.around(where) if enclosing else search.near(where, tried)
    crowded = np.bincount(point, minlength=len(where)) > (len(cells) if enclosing else tried)
    # Several cells around a point or with equally near projections, as of ranks whose parts overlap.
    weights, away = _weights(where[point], points[cells[cell]])
    inside = (weights >= -_ZERO).all(axis=1)
    best = np.full(len(where), np.inf)
    np.minimum.at(best, point[inside], away[inside])
    alike = inside & (first_wins | (away <= best[point] + _SAME * (1 + best[point])))
    crowded |= np.bincount(point[alike], minlength=len(where)) > 1
    if len(cells) > _SEARCHED or not crowded.any():
        return point, cell, np.zeros(len(point), np.int64), crowded
    rest = ~crowded[point]
    points_of, cells_of = [point[rest]], [cell[rest]]
    turns = [np.zeros(int(rest.sum()), np.int64)]
    for row in np.flatnonzero(crowded):
        part = slice(*np.searchsorted(point, [row, row + 1]))
        ordered = search.in_order(cell[part]) if enclosing else search.nearest(where[row], tried)
        points_of.append(np.full(len(ordered), row))
        cells_of.append(np.asarray(ordered, dtype=np.int64))
        turns.append(np.arange(len(ordered)))
    return np.concatenate(points_of), np.concatenate(cells_of), np.concatenate(turns), crowded


def settled(
    nearest: NDArray[np.int64], tied: NDArray[np.bool_], origin: NDArray[np.float64], points: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Take of equally near vertices the one that preCICE's tree finds.

    Parameters
    ----------
    nearest : ndarray of int64, shape (n,)
        A nearest vertex of each point.
    tied : ndarray of bool, shape (n,)
        Whether there are others.
    origin : ndarray, shape (n, dimensions)
        The points.
    points : ndarray, shape (vertices, dimensions)
        The vertices that reach the rank, in preCICE's order.

    Returns
    -------
    ndarray of int64, shape (n,)
        Unchanged where there are too many vertices to pack a tree of them.
    """
    if len(points) > _SEARCHED or not tied.any():
        return nearest
    tree = SearchTree(points, points)
    result: NDArray[np.int64] = nearest.copy()
    for row in np.flatnonzero(tied):
        point = origin[row]
        result[row] = tree.nearest(point, 1, functools.partial(_point_squares, points, point))[0]
    return result


def _point_squares(
    points: NDArray[np.float64], point: NDArray[np.float64], chosen: NDArray[np.int64]
) -> NDArray[np.float64]:
    return np.asarray(((points[chosen] - point) ** 2).sum(axis=1))


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
