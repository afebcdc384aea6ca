"""Partitions of a mesh for any number of ranks, and forecasts with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from precice_lb.exceptions import DataError
from precice_lb.partners.level1 import overlapping_pairs
from precice_lb.partners.links import Link, receiver_boxes
from precice_lb.partners.meshes import PartitionedMesh, make_mesh

__all__ = ["Forecast", "bisection", "forecast", "read_partition", "read_ranks", "refined", "repartition"]

_NEIGHBOURS = 8


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


def repartition(mesh: PartitionedMesh, ranks: int, *, vertices: int | None = None) -> PartitionedMesh:
    """Cut a mesh by bisection for another number of ranks; ranks that have vertices now keep their share of all ranks.

    If the mesh to come is finer, points are put between the known ones until there are so many vertices.
    """
    if ranks < 1:
        raise DataError(f"expected at least 1 rank of {mesh.participant}, found {ranks}")
    points = refined(mesh.points("to partition it"), vertices or 0)
    # Ranks of the solver's volume that do not touch the interface stay away from it at other counts too.
    at_interface = max(round(ranks * float((mesh.counts > 0).mean())), 1)
    source = f"{mesh.source or 'mesh'} by bisection"
    return make_mesh(mesh.name, mesh.participant, points, bisection(points, at_interface), ranks, source=source)


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
    partitions : dict of str to str
        By mesh "bisection", or the file that its partition was read from.
    mean_error, max_error : float
        Relative error of mean and maximum partners per rank where the same forecast is made for the measured ranks, the
        largest of all received meshes and sides.
    """

    partitions: dict[str, str]
    mean_error: float
    max_error: float


def forecast(
    links: tuple[Link, ...],
    meshes: Mapping[str, PartitionedMesh],
    ranks: Mapping[str, int],
    partitions: Mapping[str, str | Path],
    vertices: Mapping[str, int],
) -> tuple[dict[str, PartitionedMesh], Forecast]:
    """Partition all meshes for other numbers of ranks, by files or by bisection."""
    chosen, same, told = {}, {}, {}
    for name, mesh in meshes.items():
        count = ranks[mesh.participant]
        if name in partitions:
            chosen[name] = read_partition(partitions[name], mesh, count)
            same[name], told[name] = mesh, str(partitions[name])
            continue
        chosen[name] = repartition(mesh, count, vertices=vertices.get(name))
        same[name], told[name] = repartition(mesh, mesh.ranks), "bisection"
    errors = []
    for link in links:
        truth, guess = _mean_and_most(link, meshes), _mean_and_most(link, same)
        errors.append(np.divide(np.abs(guess - truth), truth, out=(guess > 0).astype(float), where=truth > 0))
    return chosen, Forecast(told, *np.max(errors, axis=(0, 1)).tolist())


def _mean_and_most(link: Link, meshes: Mapping[str, PartitionedMesh]) -> NDArray[np.float64]:
    """Mean and maximum partners per rank of either side, shape (2, 2)."""
    boxes = (meshes[link.mesh].boxes, receiver_boxes(link, meshes))
    counts = [
        np.bincount(each, minlength=len(box)) for each, box in zip(overlapping_pairs(*boxes).T, boxes, strict=True)
    ]
    return np.array([(each.mean(), each.max()) for each in counts])
