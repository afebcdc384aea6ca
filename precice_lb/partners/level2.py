"""Level 2: which of the provider's vertices each rank of the receiver needs, as preCICE 3.4's mappings tag them.

Rank by rank, as ``ReceivedPartition::compute`` does: the vertices that reach a rank are filtered by its box, each
mapping tags those it uses, tagged vertices get an owner, and mappings with compact support then tag what the owned ones
reach.

Which vertices a nearest-neighbour, nearest-projection or linear-cell mapping uses, preCICE's ``query/Index.cpp`` says.
Edges are ranked by their true distance, triangles and tetrahedra by that of their bounding boxes; the four nearest are
tried. A projection counts when it lies inside the cell, and only while it is no farther than the nearest vertex. Of
equally near vertices or cells preCICE takes any, depending on its search tree: here all of them are needed.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from precice_lb.exceptions import DataError
from precice_lb.partners.links import Link, receiver_boxes
from precice_lb.partners.meshes import Booleans, Floats, Integers, Meshes, PartitionedMesh, overlapping_pairs

_MAPPINGS = (
    "nearest-neighbor",
    "nearest-neighbor-gradient",
    "nearest-projection",
    "linear-cell-interpolation",
    "coarse-graining",
)
_WHY = "to find what is exchanged"


@dataclass(frozen=True)
class Needs:
    """Which vertices of the provider each rank of the receiver keeps."""

    # Vertex in the order of the provider's mesh, and receiver rank; sorted by rank, then vertex.
    vertices: Integers
    ranks: Integers

    def pairs(self, provider: PartitionedMesh) -> tuple[Integers, Integers]:
        """Pairs of provider and receiver rank that exchange data, sorted, and how many vertices each of them does."""
        if not len(self.vertices):
            return np.empty((0, 2), np.int64), np.empty(0, np.int64)
        width = int(self.ranks.max()) + 1
        key, count = np.unique(provider.rank_of[self.vertices] * width + self.ranks, return_counts=True)
        return np.stack([key // width, key % width], axis=1), count

    def factor(self, provider: PartitionedMesh, local: PartitionedMesh) -> float:
        """Safety factor that is enough: how far kept vertices lie beyond the local box, over its longest edge."""
        if not len(self.vertices):
            return float("nan")
        box = local.boxes[self.ranks]
        points = provider.points("to find the safety factor")[self.vertices]
        beyond = np.maximum(np.maximum(box[:, :, 0] - points, points - box[:, :, 1]), 0.0).max(axis=1)
        edge = (box[:, :, 1] - box[:, :, 0]).max(axis=1)
        return float(np.max(beyond / np.where(edge > 0, edge, np.inf), initial=0.0))


def needed_vertices(
    link: Link,
    provider: PartitionedMesh,
    local: Meshes,
    region: Floats | None = None,
    *,
    two_level: bool | None = None,
) -> Needs:
    """Find what each rank of the receiver keeps of a received mesh.

    The region, shape (receiver ranks, dimensions, 2), has NaN for a rank that set none. preCICE 3.4:
    ``partition/ReceivedPartition.cpp``, ``mapping/*Mapping*``, ``query/Index.cpp``.
    """
    for mapping in link.mappings:
        if mapping.kind not in _MAPPINGS and not mapping.is_kernel:
            raise DataError(
                f"{link.title}: expected rbf or {', '.join(_MAPPINGS)}, found {mapping.kind}; analyse the other meshes"
            )
    return _Search(link, provider, local, region, link.two_level if two_level is None else two_level).run()


class _Search:
    """One received mesh; vertices are positions in the provider's mesh throughout."""

    def __init__(
        self, link: Link, provider: PartitionedMesh, local: Meshes, region: Floats | None, two_level: bool
    ) -> None:
        self.link, self.local, self.region, self.two_level = link, local, region, two_level
        self.boxes = receiver_boxes(link, local, region)
        self.points, self._offsets = provider.points(_WHY), provider.offsets
        # A filtered vertex lies in the rank's box, and so belongs to a connected rank also in one level.
        self._by_boxes, self._provider_boxes = two_level or link.filtered, provider.boxes
        self._cells = CellIndex(provider.cells, len(self.points)) if provider.cells else None

    def run(self) -> Needs:
        """Tag what mappings use, and then what kernels with compact support reach from what a rank owns of it."""
        if len(self.boxes) == 1:
            # A serial participant keeps everything.
            return Needs(np.arange(len(self.points)), np.zeros(len(self.points), np.int64))
        local = [m.local for m in self.link.mappings if m.local and m.kind.startswith("nearest-neighbor")]
        if len(self.points) and local and len(local) == len(self.link.mappings) and not self.link.api_access:
            return self._nearest(local)
        candidates = [self._candidates(rank) for rank in range(len(self.boxes))]
        tags = [self._tagged(rank, vertices) for rank, vertices in enumerate(candidates)]
        kernels = [m for m in self.link.mappings if m.is_kernel and not m.is_partitioned]
        compact = [m for m in kernels if np.isfinite(m.support_radius)]
        if any(mapping.local is not None for mapping in compact):
            owned = (
                _owned_two_level(self.points, tags, self.boxes) if self.two_level else _owned(tags, len(self.points))
            )
            reach = max(mapping.support_radius for mapping in compact)
            for rank, vertices in enumerate(candidates):
                points = self.points[owned[rank]]
                if len(points):
                    box = _grown(np.stack([points.min(axis=0), points.max(axis=0)], axis=1), reach)
                    tags[rank] = np.union1d(tags[rank], vertices[_inside(self.points[vertices], box)])
        return Needs(np.concatenate(tags), np.repeat(np.arange(len(tags)), [len(tagged) for tagged in tags]))

    def _nearest(self, local: Sequence[str]) -> Needs:
        """Ask one tree for the nearest vertices of all ranks' points; rank by rank only where some lie beyond a box."""
        tree, count = cKDTree(self.points), len(self.points)
        tags = [np.empty(0, np.int64)]
        alone = np.zeros(len(self.boxes), bool)
        for name in local:
            origin, rank_of = self.local[name].points(_WHY), self.local[name].rank_of
            for block in np.split(np.arange(len(origin)), range(_BLOCK, len(origin), _BLOCK)):
                place, vertex = nearest_vertices(tree, origin[block])
                rank = rank_of[block[place]]
                if self._by_boxes:
                    low, high = np.moveaxis(self.boxes[rank], 2, 0)
                    alone[rank[~((self.points[vertex] >= low) & (self.points[vertex] <= high)).all(axis=1)]] = True
                tags.append(_distinct(rank * count + vertex))
        together = _distinct(np.concatenate(tags))
        tags = [together[~alone[together // count]]]
        tags += [rank * count + self._tagged(rank, self._candidates(rank)) for rank in np.flatnonzero(alone).tolist()]
        key = np.sort(np.concatenate(tags))
        return Needs(key % count, key // count)

    @functools.cached_property
    def _pairs(self) -> Integers:
        return overlapping_pairs(self.boxes, self._provider_boxes)

    def _candidates(self, rank: int) -> Integers:
        """Vertices that reach the rank's mappings, in global order."""
        vertices = np.arange(len(self.points))
        if self._by_boxes:
            begin, end = np.searchsorted(self._pairs[:, 0], (rank, rank + 1))
            parts = [vertices[self._offsets[p] : self._offsets[p + 1]] for p in self._pairs[begin:end, 1]]
            vertices = np.concatenate([vertices[:0], *parts])
        if self.link.filtered:
            vertices = vertices[_inside(self.points[vertices], self.boxes[rank])]
        return vertices

    def _tagged(self, rank: int, candidates: Integers) -> Integers:
        """Candidates that mappings use, or that lie in the access region."""
        points, tagged = self.points[candidates], np.zeros(len(candidates), bool)
        tree = functools.cache(lambda: cKDTree(points, balanced_tree=False))
        if self.link.api_access and self.region is not None:
            tagged |= _inside(points, self.region[rank])
        for mapping in self.link.mappings:
            if mapping.local is None:
                # Just-in-time kernel mappings tag nothing beyond the access region.
                tagged |= not mapping.is_kernel
                continue
            mesh = self.local[mapping.local]
            origin = mesh.points(_WHY)[slice(*mesh.offsets[rank : rank + 2])]
            if not (len(candidates) and len(origin)):
                continue
            if mapping.is_kernel:
                box, margin = mesh.boxes[rank], mapping.support_radius
                if mapping.is_partitioned:
                    margin = 2 * cluster_radius(mapping.vertices_per_cluster, box, tree())
                tagged |= _inside(points, _grown(box, margin))
                continue
            projects = not mapping.kind.startswith("nearest-neighbor")
            cells = self._cells.among(candidates) if self._cells and projects else {}
            tagged[vertices_used(mapping.kind, origin, tree(), cells)] = True
        return candidates[tagged]


def _distinct(tags: Integers) -> Integers:
    """Give numbers from 0 once each, rising; `numpy.unique` hashes them, which takes fifty times as long."""
    rising = np.sort(tags)
    return rising[np.diff(rising, prepend=-1) > 0]


def _inside(points: Floats, box: Floats) -> Booleans:
    """Which points lie in a box, its sides included; none in one of NaN."""
    return np.asarray(((points >= box[:, 0]) & (points <= box[:, 1])).all(axis=1))


def _grown(box: Floats, margin: float) -> Floats:
    return np.stack([box[:, 0] - margin, box[:, 1] + margin], axis=1)


def _owned(tags: list[Integers], vertices: int) -> list[Integers]:
    """Owners as the primary rank gives them out: rank by rank up to an even share, then the rest greedily."""
    at_interface = sum(bool(len(tagged)) for tagged in tags)
    share = vertices // max(at_interface, 1)
    owner = np.full(vertices, -1, np.int64)
    for limit in (share or vertices, vertices):
        for rank, tagged in enumerate(tags):
            free = tagged[owner[tagged] < 0]
            owner[free[:limit]] = rank
    return [tagged[owner[tagged] == rank] for rank, tagged in enumerate(tags)]


def _owned_two_level(points: Floats, tags: list[Integers], boxes: Floats) -> list[Integers]:
    """Owners as neighbours settle them: of two ranks the one that owns fewer vertices of its own keeps a shared one."""
    pairs = [(a, b) for a, b in overlapping_pairs(boxes, boxes).tolist() if a != b]
    inside = {(a, b): _inside(points[tags[a]], boxes[b]) for a, b in pairs}
    shared = [np.zeros(len(tagged), bool) for tagged in tags]
    for (a, _), there in inside.items():
        shared[a] |= there
    alone = [int((~there).sum()) for there in shared]
    keeps = [np.ones(len(tagged), bool) for tagged in tags]
    for a, b in pairs:
        if (alone[a], a) > (alone[b], b):
            keeps[a] &= ~(shared[a] & np.isin(tags[a], tags[b][inside[b, a]]))
    return [tagged[kept] for tagged, kept in zip(tags, keeps, strict=True)]


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
        ahead, length = (np.einsum("nk,nk->n", vectors, along) for vectors in (where[place] - start, along))
        share = np.divide(ahead, length, out=np.zeros_like(length), where=length > 0)
        beyond = where[place] - start - np.clip(share, 0, 1)[:, None] * along
    square = np.einsum("nk,nk->n", beyond, beyond)
    order = np.lexsort((square, place))
    last = order[np.arange(len(order)) - np.searchsorted(place, place) == count - 1]
    limit = np.full(len(where), np.inf)
    limit[place[last]] = square[last]
    kept = square <= limit[place] * (1 + _SAME)
    return place[kept], cell[kept], square[kept]


def vertices_used(kind: str, origin: Floats, tree: cKDTree, cells: Mapping[str, Integers]) -> Integers:
    """Vertices that may have a weight for any of the points, ascending.

    Follows preCICE's fallbacks: cell, triangle (in three dimensions), edge, vertex; without cells it is the vertex.
    """
    vertices_at: Floats = tree.data
    place, nearest = nearest_vertices(tree, origin)
    away = np.empty(len(origin))
    away[place] = np.linalg.norm(origin[place] - vertices_at[nearest], axis=1)
    rounding = np.full(len(origin), _SAME * (tree.maxes - tree.mins).max())
    kept, left = np.zeros(tree.n, bool), np.arange(len(origin))
    steps = ("tetrahedra", "triangles", "edges")[(origin.shape[1] == 2) + (kind == "nearest-projection") :]
    for step in steps:
        tried = cells.get(step)
        if tried is None or not len(tried):
            continue
        # The first cell of linear interpolation must hold the point.
        holds = step == steps[0] and kind != "nearest-projection"
        # Enclosing tetrahedra are all tried.
        most = len(tried) if step == "tetrahedra" else _TRIED
        falls = []
        for block in np.split(left, range(_BLOCK, len(left), _BLOCK)):
            point, cell, square = nearest_cells(
                tried, vertices_at, origin[block], (rounding if holds else away)[block], most
            )
            weights, off = _weights(origin[block[point]], vertices_at[tried[cell]])
            if holds:
                off = np.zeros_like(off)
            fits = (weights >= -_ZERO).all(axis=1) & (off <= away[block[point]])
            least = np.full(len(block), np.inf)
            np.minimum.at(least, point[fits], off[fits])
            best = fits & (off <= least[point] + _SAME * (1 + least[point]))
            crowded = _crowded(point, best, square, len(block), most)
            used = np.flatnonzero(best | (fits & crowded[point]))
            kept[tried[cell[used]][np.abs(weights[used]) > _ZERO]] = True
            falls.append(block[crowded | np.isinf(least)])
        left = np.concatenate(falls)
    kept[nearest[np.isin(place, left)]] = True
    return np.flatnonzero(kept)


def nearest_vertices(tree: cKDTree, origin: Floats) -> tuple[Integers, Integers]:
    """Pairs of a place and a point of the tree that is nearest to it: several where they are equally near."""
    if tree.n == 1:
        return np.arange(len(origin)), np.zeros(len(origin), np.int64)
    distance, index = tree.query(origin, k=2, workers=-1 if len(origin) > _THREADED else 1)
    tied = distance[:, 1] - distance[:, 0] <= _SAME * distance[:, 1]
    places = np.flatnonzero(tied)
    alike = tree.query_ball_point(origin[places], distance[places, 1] * (1 + _SAME))
    counts = np.fromiter(map(len, alike), np.int64, len(places))
    vertices = np.fromiter(itertools.chain.from_iterable(alike), np.int64, int(counts.sum()))
    return (
        np.concatenate([np.flatnonzero(~tied), np.repeat(places, counts)]),
        np.concatenate([index[~tied, 0], vertices]),
    )


def _crowded(point: Integers, best: Booleans, square: Floats, count: int, most: int) -> Booleans:
    """For which points more cells are as near as the last one tried, so that preCICE may not try the best."""
    farthest = np.zeros(count)
    np.maximum.at(farthest, point, square)
    last = best & (square >= farthest[point] * (1 - 2 * _SAME))
    others, near = (np.bincount(point[rows], minlength=count) for rows in (~best, last))
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
