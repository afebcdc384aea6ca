"""One file with all ranks of a participant: reading it, and making one.

``/ranks`` has one row per rank (`RANK_DTYPE`), ``/initialize`` and ``/metadata`` (JSON text of what differs between
ranks) likewise; what all ranks have in common are attributes of the root, encoded as in the file of one rank. The rows
of ``advance`` lie in ``/advances/<column>``, shape (ranks, rows), or (1, rows) where all ranks have the same values; a
rank that recorded fewer rows leaves the rest of its row empty. ``/sections`` holds the ranks' sections one after the
other, ``/guesses``, ``/counts``, ``/mpi`` and ``/cpu`` what these are of, those of each rank from its
``/guess_starts``, ``/count_starts``, ``/mpi_starts`` and ``/cpu_starts`` on, ``/meshes`` and what belongs to it their
meshes, ``/configurations`` the configuration's text. Every chunk of rows has HDF5's checksum (fletcher32).
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import StoreError
from precice_lb.store.checks import check_calls, check_values, table_rows
from precice_lb.store.hdf5 import attribute, dataset, has, item, metadata_of, opened, table, texts, told_damage
from precice_lb.store.records import MESH_TABLES, RankStore, RecordedMeshes, Tables, recorded_meshes
from precice_lb.store.schema import (
    ADVANCE_DTYPE,
    CALLS,
    METADATA,
    NAMED,
    NOT_MEASURED,
    TABLES,
    UNITS,
    decode,
    encode,
    stored_name,
    validate,
)

FORMAT = "precice-lb-merged"
"""Value of the root attribute ``format``."""

FORMAT_VERSION = 2
"""Value of the root attribute ``format_version``. Version 1, which is read too, had digests in place of checksums."""

RANK_DTYPE = np.dtype(
    [
        ("rank", "<i8"),
        ("rows", "<i8"),
        ("initialized", "?"),
        ("configuration", "<i4"),
        ("first_section", "<i8"),
        ("sections", "<i8"),
    ]
)
"""One row per rank: how many rows of ``advance``, whether it has one of ``initialize``, the position of its
configuration, and where its sections begin and how many there are."""

# By table, where the rows of each rank begin, and how many all have, shape (ranks + 1,).
_STARTS = {"guesses": "guess_starts", "counts": "count_starts", "mpi": "mpi_starts", "cpu": "cpu_starts"}

_POSITION = np.dtype("<i8")

# Small, and each chunk with a checksum that every reader compares.
_PACKING: dict[str, Any] = {"compression": "gzip", "compression_opts": 1, "shuffle": True, "fletcher32": True}
# A chunk of at most 512 KiB, so that neither one rank nor a few windows of all need the whole file.
_CHUNK_RANKS, _CHUNK_ROWS = 64, 1024

# A campaign may leave more merged files than a process may have open.
_MOST_OPEN = 32
_OPEN: weakref.WeakValueDictionary[int, MergedStore] = weakref.WeakValueDictionary()


class MergedStore:
    """A merged store, read lazily: of the ranks in ``stores``, rising, as ``index`` has them, rows stay in the file."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._open_file: h5py.File | None = None
        self._datasets: dict[str, h5py.Dataset] = {}
        self._mesh_rows: RecordedMeshes | None = None
        with self._told_damage():
            self._check_format()
            self.index: NDArray[np.void] = dataset(self._file, "ranks", RANK_DTYPE)[...]
            self.stores = self._read_stores()
            self._check_index()

    def __reduce__(self) -> tuple[type[MergedStore], tuple[Path]]:
        return MergedStore, (self.path,)

    @property
    def _file(self) -> h5py.File:
        """The file, opened when needed."""
        if self._open_file is None:
            _OPEN[id(self)] = self
            for other in list(_OPEN.values())[:-_MOST_OPEN]:
                other.close()
            # Unlike a rank's file, nobody writes to it: a lock hinders no solver.
            self._open_file = opened(self.path, locking="best-effort")
        return self._open_file

    def _column(self, name: str) -> h5py.Dataset:
        file = self._file
        if name not in self._datasets:
            self._datasets[name] = dataset(item(file, "advances", h5py.Group), name, ADVANCE_DTYPE[name], 2)
        return self._datasets[name]

    def close(self) -> None:
        """Close the file until something is read again."""
        self._datasets.clear()
        _OPEN.pop(id(self), None)
        if self._open_file is not None:
            self._open_file.close()
            self._open_file = None

    def column(self, name: str, ranks: NDArray[np.int64], rows: slice) -> NDArray[Any]:
        """Rows of one column of ``advance``, shape (len(ranks), rows); a view where all ranks share them."""
        with self._told_damage():
            source = self._column(name)
            is_shared = len(source) == 1
            low, high = (0, 1) if is_shared else (int(ranks.min()), int(ranks.max()) + 1)
            values: NDArray[Any] = source[low:high, rows].astype(ADVANCE_DTYPE[name], copy=False)
            check_values(name, values)
            if is_shared:
                return np.broadcast_to(values[0], (len(ranks), rows.stop - rows.start))
            return values if np.array_equal(ranks, np.arange(low, high)) else values[ranks - low]

    def advances(self, position: int) -> NDArray[np.void]:
        """Rows of ``advance`` of one rank."""
        rows = np.empty(self.index["rows"][position], dtype=ADVANCE_DTYPE)
        for name in ADVANCE_DTYPE.names or ():
            rows[name] = self.column(name, np.array([position]), slice(0, len(rows)))[0]
        with self._told_damage():
            check_calls(*(rows[name] for name in CALLS))
        return rows

    def sections(self, position: int) -> NDArray[np.void]:
        """Profiling sections of one rank."""
        first, count = self.index["first_section"][position], self.index["sections"][position]
        with self._told_damage():
            return self._rows("sections", first, first + count)

    def started(self, table: str, position: int) -> NDArray[np.void]:
        """Rows of one rank in a table of `_STARTS`; none of a store that was merged before there were any."""
        if not has(self._file, _STARTS[table]):
            return np.empty(0, TABLES[table])
        with self._told_damage():
            first, last = dataset(self._file, _STARTS[table], _POSITION)[position : position + 2]
            return self._rows(table, first, last)

    def _rows(self, name: str, first: int, last: int) -> NDArray[np.void]:
        source = dataset(self._file, name, TABLES[name])
        if not 0 <= first <= last <= len(source):
            raise StoreError(f"expected the rows of a rank among the {len(source)} of /{name}, found {first} to {last}")
        rows: NDArray[np.void] = table_rows(name, source[first:last])
        if name in NAMED and len(rows):
            count = len(dataset(self._file, NAMED[name], TABLES[NAMED[name]]))
            if rows["name"].max() >= count:
                raise StoreError(
                    f"expected positions of the {count} names in /{NAMED[name]}, found {rows['name'].max()}"
                )
        return rows

    def mesh_tables(self, position: int, *, rows_only: bool = False) -> Tables:
        """Give the tables of `MESH_TABLES` of one rank; none of a store that was merged before meshes were recorded."""
        if not has(self._file, "meshes"):
            return {}
        with self._told_damage():
            if self._mesh_rows is None:
                names = table(self._file, "mesh_names").tobytes().decode("utf-8", "replace").split("\0")
                self._mesh_rows = RecordedMeshes(tuple(names[:-1]), table(self._file, "meshes"))
            meshes, rank = self._mesh_rows, self.index["rank"][position]
            first, last = np.searchsorted(meshes.rows["rank"], [rank, rank + 1])
            if rows_only:
                return {"meshes": meshes.rows[first:last]}
            return {
                **meshes.arrays(),
                "meshes": meshes.rows[first:last],
                "coordinates": self._rows("coordinates", *meshes.coordinate_starts[[first, last]]),
                "cells": self._rows("cells", *meshes.cell_starts[[first, last]]),
            }

    def meshes(self) -> RecordedMeshes:
        """Meshes of all ranks."""
        with self._told_damage():
            found = recorded_meshes(self.path, *(table(self._file, name) for name in MESH_TABLES))
            if not np.isin(found.rows["rank"], self.index["rank"]).all():
                raise StoreError("expected meshes of its ranks, found some of others")
            return found

    def _told_damage(self) -> AbstractContextManager[None]:
        expected = "a merged store (HDF5) whose rows have the checksums they were written with"
        return told_damage(self.path, expected, "copy it anew", "copy it anew")

    def _read_stores(self) -> list[RankStore]:
        file = self._file
        common = metadata_of(file)
        own = [json.loads(text) for text in texts(file, "metadata")]
        initialize = table(file, "initialize")
        configurations = texts(file, "configurations")
        names = {name: table(file, name) for name in NAMED.values() if has(file, name)}
        if not len(own) == len(initialize) == len(self.index):
            raise StoreError(f"expected metadata and a row of /initialize of each of the {len(self.index)} ranks")
        stores = []
        for position, row in enumerate(self.index):
            # As of one rank's file, keys that a later version added are passed over.
            metadata = common | {name: decode(name, value) for name, value in own[position].items() if name in METADATA}
            validate(metadata, complete=True)
            if metadata["rank"] != row["rank"]:
                raise StoreError(f"rank {row['rank']}: expected its metadata, found those of rank {metadata['rank']}")
            first = initialize[position : position + int(row["initialized"])]
            tables = {"initialize": first, **names}
            if not 0 <= row["configuration"] < len(configurations):
                raise StoreError(f"rank {row['rank']}: expected its configuration, found none")
            configuration = configurations[row["configuration"]]
            stores.append(RankStore(self.path, metadata, configuration, tables, MergedRank(self, position)))
        return stores

    def _check_index(self) -> None:
        """Refuse an index that does not fit what it is of."""
        if (np.diff(self.index["rank"]) <= 0).any():
            raise StoreError("expected every rank once, rising, found others in /ranks")
        shapes = {name: self._column(name).shape for name in ADVANCE_DTYPE.names or ()}
        ranks, rows = len(self.index), int(self.index["rows"].max(initial=0))
        if self.index["rows"].min(initial=0) < 0 or not all(n in (1, ranks) and m >= rows for n, m in shapes.values()):
            raise StoreError(f"expected columns of {ranks} ranks with {rows} rows in /advances, found {shapes}")

    def _check_format(self) -> None:
        found, version = attribute(self._file, "format"), attribute(self._file, "format_version")
        if found != FORMAT or version not in range(1, FORMAT_VERSION + 1):
            raise StoreError(
                f"{self.path}: expected an HDF5 file with format={FORMAT!r} and format_version up to {FORMAT_VERSION}, "
                f"found {found!r} and {version!r}; read it with the version of precice_lb that wrote it or a newer one"
            )


@dataclass(frozen=True)
class MergedRank:
    """Reads tables of one rank of a merged store."""

    store: MergedStore
    position: int

    def __call__(self, names: Sequence[str]) -> Tables:
        """Read them, by name."""
        asked = set(names) & set(MESH_TABLES)
        found = dict(self.store.mesh_tables(self.position, rows_only=asked == {"meshes"})) if asked else {}
        if "advances" in names:
            found["advances"] = self.store.advances(self.position)
        if "sections" in names:
            found["sections"] = self.store.sections(self.position)
        for name in _STARTS.keys() & set(names):
            found[name] = self.store.started(name, self.position)
        return found


@dataclass(frozen=True, eq=False)
class RankColumns:
    """Rows of ``advance`` that all ranks of a participant have in common, shape (N,)."""

    window: NDArray[np.int64]
    iteration: NDArray[np.int32]
    window_complete: NDArray[np.bool_]
    # Further columns by name, shape (R, N); nanoseconds, -1 where not measured.
    values: dict[str, NDArray[np.int64]]
    # Rows that each of the ranks has, shape (R,).
    rows: NDArray[np.int64]


def aligned_columns(
    group: Sequence[RankStore], names: Sequence[str] = ("solve_ns", "advance_ns", "mapping_ns", "wait_ns")
) -> RankColumns | None:
    """Read columns of all ranks of a participant as arrays; of a merged store, only what is asked for is read."""
    merged = _merged(group, "advances")
    tables = [store.advances for store in group] if merged is None else []
    ranks = np.array([store.read.position for store in group if isinstance(store.read, MergedRank)], dtype=np.int64)
    rows = np.array([len(table) for table in tables]) if merged is None else merged.index["rows"][ranks].astype(int)
    count = int(rows.min()) if len(rows) else 0

    def column(name: str) -> NDArray[Any]:
        if merged is not None:
            return merged.column(name, ranks, slice(0, count))
        return np.stack([table[name][:count] for table in tables])

    if not count:
        return None
    calls = [column(name) for name in CALLS]
    if any((values != values[0]).any() for values in calls):
        return None
    window, iteration, complete = (values[0].copy() for values in calls)
    if merged is not None:
        with told_damage(merged.path):
            check_calls(window, iteration, complete)
    return RankColumns(window, iteration, complete, {name: column(name) for name in names}, rows)


def aligned_meshes(group: Sequence[RankStore]) -> RecordedMeshes:
    """Read what all ranks of a participant said about their meshes; of a merged store, in one go."""
    merged = _merged(group, "meshes")
    if merged is not None and len(group) == len(merged.index):
        return merged.meshes()
    return RecordedMeshes.joined([store.meshes() for store in group])


def _merged(group: Sequence[RankStore], table: str) -> MergedStore | None:
    """Find the one merged store that a table of all ranks is still in."""
    found = [store.read for store in group if isinstance(store.read, MergedRank) and table not in store.tables]
    return found[0].store if len(found) == len(group) and len({id(each.store) for each in found}) == 1 else None


def merged_image(stores: Sequence[RankStore]) -> bytes:
    """Make the bytes of the file of all ranks of a participant, in memory: HDF5 cannot cope with a full disk."""
    ranks = [store.having({}, **store.read([name for name in TABLES if name not in store.tables])) for store in stores]
    with h5py.File("merged", "w", driver="core", backing_store=False) as file:
        _write_advances(file.create_group("advances"), [rank.advances for rank in ranks])
        sections, file["section_names"] = _named([(rank.sections, rank.section_names) for rank in ranks])
        guesses, file["guess_names"] = _named([(rank.guesses, rank.guess_names) for rank in ranks])
        counts, file["count_names"] = _named([(rank.counts, rank.count_names) for rank in ranks])
        parts = {
            "sections": sections,
            "guesses": guesses,
            "counts": counts,
            "mpi": [rank.mpi for rank in ranks],
            "cpu": [rank.cpu for rank in ranks],
            "initialize": [
                rank.initialize[:1] if len(rank.initialize) else np.zeros(1, TABLES["initialize"]) for rank in ranks
            ],
        }
        ends = {name: np.cumsum([0, *map(len, tables)]) for name, tables in parts.items()}
        meshes = RecordedMeshes.joined([rank.meshes() for rank in ranks]).arrays()
        for name, rows in {**{name: np.concatenate(tables) for name, tables in parts.items()}, **meshes}.items():
            _describe(file.create_dataset(name, data=rows, maxshape=(None,), **_PACKING), TABLES[name])
        for name, starts in _STARTS.items():
            file[starts] = ends[name]
        configurations = list(dict.fromkeys(rank.configuration for rank in ranks))
        file.create_dataset("configurations", data=configurations, dtype=h5py.string_dtype())
        index = [
            (
                rank.metadata["rank"],
                len(rank.advances),
                len(rank.initialize) > 0,
                configurations.index(rank.configuration),
                first,
                last - first,
            )
            for rank, first, last in zip(ranks, ends["sections"], ends["sections"][1:], strict=False)
        ]
        file["ranks"] = np.array(index, dtype=RANK_DTYPE)
        _write_metadata(file, [validate(rank.metadata, complete=True) for rank in ranks])
        file.attrs["format"], file.attrs["format_version"] = FORMAT, FORMAT_VERSION
        file.flush()
        image: bytes = file.id.get_file_image()
    return image


def _write_advances(group: h5py.Group, tables: Sequence[NDArray[np.void]]) -> None:
    """Write one row per rank of each column, or one where all ranks have the same."""
    _describe(group, ADVANCE_DTYPE)
    for name in ADVANCE_DTYPE.names or ():
        empty = NOT_MEASURED if name.endswith("_ns") else 0
        values = np.full((len(tables), max(map(len, tables))), empty, dtype=ADVANCE_DTYPE[name])
        for row, rows in zip(values, tables, strict=True):
            row[: len(rows)] = rows[name]
        if (values == values[0]).all():
            values = values[:1]
        chunks = min(len(values), _CHUNK_RANKS), _CHUNK_ROWS
        group.create_dataset(name, data=values, maxshape=(None, None), chunks=chunks, **_PACKING)


def _named(
    ranks: Sequence[tuple[NDArray[np.void], Sequence[str]]],
) -> tuple[list[NDArray[np.void]], NDArray[np.bytes_]]:
    """Give the names of all ranks one numbering: their rows with it, and the names."""
    numbers: dict[str, int] = {}
    renamed = []
    for rows, names in ranks:
        rows = rows.copy()
        if len(rows):
            known = [numbers.setdefault(name, len(numbers)) for name in names]
            rows["name"] = np.array(known, dtype=np.int32)[rows["name"]]
        renamed.append(rows)
    return renamed, np.array([stored_name(name).encode() for name in numbers], TABLES["section_names"])


def _write_metadata(file: h5py.File, ranks: Sequence[dict[str, Any]]) -> None:
    """Write what all ranks have in common as attributes, and the rest as a text of each."""
    common = {
        name: value
        for name, value in ranks[0].items()
        if all(name in metadata and metadata[name] == value for metadata in ranks)
    }
    for name, value in common.items():
        file.attrs[name] = encode(name, value)
    different = [
        json.dumps({name: encode(name, value) for name, value in metadata.items() if name not in common})
        for metadata in ranks
    ]
    file.create_dataset("metadata", data=different, dtype=h5py.string_dtype())


def _describe(item: h5py.Group | h5py.Dataset, dtype: np.dtype[Any]) -> None:
    if dtype.names:
        item.attrs["units"] = json.dumps({column: UNITS[column] for column in dtype.names})
