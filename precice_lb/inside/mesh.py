"""Cells of a mesh, partitions of equal cost, and files for solvers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import DataError
from precice_lb.ingest import read_meshio
from precice_lb.inside.loads import Cells, Floats, Integers
from precice_lb.text import checked_list

_SAME_PLACE = 1e9
"""Planes of cells that differ by less than this part of the longest extent are one."""
_WHOLE = 2**30
"""Sum of all weights as whole numbers: METIS has 32 bits."""

CELLS = "cells"
"""The feature that every cell has once."""


def bisection(centres: Floats, weights: Floats, ranks: int) -> Integers:
    """Halve the ranks again and again, and cut the cells across their longest axis so that the worse half is best.

    Of cells of these weights, shape (cells,), at centres of shape (cells, 2 or 3): the rank of each; every rank gets at
    least one. Oskooi et al., section 3 (see the documentation); Berger and Bokhari, IEEE Trans. Comput. C-36 (1987).
    """
    weights = weights if weights.any() else np.ones(len(weights))
    rank_of = np.zeros(len(weights), np.int64)
    parts = [(np.arange(len(weights)), 0, ranks)]
    while parts:
        part, first, count = parts.pop()
        rank_of[part] = first
        if count == 1:
            continue
        # Plane by plane along the longest axis, and row by row.
        extents = np.ptp(centres[part], axis=0)
        places = np.round((centres[part] - centres[part].min(axis=0)) * (_SAME_PLACE / (float(extents.max()) or 1.0)))
        part = part[np.lexsort(places[:, np.argsort(extents, kind="stable")].T)]
        left, right = count // 2, count - count // 2
        ends = np.arange(left, len(part) - right + 1)
        sums = np.cumsum(weights[part])
        before, after = sums[ends - 1], sums[-1] - sums[ends - 1]
        end = int(ends[np.argmin(np.maximum(before / left, after / right))])
        parts += [(part[:end], first, left), (part[end:], first + left, right)]
    return rank_of


def whole_weights(weights: Floats) -> Integers:
    """Give weights, shape (cells,), as whole numbers of at least 1 that METIS can add up."""
    shares = weights / weights.max() if weights.any() else np.ones(len(weights))
    return np.asarray(np.maximum(np.round(shares * (_WHOLE / shares.sum())), 1), dtype=np.int64)


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
        In the order of the file.

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
    if features is None:
        names = [CELLS, *(name for name in arrays if _is_amount(arrays[name]))]
    else:
        names = checked_list(features, "features", "names", DataError)
    counts = np.column_stack([_feature(mesh, arrays, name, number) for name in names])
    points = np.asarray(read.points, dtype=np.float64)
    if points.shape[1] == 3 and not np.ptp(points[:, 2]):
        points = points[:, :2]
    try:
        centres = np.concatenate([points[np.asarray(block.data, dtype=np.int64)].mean(axis=1) for block in blocks])
    except ValueError:
        raise DataError(f"{mesh}: expected cells of standard shapes, found polyhedra; split them up first") from None
    return Cells(centres, tuple(names), counts, str(mesh))


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


_FOAM = """\
// {note}
FoamFile
{{
    version     2.0;
    format      ascii;
    class       labelList;
    location    "constant";
    object      cellDecomposition;
}}

"""


def partition_files(cells: Cells, weights: Floats, rank_of: Integers) -> dict[str, bytes]:
    """Give the files by name: the rank of each cell, and the weights of cells, in the order of the mesh file."""
    note = f"rank of {int(rank_of.max()) + 1} in the order of the cells" + (
        f" of {cells.source}" if cells.source else ""
    )
    ranks, whole = ("".join(f"{value}\n" for value in values) for values in (rank_of, whole_weights(weights)))
    foam = f"{_FOAM.format(note=' '.join(note.split()))}{len(rank_of)}\n(\n{ranks})\n"
    texts = {"partition.txt": ranks, "cellDecomposition": foam, "vertex-weights.txt": whole}
    return {name: text.encode() for name, text in texts.items()}
