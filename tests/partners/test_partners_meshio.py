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


def test_one_file_per_rank(tmp_path: Path) -> None:
    paths = [tmp_path / f"mesh.{rank}.vtu" for rank in (0, 1)]
    for path, part in zip(paths, (TRIANGLES[:2], TRIANGLES[2:]), strict=True):
        meshio.Mesh(POINTS, [("triangle", part)]).write(path)
    mesh = read_mesh_files("M", "A", paths, 2)
    assert mesh.counts.tolist() == [6, 6]
    assert mesh.cells["triangles"].tolist() == [*TRIANGLES[:2].tolist(), *(TRIANGLES[2:] + 6).tolist()]


def test_what_does_not_fit_is_one_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mesh.vtu"
    meshio.Mesh(POINTS, [("triangle", TRIANGLES)]).write(path)
    for name in ("bad.vtu", "bad.xyzzy"):
        (tmp_path / name).write_text("nothing")
    for name in ("none.vtu", "bad.vtu", "bad.xyzzy"):
        with pytest.raises(DataError, match="expected a mesh file that meshio reads, found"):
            read_mesh_files("M", "A", [tmp_path / name], 2)
    assert main(["partners", "--mesh", f"M={path}"]) == 2
    assert "--config" in capsys.readouterr().err
