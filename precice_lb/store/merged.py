"""One file with all ranks of a participant: reading it, and making one.

``/ranks`` has one row per rank (`RANK_DTYPE`), ``/initialize`` and ``/metadata`` (JSON text of what differs between
ranks) likewise; what all ranks have in common are attributes of the root, encoded as in the file of one rank. The rows
of ``advance`` lie in ``/advances/<column>``, shape (ranks, rows), or (1, rows) where all ranks have the same values; a
rank that recorded fewer rows leaves the rest of its row empty. Every other table holds the ranks' rows one after the
other: ``/sections`` as ``/ranks`` says, tables with a column ``rank`` by that, and of all others those of each rank
begin where ``/guess_starts``, ``/mpi_starts`` and so on say. ``/configurations`` holds the configuration's text. Every
chunk of rows has HDF5's checksum (fletcher32).
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from precice_lb.exceptions import StoreError
from precice_lb.store.columns import (
    ADVANCES,
    INITIALIZE,
    NOT_MEASURED,
    TABLES,
    Integers,
    Rows,
    StoreTable,
    Tables,
    joined,
)
from precice_lb.store.rank_file import attribute, dataset, item, metadata_of, opened, table, texts
from precice_lb.store.records import RankFile, table_rows, wrap_read_errors
from precice_lb.store.schema import METADATA, check_format, decode, encode, validate

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

_POSITION = np.dtype("<i8")

# Small, and each chunk with a checksum that every reader compares.
_PACKING: dict[str, Any] = {"compression": "gzip", "compression_opts": 1, "shuffle": True, "fletcher32": True}
# A chunk of at most 512 KiB, so that neither one rank nor a few windows of all need the whole file.
_CHUNK_RANKS, _CHUNK_ROWS = 64, 1024
# Calls of so many ranks as lie in one chunk are read at once, as long as they are no more than these.
_MOST_BYTES = 1 << 25


def _starts_of(table: StoreTable) -> str:
    """Name the table of where the rows of each rank begin, shape (ranks + 1,); empty where something else says it."""
    elsewhere = table.name in ("initialize", "sections") or table.counted is not None
    if elsewhere or "rank" in (table.dtype.names or ()):
        return ""
    return f"{table.names.removesuffix('_names') or table.name}_starts"


def read_merged(path: Path) -> list[RankFile]:
    """Read a merged store, but for the rows of its ranks, which are read when asked for."""
    with wrap_read_errors(path), opened(path) as file:
        name, version = (attribute(file.attrs, name) for name in ("format", "format_version"))
        check_format(name, version, FORMAT, range(1, FORMAT_VERSION + 1))
        index: Rows = dataset(file, "ranks", RANK_DTYPE)[...]
        ranks, rows = len(index), int(index["rows"].max(initial=0))
        if (np.diff(index["rank"]) <= 0).any():
            raise StoreError("expected every rank once, rising, found others in /ranks")
        shapes = {name: column.shape for name, column in _columns(file).items()}
        if index["rows"].min(initial=0) < 0 or not all(n in (1, ranks) and m >= rows for n, m in shapes.values()):
            raise StoreError(f"expected columns of {ranks} ranks with {rows} rows in /advances, found {shapes}")
        reader = _Reader(path, index)
        common = metadata_of(file.attrs)
        names = {names: table(file, names) for names in {of.names for of in TABLES.values()} - {""}}
        different = [json.loads(text) for text in texts(file, "metadata")]
        initialize, configurations = table(file, "initialize"), texts(file, "configurations")
        if not len(different) == len(initialize) == ranks:
            raise StoreError(f"expected metadata and a row of /initialize of each of the {ranks} ranks")
        stores = []
        for position, row in enumerate(index):
            # As of one rank's file, keys that a later version added are passed over.
            more = {name: decode(name, value) for name, value in different[position].items() if name in METADATA}
            metadata = validate(common | more, complete=True)
            if metadata["rank"] != row["rank"] or not 0 <= row["configuration"] < len(configurations):
                raise StoreError(f"expected metadata and the configuration of rank {row['rank']}, found others")
            tables = {"initialize": initialize[position : position + int(row["initialized"])], **names}
            read = functools.partial(reader.read, position)
            stores.append(RankFile(path, metadata, configurations[row["configuration"]], tables, read))
        return stores


class _Reader:
    """Reads the rows of one rank after the other: each time the file is opened, so that many files may be read."""

    def __init__(self, path: Path, index: Rows) -> None:
        self._path, self._index = path, index
        # Calls of some ranks by their position, and where the rows of each rank begin by table.
        self._calls: dict[int, Rows] = {}
        self._starts: dict[str, Integers] = {}

    def read(self, position: int, names: Iterable[str]) -> Tables:
        """Read tables of one rank, by name; of a store that was merged before there were such, none."""
        with opened(self._path) as file:
            return {
                name: self._advances(file, position) if name == "advances" else self._rows(file, TABLES[name], position)
                for name in names
            }

    def _advances(self, file: h5py.File, position: int) -> Rows:
        """Rows of ``advance`` of one rank; those of the next ones, which lie beside them, are kept for these."""
        if position not in self._calls:
            lengths = self._index["rows"]
            step = min(max(_MOST_BYTES // (ADVANCES.dtype.itemsize * (int(lengths.max()) + 1)), 1), _CHUNK_RANKS)
            first = position - position % step
            self._calls = {
                first + number: ADVANCES.blank(length)
                for number, length in enumerate(lengths[first : first + step].tolist())
            }
            for name, column in _columns(file).items():
                values = column[:] if len(column) == 1 else column[first : first + step]
                for number, rows in enumerate(self._calls.values()):
                    rows[name] = values[number % len(values)][: len(rows)]
        return table_rows("advances", self._calls[position])

    def _rows(self, file: h5py.File, table: StoreTable, position: int) -> Rows:
        if item(file, table.name, h5py.Dataset) is None:
            return table.empty()
        source = dataset(file, table.name, table.least)
        first, last = self._starts_in(file, table)[position : position + 2]
        if not 0 <= first <= last <= len(source):
            raise StoreError(f"expected the rows of a rank in /{table.name}, found {first} to {last} of {len(source)}")
        return table_rows(table.name, source[first:last])

    def _starts_in(self, file: h5py.File, of: StoreTable) -> Integers:
        """Where the rows of each rank begin in a table, and where the last ones end, shape (ranks + 1,)."""
        if of.name not in self._starts:
            index, stored = self._index, _starts_of(of)
            if of.name == "sections":
                starts = np.append(index["first_section"], index["first_section"][-1:] + index["sections"][-1:])
            elif of.counted is not None:
                rows, count = of.counted
                starts = np.cumsum([0, *count(table(file, rows))])[self._starts_in(file, TABLES[rows])]
            elif stored:
                starts = dataset(file, stored, _POSITION)[: len(index) + 1]
            else:
                starts = np.searchsorted(table(file, of.name)["rank"], [*index["rank"], index["rank"][-1] + 1])
            self._starts[of.name] = starts
        return self._starts[of.name]


def _columns(file: h5py.File) -> dict[str, h5py.Dataset]:
    """Columns of ``advance``, unread."""
    group = item(file, "advances", h5py.Group)
    if group is None:
        raise StoreError("expected /advances, found none")
    return {
        column.name: dataset(group, column.name, np.dtype(column.dtype), 2)
        for column in ADVANCES.columns
        if column.missing is None or item(group, column.name, h5py.Dataset) is not None
    }


def merged_image(stores: Sequence[RankFile]) -> bytes:
    """Make the bytes of the file of all ranks of a participant, in memory: HDF5 cannot cope with a full disk."""
    ranks = [store.loaded() for store in stores]
    with h5py.File("merged", "w", driver="core", backing_store=False) as file:
        _write_advances(file.create_group("advances"), [rank.advances for rank in ranks])
        # One row of each rank, whether it has any or not.
        none = np.zeros(1, INITIALIZE.dtype)
        tables = [{**rank.tables, "initialize": np.append(rank.initialize, none)[:1]} for rank in ranks]
        for name in [name for name in TABLES if name != "advances" and name not in {t.names for t in TABLES.values()}]:
            for part, rows in joined(tables, name).items():
                _describe(file.create_dataset(part, data=rows, maxshape=(None,), **_PACKING), TABLES[part])
            if starts := _starts_of(TABLES[name]):
                file[starts] = np.cumsum([0, *(len(rank[name]) for rank in tables)])
        configurations = list(dict.fromkeys(rank.configuration for rank in ranks))
        file.create_dataset("configurations", data=configurations, dtype=h5py.string_dtype())
        index = np.zeros(len(ranks), dtype=RANK_DTYPE)
        index["rank"] = [rank.metadata["rank"] for rank in ranks]
        index["rows"] = [len(rank.advances) for rank in ranks]
        index["initialized"] = [len(rank.initialize) > 0 for rank in ranks]
        index["configuration"] = [configurations.index(rank.configuration) for rank in ranks]
        index["sections"] = [len(rank.rows("sections")) for rank in ranks]
        index["first_section"] = np.cumsum(index["sections"]) - index["sections"]
        file["ranks"] = index
        # What all ranks have in common as attributes, and the rest as a text of each.
        encoded = [
            {name: encode(name, value) for name, value in validate(rank.metadata, complete=True).items()}
            for rank in ranks
        ]
        common = {
            name: value
            for name, value in encoded[0].items()
            if all(name in metadata and metadata[name] == value for metadata in encoded)
        }
        file.attrs.update(common)
        different = [
            json.dumps({name: value for name, value in metadata.items() if name not in common}) for metadata in encoded
        ]
        file.create_dataset("metadata", data=different, dtype=h5py.string_dtype())
        file.attrs["format"], file.attrs["format_version"] = FORMAT, FORMAT_VERSION
        file.flush()
        image: bytes = file.id.get_file_image()
    return image


def _write_advances(group: h5py.Group, tables: Sequence[Rows]) -> None:
    """Write one row per rank of each column, or one where all ranks have the same."""
    _describe(group, ADVANCES)
    for name in ADVANCES.dtype.names or ():
        empty = NOT_MEASURED if name.endswith("_ns") else 0
        values = np.full((len(tables), max(map(len, tables))), empty, dtype=ADVANCES.dtype[name])
        for row, rows in zip(values, tables, strict=True):
            row[: len(rows)] = rows[name]
        if (values == values[0]).all():
            values = values[:1]
        chunks = min(len(values), _CHUNK_RANKS), _CHUNK_ROWS
        group.create_dataset(name, data=values, maxshape=(None, None), chunks=chunks, **_PACKING)


def _describe(place: h5py.Group | h5py.Dataset, table: StoreTable) -> None:
    if table.columns:
        place.attrs["units"] = json.dumps(table.units)
