"""Partitioned meshes from mesh files, where meshio is installed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from report_helpers import refused

from precice_lb.cli import main
from precice_lb.exceptions import DataError
from precice_lb.partners import read_mesh_files

meshio = pytest.importorskip("meshio", reason="no meshio: install the extra meshio")

POINTS = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [2, 0, 0], [2, 1, 0]], dtype=float)
CONFIGURATION = Path(__file__).parents[1] / "data" / "configurations" / "partners-surface.xml"
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


def test_the_command_reads_one_file_per_rank_of_each_mesh(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, part in (("a", POINTS[:4]), ("b", POINTS[4:]), ("c", POINTS)):
        meshio.Mesh(part, [("vertex", np.arange(len(part))[:, None])]).write(tmp_path / f"{name}.vtu")
    options = [
        *("--config", str(CONFIGURATION), "--format", "json"),
        *("--mesh", f"Fluid-Mesh={tmp_path / 'a.vtu'},{tmp_path / 'b.vtu'}"),
        *("--mesh", f"Solid-Mesh={tmp_path / 'c.vtu'}"),
    ]

    assert main(["partners", *options]) == 0

    document = json.loads(capsys.readouterr().out)
    assert document["ranks"] == {"Fluid": 2, "Solid": 1}
    assert document["links"][0]["mesh_vertices"] == 6
    # Three numbers of eight bytes of each vertex.
    assert document["links"][0]["bytes_per_window"] == 144.0


def test_a_mesh_that_the_case_does_not_have_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    problem = refused(capsys, "partners", "--config", CONFIGURATION, "--mesh", f"Gas={tmp_path / 'a.vtu'}")

    assert f"--mesh: expected a provided mesh of {CONFIGURATION} (Fluid-Mesh, Solid-Mesh), found 'Gas'" in problem


def test_a_source_has_to_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    problem = refused(capsys, "partners", "--config", CONFIGURATION)

    assert "expected a directory of <export:csv> files or of stores, or --mesh, found none; name one" in problem


def test_a_mesh_of_fewer_dimensions_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "flat.mesh"
    meshio.Mesh(POINTS[:, :2], [("triangle", TRIANGLES)]).write(path)

    assert read_mesh_files("M", "A", [path], 2).points("").tolist() == POINTS[:, :2].tolist()
    with pytest.raises(
        DataError, match=r"flat\.mesh: expected points in 3 dimensions, found 2; give a mesh of this case"
    ):
        read_mesh_files("M", "A", [path], 3)


def test_edges_and_tetrahedra_are_read_and_other_cells_left_out(tmp_path: Path) -> None:
    cells = [("line", np.array([[0, 1]])), ("tetra", np.array([[0, 1, 2, 5]])), ("quad", np.array([[0, 1, 2, 3]]))]
    path = tmp_path / "mesh.vtu"
    meshio.Mesh(POINTS, cells).write(path)

    mesh = read_mesh_files("M", "A", [path], 3)

    assert {kind: array.tolist() for kind, array in mesh.cells.items()} == {
        "edges": [[0, 1]],
        "tetrahedra": [[0, 1, 2, 5]],
    }
    assert mesh.source == "files of M"
