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

from precice_lb.partners.cell_pairs import SAME, CellPairs
from precice_lb.partners.cell_search import CellSearch
from precice_lb.partners.cells import LocalMesh
from precice_lb.partners.search_tree import SearchTree

__all__ = ["cells_used", "nearest_vertices", "settled"]

_ZERO = 1e-14
_TRIED = 4
_BLOCK = 2**14
# Threads cost more than they save for fewer points.
_THREADED = 2**14
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
        Points for which several vertices or cells are equally near; for projections, only those where that matters.
    """
    nearest, tied = nearest_vertices(tree, origin)
    if kind == "nearest-neighbor":
        return np.unique(settled(nearest, tied, origin, mesh.points)), int(tied.sum())
    return _Projection(kind, origin, nearest, tied, mesh).used()


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
    distance, index = tree.query(origin, k=2, workers=-1 if len(origin) > _THREADED else 1)
    tied = distance[:, 1] - distance[:, 0] <= SAME * distance[:, 1]
    return np.where(tied, index.min(axis=1), index[:, 0]).astype(np.int64), np.asarray(tied)


class _Projection:
    """A mapping by projection: preCICE's fallbacks are cell, triangle (in three dimensions), edge, vertex."""

    def __init__(
        self,
        kind: str,
        origin: NDArray[np.float64],
        nearest: NDArray[np.int64],
        tied: NDArray[np.bool_],
        mesh: LocalMesh,
    ) -> None:
        self._origin, self._nearest, self._tied, self._mesh = origin, nearest, tied, mesh
        self._away = np.linalg.norm(origin - mesh.points[nearest], axis=1)
        flat = origin.shape[1] == 2
        cells = {} if kind == "nearest-projection" else {"triangles" if flat else "tetrahedra": True}
        cells |= {"edges": False} if flat else {"triangles": False, "edges": False}
        # Kinds of cells in turn, and whether a cell must hold the point.
        self._steps = {step: holds for step, holds in cells.items() if len(mesh.cells[step])}
        self._searches: dict[str, CellSearch] = {}

    def used(self) -> tuple[NDArray[np.int64], int]:
        """Vertices with a weight, and the number of points for which preCICE's search tree decides about them."""
        # One more for what cannot be listed.
        kept = np.zeros(len(self._mesh.points) + 1, bool)
        points, vertices, unsure = self._follow(np.arange(len(self._origin)), decide=False)
        kept[vertices[~unsure[points]]] = True
        # Where other points need all that the tree may choose, it need not be asked.
        rows = np.unique(points[unsure[points] & ~kept[vertices]])
        _, vertices, _ = self._follow(rows, decide=True)
        kept[vertices] = True
        return np.flatnonzero(kept[:-1]), len(rows)

    def _follow(
        self, rows: NDArray[np.int64], *, decide: bool
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
        """Pairs of a point and a vertex that it needs, or may need where the tree is not asked; which points are so."""
        unsure = np.zeros(len(self._origin), bool)
        points, vertices = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for step in self._steps:
            left = [np.empty(0, np.int64)]
            for begin in range(0, len(rows), _BLOCK):
                block = rows[begin : begin + _BLOCK]
                pairs = self._pairs(step, block)
                open_points = pairs.undecided()
                if decide and len(open_points) and len(self._mesh.cells[step]) <= _SEARCHED:
                    pairs = pairs.tried(self._searches[step], open_points)
                is_open = np.zeros(len(block), bool)
                is_open[open_points] = not decide
                unsure[block[is_open]] = True
                best = pairs.best()
                done = np.zeros(len(block), bool)
                done[pairs.point[best]] = True
                left.append(block[~done | is_open])
                chosen = np.concatenate(
                    [best[~is_open[pairs.point[best]]], np.flatnonzero(pairs.fits & is_open[pairs.point])]
                )
                row, corner = np.nonzero(pairs.vertices[chosen] >= 0)
                points.append(block[pairs.point[chosen[row]]])
                vertices.append(pairs.vertices[chosen[row], corner])
            rows = np.concatenate(left)
        tied = self._tied[rows]
        if decide:
            nearest = settled(self._nearest[rows], tied, self._origin[rows], self._mesh.points)
        else:
            unsure[rows[tied]] = True
            nearest = np.where(tied, len(self._mesh.points), self._nearest[rows])
        return np.concatenate([*points, rows]), np.concatenate([*vertices, nearest]), unsure

    def _pairs(self, step: str, rows: NDArray[np.int64]) -> CellPairs:
        cells, points, holds = self._mesh.cells[step], self._mesh.points, self._steps[step]
        where, limit = self._origin[rows], self._away[rows]
        enclosing = step == "tetrahedra"
        if step not in self._searches:
            # A cell counts only where it holds the point, or is no farther than the nearest vertex.
            margin = SAME * np.ptp(points, axis=0).max() if holds else self._away.max()
            region = np.stack([self._origin.min(axis=0) - margin, self._origin.max(axis=0) + margin], axis=1)
            self._searches[step] = CellSearch(cells, points, region)
        search = self._searches[step]
        # Enclosing tetrahedra are all tried.
        most = len(cells) if enclosing else min(_TRIED, len(cells))
        point, cell, square = search.around(where) if enclosing else search.near(where, most)
        weights, away = _weights(where[point], points[cells[cell]])
        fits = (weights >= -_ZERO).all(axis=1) & (holds | (away <= limit[point]))
        vertices = np.where(np.abs(weights) > _ZERO, cells[cell], -1)
        turn = np.zeros(len(point), np.int64)
        return CellPairs(where, point, cell, vertices, square, fits, away, turn, most, first_wins=holds)


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
