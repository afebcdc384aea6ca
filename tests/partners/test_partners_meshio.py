"""Partitioned meshes from mesh files, where meshio is installed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from precice_lb.cli import main
from precice_lb.exceptions import DataError
from precice_lb.partners import read_mesh_files

meshio = pytest.importorskip("meshio", reason="no meshio: install the extra meshio")

POINTS = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [2, 0, 0], [2, 1, 0]], dtype=float)
TRIANGLES = np.array([[0, 1, 2], [0, 2, 3], [1, 4, 5], [1, 5, 2]])


def test_one_file_with_ranks_of_points(tmp_path: Path) -> None:
    path = tmp_path / "mesh.vtu"
    meshio.Mesh(POINTS, [("triangle", TRIANGLES)], point_data={"rank": [1, 0, 0, 1, 0, 0]}).write(path)
    mesh = read_mesh_files("M", "A", [path], 2, partition="rank", ranks=3)
    assert mesh.counts.tolist() == [4, 2, 0]
    assert mesh.points("").tolist()[4:] == [[0, 0], [0, 1]]
    # Triangles across ranks are nobody's.
    assert [sorted(mesh.points("")[corner].tolist() for corner in cell) for cell in mesh.cells["triangles"]] == [
        [[1, 0], [2, 0], [2, 1]],
        [[1, 0], [1, 1], [2, 1]],
    ]


def test_one_file_with_ranks_of_cells(tmp_path: Path) -> None:
    path = tmp_path / "mesh.vtk"
    meshio.Mesh(POINTS, [("triangle", TRIANGLES)], cell_data={"part": [[0, 0, 1, 1]]}).write(path)
    mesh = read_mesh_files("M", "A", [path], 3, partition="part")
    assert mesh.counts.tolist() == [4, 2]
    assert mesh.boxes[1].tolist() == [[2, 2], [0, 1], [0, 0]]


def test_one_file_per_rank(tmp_path: Path) -> None:
    paths = [tmp_path / f"mesh.{rank}.vtu" for rank in (0, 1)]
    for path, part in zip(paths, (TRIANGLES[:2], TRIANGLES[2:]), strict=True):
        meshio.Mesh(POINTS, [("triangle", part)]).write(path)
    mesh = read_mesh_files("M", "A", paths, 2)
    assert mesh.counts.tolist() == [6, 6]
    assert mesh.cells["triangles"].tolist() == [*TRIANGLES[:2].tolist(), *(TRIANGLES[2:] + 6).tolist()]


def test_what_does_not_fit_is_one_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mesh.vtu"
    meshio.Mesh(POINTS, [("triangle", TRIANGLES)], point_data={"rank": [0, 0, 0, 0, 0, 7]}).write(path)
    with pytest.raises(DataError, match="expected an array 'part' of points or cells, found rank"):
        read_mesh_files("M", "A", [path], 2, partition="part")
    with pytest.raises(DataError, match="ranks from 0 to 1"):
        read_mesh_files("M", "A", [path], 2, partition="rank", ranks=2)
    with pytest.raises(DataError, match="one file with the partition array"):
        read_mesh_files("M", "A", [path, path], 2, partition="rank")
    with pytest.raises(DataError, match="mesh file that meshio reads"):
        read_mesh_files("M", "A", [tmp_path / "none.vtu"], 2)
    (tmp_path / "bad.vtu").write_text("nothing")
    with pytest.raises(DataError, match="mesh file that meshio reads"):
        read_mesh_files("M", "A", [tmp_path / "bad.vtu"], 2)
    (tmp_path / "bad.xyzzy").write_text("nothing")
    with pytest.raises(DataError, match="meshio reads"):
        read_mesh_files("M", "A", [tmp_path / "bad.xyzzy"], 2)
    assert main(["partners", "--mesh", f"M={path}"]) == 2
    assert "--config" in capsys.readouterr().err
