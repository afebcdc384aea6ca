"""Level 2: which of the provider's vertices each rank of the receiver needs, as preCICE 3.4's mappings tag them.

Rank by rank, as ``ReceivedPartition::compute`` does: the vertices that reach a rank are filtered by its box, each
mapping tags those it uses, tagged vertices get an owner, and mappings with compact support then tag what the owned ones
reach. What the geometry leaves open (two vertices equally near, more than four cells around a point) is counted: there
the inner order of preCICE's search tree decides; here it is the lowest index.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from scipy.spatial import cKDTree

from precice_lb.exceptions import DataError
from precice_lb.partners.links import Link, receiver_boxes
from precice_lb.partners.meshes import Booleans, Floats, Integers, PartitionedMesh, overlapping_pairs
from precice_lb.partners.projection import CellIndex, cluster_radius, vertices_used

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
    # Vertices of the receiver for which geometry does not decide between vertices or cells of the provider.
    open_choices: int
    # Mappings for which connectivity is not known, so that the nearest vertex stands for the projection.
    approximated: tuple[str, ...] = ()

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
    local: Mapping[str, PartitionedMesh],
    region: Floats | None = None,
    *,
    two_level: bool | None = None,
) -> Needs:
    """Find what each rank of the receiver keeps of a received mesh.

    The region, shape (receiver ranks, dimensions, 2), has NaN for a rank that set none. preCICE 3.4:
    ``partition/ReceivedPartition.cpp``, ``mapping/*Mapping*``, ``query/Index.cpp``.
    """
    boxes = receiver_boxes(link, local, region)
    points = provider.points(_WHY)
    for mapping in link.mappings:
        if mapping.kind not in _MAPPINGS and not mapping.is_kernel:
            raise DataError(
                f"{link.title}: expected one of the mappings {', '.join(_MAPPINGS)} or rbf, found {mapping.kind}, "
                "which preCICE does not run in parallel; analyse the other meshes"
            )
        if mapping.local is not None:
            local[mapping.local].points(_WHY)
    if not len(points):
        return Needs(np.empty(0, np.int64), np.empty(0, np.int64), 0)
    if len(boxes) == 1:
        # A serial participant keeps everything.
        return Needs(np.arange(len(points)), np.zeros(len(points), np.int64), 0)
    scheme = link.two_level if two_level is None else two_level
    return _Search(link, provider, local, region, boxes, scheme).run()


@dataclass
class _Search:
    """One received mesh; vertices are positions in the provider's mesh throughout."""

    link: Link
    provider: PartitionedMesh
    local: Mapping[str, PartitionedMesh]
    region: Floats | None
    boxes: Floats
    two_level: bool
    open_choices: int = 0
    approximated: dict[str, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.points, cells = self.provider.points(_WHY), self.provider.cells
        # A filtered vertex lies in the rank's box, and so belongs to a connected rank also in one level.
        connected = self.two_level or self.link.filtered
        self._pairs = overlapping_pairs(self.boxes, self.provider.boxes) if connected else None
        self._offsets = self.provider.offsets
        self._cells = CellIndex(cells, len(self.points)) if cells else None

    def run(self) -> Needs:
        """Tag what mappings use, and then what kernels with compact support reach from what a rank owns of it."""
        candidates = [self._candidates(rank) for rank in range(len(self.boxes))]
        tags = [self._tagged(rank, vertices) for rank, vertices in enumerate(candidates)]
        compact = [
            m for m in self.link.mappings if m.is_kernel and not m.is_partitioned and np.isfinite(m.support_radius)
        ]
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
        ranks = np.repeat(np.arange(len(tags)), [len(tagged) for tagged in tags])
        return Needs(np.concatenate(tags), ranks, self.open_choices, tuple(self.approximated))

    def _candidates(self, rank: int) -> Integers:
        """Vertices that reach the rank's mappings, in global order."""
        vertices = np.arange(len(self.points))
        if self._pairs is not None:
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
            cells = {}
            if not mapping.kind.startswith("nearest-neighbor"):
                if self._cells is None:
                    self.approximated[mapping.kind] = None
                else:
                    cells = self._cells.among(candidates)
            used, unsure = vertices_used(mapping.kind, origin, tree(), cells)
            tagged[used] = True
            self.open_choices += unsure
        return candidates[tagged]


def _inside(points: Floats, box: Floats) -> Booleans:
    """Which points lie in a box, its sides included; none in one of NaN."""
    return np.asarray(((points >= box[:, 0]) & (points <= box[:, 1])).all(axis=1))


def _grown(box: Floats, margin: float) -> Floats:
    return np.stack([box[:, 0] - margin, box[:, 1] + margin], axis=1)


def _owned(tags: list[Integers], vertices: int) -> list[Integers]:
    """Owners as the primary rank gives them out: rank by rank up to an even share, then the rest greedily."""
    at_interface = sum(bool(len(each)) for each in tags)
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
    alone = [int((~each).sum()) for each in shared]
    keeps = [np.ones(len(tagged), bool) for tagged in tags]
    for a, b in pairs:
        if (alone[a], a) > (alone[b], b):
            keeps[a] &= ~(shared[a] & np.isin(tags[a], tags[b][inside[b, a]]))
    return [tagged[kept] for tagged, kept in zip(tags, keeps, strict=True)]
