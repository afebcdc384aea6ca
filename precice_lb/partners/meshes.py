"""A participant's coupling mesh as its ranks hold it, its partitions for any number of ranks, and whose boxes meet.

Level 1 of two-level initialisation is which ranks' bounding boxes overlap, as in preCICE 3.4, without all pairs. The
rule stands in ``partition/ReceivedPartition.cpp`` and ``mesh/BoundingBox.cpp``: the receiver's box is moved out on
every side by the safety factor times its longest edge, and two boxes overlap when their closed intervals do in every
dimension. An empty rank's box is inside out, and so overlaps another empty rank's box and nothing else. Pairs are found
by descending two trees at once, many pairs of nodes at a time; they are kept in blocks on a stack, so that memory does
not depend on how many are visited.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial import cKDTree

from precice_lb.exceptions import DataError
from precice_lb.store.columns import CELL_VERTICES

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]


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
    counts: Integers
    boxes: Floats
    coordinates: Floats | None = None
    cells: Mapping[str, Integers] = field(default_factory=dict)
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
    def rank_of(self) -> Integers:
        """Rank of each vertex, shape (vertices,)."""
        return np.repeat(np.arange(self.ranks), self.counts)

    @property
    def offsets(self) -> Integers:
        """First vertex of each rank and the number of all, shape (ranks + 1,)."""
        return np.concatenate([[0], np.cumsum(self.counts)])

    def points(self, why: str) -> Floats:
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


Meshes = Mapping[str, PartitionedMesh]


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
    numbers = np.asarray(rank_of)
    if numbers.shape != (len(points),):
        raise DataError(
            f"{where}: expected a partition with one rank for each of {len(points)} vertices, found shape "
            f"{numbers.shape}; give one of this mesh"
        )
    whole = numbers.astype(np.int64)
    if (wrong := (whole != numbers) | (whole < 0) | (whole >= ranks)).any():
        wanted = f"whole numbers of ranks from 0 to {ranks - 1}"
        raise DataError(f"{where}: expected {wanted}, found {numbers[wrong][0]}; correct them")
    order = np.argsort(whole, kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    kept: dict[str, Integers] = {}
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


def _boxes(points: Floats, counts: Integers) -> Floats:
    """Bounding box of each rank's vertices, which come rank by rank; NaN for an empty rank."""
    boxes = np.full((len(counts), points.shape[1], 2), np.nan)
    filled = counts > 0
    if filled.any():
        starts = (np.cumsum(counts) - counts)[filled]
        boxes[filled, :, 0] = np.minimum.reduceat(points, starts)
        boxes[filled, :, 1] = np.maximum.reduceat(points, starts)
    return boxes


def united(boxes: Sequence[Floats]) -> Floats:
    """Box of each rank around all of its boxes; NaN where all are empty."""
    low, high = (np.array([rank_boxes[..., side] for rank_boxes in boxes]) for side in (0, 1))
    return np.stack([np.fmin.reduce(low), np.fmax.reduce(high)], axis=-1)


def _halves(points: Floats, quads: Integers) -> Integers:
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


def bisection(points: Floats, ranks: int) -> Integers:
    """Recursive coordinate bisection: cut the longest extent in proportion to the ranks on either side.

    Notes
    -----
    Berger and Bokhari, IEEE Trans. Comput. C-36 (1987).
    """
    order, sizes, shares = np.arange(len(points)), np.array([len(points)]), np.array([ranks])
    # Equal coordinates have the same number.
    places = np.stack([np.unique(along, return_inverse=True)[1] for along in points.T], axis=1)
    # All parts of a level at once.
    while (shares > 1).any():
        longest = np.argmax(np.ptp(_boxes(points[order], sizes), axis=2), axis=1)
        part = np.repeat(np.arange(len(sizes)), sizes)
        order = order[np.argsort(part * len(points) + places[order, longest[part]], kind="stable")]
        left = (shares + 1) // 2
        cut = np.rint(sizes * left / shares).astype(np.int64)
        sizes, shares = (np.stack(halves, axis=1).ravel() for halves in ((cut, sizes - cut), (left, shares - left)))
        sizes, shares = sizes[shares > 0], shares[shares > 0]
    rank_of = np.empty(len(points), np.int64)
    rank_of[order] = np.repeat(np.arange(ranks), sizes)
    return rank_of


def repartition(mesh: PartitionedMesh, ranks: int) -> PartitionedMesh:
    """Cut a mesh by bisection for other ranks; those that have vertices now keep their share of all ranks."""
    if ranks < 1:
        raise DataError(f"expected at least 1 rank of {mesh.participant}, found {ranks}")
    # Ranks of the solver's volume that do not touch the interface stay away from it at other counts too.
    at_interface = max(round(ranks * float((mesh.counts > 0).mean())), 1)
    points, source = mesh.points("to partition it"), f"{mesh.source or 'mesh'} by bisection"
    return make_mesh(mesh.name, mesh.participant, points, bisection(points, at_interface), ranks, source=source)


def read_partition(path: str | Path, mesh: PartitionedMesh, ranks: int) -> PartitionedMesh:
    """Partition a mesh as a file says.

    Parameters
    ----------
    path : path
        Text with one rank per line, or a ``.npy`` file; in the order of the mesh's vertices (rank by rank).
    mesh : PartitionedMesh
        With coordinates.
    ranks : int
        Number of ranks.

    Returns
    -------
    PartitionedMesh

    Raises
    ------
    DataError
        If the file cannot be read, has another length, or names a rank out of range.
    """
    file = Path(path)
    try:
        values = np.load(file) if file.suffix == ".npy" else np.loadtxt(file, dtype=np.int64, ndmin=1)
    except (OSError, ValueError) as error:
        raise DataError(f"{file}: expected one rank per line, found: {error}; name another file") from None
    return make_mesh(
        mesh.name, mesh.participant, mesh.points("to partition it"), values, ranks, cells=mesh.cells, source=str(path)
    )


_FANOUT = 4
_BLOCK = 2**18
# How bounds grow: of lower and of upper ones.
_OUTWARDS = (np.minimum, np.maximum)


def connected_ranks(provider_boxes: ArrayLike, receiver_boxes: ArrayLike, *, safety_factor: float = 0.5) -> Integers:
    """Pairs of ranks that preCICE connects in two-level initialisation (level 1).

    Parameters
    ----------
    provider_boxes : array_like, shape (provider ranks, dimensions, 2)
        Smallest and largest coordinate of the provider's vertices per rank and dimension; NaN for a rank without any.
    receiver_boxes : array_like, shape (receiver ranks, dimensions, 2)
        The same for the receiver's mesh that is mapped from or to the received one.
    safety_factor : float
        ``safety-factor`` of ``<receive-mesh>``. With 0 the receiver's boxes are taken as they stand, as for an access
        region.

    Returns
    -------
    ndarray of int64, shape (pairs, 2)
        Provider rank and receiver rank, sorted.

    Raises
    ------
    DataError
        If the boxes do not have these shapes or the same dimensions, are NaN only in part, infinite or inside out, or
        the safety factor is negative or not finite.

    Notes
    -----
    preCICE 3.4, ``ReceivedPartition::compareBoundingBoxes`` and ``prepareBoundingBox``.
    """
    provider = check_boxes(provider_boxes, "provider_boxes")
    receiver = check_boxes(receiver_boxes, "receiver_boxes")
    if provider.shape[1] != receiver.shape[1]:
        raise DataError(
            f"expected boxes of the same dimensions, found {provider.shape[1]} of the provider and "
            f"{receiver.shape[1]} of the receiver; give meshes of one case"
        )
    return overlapping_pairs(provider, scaled_boxes(receiver, safety_factor))


def check_boxes(boxes: ArrayLike, name: str) -> Floats:
    """Check bounding boxes, shape (ranks, dimensions, 2), NaN for an empty rank; the name is for messages."""
    try:
        values = np.asarray(boxes, dtype=float)
    except (TypeError, ValueError):
        values = np.empty(0)
    if values.ndim != 3 or values.shape[1] not in (1, 2, 3) or values.shape[2] != 2:
        raise DataError(f"{name}: expected numbers in an array of shape (ranks, 2 or 3, 2), found {values.shape}")
    missing = np.isnan(values)
    wrong = missing.any(axis=(1, 2)) & ~missing.all(axis=(1, 2)) | np.isinf(values).any(axis=(1, 2))
    wrong |= (values[:, :, 0] > values[:, :, 1]).any(axis=1)
    if wrong.any():
        rank = int(np.argmax(wrong))
        raise DataError(
            f"{name}: expected finite bounds with lower <= upper, or NaN alone for an empty rank, found "
            f"{values[rank].tolist()} for rank {rank}; check that rank's coordinates"
        )
    checked: Floats = values
    return checked


def scaled_boxes(boxes: Floats, safety_factor: float) -> Floats:
    """Move every side of each box out by the factor times the box's longest edge (``BoundingBox::scaleBy``)."""
    if not (np.isfinite(safety_factor) and safety_factor >= 0):
        raise DataError(f"safety_factor: expected a number of at least 0, found {safety_factor!r}")
    margin = safety_factor * (boxes[:, :, 1] - boxes[:, :, 0]).max(axis=1, keepdims=True)
    moved: Floats = np.stack([boxes[:, :, 0] - margin, boxes[:, :, 1] + margin], axis=2)
    return moved


def overlapping_pairs(first: Floats, second: Floats) -> Integers:
    """Sorted pairs of boxes, shape (ranks, dimensions, 2), that overlap as in preCICE: closed, and empty with empty."""
    empty = [np.isnan(boxes[:, 0, 0]) for boxes in (first, second)]
    nothing = [np.flatnonzero(is_empty) for is_empty in empty]
    keys = [np.add.outer(nothing[0] * len(second), nothing[1]).ravel()]
    if not (empty[0].all() or empty[1].all()):
        trees = [
            _Tree(boxes, np.flatnonzero(~is_empty)) for boxes, is_empty in zip((first, second), empty, strict=True)
        ]
        keys += [a * len(second) + b for a, b in _overlaps(*trees)]
    joined = np.concatenate(keys)
    joined.sort()
    pairs = np.empty((len(joined), 2), np.int64)
    np.divmod(joined, max(len(second), 1), out=(pairs[:, 0], pairs[:, 1]))
    return pairs


class _Tree:
    """Boxes that are neighbours in space, and above them levels of bounds of ``_FANOUT`` each; the root is last."""

    def __init__(self, boxes: Floats, ranks: Integers) -> None:
        # The leaves of a tree of centres, from one end to the other, are neighbours.
        centres = cKDTree(np.nan_to_num(boxes[ranks].mean(axis=2)), leafsize=_FANOUT, balanced_tree=False)
        self.ranks = ranks[centres.indices]
        # Contiguous per bound: one gather per comparison.
        bounds = np.ascontiguousarray(boxes[self.ranks].transpose(2, 1, 0))
        self.levels = [bounds]
        while bounds.shape[2] > 1:
            starts = np.arange(0, bounds.shape[2], _FANOUT)
            bounds = np.stack([f.reduceat(side, starts, axis=1) for f, side in zip(_OUTWARDS, bounds, strict=True)])
            self.levels.append(bounds)


def _overlaps(first: _Tree, second: _Tree) -> Iterator[tuple[Integers, Integers]]:
    """Ranks of overlapping boxes, a block at a time."""
    stack = [(len(first.levels) - 1, len(second.levels) - 1, np.zeros(1, np.int64), np.zeros(1, np.int64))]
    while stack:
        level_a, level_b, a, b = stack.pop()
        if len(a) > _BLOCK:
            middle = len(a) // 2
            stack += [(level_a, level_b, a[:middle], b[:middle]), (level_a, level_b, a[middle:], b[middle:])]
            continue
        hit = np.ones(len(a), bool)
        for low_a, high_a, low_b, high_b in zip(*first.levels[level_a], *second.levels[level_b], strict=True):
            hit &= (low_a[a] <= high_b[b]) & (low_b[b] <= high_a[a])
        a, b = a[hit], b[hit]
        if level_a == level_b == 0:
            yield first.ranks[a], second.ranks[b]
        elif not len(a):
            continue
        elif level_a >= level_b:
            a, b = _children(a, b, first.levels[level_a - 1].shape[2])
            stack.append((level_a - 1, level_b, a, b))
        else:
            b, a = _children(b, a, second.levels[level_b - 1].shape[2])
            stack.append((level_a, level_b - 1, a, b))


def _children(nodes: Integers, others: Integers, count: int) -> tuple[Integers, Integers]:
    below = np.add.outer(nodes * _FANOUT, np.arange(_FANOUT)).ravel()
    there = below < count
    return below[there], np.repeat(others, _FANOUT)[there]
