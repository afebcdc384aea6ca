"""Searching nearest vertices: for all ranks at once, and for the radius of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from precice_lb.partners.links import Link
from precice_lb.partners.meshes import PartitionedMesh
from precice_lb.partners.projection import nearest_vertices

__all__ = ["cluster_radius", "nearest_alone", "nearest_for_all"]


def nearest_alone(link: Link, region: NDArray[np.float64] | None) -> bool:
    """Whether a mesh is needed by nearest-neighbour mappings from local meshes alone, and filtered by boxes."""
    simple = all(m.local is not None and m.kind.startswith("nearest-neighbor") for m in link.mappings)
    return simple and link.filtered and not (link.api_access and region is not None)


def nearest_for_all(
    link: Link,
    points: NDArray[np.float64],
    local: Mapping[str, PartitionedMesh],
    boxes: NDArray[np.float64],
    candidates: Callable[[int], NDArray[np.int64]],
    block: range,
) -> tuple[NDArray[np.int64], int]:
    """Keys (rank times vertices, plus vertex) of what a block of ranks needs, and vertices with several nearest."""
    tree = cKDTree(points)
    found, open_choices = [np.empty(0, np.int64)], 0
    for mapping in link.mappings:
        assert mapping.local is not None
        mesh = local[mapping.local]
        own = slice(mesh.offsets[block.start], mesh.offsets[block.stop])
        origin, ranks = mesh.points("to find what is exchanged")[own], mesh.rank_of[own]
        if not len(origin):
            continue
        nearest, unsure = nearest_vertices(tree, origin)
        box, chosen = boxes[ranks], points[nearest]
        # What lies outside the rank's box does not reach it: there the nearest of the rest counts.
        sure = ((chosen >= box[:, :, 0]) & (chosen <= box[:, :, 1])).all(axis=1)
        open_choices += int(unsure[sure].sum())
        found.append(ranks[sure] * len(points) + nearest[sure])
        rows = np.flatnonzero(~sure)
        for part in np.split(rows, np.flatnonzero(np.diff(ranks[rows])) + 1):
            if not len(part):
                continue
            rank = int(ranks[part[0]])
            inside = candidates(rank)
            if len(inside):
                best, unsure = nearest_vertices(cKDTree(points[inside]), origin[part])
                open_choices += int(unsure.sum())
                found.append(rank * len(points) + inside[best])
    return np.unique(np.concatenate(found)), open_choices


def cluster_radius(vertices: int, box: NDArray[np.float64], tree: cKDTree) -> float:
    """Estimate the radius of a cluster: preCICE's ``impl::estimateClusterRadius``."""
    centre = (box[:, 1] + box[:, 0]) * 0.5
    samples = [centre]
    for axis in range(len(centre)):
        sample = centre.copy()
        sample[axis] -= (box[axis, 1] - box[axis, 0]) * 0.25
        samples.append(sample.copy())
        sample[axis] += (box[axis, 1] - box[axis, 0]) * 0.5
        samples.append(sample)
    _, nearest = tree.query(np.array(samples))
    reach, _ = tree.query(tree.data[nearest], k=[min(vertices, tree.n)])
    return float(np.sort(reach[:, 0])[len(samples) // 2])
