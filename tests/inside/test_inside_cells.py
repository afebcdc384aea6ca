"""Cells of a mesh: what is counted, who has them, and the files of a partition, read back as their users do."""

from __future__ import annotations

import io
import re
from pathlib import Path

import numpy as np
import pytest
from inside_helpers import grid, write_grid
from numpy.typing import NDArray

from precice_lb.exceptions import DataError
from precice_lb.inside import Cells, read_cells
from precice_lb.inside.mesh import bisection, partition_files, whole_weights

meshio = pytest.importorskip("meshio", reason="no meshio: install the extra meshio")


def test_arrays_are_features(tmp_path: Path) -> None:
    material = np.array([1, 1, 2, 2, 7, 7])
    porous = np.array([0.0, 0.5, 1, 0, 0, 0])
    vectors = np.ones((6, 3))
    path = write_grid(
        tmp_path / "m.vtu", (2, 3), material=material, porous=porous, flag=(material == 7).astype(int), velocity=vectors
    )
    cells = read_cells(path)
    assert sorted(cells.features) == ["cells", "flag", "porous"]
    assert cells.features[0] == "cells"
    assert cells.centres.tolist() == [[x + 0.5, y + 0.5] for x in range(2) for y in range(3)]
    chosen = read_cells(path, ["material=2", "porous", "material=7"])
    assert chosen.counts.tolist() == [[float(m == 2), p, float(m == 7)] for m, p in zip(material, porous, strict=True)]
    assert read_cells(path, ["material"]).counts[:, 0].tolist() == material.tolist()


def test_boundary_cells_are_left_out_and_shapes_mixed(tmp_path: Path) -> None:
    # A cube beside a wedge, with a pyramid and a tetrahedron on top.
    points, (cube,) = grid((1, 1, 1))
    points = np.vstack([points, [[2, 0, 0], [2, 0, 1], [0.5, 0.5, 2], [3, 3, 3]]])
    (a, b, c, d, e, f, g, h), (i, j, k, m) = cube, range(8, 12)
    blocks = [
        ("quad", np.array([[a, b, c, d]])),
        ("hexahedron", np.array([[a, b, c, d, e, f, g, h]])),
        ("wedge", np.array([[b, i, c, f, j, g]])),
        ("pyramid", np.array([[e, f, g, h, k]])),
        ("tetra", np.array([[f, g, k, m]])),
    ]
    path = tmp_path / "m.vtu"
    meshio.Mesh(points, blocks).write(path)
    cells = read_cells(path)
    assert cells.counts[:, 0].tolist() == [1, 1, 1, 1]
    assert cells.centres[0].tolist() == [0.5, 0.5, 0.5]


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    path = write_grid(tmp_path / "m.vtu", (2, 2), material=[1, 1, 2, 2], depth=[0.0, -1, 0, 0])
    with pytest.raises(DataError, match=r"expected a feature of its cells \(cells, .*material.*\), found 'porous'"):
        read_cells(path, ["porous"])
    with pytest.raises(DataError, match=r"a value of the array material \(1, 2\), found '3'"):
        read_cells(path, ["material=3"])
    with pytest.raises(DataError, match="how much of depth each cell is, from 0, found -1"):
        read_cells(path, ["depth"])


def _numbered_grid(width: int, height: int) -> Cells:
    """Cells in the order of OpenFOAM's blockMesh: x runs fastest."""
    y, x = np.divmod(np.arange(width * height), width)
    counts = np.column_stack([np.ones(len(x)), (x < width // 4) & (y < height // 2)]).astype(float)
    return Cells(np.column_stack([x, y]) + 0.5, ("cells", "porous"), counts, "grid.vtu")


CELLS = _numbered_grid(20, 16)
WEIGHTS = CELLS.counts @ np.array([1e-6, 7e-6])
RANK_OF = bisection(CELLS.centres, WEIGHTS, 6)
FILES = partition_files(CELLS, WEIGHTS, RANK_OF)


def _foam_list(text: str) -> NDArray[np.float64]:
    found = re.search(r"(\d+)\s*\n\(\n(.*?)\n\)", text, re.DOTALL)
    assert found is not None
    values = np.array(found[2].split(), dtype=float)
    assert len(values) == int(found[1])
    return values


def test_ranks_are_read_back(tmp_path: Path) -> None:
    (tmp_path / "partition.txt").write_bytes(FILES["partition.txt"])
    assert (np.loadtxt(tmp_path / "partition.txt") == RANK_OF).all()
    text = FILES["cellDecomposition"].decode()
    assert (_foam_list(text) == RANK_OF).all()
    assert re.search(r"class\s+labelList;\s+location\s+\"constant\";\s+object\s+cellDecomposition;", text)
    assert "rank of 6 in the order of the cells of grid.vtu" in text


def test_weights_are_read_back() -> None:
    whole = np.loadtxt(io.BytesIO(FILES["vertex-weights.txt"]), dtype=int)
    assert (whole == whole_weights(WEIGHTS)).all()
    assert whole / whole.sum() == pytest.approx(WEIGHTS / WEIGHTS.sum(), rel=1e-5)
