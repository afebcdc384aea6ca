"""Meshes in stores: of one rank and merged, whole after a kill, and damage is one error."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
from store_helpers import PARALLEL, START, contents, metadata, row, write_store

from precice_lb.exceptions import StoreError
from precice_lb.export import export_merged
from precice_lb.record import MeshNotes
from precice_lb.store import RecordedMeshes, StoreWriter, read_runs, read_store, recorded_meshes
from precice_lb.store.columns import MESHES

NAMES = ("Fluid <&>", "ĝ" * 500)


def notes(rank: int, *, points: bool = True) -> RecordedMeshes:
    """What a rank says: two meshes in another order on odd ranks, none on rank 2."""
    taken = MeshNotes(points)
    if rank != 2:
        for name in NAMES[:: -1 if rank % 2 else 1]:
            generator = np.random.default_rng([rank, NAMES.index(name)])
            taken.take("set_mesh_vertices", name, generator.random((700 * (rank + 1), 2)))
            if points:
                taken.take("set_mesh_triangles", name, generator.integers(0, 700, (5, 3)))
                taken.take("set_mesh_edge", name, rank, 1)
        taken.take("set_mesh_access_region", "Solid", [0.0, rank, -1.0, 1.0])
    return taken.recorded(rank)


CALLS = [row(1, 0.1, 0.2, 0.05)]


def told(meshes: RecordedMeshes) -> dict[tuple[int, str], tuple[object, ...]]:
    """Everything that is said about each rank's meshes."""
    places, cells = meshes.coordinate_starts, meshes.cell_starts
    columns = [name for name in meshes.rows.dtype.names if name != "name"]
    return {
        (int(line["rank"]), meshes.names[line["name"]]): (
            str(line[columns]),
            meshes.coordinates[places[n] : places[n + 1]].tolist(),
            meshes.cells[cells[n] : cells[n + 1]].tolist(),
        )
        for n, line in enumerate(meshes.rows)
    }


@pytest.mark.parametrize("points", [True, False])
def test_meshes_come_back_from_ranks_and_from_a_merged_file(tmp_path: Path, points: bool) -> None:
    planted = [notes(rank, points=points) for rank in range(4)]
    expected = {key: value for meshes in planted for key, value in told(meshes).items()}
    assert len(expected) == 9
    assert all(bool(coordinates) == (points and name in NAMES) for (_, name), (_, coordinates, _) in expected.items())
    for rank, meshes in enumerate(planted):
        path = write_store(tmp_path, CALLS, "A", rank, 4, meshes=meshes)
        assert told(recorded_meshes(read_store(path))) == told(meshes)
    ((group,),) = read_runs([tmp_path])
    digests = [contents(store) for store in group]
    assert told(recorded_meshes(*group)) == expected
    assert len(export_merged([tmp_path], tmp_path / "merged")) == 1
    ((group,),) = read_runs([tmp_path / "merged"])
    assert [contents(store) for store in group] == digests
    assert told(recorded_meshes(*group)) == expected
    assert told(recorded_meshes(*group[1:3])) == {key: value for key, value in expected.items() if key[0] in (1, 2)}


def test_a_spool_cut_at_any_byte_has_all_meshes_or_none(tmp_path: Path) -> None:
    planted, sizes = notes(0), []
    writer = StoreWriter(tmp_path, metadata(), PARALLEL, keep_spool=True)
    for meshes in (None, planted):
        writer.append(**({} if meshes is None else {"once": {"meshes": 1}, **meshes.arrays()}))
        sizes.append(writer.path.stat().st_size)
    writer.close(finished=True, ended_unix_ns=START)
    content, cut = writer.path.read_bytes(), tmp_path / "cut.spool"
    for size in [*range(*sizes, 211), sizes[1], len(content)]:
        cut.write_bytes(content[:size])
        assert told(recorded_meshes(read_store(cut))) == (told(planted) if size >= sizes[1] else {})


@pytest.mark.parametrize("merged", [False, True])
def test_damaged_meshes_are_one_error_and_the_times_are_read(tmp_path: Path, merged: bool) -> None:
    path = write_store(tmp_path, CALLS, meshes=notes(0))
    if merged:
        (path,) = export_merged([tmp_path], tmp_path / "merged")
    with h5py.File(path, "a") as file:
        kept = file["coordinates"][:-2]
        del file["coordinates"]
        file["coordinates"] = kept
    ((group,),) = read_runs([path])
    assert len(group[0].advances) == 1
    with pytest.raises(StoreError, match=f"{path.name}: expected .* (mesh|/coordinates)"):
        recorded_meshes(*group)


def test_cells_are_counted_by_the_vertices_of_their_kind(tmp_path: Path) -> None:
    lines = np.zeros(5, MESHES.dtype)
    lines["dimensions"], lines["vertices"] = 3, 10
    for number, kind in enumerate(("edges", "triangles", "quads", "tetrahedra")):
        lines[kind][[number, 4]] = 1, 2
    lines["name"] = np.arange(5)
    meshes = RecordedMeshes(tuple("abcde"), lines, cells=np.arange(39, dtype=np.int32) % 10)
    read = recorded_meshes(read_store(write_store(tmp_path, CALLS, meshes=meshes)))
    assert read.cell_starts.tolist() == [0, 2, 5, 9, 13, 39]
    assert read.cells.tolist() == (np.arange(39) % 10).tolist()


def test_no_meshes_are_tables_without_rows() -> None:
    assert RecordedMeshes().names == ()
    assert [len(values) for values in RecordedMeshes().arrays().values()] == [0] * 4
