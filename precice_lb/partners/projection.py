"""Which vertices a nearest-neighbour, nearest-projection or linear-cell mapping uses, as preCICE's ``query/Index.cpp``.

Edges are ranked by their true distance, triangles and tetrahedra by that of their bounding boxes; the four nearest are
tried, and all that are as near as the last of them. A projection counts when it lies inside the cell, and only while it
is no farther than the nearest vertex. Of equally near vertices or cells the one with the lowest index is taken; preCICE
takes any, depending on its search tree, so that these points are counted.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from precice_lb.partners.cell_search import SAME, CellSearch
from precice_lb.partners.cells import LocalMesh

__all__ = ["cells_used", "nearest_vertices"]

_ZERO = 1e-14
_TRIED = 4
_BLOCK = 2**16
# Threads cost more than they save for fewer points.
_THREADED = 2**14


def cells_used(kind: str, origin: NDArray[np.float64], mesh: LocalMesh, tree: cKDTree) -> tuple[NDArray[np.int64], int]:
    """Vertices with a weight for any of the points, ascending, and the points for which geometry does not decide."""
    nearest, tied = nearest_vertices(tree, origin)
    if kind == "nearest-neighbor":
        return np.unique(nearest), int(tied.sum())
    return _projected(kind, origin, nearest, tied, mesh)


def nearest_vertices(tree: cKDTree, origin: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Nearest point of a tree to each origin; of equally near ones the lowest, with a flag."""
    if tree.n == 1:
        return np.zeros(len(origin), np.int64), np.zeros(len(origin), bool)
    distance, index = tree.query(origin, k=2, workers=-1 if len(origin) > _THREADED else 1)
    tied = distance[:, 1] - distance[:, 0] <= SAME * distance[:, 1]
    nearest = index[:, 0].astype(np.int64)
    rows = np.flatnonzero(tied)
    alike = tree.query_ball_point(origin[rows], distance[rows, 1] * (1 + SAME), return_sorted=True)
    nearest[rows] = [each[0] for each in alike]
    return nearest, np.asarray(tied)


def _projected(
    kind: str, origin: NDArray[np.float64], nearest: NDArray[np.int64], tied: NDArray[np.bool_], mesh: LocalMesh
) -> tuple[NDArray[np.int64], int]:
    """Follow preCICE's fallbacks: cell, triangle (in three dimensions), edge, vertex."""
    flat = origin.shape[1] == 2
    # Kinds of cells in turn, and whether a cell must hold the point.
    steps = {} if kind == "nearest-projection" else {"triangles" if flat else "tetrahedra": True}
    steps |= {"edges": False} if flat else {"triangles": False, "edges": False}
    away = np.linalg.norm(origin - mesh.points[nearest], axis=1)
    rounding = np.full(len(origin), SAME * np.ptp(mesh.points, axis=0).max())
    rows, is_open, falls = np.arange(len(origin)), tied & False, tied & False
    # Points, vertices that preCICE may keep for them, and whether these are kept.
    options: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]] = []
    for step in [step for step in steps if len(mesh.cells[step])]:
        cells, holds = mesh.cells[step], steps[step]
        search = CellSearch(cells, mesh.points)
        # Enclosing tetrahedra are all tried.
        most = len(cells) if step == "tetrahedra" else _TRIED
        left = []
        for block in np.split(rows, range(_BLOCK, len(rows), _BLOCK)):
            point, cell, square = search.near(origin[block], (rounding if holds else away)[block], most)
            weights, off = _weights(origin[block[point]], mesh.points[cells[cell]])
            fits = (weights >= -_ZERO).all(axis=1) & (holds | (off <= away[block[point]]))
            vertices = np.where(np.abs(weights) > _ZERO, cells[cell], -1)
            choice = _Choice(point, fits, np.zeros_like(off) if holds else off, square, len(block))
            crowded = choice.crowded(most)
            is_open[block[crowded | choice.differs(vertices)]] = True
            pair = np.flatnonzero(choice.alike | (fits & crowded[point]))
            row, corner = np.nonzero(vertices[pair] >= 0)
            pair = pair[row]
            points = block[point[pair]]
            options.append((points, vertices[pair, corner], choice.first[pair] & ~falls[points]))
            falls[block[crowded]] = True
            left.append(block[crowded | (np.bincount(point[fits], minlength=len(block)) == 0)])
        rows = np.concatenate(left)
    is_open[rows] |= tied[rows]
    options.append((rows, nearest[rows], ~falls[rows]))
    points, vertices, chosen = (np.concatenate(column) for column in zip(*options, strict=True))
    kept, sure = np.zeros((2, len(mesh.points)), bool)
    kept[vertices[chosen]] = True
    # Where other points need all that preCICE may choose, the choice does not matter.
    sure[vertices[chosen & ~is_open[points]]] = True
    return np.flatnonzero(kept), len(np.union1d(points[~sure[vertices]], rows[tied[rows]]))


class _Choice:
    """Of the cells tried for each point (pairs sorted by point, then cell), the one taken and those as near."""

    def __init__(
        self,
        point: NDArray[np.int64],
        fits: NDArray[np.bool_],
        off: NDArray[np.float64],
        square: NDArray[np.float64],
        count: int,
    ) -> None:
        self._point, self._square, self._count = point, square, count
        least = np.full(count, np.inf)
        np.minimum.at(least, point[fits], off[fits])
        self.alike = fits & (off <= least[point] + SAME * (1 + least[point]))
        self._rows = np.flatnonzero(self.alike)
        self._first = self._rows[np.searchsorted(point[self._rows], point[self._rows])]
        self.first = np.zeros(len(point), bool)
        self.first[self._first] = True

    def differs(self, vertices: NDArray[np.int64]) -> NDArray[np.bool_]:
        """For which points cells that are as near have other vertices."""
        vertices = np.sort(vertices, axis=1)
        other = (vertices[self._rows] != vertices[self._first]).any(axis=1)
        return np.bincount(self._point[self._rows[other]], minlength=self._count) > 0

    def crowded(self, most: int) -> NDArray[np.bool_]:
        """For which points more cells are as near as the last one tried, and none of those tried may be the best."""
        farthest = np.zeros(self._count)
        np.maximum.at(farthest, self._point, self._square)
        last = self.alike & (self._square >= farthest[self._point] * (1 - 2 * SAME))
        others = np.bincount(self._point[~self.alike], minlength=self._count)
        return (others >= most) & (np.bincount(self._point[last], minlength=self._count) > 0)


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
