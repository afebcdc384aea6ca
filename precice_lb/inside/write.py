"""A partition and its weights as files that solvers and partitioners read."""

from __future__ import annotations

import io
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from precice_lb.inside.records import Cells
from precice_lb.inside.weighted import whole_weights

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


def partition_files(cells: Cells, weights: NDArray[np.float64], rank_of: NDArray[np.int64]) -> dict[str, bytes]:
    """Give the files by name: the rank of each cell, and the weights of cells, in the order of the mesh file."""
    npy = io.BytesIO()
    np.save(npy, rank_of)
    ranks = int(rank_of.max()) + 1
    order = f"in the order of the cells of {cells.source}" if cells.source else "in the order of the cells"
    relative = weights / weights.mean() if weights.any() else np.ones(len(weights))
    note = f"seconds of each cell by those of the mean cell ({weights.mean():.6g} s per time window), {order}"
    files = {
        "partition.txt": _lines(rank_of),
        "partition.npy": npy.getvalue(),
        "cellDecomposition": _foam("labelList", "constant", "cellDecomposition", f"rank of {ranks} {order}")
        + _list(rank_of)
        + b"\n",
        "weightField": _foam("volScalarField", "0", "weightField", note)
        + b"dimensions      [0 0 0 0 0 0 0];\n\ninternalField   nonuniform List<scalar>\n"
        + _list(f"{weight:.6g}" for weight in np.maximum(relative, _LEAST))
        + _BOUNDARY.encode(),
        "vertex-weights.txt": _lines(whole_weights(weights)),
    }
    if len(cells.neighbours):
        files["cells.graph"] = f"% {note}; METIS graph file\n".encode() + _graph(cells, whole_weights(weights))
    return files


def _foam(kind: str, location: str, name: str, note: str) -> bytes:
    return _FOAM.format(kind=kind, location=location, name=name, note=" ".join(note.split())).encode()


def _list(values: Iterable[object]) -> bytes:
    lines = [str(value) for value in values]
    return "\n".join([str(len(lines)), "(", *lines, ")"]).encode()


def _lines(values: Iterable[object]) -> bytes:
    return "".join(f"{value}\n" for value in values).encode()


def _graph(cells: Cells, weights: NDArray[np.int64]) -> bytes:
    """Write the graph as METIS reads it: counts, then per cell its weight and its neighbours, numbered from 1."""
    starts, beside = cells.adjacency()
    rows = (
        " ".join(map(str, [weight, *near]))
        for weight, near in zip(weights, np.split(beside + 1, starts[1:-1]), strict=True)
    )
    return _lines([f"{len(weights)} {len(cells.neighbours)} 010", *rows])
