"""Level 2: which of the provider's vertices each rank of the receiver needs, as preCICE 3.4's mappings tag them.

Rank by rank, as ``ReceivedPartition::compute`` does: the vertices that reach a rank are filtered by its box, each
mapping tags those it uses, tagged vertices get an owner, and mappings with compact support then tag what the owned ones
reach. What the geometry leaves open (two vertices equally near, more than four cells around a point) is counted: there
the inner order of preCICE's search tree decides; here it is the lowest index.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from precice_lb.exceptions import DataError
from precice_lb.partners.boxes import receiver_boxes
from precice_lb.partners.cells import CellIndex, LocalMesh
from precice_lb.partners.level1 import overlapping_pairs
from precice_lb.partners.links import Link, LinkMapping
from precice_lb.partners.meshes import PartitionedMesh
from precice_lb.partners.nearest import cluster_radius, nearest_alone, nearest_for_all
from precice_lb.partners.ownership import owners_one_level, owners_two_level
from precice_lb.partners.projection import cells_used
from precice_lb.partners.spread import Spread

__all__ = ["Needs", "needed_vertices"]

_MAPPINGS = (
    "nearest-neighbor",
    "nearest-neighbor-gradient",
    "nearest-projection",
    "linear-cell-interpolation",
    "coarse-graining",
)


@dataclass(frozen=True)
class Needs:
    """Which vertices of the provider each rank of the receiver keeps.

    Attributes
    ----------
    vertices, ranks : ndarray of int64, shape (needs,)
        Vertex (in the order of the provider's mesh) and receiver rank, sorted by rank, then vertex.
    open_choices : int
        Vertices of the receiver for which geometry does not decide between vertices or cells of the provider.
    approximated : tuple of str
        Mappings for which connectivity is not known, so that the nearest vertex stands for the projection.
    """

    vertices: NDArray[np.int64]
    ranks: NDArray[np.int64]
    open_choices: int
    approximated: tuple[str, ...] = ()

    def pairs(self, provider: PartitionedMesh) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Pairs of provider and receiver rank that exchange data, sorted, and how many vertices each of them does."""
        if not len(self.vertices):
            return np.empty((0, 2), np.int64), np.empty(0, np.int64)
        width = int(self.ranks.max()) + 1
        key, count = np.unique(provider.rank_of[self.vertices] * width + self.ranks, return_counts=True)
        return np.stack([key // width, key % width], axis=1), count


def needed_vertices(
    link: Link,
    provider: PartitionedMesh,
    local: Mapping[str, PartitionedMesh],
    region: NDArray[np.float64] | None = None,
    *,
    two_level: bool | None = None,
    spread: Spread | None = None,
) -> Needs:
    """Find what each rank of the receiver keeps of a received mesh.

    The region, shape (receiver ranks, dimensions, 2), has NaN for a rank that set none. preCICE 3.4:
    ``partition/ReceivedPartition.cpp``, ``mapping/*Mapping*``, ``query/Index.cpp``.
    """
    if provider.dimensions != link.dimensions:
        raise DataError(
            f"{link.title}: expected mesh {link.mesh} in {link.dimensions} dimensions, found {provider.dimensions} in "
            f"{provider.source or 'the data'}; give meshes of this case"
        )
    boxes = receiver_boxes(link, local, region)
    points = provider.points("to find what is exchanged")
    for mapping in link.mappings:
        if mapping.kind not in _MAPPINGS and not mapping.is_kernel:
            raise DataError(
                f"{link.title}: expected one of the mappings {', '.join(_MAPPINGS)} or rbf, found {mapping.kind}, "
                "which preCICE does not run in parallel; analyse the other meshes"
            )
        if mapping.local is not None:
            local[mapping.local].points("to find what is exchanged")
    if not len(points):
        return Needs(np.empty(0, np.int64), np.empty(0, np.int64), 0)
    if len(boxes) == 1:
        # A serial participant keeps everything.
        return Needs(np.arange(len(points)), np.zeros(len(points), np.int64), 0)
    scheme = link.two_level if two_level is None else two_level
    return _Search(link, provider, points, local, region, boxes, scheme, spread or Spread()).run()


class _Search:
    """One received mesh; vertices are positions in the provider's mesh throughout."""

    def __init__(
        self,
        link: Link,
        provider: PartitionedMesh,
        points: NDArray[np.float64],
        local: Mapping[str, PartitionedMesh],
        region: NDArray[np.float64] | None,
        boxes: NDArray[np.float64],
        two_level: bool,
        spread: Spread,
    ) -> None:
        self.link, self.provider, self.points, self.local = link, provider, points, local
        self.region, self.boxes, self.two_level, self.spread = region, boxes, two_level, spread
        self.ranks = len(boxes)
        self.open_choices = 0
        self.approximated: dict[str, None] = {}
        pairs = overlapping_pairs(provider.boxes, boxes)
        order = np.argsort(pairs[:, 1], kind="stable")
        self._connected = pairs[order, 0]
        self._starts = np.searchsorted(pairs[order, 1], np.arange(self.ranks + 1))
        self._offsets = provider.offsets
        self._everything = np.arange(len(points))
        known = any(len(each) for each in provider.cells.values())
        self._cells = CellIndex(provider.cells, len(points)) if known else None
        self._trees: tuple[NDArray[np.int64], cKDTree] | None = None

    def run(self) -> Needs:
        """Tag, own, tag again."""
        block, count = self.spread.block(self.ranks), len(self.points)
        if nearest_alone(self.link, self.region):
            own, self.open_choices = nearest_for_all(
                self.link, self.points, self.local, self.boxes, self._candidates, block
            )
            keys = self.spread.join([own])
            return self._needs(keys % count, keys // count)
        candidates = [self._candidates(rank) for rank in block]
        tags = [self._first_round(rank, inside) for rank, inside in zip(block, candidates, strict=True)]
        compact = [
            m for m in self.link.mappings if m.is_kernel and not m.is_partitioned and np.isfinite(m.support_radius)
        ]
        if any(mapping.local is not None for mapping in compact):
            owners = self._owners([each for part in self.spread.gather(tags) for each in part])
            for n, rank in enumerate(block):
                tags[n] = self._second_round(candidates[n], tags[n], owners[rank], compact)
        counts = np.array([len(each) for each in tags], dtype=np.int64)
        return self._needs(
            self.spread.join(tags), self.spread.join([np.repeat(np.array(block, dtype=np.int64), counts)])
        )

    def _needs(self, vertices: NDArray[np.int64], ranks: NDArray[np.int64]) -> Needs:
        told = self.spread.gather((self.open_choices, tuple(self.approximated)))
        names = dict.fromkeys(name for _, approximated in told for name in approximated)
        return Needs(vertices, ranks, sum(count for count, _ in told), tuple(names))

    def _candidates(self, rank: int) -> NDArray[np.int64]:
        """Vertices that reach the rank's mappings, in global order."""
        if self.two_level or self.link.filtered:
            # A filtered vertex lies in the rank's box, and so belongs to a connected rank also in one level.
            connected = self._connected[self._starts[rank] : self._starts[rank + 1]]
            parts = [np.arange(self._offsets[p], self._offsets[p + 1]) for p in connected]
            vertices = np.concatenate(parts) if parts else np.empty(0, np.int64)
        else:
            vertices = self._everything
        if self.link.filtered:
            vertices = vertices[self._inside(vertices, self.boxes[rank])]
        return vertices

    def _inside(self, vertices: NDArray[np.int64], box: NDArray[np.float64]) -> NDArray[np.bool_]:
        if np.isnan(box).any():
            return np.zeros(len(vertices), bool)
        points = self.points[vertices]
        return np.asarray(((points >= box[:, 0]) & (points <= box[:, 1])).all(axis=1))

    def _local(self, mapping: LinkMapping) -> PartitionedMesh:
        assert mapping.local is not None
        return self.local[mapping.local]

    def _origin(self, mapping: LinkMapping, rank: int) -> NDArray[np.float64]:
        mesh = self._local(mapping)
        offsets = mesh.offsets
        return mesh.points("to find what is exchanged")[offsets[rank] : offsets[rank + 1]]

    def _first_round(self, rank: int, candidates: NDArray[np.int64]) -> NDArray[np.int64]:
        tagged = np.zeros(len(candidates), bool)
        if self.link.api_access and self.region is not None:
            tagged |= self._inside(candidates, self.region[rank])
        for mapping in self.link.mappings:
            if mapping.local is None:
                # Just-in-time kernel mappings tag nothing beyond the access region.
                tagged |= not mapping.is_kernel
            elif len(candidates):
                self._tag(mapping, rank, candidates, tagged)
        return candidates[tagged]

    def _tag(self, mapping: LinkMapping, rank: int, candidates: NDArray[np.int64], tagged: NDArray[np.bool_]) -> None:
        origin = self._origin(mapping, rank)
        if not len(origin):
            return
        if mapping.is_kernel:
            box = self._local(mapping).boxes[rank]
            if mapping.is_partitioned:
                margin = 2 * cluster_radius(mapping.vertices_per_cluster, box, self._tree(candidates))
            elif np.isfinite(mapping.support_radius):
                margin = mapping.support_radius
            else:
                tagged[:] = True
                return
            tagged |= self._inside(candidates, np.stack([box[:, 0] - margin, box[:, 1] + margin], axis=1))
            return
        kind = "nearest-neighbor" if mapping.kind == "nearest-neighbor-gradient" else mapping.kind
        if kind != "nearest-neighbor" and self._cells is None:
            self.approximated[mapping.kind] = None
            kind = "nearest-neighbor"
        used, unsure = cells_used(kind, origin, self._part(kind, candidates), self._tree(candidates))
        tagged[used] = True
        self.open_choices += unsure

    def _part(self, kind: str, candidates: NDArray[np.int64]) -> LocalMesh:
        if kind == "nearest-neighbor" or self._cells is None:
            return LocalMesh(self.points[candidates], {})
        return LocalMesh(self.points[candidates], self._cells.among(candidates))

    def _tree(self, candidates: NDArray[np.int64]) -> cKDTree:
        if self._trees is None or self._trees[0] is not candidates:
            self._trees = (candidates, cKDTree(self.points[candidates]))
        return self._trees[1]

    def _owners(self, tags: list[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
        if self.two_level:
            return owners_two_level(self.points, tags, self.boxes)
        return owners_one_level(tags, len(self.points))

    def _second_round(
        self,
        candidates: NDArray[np.int64],
        tagged: NDArray[np.int64],
        owned: NDArray[np.int64],
        mappings: list[LinkMapping],
    ) -> NDArray[np.int64]:
        if not len(owned):
            return tagged
        low, high = self.points[owned].min(axis=0), self.points[owned].max(axis=0)
        parts = [tagged]
        for mapping in mappings:
            margin = mapping.support_radius
            parts.append(candidates[self._inside(candidates, np.stack([low - margin, high + margin], axis=1))])
        return np.unique(np.concatenate(parts))
