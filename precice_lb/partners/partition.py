"""Partitions of a mesh for any number of ranks, which of them a measured one looks like, and forecasts with them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.spatial import cKDTree

from precice_lb.exceptions import DataError
from precice_lb.partners.level1 import overlapping_pairs
from precice_lb.partners.links import Link, receiver_boxes
from precice_lb.partners.meshes import PartitionedMesh, make_mesh

__all__ = [
    "STYLES",
    "Forecast",
    "forecast",
    "hilbert_order",
    "likeness",
    "read_partition",
    "read_ranks",
    "refined",
    "repartition",
]

_NEIGHBOURS = 8
# Of the Hilbert curve's cells along each axis.
_BITS = 20


def hilbert_order(points: NDArray[np.float64]) -> NDArray[np.int64]:
    """Order points, shape (points, 1 to 3), along the Hilbert curve; points of one cell keep their order.

    Skilling, Programming the Hilbert curve, AIP Conf. Proc. 707 (2004): the coordinates' bits are transformed in place
    from the most to the least significant one; interleaved, they are the position on the curve.
    """
    # The cells are cubes, so that long domains are not squeezed.
    most = (1 << _BITS) - 1
    offsets = points - points.min(axis=0, initial=np.inf)
    scale = most / max(float(offsets.max(initial=0.0)), 1e-300)
    axes = np.ascontiguousarray(np.minimum(offsets * scale, most).astype(np.int64).T)
    first = axes[0]
    for bit in range(_BITS - 1, 0, -1):
        below = (1 << bit) - 1
        for axis in axes:
            # Where the bit is set the first axis is inverted below it, elsewhere it is exchanged with this one.
            high = (axis >> bit) & 1 == 1
            swapped = np.where(high, 0, (first ^ axis) & below)
            first ^= np.where(high, below, swapped)
            axis ^= swapped
    axes = np.bitwise_xor.accumulate(axes, axis=0)
    turn = axes[-1].copy()
    for shift in (1, 2, 4, 8, 16):
        turn ^= turn >> shift
    axes ^= turn >> 1
    key = np.zeros(len(points), np.int64)
    for bit in range(_BITS - 1, -1, -1):
        for axis in axes:
            key = key << 1 | (axis >> bit & 1)
    return np.argsort(key, kind="stable")


def bisection(points: NDArray[np.float64], ranks: int) -> NDArray[np.int64]:
    """Recursive coordinate bisection: cut the longest extent in proportion to the ranks on either side.

    Notes
    -----
    Berger and Bokhari, IEEE Trans. Comput. C-36 (1987).
    """
    rank_of = np.zeros(len(points), np.int64)
    parts = [(np.arange(len(points)), 0, ranks)]
    while parts:
        part, first, share = parts.pop()
        if share == 1 or not len(part):
            rank_of[part] = first
            continue
        axis = np.argmax(np.ptp(points[part], axis=0))
        part = part[np.argsort(points[part, axis], kind="stable")]
        left = (share + 1) // 2
        cut = round(len(part) * left / share)
        parts += [(part[:cut], first, left), (part[cut:], first + left, share - left)]
    return rank_of


def hilbert(points: NDArray[np.float64], ranks: int) -> NDArray[np.int64]:
    """Equal pieces of the Hilbert curve through all vertices."""
    return _pieces(hilbert_order(points), ranks)


def strips(points: NDArray[np.float64], ranks: int, *, axis: int) -> NDArray[np.int64]:
    """Equal slices across one axis, as of a solver that cuts its grid in one direction."""
    return _pieces(np.argsort(points[:, min(axis, points.shape[1] - 1)], kind="stable"), ranks)


def _pieces(order: NDArray[np.int64], ranks: int) -> NDArray[np.int64]:
    rank_of = np.empty(len(order), np.int64)
    rank_of[order] = np.arange(len(order)) * ranks // max(len(order), 1)
    return rank_of


STYLES: dict[str, Callable[[NDArray[np.float64], int], NDArray[np.int64]]] = {
    "bisection": bisection,
    "hilbert": hilbert,
    **{f"strips-{name}": functools.partial(strips, axis=axis) for axis, name in enumerate("xyz")},
}
"""Partitions by name; each takes points and a number of ranks."""


def repartition(mesh: PartitionedMesh, ranks: int, style: str, *, vertices: int | None = None) -> PartitionedMesh:
    """Partition a mesh for another number of ranks; ranks that have vertices now keep their share of all ranks.

    If the mesh to come is finer, points are put between the known ones until there are so many vertices.
    """
    if style not in STYLES:
        raise DataError(f"expected a partition of style {', '.join(STYLES)}, found {style!r}")
    if ranks < 1:
        raise DataError(f"expected at least 1 rank of {mesh.participant}, found {ranks}")
    points = refined(mesh.points("to partition it"), vertices or 0)
    # Ranks of the solver's volume that do not touch the interface stay away from it at other counts too.
    at_interface = max(round(ranks * float((mesh.counts > 0).mean())), 1)
    rank_of = STYLES[style](points, at_interface)
    source = f"{mesh.source or 'mesh'} as {style}"
    return make_mesh(mesh.name, mesh.participant, points, rank_of, ranks, source=source)


def refined(points: NDArray[np.float64], vertices: int) -> NDArray[np.float64]:
    """Add points in triangles of a known point and two of its nearest neighbours until there are so many."""
    missing = vertices - len(points)
    if missing <= 0 or len(points) < 2:
        return points
    generator = np.random.default_rng(0)
    _, near = cKDTree(points).query(points, k=min(_NEIGHBOURS, len(points)), workers=-1)
    base = np.resize(generator.permutation(len(points)), missing)
    picks = generator.integers(1, near.shape[1], (2, missing))
    weights = generator.random((2, missing)) * 0.5
    new = points[base]
    for pick, weight in zip(picks, weights, strict=True):
        new = new + weight[:, None] * (points[near[base, pick]] - points[base])
    return np.concatenate([points, new])


def likeness(mesh: PartitionedMesh) -> dict[str, float]:
    """How far a partition is one of the known styles, as a share of its vertices; 1 is the same partition.

    It is the share of vertices that stay together: for each rank those that one rank of the style holds, or for each
    rank of the style those that one rank holds, whichever is less.
    """
    points = mesh.points("to tell its style")
    rank_of = mesh.rank_of
    used, compact = np.unique(rank_of, return_inverse=True)
    result = {}
    for style, partition in STYLES.items():
        other = partition(points, len(used))
        together = coo_array((np.ones(len(points)), (compact, other)), (len(used), len(used))).tocsr()
        result[style] = float(min(together.max(axis=axis).sum() for axis in (0, 1))) / max(len(points), 1)
    return result


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
    values = read_ranks(Path(path))
    return make_mesh(
        mesh.name, mesh.participant, mesh.points("to partition it"), values, ranks, cells=mesh.cells, source=str(path)
    )


def read_ranks(path: Path) -> NDArray[np.int64]:
    """Read a file of one rank per line, or a ``.npy`` file."""
    try:
        return np.asarray(np.load(path) if path.suffix == ".npy" else np.loadtxt(path, dtype=np.int64, ndmin=1))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise DataError(f"{path}: expected one rank per line, found: {reason}; name another file") from None


@dataclass(frozen=True)
class Forecast:
    """How a partition for other numbers of ranks was made, and how far to trust it.

    Attributes
    ----------
    styles : dict of str to str
        Style of partition by mesh, or the file it was read from.
    likeness : dict of str to float
        By mesh, the share of vertices that the style keeps together as the measured partition does.
    mean_error, max_error : float
        Relative error of mean and maximum partners per rank where the same forecast is made for the measured ranks, the
        largest of all received meshes and sides.
    """

    styles: dict[str, str]
    likeness: dict[str, float]
    mean_error: float
    max_error: float


def forecast(
    links: tuple[Link, ...],
    meshes: Mapping[str, PartitionedMesh],
    ranks: Mapping[str, int],
    style: str | None,
    partitions: Mapping[str, str | Path],
    vertices: Mapping[str, int],
) -> tuple[dict[str, PartitionedMesh], Forecast]:
    """Partition all meshes for other numbers of ranks, by files or in the style that each looks like."""
    chosen, same, styles, alike = {}, {}, {}, {}
    for name, mesh in meshes.items():
        count = ranks[mesh.participant]
        if name in partitions:
            chosen[name] = read_partition(partitions[name], mesh, count)
            same[name], styles[name], alike[name] = mesh, str(partitions[name]), float("nan")
            continue
        scores = likeness(mesh)
        best = style or max(scores, key=lambda each: scores[each])
        chosen[name] = repartition(mesh, count, best, vertices=vertices.get(name))
        same[name] = repartition(mesh, mesh.ranks, best)
        styles[name], alike[name] = best, scores.get(best, float("nan"))
    errors = []
    for link in links:
        truth, guess = _mean_and_most(link, meshes), _mean_and_most(link, same)
        errors.append(np.divide(np.abs(guess - truth), truth, out=(guess > 0).astype(float), where=truth > 0))
    return chosen, Forecast(styles, alike, *np.max(errors, axis=(0, 1)).tolist())


def _mean_and_most(link: Link, meshes: Mapping[str, PartitionedMesh]) -> NDArray[np.float64]:
    """Mean and maximum partners per rank of either side, shape (2, 2)."""
    boxes = (meshes[link.mesh].boxes, receiver_boxes(link, meshes))
    counts = [
        np.bincount(each, minlength=len(box)) for each, box in zip(overlapping_pairs(*boxes).T, boxes, strict=True)
    ]
    return np.array([(each.mean(), each.max()) for each in counts])
