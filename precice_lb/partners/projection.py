"""Which vertices a nearest-neighbour, nearest-projection or linear-cell mapping uses, as preCICE's ``query/Index.cpp``.

Edges are ranked by their true distance, triangles and tetrahedra by that of their bounding boxes; the four nearest are
tried, and all that are as near as the last of them. A projection counts when it lies inside the cell, and only while it
is no farther than the nearest vertex. Of equally near vertices or cells the one with the lowest index is taken; preCICE
takes any, depending on its search tree, so that these points are counted.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np
from scipy.spatial import cKDTree

from precice_lb.partners.meshes import Booleans, Floats, Integers, overlapping_pairs

_ZERO = 1e-14
# Relative difference of distances that rounding may make.
_SAME = 1e-12
_TRIED = 4
_BLOCK = 2**16
# Threads cost more than they save for fewer points.
_THREADED = 2**14
_SIZES = {"edges": 2, "triangles": 3, "tetrahedra": 4}


class CellIndex:
    """All cells of a mesh, found by their first vertex."""

    def __init__(self, cells: Mapping[str, Integers], vertices: int) -> None:
        self.kinds = {
            kind: (array, np.searchsorted(array[:, 0], np.arange(vertices + 1)))
            for kind, array in _with_faces(cells).items()
        }

    def among(self, chosen: Integers) -> dict[str, Integers]:
        """Cells whose vertices are all among the chosen ones (ascending), as positions in these."""
        result = {}
        for kind, (array, starts) in self.kinds.items():
            begin, count = starts[chosen], starts[chosen + 1] - starts[chosen]
            cells = array[np.repeat(begin - np.cumsum(count) + count, count) + np.arange(count.sum())]
            place = np.minimum(np.searchsorted(chosen, cells), max(len(chosen) - 1, 0))
            result[kind] = place[(chosen[place] == cells).all(axis=1)] if len(cells) else cells
        return result


def _with_faces(cells: Mapping[str, Integers]) -> dict[str, Integers]:
    """Add the faces of tetrahedra and the edges of triangles; each once, and in ascending order of vertices."""
    every = {kind: cells.get(kind, np.empty((0, size), np.int64)) for kind, size in _SIZES.items()}
    for kind, parent in (("triangles", "tetrahedra"), ("edges", "triangles")):
        size = _SIZES[parent]
        corners = list(itertools.combinations(range(size), size - 1))
        every[kind] = np.concatenate([every[kind], every[parent][:, corners].reshape(-1, size - 1)])
    return {kind: np.unique(np.sort(array, axis=1), axis=0) for kind, array in every.items()}


def nearest_cells(
    cells: Integers,
    points: Floats,
    where: Floats,
    reach: Floats,
    count: int,
) -> tuple[Integers, Integers, Floats]:
    """Pairs of a place and one of its nearest cells, sorted, and squared distances; of boxes, but for edges.

    Cells beyond the reach are left out; those as near as the last of so many are found as well.
    """
    # Corners first: reductions over a short last axis are slow.
    corners = points[cells.T]
    low, high = corners.min(axis=0), corners.max(axis=0)
    if count < len(cells) and reach.any():
        # No cell is farther away than the centre of its box.
        reach = np.minimum(reach, cKDTree((low + high) / 2).query(where, k=[count])[0][:, 0] * (1 + _SAME))
    around = np.stack([where - reach[:, None], where + reach[:, None]], axis=2)
    place, cell = overlapping_pairs(around, np.stack([low, high], axis=2)).T
    beyond = where[place] - np.clip(where[place], low[cell], high[cell])
    if len(corners) == 2:
        start, along = corners[0, cell], corners[1, cell] - corners[0, cell]
        ahead, length = (np.einsum("nk,nk->n", each, along) for each in (where[place] - start, along))
        share = np.divide(ahead, length, out=np.zeros_like(length), where=length > 0)
        beyond = where[place] - start - np.clip(share, 0, 1)[:, None] * along
    square = np.einsum("nk,nk->n", beyond, beyond)
    order = np.lexsort((square, place))
    last = order[np.arange(len(order)) - np.searchsorted(place, place) == count - 1]
    limit = np.full(len(where), np.inf)
    limit[place[last]] = square[last]
    kept = square <= limit[place] * (1 + _SAME)
    return place[kept], cell[kept], square[kept]


def vertices_used(kind: str, origin: Floats, tree: cKDTree, cells: Mapping[str, Integers]) -> tuple[Integers, int]:
    """Vertices with a weight for any of the points, ascending, and the points for which geometry does not decide.

    Follows preCICE's fallbacks: cell, triangle (in three dimensions), edge, vertex; without cells it is the vertex.
    """
    vertices_at: Floats = tree.data
    nearest, tied = _nearest(tree, origin)
    steps = ("tetrahedra", "triangles", "edges")[(origin.shape[1] == 2) + (kind == "nearest-projection") :]
    away = np.linalg.norm(origin - vertices_at[nearest], axis=1)
    rounding = np.full(len(origin), _SAME * (tree.maxes - tree.mins).max())
    rows, is_open, falls = np.arange(len(origin)), tied & False, tied & False
    # Points, vertices that preCICE may keep for them, and whether these are kept.
    options: list[tuple[Integers, Integers, Booleans]] = []
    for step in steps:
        if not len(cells.get(step, ())):
            continue
        tried = cells[step]
        # The first cell of linear interpolation must hold the point.
        holds = step == steps[0] and kind != "nearest-projection"
        # Enclosing tetrahedra are all tried.
        most = len(tried) if step == "tetrahedra" else _TRIED
        left = []
        for block in np.split(rows, range(_BLOCK, len(rows), _BLOCK)):
            reach = (rounding if holds else away)[block]
            point, cell, square = nearest_cells(tried, vertices_at, origin[block], reach, most)
            weights, off = _weights(origin[block[point]], vertices_at[tried[cell]])
            if holds:
                off = np.zeros_like(off)
            fits = (weights >= -_ZERO).all(axis=1) & (off <= away[block[point]])
            vertices = np.where(np.abs(weights) > _ZERO, tried[cell], -1)
            alike, taken, differs = _best(point, fits, off, vertices)
            crowded = _crowded(point, alike, square, len(block), most)
            is_open[block[crowded]] = is_open[block[differs]] = True
            pair = np.flatnonzero(alike | (fits & crowded[point]))
            row, corner = np.nonzero(vertices[pair] >= 0)
            pair = pair[row]
            points = block[point[pair]]
            options.append((points, vertices[pair, corner], taken[pair] & ~falls[points]))
            falls[block[crowded]] = True
            left.append(block[crowded | (np.bincount(point[fits], minlength=len(block)) == 0)])
        rows = np.concatenate(left)
    is_open[rows] |= tied[rows]
    options.append((rows, nearest[rows], ~falls[rows]))
    points, vertices, chosen = (np.concatenate(column) for column in zip(*options, strict=True))
    kept, sure = np.zeros((2, tree.n), bool)
    kept[vertices[chosen]] = True
    # Where other points need all that preCICE may choose, the choice does not matter.
    sure[vertices[chosen & ~is_open[points]]] = True
    return np.flatnonzero(kept), len(np.union1d(points[~sure[vertices]], rows[tied[rows]]))


def _nearest(tree: cKDTree, origin: Floats) -> tuple[Integers, Booleans]:
    """Nearest point of a tree to each origin; of equally near ones the lowest, with a flag."""
    if tree.n == 1:
        return np.zeros(len(origin), np.int64), np.zeros(len(origin), bool)
    distance, index = tree.query(origin, k=2, workers=-1 if len(origin) > _THREADED else 1)
    tied = distance[:, 1] - distance[:, 0] <= _SAME * distance[:, 1]
    nearest = index[:, 0].astype(np.int64)
    rows = np.flatnonzero(tied)
    alike = tree.query_ball_point(origin[rows], distance[rows, 1] * (1 + _SAME), return_sorted=True)
    nearest[rows] = [each[0] for each in alike]
    return nearest, np.asarray(tied)


def _best(point: Integers, fits: Booleans, off: Floats, vertices: Integers) -> tuple[Booleans, Booleans, Integers]:
    """Of pairs sorted by point, those as near as the best that fits, which is taken, and points where they differ."""
    least = np.full(point.max(initial=0) + 1, np.inf)
    np.minimum.at(least, point[fits], off[fits])
    alike = fits & (off <= least[point] + _SAME * (1 + least[point]))
    pair = np.flatnonzero(alike)
    first = pair[np.searchsorted(point[pair], point[pair])]
    taken = np.zeros(len(point), bool)
    taken[first] = True
    corners = np.sort(vertices, axis=1)
    return alike, taken, point[pair[(corners[pair] != corners[first]).any(axis=1)]]


def _crowded(point: Integers, alike: Booleans, square: Floats, count: int, most: int) -> Booleans:
    """For which points more cells are as near as the last one tried, and none of those tried may be the best."""
    farthest = np.zeros(count)
    np.maximum.at(farthest, point, square)
    last = alike & (square >= farthest[point] * (1 - 2 * _SAME))
    others, near = (np.bincount(point[each], minlength=count) for each in (~alike, last))
    return (others >= most) & (near > 0)


def _weights(where: Floats, corners: Floats) -> tuple[Floats, Floats]:
    """Barycentric weights of each point's projection in its cell, and the distance to it."""
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
    return weights, np.linalg.norm(where - projected, axis=1)


def cluster_radius(vertices: int, box: Floats, tree: cKDTree) -> float:
    """Estimate the radius of a cluster: preCICE's ``impl::estimateClusterRadius``."""
    centre = (box[:, 1] + box[:, 0]) * 0.5
    quarters = np.diag((box[:, 1] - box[:, 0]) * 0.25)
    lower = centre - quarters
    samples = np.vstack([centre, lower, lower + 2 * quarters])
    _, nearest = tree.query(samples)
    reach, _ = tree.query(tree.data[nearest], k=[min(vertices, tree.n)])
    return float(np.sort(reach[:, 0])[len(samples) // 2])
