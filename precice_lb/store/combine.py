"""Writing the file of all ranks of a participant, some ranks at a time."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from precice_lb.store.files import sync
from precice_lb.store.merged import FORMAT, FORMAT_VERSION, RANK_DTYPE, STARTS
from precice_lb.store.metadata import encode, validate
from precice_lb.store.records import MESH_TABLES, RankStore, RecordedMeshes
from precice_lb.store.schema import (
    ADVANCE_DTYPE,
    INITIALIZE_DTYPE,
    NAME_BYTES,
    NOT_MEASURED,
    TABLES,
    UNITS,
)

__all__ = ["DraftFile", "MergedWriter"]

# Small, and each chunk with a checksum that every reader sees to.
_PACKING: dict[str, Any] = {"compression": "gzip", "compression_opts": 1, "shuffle": True, "fletcher32": True}

# A chunk of 512 KiB holds up to 64 ranks, so that neither one rank nor a few windows of all need the whole file.
_BLOCK_ROWS = 1 << 18
_BLOCK_RANKS = 64
_CHUNK_VALUES = 1 << 16
_LEAST_CHUNK_ROWS = 1024


class MergedWriter:
    """A new merged store, of ranks with about so many rows; ``block_ranks`` at a time bound the memory needed."""

    def __init__(self, path: Path, rows: int) -> None:
        self.path = path
        self.block_ranks = min(max(_BLOCK_ROWS // max(rows, 1), 1), _BLOCK_RANKS)
        chunk = self.block_ranks, max(_CHUNK_VALUES // self.block_ranks, _LEAST_CHUNK_ROWS)
        self._raw = DraftFile(str(path))
        self._file = h5py.File(self._raw, "w")
        advances = self._file.create_group("advances")
        _tell_units(advances, ADVANCE_DTYPE)
        self._columns = [_Column(advances, name, chunk) for name in ADVANCE_DTYPE.names or ()]
        self._tables = {name: self._growing(name) for name in ("sections", *STARTS, "meshes", "coordinates", "cells")}
        self._index: list[tuple[Any, ...]] = []
        self._metadata: list[dict[str, Any]] = []
        self._initialize: list[NDArray[np.void]] = []
        self._configurations: dict[str, int] = {}
        self._names: dict[str, dict[str, int]] = {name: {} for name in ("section_names", "guess_names", "count_names")}
        self._starts = {name: [0] for name in STARTS}
        self._mesh_names: dict[str, int] = {}

    def add(self, stores: Sequence[RankStore]) -> None:
        """Write further ranks."""
        tables = [store.advances for store in stores]
        for column in self._columns:
            column.add(tables)
        for store, table in zip(stores, tables, strict=True):
            names = self._names
            sections = _renamed(store.sections, store.section_names, names["section_names"])
            first, count = self._append("sections", sections), len(sections)
            self._append("guesses", _renamed(store.guesses, store.guess_names, names["guess_names"]))
            self._append("counts", _renamed(store.counts, store.count_names, names["count_names"]))
            self._append("mpi", store.mpi)
            self._append("cpu", store.cpu)
            for name, starts in self._starts.items():
                starts.append(len(self._tables[name]))
            configuration = self._configurations.setdefault(store.configuration, len(self._configurations))
            initialized = len(store.initialize) > 0
            self._index.append((store.metadata["rank"], len(table), initialized, configuration, first, count))
            self._metadata.append(validate(store.metadata, complete=True))
            self._initialize.append(store.initialize[:1])
        meshes = RecordedMeshes.joined([store.meshes() for store in stores])
        arrays = {**meshes.arrays(), "meshes": meshes.numbered(self._mesh_names)}
        for name in set(MESH_TABLES) & self._tables.keys():
            self._append(name, arrays[name])
        self._flush()

    def close(self) -> None:
        """Write what remains, bring all to the disk and close the file."""
        file = self._file
        for column in self._columns:
            column.finish()
        common = dict(self._metadata[0])
        for metadata in self._metadata[1:]:
            common = {name: value for name, value in common.items() if name in metadata and metadata[name] == value}
        own = [
            json.dumps({name: encode(name, value) for name, value in metadata.items() if name not in common})
            for metadata in self._metadata
        ]
        file.create_dataset("ranks", data=np.array(self._index, dtype=RANK_DTYPE))
        file.create_dataset("metadata", data=own, dtype=h5py.string_dtype())
        file.create_dataset("configurations", data=list(self._configurations), dtype=h5py.string_dtype())
        for table, numbers in self._names.items():
            names = [name.encode()[:NAME_BYTES] for name in numbers]
            file.create_dataset(table, data=np.array(names, dtype=TABLES[table]))
        for table, starts in self._starts.items():
            file.create_dataset(STARTS[table], data=np.array(starts, dtype=np.int64))
        file.create_dataset("mesh_names", data=RecordedMeshes(tuple(self._mesh_names)).arrays()["mesh_names"])
        initialize = np.zeros(len(self._initialize), dtype=INITIALIZE_DTYPE)
        for position, row in enumerate(self._initialize):
            initialize[position : position + len(row)] = row
        _tell_units(file.create_dataset("initialize", data=initialize), INITIALIZE_DTYPE)
        for name, value in common.items():
            file.attrs[name] = encode(name, value)
        file.attrs["format"] = FORMAT
        file.attrs["format_version"] = FORMAT_VERSION
        self._flush()
        self.abandon()
        if self._raw.failure is not None:
            raise self._raw.failure
        sync(self.path)

    def abandon(self) -> None:
        """Close the file as it is."""
        if self._file:
            self._file.close()
            self._raw.close()

    def _growing(self, name: str) -> h5py.Dataset:
        chunk = _LEAST_CHUNK_ROWS if TABLES[name].names else _CHUNK_VALUES
        table = self._file.create_dataset(name, (0,), TABLES[name], maxshape=(None,), chunks=(chunk,), **_PACKING)
        _tell_units(table, TABLES[name])
        return table

    def _append(self, name: str, rows: NDArray[Any]) -> int:
        """Write further rows of a table; return how many it had."""
        table, first = self._tables[name], len(self._tables[name])
        if len(rows):
            table.resize((first + len(rows),))
            table[first:] = rows
        return first

    def _flush(self) -> None:
        self._file.flush()
        if self._raw.failure is not None:
            raise self._raw.failure


class _Column:
    """One column of ``advance``: one row for all ranks as long as they agree, from then on one row each."""

    def __init__(self, group: h5py.Group, name: str, chunk: tuple[int, int]) -> None:
        self._group, self._name, self._chunk = group, name, chunk
        self._dtype = ADVANCE_DTYPE[name]
        self._shared = np.empty(0, dtype=self._dtype)
        self._counts: list[int] = []
        self._dataset: h5py.Dataset | None = None

    def add(self, tables: Sequence[NDArray[np.void]]) -> None:
        """Write the column of further ranks."""
        values = [table[self._name] for table in tables]
        if self._dataset is None and not all(self._agrees(column) for column in values):
            self._dataset = self._create()
            for first in range(0, len(self._counts), self._chunk[0]):
                counts = self._counts[first : first + self._chunk[0]]
                _write(self._dataset, first, [self._shared[:count] for count in counts])
        if self._dataset is not None:
            _write(self._dataset, len(self._counts), values)
        self._counts += [len(column) for column in values]

    def finish(self) -> None:
        """Write the row that all ranks share."""
        if self._dataset is None:
            chunk = 1, min(max(len(self._shared), 1), _CHUNK_VALUES)
            self._group.create_dataset(
                self._name, data=self._shared[np.newaxis], maxshape=(1, None), chunks=chunk, **_PACKING
            )

    def _agrees(self, column: NDArray[Any]) -> bool:
        known = len(self._shared)
        if not np.array_equal(column[:known], self._shared[: len(column)]):
            return False
        if len(column) > known:
            self._shared = column.copy()
        return True

    def _create(self) -> h5py.Dataset:
        empty = NOT_MEASURED if self._name.endswith("_ns") else 0
        return self._group.create_dataset(
            self._name, (0, 0), self._dtype, maxshape=(None, None), chunks=self._chunk, fillvalue=empty, **_PACKING
        )


def _renamed(rows: NDArray[np.void], names: Sequence[str], numbers: dict[str, int]) -> NDArray[np.void]:
    """Copy rows of a rank, with the names numbered as in a table of several ranks, where new ones are added."""
    rows = rows.copy()
    if len(rows):
        known = [numbers.setdefault(name, len(numbers)) for name in names]
        rows["name"] = np.array(known, dtype=np.int32)[rows["name"]]
    return rows


def _tell_units(item: h5py.Group | h5py.Dataset, dtype: np.dtype[Any]) -> None:
    if dtype.names:
        item.attrs["units"] = json.dumps({column: UNITS[column] for column in dtype.names})


def _write(dataset: h5py.Dataset, first: int, values: Sequence[NDArray[Any]]) -> None:
    """Write rows of different lengths from row ``first`` on."""
    width = max(len(column) for column in values)
    block = np.full((len(values), width), dataset.fillvalue, dtype=dataset.dtype)
    for row, column in zip(block, values, strict=True):
        row[: len(column)] = column
    dataset.resize((first + len(values), max(dataset.shape[1], width)))
    dataset[first : first + len(values), :width] = block


class DraftFile(io.FileIO):
    """A file for h5py's file-object driver, which never fails; it must not exist.

    HDF5 cannot get rid of a file it can no longer write: flushing and closing fail again and again, and the process
    crashes when the library is unloaded (HDF5 2.0, disk full: segmentation fault). Here the first error is kept instead
    of raised.
    """

    # The first error of a write; nothing that is written after it counts.
    failure: OSError | None = None

    def __init__(self, path: str) -> None:
        super().__init__(path, "xb+")

    def write(self, data: memoryview) -> int:  # type: ignore[override]
        """Write all of the data, unless a write has failed."""
        view = memoryview(data).cast("B")
        while view and self.failure is None:
            try:
                view = view[super().write(view) :]
            except OSError as error:
                self.failure = error
        return len(data)

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Read; what was never written reads as zeros."""
        view = memoryview(buffer).cast("B")
        count = super().readinto(view) or 0
        view[count:] = bytes(len(view) - count)
        return len(view)

    def truncate(self, size: int | None = None) -> int:
        """Set the length, unless a write has failed."""
        if self.failure is None:
            try:
                return super().truncate(size)
            except OSError as error:
                self.failure = error
        return size or 0
