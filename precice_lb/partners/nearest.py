"""Searching nearest vertices: for all ranks at once, and for the radius of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from precice_lb.partners.links import Link
from precice_lb.partners.meshes import PartitionedMesh
from precice_lb.partners.projection import nearest_vertices, settled

__all__ = ["cluster_radius", "nearest_alone", "nearest_for_all"]

# Larger meshes are too slow to look up ties in.
_SETTLED = 100_000


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
    """Find the vertices that some ranks of the receiver need.

    Parameters
    ----------
    link : Link
        For which `nearest_alone` holds.
    points : ndarray, shape (vertices, dimensions)
        The provider's vertices, at least one.
    local : mapping of str to PartitionedMesh
        The receiver's own meshes.
    boxes : ndarray, shape (ranks, dimensions, 2)
        The receiver's boxes.
    candidates : callable
        Gives the vertices, shape (n,), that lie in a rank's box.
    block : range
        Ranks to search for.

    Returns
    -------
    keys : ndarray of int64
        Rank times the number of vertices, plus the vertex; ascending.
    open_choices : int
        Vertices with several nearest.
    """
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
        if len(points) <= _SETTLED:
            nearest = _settled_by_rank(nearest, unsure & sure, origin, ranks, points, candidates)
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
                best = settled(best, unsure, origin[part], points[inside])
                found.append(rank * len(points) + inside[best])
    return np.unique(np.concatenate(found)), open_choices


def _settled_by_rank(
    nearest: NDArray[np.int64],
    tied: NDArray[np.bool_],
    origin: NDArray[np.float64],
    ranks: NDArray[np.int64],
    points: NDArray[np.float64],
    candidates: Callable[[int], NDArray[np.int64]],
) -> NDArray[np.int64]:
    """Look up ties rank by rank, as each has a tree of what reaches it."""
    result: NDArray[np.int64] = nearest.copy()
    for rank in np.unique(ranks[tied]):
        rows = np.flatnonzero(tied & (ranks == rank))
        inside = candidates(int(rank))
        place = np.searchsorted(inside, nearest[rows])
        result[rows] = inside[settled(place, np.ones(len(rows), bool), origin[rows], points[inside])]
    return result


def cluster_radius(vertices: int, box: NDArray[np.float64], tree: cKDTree) -> float:
    """Estimate the radius of a cluster: preCICE's ``impl::estimateClusterRadius``.

    Parameters
    ----------
    vertices : int
        Vertices per cluster.
    box : ndarray, shape (dimensions, 2)
        The local mesh's box.
    tree : cKDTree
        Of the received vertices.

    Returns
    -------
    float
        Median reach of that many vertices around points in the middle of the box.
    """
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
