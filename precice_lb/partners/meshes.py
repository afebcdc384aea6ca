"""A participant's coupling mesh as its ranks hold it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from precice_lb.exceptions import DataError
from precice_lb.store.records import CELL_VERTICES

__all__ = ["PartitionedMesh", "make_mesh", "united"]


@dataclass(frozen=True)
class PartitionedMesh:
    """One mesh with the rank of every vertex.

    Attributes
    ----------
    name, participant : str
        The mesh, and the participant that provides it.
    counts : ndarray of int64, shape (ranks,)
        Vertices per rank.
    boxes : ndarray, shape (ranks, dimensions, 2)
        Bounding box per rank; NaN for an empty one.
    coordinates : ndarray, shape (vertices, dimensions), or None
        Rank by rank, in the order the solver set them (preCICE's global order). None where only boxes are known.
    cells : mapping
        ``edges``, ``triangles`` and ``tetrahedra`` as arrays of vertex positions; those that there are.
    source : str
        Where it comes from.
    """

    name: str
    participant: str
    counts: NDArray[np.int64]
    boxes: NDArray[np.float64]
    coordinates: NDArray[np.float64] | None = None
    cells: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)
    source: str = ""

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return len(self.counts)

    @property
    def dimensions(self) -> int:
        """Number of space dimensions."""
        return int(self.boxes.shape[1])

    @property
    def vertices(self) -> int:
        """Number of vertices of all ranks."""
        return int(self.counts.sum())

    @property
    def rank_of(self) -> NDArray[np.int64]:
        """Rank of each vertex, shape (vertices,)."""
        return np.repeat(np.arange(self.ranks), self.counts)

    @property
    def offsets(self) -> NDArray[np.int64]:
        """First vertex of each rank and the number of all, shape (ranks + 1,)."""
        return np.concatenate([[0], np.cumsum(self.counts)])

    def points(self, why: str) -> NDArray[np.float64]:
        """Coordinates, or an error that says what they are needed for.

        Parameters
        ----------
        why : str
            What needs them, for the error.

        Returns
        -------
        ndarray, shape (vertices, dimensions)

        Raises
        ------
        DataError
            If only boxes are known.
        """
        if self.coordinates is None:
            raise DataError(
                f'expected the coordinates of mesh "{self.name}" of {self.participant} {why}, found its boxes alone in '
                f"{self.source or 'the data'}; record with PRECICE_LB_MESHES=coordinates or give exported meshes"
            )
        return self.coordinates


def make_mesh(
    name: str,
    participant: str,
    coordinates: ArrayLike,
    rank_of: ArrayLike,
    ranks: int,
    *,
    cells: Mapping[str, ArrayLike] | None = None,
    source: str = "",
) -> PartitionedMesh:
    """Make a partitioned mesh of vertices in any order.

    Parameters
    ----------
    name, participant : str
        The mesh, and the participant that provides it.
    coordinates : array_like, shape (vertices, 2 or 3)
        Coordinates of the vertices.
    rank_of : array_like, shape (vertices,)
        Rank of each vertex.
    ranks : int
        Number of ranks, with empty ones.
    cells : mapping, optional
        ``edges``, ``triangles``, ``quads``, ``tetrahedra``: positions of their vertices, shape (n, 2, 3 or 4). Quads
        become triangles, as preCICE splits them.
    source : str
        Where it comes from, for messages.

    Returns
    -------
    PartitionedMesh
        Sorted by rank; vertices of one rank keep their order.

    Raises
    ------
    DataError
        If a coordinate is not finite, the partition has another length, a rank is out of range, or a cell names a
        vertex that is not there.
    """
    where = f'{source}: mesh "{name}" of {participant}' if source else f'mesh "{name}" of {participant}'
    points = np.asarray(coordinates, dtype=float)
    if points.ndim != 2 or points.shape[1] not in (2, 3):
        raise DataError(f"{where}: expected coordinates of shape (vertices, 2 or 3), found shape {points.shape}")
    finite = np.isfinite(points).all(axis=1)
    if not finite.all():
        first = int(np.argmin(finite))
        raise DataError(f"{where}: expected finite coordinates, found {points[first].tolist()} at vertex {first}")
    owner = np.asarray(rank_of)
    if owner.shape != (len(points),):
        raise DataError(
            f"{where}: expected a partition with one rank for each of {len(points)} vertices, found shape {owner.shape}"
        )
    whole = owner.astype(np.int64)
    if len(owner) and not ((whole == owner).all() and whole.min() >= 0 and whole.max() < ranks):
        raise DataError(f"{where}: expected ranks from 0 to {ranks - 1}, found {owner.min()} to {owner.max()}")
    order = np.argsort(whole, kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    kept: dict[str, NDArray[np.int64]] = {}
    for kind, corners in (cells or {}).items():
        array = np.asarray(corners, dtype=np.int64).reshape(-1, CELL_VERTICES[kind])
        if not len(array):
            continue
        if array.min() < 0 or array.max() >= len(points):
            raise DataError(
                f"{where}: expected {kind} of vertices 0 to {len(points) - 1}, found {array.min()} to {array.max()}; "
                "correct its cells"
            )
        kept[kind] = place[array]
    points = points[order]
    if "quads" in kept:
        halves = _halves(points, kept.pop("quads"))
        kept["triangles"] = np.concatenate([kept["triangles"], halves]) if "triangles" in kept else halves
    counts = np.bincount(whole, minlength=ranks).astype(np.int64)
    return PartitionedMesh(name, participant, counts, _boxes(points, counts), points, kept, source)


def _boxes(points: NDArray[np.float64], counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Bounding box of each rank's vertices, which come rank by rank; NaN for an empty rank."""
    boxes = np.full((len(counts), points.shape[1], 2), np.nan)
    filled = counts > 0
    if filled.any():
        starts = (np.cumsum(counts) - counts)[filled]
        boxes[filled, :, 0] = np.minimum.reduceat(points, starts)
        boxes[filled, :, 1] = np.maximum.reduceat(points, starts)
    return boxes


def united(boxes: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Box of each rank around all of its boxes; NaN where all are empty."""
    low, high = (np.array([each[..., side] for each in boxes]) for side in (0, 1))
    return np.stack([np.fmin.reduce(low), np.fmax.reduce(high)], axis=-1)


def _halves(points: NDArray[np.float64], quads: NDArray[np.int64]) -> NDArray[np.int64]:
    """Split convex quads along their shorter diagonal.

    Notes
    -----
    preCICE 3.4: ``ParticipantImpl::setMeshQuads`` and ``math::geometry::isConvexQuad``. Of equally long diagonals the
    one through the vertex that its search for the convex hull begins with is taken.
    """
    corners = points[quads]
    # The diagonals of a convex quad are longer together than any two opposite sides.
    pairs = np.array([[[0, 2], [1, 3]], [[0, 1], [2, 3]], [[0, 3], [1, 2]]])
    lengths = np.linalg.norm(corners[:, pairs[:, :, 0]] - corners[:, pairs[:, :, 1]], axis=3)
    chosen = np.argmax(lengths.sum(axis=2), axis=1)
    row = np.arange(len(quads))
    along = np.einsum("nk,nik->ni", corners[:, 1] - corners[:, 0], corners - corners[:, :1])
    first = np.argmin(along, axis=1)
    diagonals, lengths = pairs[chosen], lengths[row, chosen]
    mine = np.argmax((diagonals == first[:, None, None]).any(axis=2), axis=1)
    short = np.where(lengths[row, mine] <= lengths[row, 1 - mine], mine, 1 - mine)
    cut, rest = quads[row[:, None], diagonals[row, short]], quads[row[:, None], diagonals[row, 1 - short]]
    return np.stack([np.column_stack([cut, rest[:, side]]) for side in (0, 1)], axis=1).reshape(-1, 3)
