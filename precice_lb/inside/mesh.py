"""Cells of a mesh, what ranks of a partition hold, partitions of equal cost, and files for solvers.

Every cell has a weight, and every rank gets at least one cell.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import DataError
from precice_lb.ingest.meshio import checked_ranks, read_meshio, read_ranks
from precice_lb.inside.loads import Cells, FeatureCosts, Floats, Integers, counts_for

_BETTER = 0.7
"""Share of the largest part along the longest axis that another axis must fall below to be cut instead."""
_SAME_PLACE = 1e9
"""Planes of cells that differ by less than this part of the longest extent are one."""
_ENOUGH = 1e-12
_WHOLE = 2**30
"""Sum of all weights as whole numbers: METIS has 32 bits."""
_UNEVEN = 5
"""What METIS may add to the largest part, in thousandths."""


def cost_weights(cells: Cells, costs: FeatureCosts) -> Floats:
    """Give the seconds per time window of each cell, shape (cells,)."""
    return np.asarray(counts_for(cells, costs.features) @ costs.seconds)


def pieces(weights: Floats, parts: int, least: int = 1) -> Integers:
    """Cut a row of weights into contiguous parts whose largest is as small as can be; give where each ends, (parts,).

    Of such cuts, those nearest to equal parts. Each part has at least ``least`` cells; more than 1 may cost balance.
    """
    sums = np.concatenate([[0.0], np.cumsum(weights / weights.max() if weights.any() else np.ones(len(weights)))])
    total, count = float(sums[-1]), len(weights)
    # The largest weight is 1.
    low, high = max(total / parts, 1.0), total
    while high - low > _ENOUGH * total:
        middle = (low + high) / 2
        low, high = (middle, high) if _filled(sums, parts, least, middle) is None else (low, middle)
    bound = high + _ENOUGH * total
    backwards = _filled(total - sums[::-1], parts, least, bound)
    # A part that ends before this leaves too much for the rest.
    earliest = np.zeros(parts, np.int64) if backwards is None else np.append(count - backwards[-2::-1], count)
    ideal = np.searchsorted((sums[1:] + sums[:-1]) / 2, total * np.arange(1, parts + 1) / parts)
    ends, start = np.empty(parts, np.int64), 0
    for part in range(parts):
        latest = int(np.searchsorted(sums, sums[start] + bound, side="right")) - 1
        end = min(max(int(ideal[part]), int(earliest[part])), latest)
        start = min(max(end, start + least), count - least * (parts - 1 - part))
        ends[part] = start
    ends[-1] = count
    return ends


def _filled(sums: Floats, parts: int, least: int, bound: float) -> Integers | None:
    """Fill part after part up to a bound; None where that needs more parts."""
    ends, start, count = np.empty(parts, np.int64), 0, len(sums) - 1
    for part in range(parts):
        full = int(np.searchsorted(sums, sums[start] + bound, side="right")) - 1
        end = min(full, count - least * (parts - 1 - part))
        if end < start + least:
            return None
        ends[part] = start = end
    return ends if start == count else None


def bisection(cells: Cells, weights: Floats, ranks: int) -> Integers:
    """Cut the longest axis into parts of equal cost, as many as the ranks' largest prime factor, and go on in each.

    Another axis is cut where its largest part is better by more than 30 %. Oskooi et al., section 3 (see the
    documentation); Berger and Bokhari, IEEE Trans. Comput. C-36 (1987).
    """
    rank_of = np.zeros(len(weights), np.int64)
    parts = [(np.arange(len(weights)), 0, ranks)]
    while parts:
        part, first, share = parts.pop()
        if share == 1:
            rank_of[part] = first
            continue
        count = _largest_prime(share)
        rest = share // count
        order, ends = _cut(cells.centres[part], weights[part], count, rest)
        for number, piece in enumerate(np.split(part[order], ends[:-1])):
            parts.append((piece, first + number * rest, rest))
    return rank_of


def _cut(centres: Floats, weights: Floats, parts: int, least: int) -> tuple[Integers, Integers]:
    """Order cells along the axis to cut, plane by plane and row by row, and cut them."""
    extents = np.ptp(centres, axis=0)
    axes = np.argsort(-extents, kind="stable")
    places = np.round((centres - centres.min(axis=0)) * (_SAME_PLACE / (float(extents.max()) or 1.0)))
    best: tuple[float, Any, Any] | None = None
    for axis in axes:
        order = np.lexsort([places[:, other] for other in axes[::-1] if other != axis] + [places[:, axis]])
        ends = pieces(weights[order], parts, least)
        largest = float(np.add.reduceat(weights[order], np.append(0, ends[:-1])).max())
        if best is None:
            best = (_BETTER * largest, order, ends)
        elif extents[axis] > 0 and largest < best[0]:
            best = (largest, order, ends)
        if best[0] <= weights.sum() / parts:
            break
    assert best is not None
    return best[1], best[2]


def _largest_prime(number: int) -> int:
    factor = 2
    while factor * factor <= number:
        if number % factor:
            factor += 1
        else:
            number //= factor
    return number


def metis(cells: Cells, weights: Floats, ranks: int) -> Integers:
    """METIS on the graph of cells that share a face, by pymetis."""
    try:
        library: Any = importlib.import_module("pymetis")
    except ImportError:
        raise DataError(
            "expected pymetis for METIS, found it is not installed; pip install precice_lb[metis], or take bisection"
        ) from None
    if ranks == 1:
        return np.zeros(len(weights), np.int64)
    if not len(cells.neighbours):
        raise DataError(
            f"{cells.source or 'cells'}: expected cells that share faces for METIS, found none; take bisection"
        )
    _, parts = library.part_graph(
        ranks,
        library.CSRAdjacency(*cells.adjacency()),
        vweights=whole_weights(weights),
        options=library.Options(ufactor=_UNEVEN),
    )
    rank_of = np.asarray(parts, dtype=np.int64)
    if (empty := int((np.bincount(rank_of, minlength=ranks) == 0).sum())) > 0:
        raise DataError(f"expected METIS to give each of {ranks} ranks cells, found {empty} without; take bisection")
    return rank_of


def whole_weights(weights: Floats) -> Integers:
    """Give weights, shape (cells,), as whole numbers of at least 1 that METIS can add up."""
    shares = weights / weights.max() if weights.any() else np.ones(len(weights))
    return np.asarray(np.maximum(np.round(shares * (_WHOLE / shares.sum())), 1), dtype=np.int64)


PARTITIONERS: dict[str, Callable[[Cells, Floats, int], Integers]] = {
    "bisection": bisection,
    "metis": metis,
}
"""By name; each takes cells, their weights and a number of ranks, and gives the rank of each cell, shape (cells,)."""


CELLS = "cells"
"""The feature that every cell has once."""

_FACES: dict[str, tuple[tuple[int, ...], ...]] = {
    "line": ((0,), (1,)),
    "triangle": ((0, 1), (1, 2), (2, 0)),
    "quad": ((0, 1), (1, 2), (2, 3), (3, 0)),
    "tetra": ((0, 1, 2), (0, 1, 3), (1, 2, 3), (0, 2, 3)),
    "pyramid": ((0, 1, 2, 3), (0, 1, 4), (1, 2, 4), (2, 3, 4), (3, 0, 4)),
    "wedge": ((0, 1, 2), (3, 4, 5), (0, 1, 4, 3), (1, 2, 5, 4), (2, 0, 3, 5)),
    "hexahedron": ((0, 1, 2, 3), (4, 5, 6, 7), (0, 1, 5, 4), (1, 2, 6, 5), (2, 3, 7, 6), (3, 0, 4, 7)),
}
"""Corners of each face; those of higher order come after the corners, and are not needed."""


def read_cells(mesh: Path, features: Sequence[str] | None = None) -> Cells:
    """Read the cells of the highest dimension of a mesh file that meshio knows.

    Parameters
    ----------
    mesh : Path
        The file.
    features : sequence of str, optional
        ``cells`` (1 each), scalar cell arrays (how much of it each cell is), or ``material=1``: 1 where the array
        ``material`` has this value. By default ``cells`` and all scalar arrays from 0 but those of whole numbers above
        1, which may be names of materials or ranks.

    Returns
    -------
    Cells
        In the order of the file; neighbours where the faces of all cells are known.

    Raises
    ------
    DataError
        If meshio is not installed or cannot read the file, or a feature is not there or negative.
    """
    read = read_meshio(mesh)
    blocks = [read.cells[place] for place in _used_blocks(read)]
    number = sum(len(block.data) for block in blocks)
    if not number:
        raise DataError(f"{mesh}: expected a mesh with cells, found none; give the mesh that the solver partitions")
    arrays = _arrays(read)
    names = [CELLS, *(name for name in arrays if _is_amount(arrays[name]))] if features is None else list(features)
    counts = np.column_stack([_feature(mesh, arrays, name, number) for name in names])
    points = np.asarray(read.points, dtype=np.float64)
    if points.shape[1] == 3 and not np.ptp(points[:, 2]):
        points = points[:, :2]
    try:
        corners = [np.asarray(block.data, dtype=np.int64) for block in blocks]
    except ValueError:
        raise DataError(f"{mesh}: expected cells of standard shapes, found polyhedra; split them up first") from None
    centres = np.concatenate([points[cells].mean(axis=1) for cells in corners])
    kinds = [re.sub(r"\d+$", "", block.type) for block in blocks]
    return Cells(centres, tuple(names), counts, _neighbours(kinds, corners), str(mesh))


def rank_of_cells(cells: Cells, partition: str | Path) -> Integers:
    """Read which rank has each cell.

    Parameters
    ----------
    cells : Cells
        Of a mesh file.
    partition : str or path
        A file (text, one rank per line, or ``.npy``), or the name of a cell array of the mesh file.

    Returns
    -------
    ndarray of int64, shape (cells,)

    Raises
    ------
    DataError
        If there is neither, or not every entry is a whole number.
    """
    if Path(partition).is_file():
        return read_ranks(Path(partition))
    arrays = _arrays(read_meshio(Path(cells.source)))
    if str(partition) not in arrays:
        raise DataError(
            f"expected a partition, a file or an array of cells in {cells.source} ({', '.join(arrays) or 'none there'})"
            f", found neither with the name {str(partition)!r}"
        )
    return checked_ranks(f"{cells.source}, array {partition}", arrays[str(partition)], len(cells.counts), "cells")


def counts_of(cells: Cells, rank_of: Integers, ranks: int) -> Floats:
    """Count what each rank holds.

    Parameters
    ----------
    cells : Cells
        Of a mesh.
    rank_of : ndarray of int64, shape (cells,)
        The rank of each cell.
    ranks : int
        How many there are.

    Returns
    -------
    ndarray, shape (ranks, features)

    Raises
    ------
    DataError
        If there are not as many ranks as cells, or one is out of range.
    """
    owners = checked_ranks(cells.source or "partition", rank_of, len(cells.counts), "cells", ranks)
    return np.column_stack([np.bincount(owners, column, ranks) for column in cells.counts.T])


def _used_blocks(read: Any) -> list[int]:
    """Places of the blocks of the highest dimension: the others are its boundaries."""
    highest = max((block.dim for block in read.cells), default=0)
    return [place for place, block in enumerate(read.cells) if block.dim == highest]


def _arrays(read: Any) -> dict[str, NDArray[Any]]:
    """Scalar arrays of the cells, by name."""
    arrays = {}
    for name, blocks in read.cell_data.items():
        values = [np.asarray(blocks[place]) for place in _used_blocks(read)]
        if all(block.size == len(block) for block in values):
            arrays[str(name)] = np.concatenate([block.ravel() for block in values])
    return arrays


def _is_amount(values: NDArray[Any]) -> bool:
    amounts = np.isfinite(values).all() and (values >= 0).all()
    return bool(amounts and (values.dtype.kind == "f" or (values <= 1).all()))


def _feature(mesh: Path, arrays: dict[str, NDArray[Any]], name: str, number: int) -> Floats:
    if name in arrays:
        values = np.asarray(arrays[name], dtype=np.float64)
        if not np.isfinite(values).all() or (values < 0).any():
            raise DataError(
                f"{mesh}: expected how much of {name} each cell is, from 0, found "
                f"{values[~(np.isfinite(values) & (values >= 0))][0]:g}; leave it out, or name another array"
            )
        return values
    if name == CELLS:
        return np.ones(number)
    array, _, value = name.partition("=")
    if array in arrays:
        there = [f"{number:.15g}" for number in np.unique(arrays[array])]
        if value in there:
            return np.asarray(arrays[array] == np.unique(arrays[array])[there.index(value)], dtype=np.float64)
        choices = ", ".join(there[:10]) + (", …" if len(there) > 10 else "")
        raise DataError(f"{mesh}: expected a value of the array {array} ({choices}), found {value or 'none'!r}")
    choices = ", ".join([CELLS, *arrays])
    raise DataError(f"{mesh}: expected a feature of its cells ({choices}; ARRAY=VALUE for materials), found {name!r}")


def _neighbours(kinds: Sequence[str], blocks: Sequence[Integers]) -> Integers:
    """Pairs of cells with a common face, shape (pairs, 2); none where the faces of a kind are not known."""
    if not set(kinds) <= set(_FACES):
        return np.empty((0, 2), np.int64)
    faces, owners, first = [], [], 0
    for kind, corners in zip(kinds, blocks, strict=True):
        for face in _FACES[kind]:
            padded = np.full((len(corners), 4), -1, np.int64)
            padded[:, : len(face)] = np.sort(corners[:, face], axis=1)
            faces.append(padded)
            owners.append(np.arange(first, first + len(corners)))
        first += len(corners)
    stacked, cell = np.concatenate(faces), np.concatenate(owners)
    order = np.lexsort(stacked.T)
    same = (stacked[order[1:]] == stacked[order[:-1]]).all(axis=1)
    return np.column_stack([cell[order[:-1]][same], cell[order[1:]][same]])


_LEAST = 1e-3
"""Least weight for OpenFOAM, of a mean of 1: its methods refuse 0."""

_FOAM = """\
// {note}
FoamFile
{{
    version     2.0;
    format      ascii;
    class       {kind};
    location    "{location}";
    object      {name};
}}

"""
# Every patch has a value, and constraints such as empty ones keep theirs.
_BOUNDARY = """\
;

boundaryField
{
    ".*"
    {
        type        zeroGradient;
    }
    #includeEtc "caseDicts/setConstraintTypes"
}
"""


def partition_files(cells: Cells, weights: Floats, rank_of: Integers) -> dict[str, bytes]:
    """Give the files by name: the rank of each cell, and the weights of cells, in the order of the mesh file."""
    ranks = int(rank_of.max()) + 1
    order = f"in the order of the cells of {cells.source}" if cells.source else "in the order of the cells"
    relative = weights / weights.mean() if weights.any() else np.ones(len(weights))
    note = f"seconds of each cell by those of the mean cell ({weights.mean():.6g} s per time window), {order}"
    return {
        "partition.txt": _lines(rank_of),
        "cellDecomposition": _foam("labelList", "constant", "cellDecomposition", f"rank of {ranks} {order}")
        + _list(rank_of)
        + b"\n",
        "weightField": _foam("volScalarField", "0", "weightField", note)
        + b"dimensions      [0 0 0 0 0 0 0];\n\ninternalField   nonuniform List<scalar>\n"
        + _list(f"{weight:.6g}" for weight in np.maximum(relative, _LEAST))
        + _BOUNDARY.encode(),
        "vertex-weights.txt": _lines(whole_weights(weights)),
    }


def _foam(kind: str, location: str, name: str, note: str) -> bytes:
    return _FOAM.format(kind=kind, location=location, name=name, note=" ".join(note.split())).encode()


def _list(values: Iterable[object]) -> bytes:
    lines = [str(value) for value in values]
    return "\n".join([str(len(lines)), "(", *lines, ")"]).encode()


def _lines(values: Iterable[object]) -> bytes:
    return "".join(f"{value}\n" for value in values).encode()
