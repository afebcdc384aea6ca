"""Meshes in stores: of one rank and merged, whole after a kill, and damage is one error."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import h5py
import numpy as np
import pytest
from store_helpers import PARALLEL, metadata, row, rows

from precice_lb.exceptions import StoreError
from precice_lb.record.meshes import MeshNotes
from precice_lb.store.digest import content_digest
from precice_lb.store.merge import merge_stores
from precice_lb.store.meshes import RecordedMeshes
from precice_lb.store.reader import RankStore, aligned_meshes, find_stores, read_runs, read_store
from precice_lb.store.schema import INITIALIZE_DTYPE
from precice_lb.store.writer import StoreWriter

NAMES = ("Fluid <&>", "ĝ" * 500)


def notes(rank: int, *, points: bool = True) -> RecordedMeshes:
    """What a rank says: two meshes in another order on odd ranks, none on rank 2."""
    taken = MeshNotes(points)
    if rank != 2:
        for name in NAMES[:: -1 if rank % 2 else 1]:
            generator = np.random.default_rng([rank, NAMES.index(name)])
            taken.vertices(name, generator.random((700 * (rank + 1), 2)))
            if points:
                taken.cells("triangles", name, generator.integers(0, 700, (5, 3)))
                taken.cell("edges", name, (rank, 1))
        taken.region("Solid", [0.0, rank, -1.0, 1.0])
    return taken.recorded(rank)


def write(directory: Path, rank: int, size: int, meshes: RecordedMeshes) -> Path:
    writer = StoreWriter(directory, metadata(rank=rank, size=size), PARALLEL)
    writer.write_meshes(meshes)
    writer.write_initialize(np.array([(500, 1000, 0, 0)], dtype=INITIALIZE_DTYPE))
    writer.append(rows([row(1, 0.1, 0.2, 0.05)]))
    writer.close(finished=True, ended_unix_ns=metadata()["started_unix_ns"] + 10)
    return writer.path


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
        path = write(tmp_path, rank, 4, meshes)
        assert told(read_store(path).meshes()) == told(meshes)
    ((group,),) = read_runs([tmp_path])
    digests = [content_digest(store) for store in group]
    assert told(aligned_meshes(group)) == expected
    merge_stores(tmp_path)
    assert len(find_stores([tmp_path])) == 1
    ((group,),) = read_runs([tmp_path])
    assert [content_digest(store) for store in group] == digests
    assert told(aligned_meshes(group)) == expected
    assert told(aligned_meshes(group[1:3])) == {key: value for key, value in expected.items() if key[0] in (1, 2)}


def test_a_merge_sees_that_meshes_are_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for rank in range(2):
        write(tmp_path, rank, 2, notes(rank))
    names = sorted(tmp_path.rglob("*.h5"))
    real = RecordedMeshes.joined

    def damaged(parts: Sequence[RecordedMeshes]) -> RecordedMeshes:
        found = real(parts)
        found.coordinates[0] += 1
        return found

    monkeypatch.setattr(RecordedMeshes, "joined", staticmethod(damaged))
    with pytest.raises(StoreError, match="the parts are kept"):
        merge_stores(tmp_path)
    assert sorted(tmp_path.rglob("*.h5")) == names


def test_every_write_may_be_the_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[tuple[bytes | None, int]] = []
    pwrite, ftruncate = os.pwrite, os.ftruncate

    def logged_pwrite(descriptor: int, data: bytes, offset: int) -> int:
        data = bytes(data[: 4096 - offset % 4096])
        log.append((data, offset))
        return pwrite(descriptor, data, offset)

    def logged_ftruncate(descriptor: int, size: int) -> None:
        log.append((None, size))
        ftruncate(descriptor, size)

    monkeypatch.setattr("precice_lb.store.append.os.pwrite", logged_pwrite)
    monkeypatch.setattr("precice_lb.store.append.os.ftruncate", logged_ftruncate)
    planted = notes(0)
    writer = StoreWriter(tmp_path / "real", metadata(), PARALLEL)
    whole = len(log)
    writer.write_meshes(planted)
    done = len(log)
    writer.close(finished=True, ended_unix_ns=metadata()["started_unix_ns"])
    monkeypatch.undo()
    replay = tmp_path / "replayed.h5"
    descriptor = os.open(replay, os.O_RDWR | os.O_CREAT)
    found = []
    for index, (data, offset) in enumerate(log, start=1):
        if data is None:
            os.ftruncate(descriptor, offset)
        else:
            os.pwrite(descriptor, data, offset)
        if index >= whole:
            meshes = read_store(replay).meshes()
            assert not len(meshes.rows) or told(meshes) == told(planted)
            assert len(meshes.rows) or index < done
            found.append(len(meshes.rows))
    os.close(descriptor)
    assert 0 in found


def test_a_store_without_meshes_stays_small_and_says_nothing(tmp_path: Path) -> None:
    path = write(tmp_path, 0, 1, RecordedMeshes())
    with_boxes = write(tmp_path, 0, 1, notes(0, points=False))
    assert len(read_store(path).meshes().rows) == 0
    assert told(read_store(path).meshes()) == {}
    # Two nodes of HDF5's index, a few rows, the long name.
    assert with_boxes.stat().st_size - path.stat().st_size < 8192
    assert RankStore(path, {}, "", rows([]), rows([])).meshes().names == ()


@pytest.mark.parametrize("merged", [False, True])
def test_damaged_meshes_are_one_error_and_the_times_are_read(tmp_path: Path, merged: bool) -> None:
    path = write(tmp_path, 0, 1, notes(0))
    if merged:
        (path,) = merge_stores(tmp_path)
    with h5py.File(path, "a") as file:
        kept = file["coordinates"][:-2]
        del file["coordinates"]
        file["coordinates"] = kept
    ((group,),) = read_runs([tmp_path])
    assert len(group[0].advances) == 1
    with pytest.raises(StoreError, match=f"{path.name}: expected .* mesh"):
        aligned_meshes(group)
