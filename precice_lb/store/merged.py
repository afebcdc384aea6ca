"""One file with all ranks of a participant: reading it, and making one.

``/ranks`` has one row per rank (`RANKS`), ``/initialize`` and ``/metadata`` (JSON text of what differs between
ranks) likewise; what all ranks have in common may be attributes of the root, encoded as in the file of one rank. The
rows of ``advance`` lie in ``/advances/<column>``, shape (ranks, rows), or (1, rows) where all ranks have the same
values; a rank that recorded fewer rows leaves the rest of its row empty. Every other table holds the ranks' rows one
after the other: ``/sections`` as ``/ranks`` says, tables with a column ``rank`` by that, and of all others those of
each rank begin where ``/guess_starts``, ``/mpi_starts`` and so on say. ``/configurations`` holds the configuration's
text. Every chunk of rows has HDF5's checksum (fletcher32).
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from precice_lb.exceptions import StoreError
from precice_lb.store.columns import (
    ADVANCES,
    INDISPENSABLE,
    INITIALIZE,
    TABLES,
    Column,
    Integers,
    Rows,
    StoreTable,
    Tables,
    joined,
)
from precice_lb.store.rank_file import attribute, dataset, hdf5, item, metadata_of, opened, table
from precice_lb.store.records import RankFile, missing_column, table_rows, wrap_read_errors
from precice_lb.store.schema import METADATA, check_format, decode, encode, validate

if TYPE_CHECKING:
    import h5py

FORMAT = "precice-lb-merged"
"""Value of the root attribute ``format``."""

FORMAT_VERSION = 1
"""Value of the root attribute ``format_version``."""

RANKS = StoreTable(
    "ranks",
    (
        Column("rank", "<i8", "1", "rank", INDISPENSABLE),
        Column("rows", "<i8", "1", "number of its rows of `advance`", INDISPENSABLE),
        Column("initialized", "?", "1", "whether it has a row of `initialize`", INDISPENSABLE),
        Column("configuration", "<i4", "1", "position in `/configurations`", INDISPENSABLE),
        Column("first_section", "<i8", "1", "where its rows in `/sections` begin", INDISPENSABLE),
        Column("sections", "<i8", "1", "number of its rows in `/sections`", INDISPENSABLE),
    ),
)
"""One row per rank; no table of a rank's own file."""

# Small, and each chunk, of one rank, with a checksum that every reader compares.
_PACKING: dict[str, Any] = {"compression": "gzip", "compression_opts": 1, "shuffle": True, "fletcher32": True}
_CHUNK_ROWS = 1 << 14


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
        check_format(name, version, FORMAT, FORMAT_VERSION)
        index: Rows = RANKS.completed(dataset(file, "ranks", RANKS)[...])
        ranks, rows = len(index), int(index["rows"].max(initial=0))
        if (np.diff(index["rank"]) <= 0).any():
            raise StoreError("expected every rank once, rising, found others in /ranks")
        shapes = {name: column.shape for name, column in _columns(file).items()}
        if (index["rows"] < 0).any() or not all(n in (1, ranks) and m >= rows for n, m in shapes.values()):
            raise StoreError(f"expected columns of {ranks} ranks with {rows} rows in /advances, found {shapes}")
        common, different = metadata_of(file.attrs), [json.loads(text) for text in _texts(file, "metadata")]
        initialize, configurations = table(file, "initialize"), _texts(file, "configurations")
        if not len(different) == len(initialize) == ranks:
            raise StoreError(f"expected metadata and a row of /initialize of each of the {ranks} ranks")
        stores = []
        for position, row in enumerate(index):
            # As in one rank's file, keys that are not known are passed over.
            more = {name: decode(name, value) for name, value in different[position].items() if name in METADATA}
            metadata = validate(common | more, complete=True)
            if metadata["rank"] != row["rank"] or not 0 <= row["configuration"] < len(configurations):
                raise StoreError(f"expected metadata and the configuration of rank {row['rank']}, found others")
            tables = {"initialize": initialize[position : position + int(row["initialized"])]}
            read = functools.partial(_tables, path, index, position)
            stores.append(RankFile(path, metadata, configurations[row["configuration"]], tables, read))
        return stores


def _texts(file: h5py.File, name: str) -> list[str]:
    return list(dataset(file, name, None).asstr()[...])


def _tables(path: Path, index: Rows, position: int, names: Iterable[str]) -> Tables:
    """Read tables of one rank, by name; those that the file lacks have no rows."""
    with opened(path) as file:
        return {name: _rows(file, TABLES[name], index, position) for name in names}


def _rows(file: h5py.File, of: StoreTable, index: Rows, position: int) -> Any:
    if of.name == "advances":
        calls = ADVANCES.unrecorded(int(index["rows"][position]))
        for name, column in _columns(file).items():
            calls[name] = column[position % len(column), : len(calls)]
        return table_rows(of.name, calls)
    if of.name not in file or of.name in {other.names for other in TABLES.values()}:
        # All ranks count their names in one numbering.
        return table(file, of.name)
    source = dataset(file, of.name, of)
    first, last = _starts(file, of, index)[position : position + 2]
    if not 0 <= first <= last <= len(source):
        raise StoreError(f"expected the rows of a rank in /{of.name}, found {first} to {last} of {len(source)}")
    return table_rows(of.name, source[first:last])


def _starts(file: h5py.File, of: StoreTable, index: Rows) -> Integers:
    """Where the rows of each rank begin in a table, and where the last ones end, shape (ranks + 1,)."""
    if of.name == "sections":
        return np.append(index["first_section"], index["first_section"][-1:] + index["sections"][-1:])
    if of.counted is not None:
        rows, count = of.counted
        return np.asarray(np.cumsum([0, *count(table(file, rows))])[_starts(file, TABLES[rows], index)])
    if stored := _starts_of(of):
        return np.asarray(dataset(file, stored, np.dtype(np.int64))[: len(index) + 1])
    return np.searchsorted(table(file, of.name)["rank"], [*index["rank"], index["rank"][-1] + 1])


def _columns(file: h5py.File) -> dict[str, h5py.Dataset]:
    """Return the datasets of the columns of ``/advances``, one per column, without reading them."""
    group = item(file, "advances", "Group")
    if group is None:
        raise StoreError("expected /advances, found none")
    columns = {}
    for column in ADVANCES.columns:
        if column.name in group:
            columns[column.name] = dataset(group, column.name, np.dtype(column.dtype), dimensions=2)
        elif column.is_required:
            raise missing_column("advances", column.name, group)
    return columns


def merged_image(stores: Sequence[RankFile]) -> bytes:
    """Make the bytes of the file of all ranks of a participant, in memory: HDF5 cannot cope with a full disk."""
    h5py = hdf5("merged files")
    ranks = [store.loaded() for store in stores]
    names = {table.names for table in TABLES.values()}
    with h5py.File("merged", "w", driver="core", backing_store=False) as file:
        lengths = [len(rank.advances) for rank in ranks]
        for name in ADVANCES.dtype.names or ():
            values = np.zeros((len(ranks), max(lengths)), ADVANCES.dtype[name])
            for row, rank in zip(values, ranks, strict=True):
                row[: len(rank.advances)] = rank.advances[name]
            values = values[:1] if (values == values[0]).all() else values
            chunks = 1, min(max(1, *lengths), _CHUNK_ROWS)
            file.create_dataset(f"advances/{name}", data=values, maxshape=(None, None), chunks=chunks, **_PACKING)
        # One row of each rank, whether it has any or not.
        none = INITIALIZE.unrecorded(1)
        tables = [{**rank.tables, "initialize": np.append(rank.initialize, none)[:1]} for rank in ranks]
        for name in TABLES.keys() - names - {"advances"}:
            for part, rows in joined(tables, name).items():
                file.create_dataset(part, data=rows, maxshape=(None,), **_PACKING)
            if starts := _starts_of(TABLES[name]):
                file[starts] = np.cumsum([0, *(len(rank[name]) for rank in tables)])
        configurations = list(dict.fromkeys(rank.configuration for rank in ranks))
        file.create_dataset("configurations", data=configurations, dtype=h5py.string_dtype())
        first, index = 0, []
        for rank in ranks:
            numbers = rank.metadata["rank"], len(rank.advances), len(rank.initialize) > 0
            sections = len(rank.rows("sections"))
            index.append((*numbers, configurations.index(rank.configuration), first, sections))
            first += sections
        file["ranks"] = np.array(index, RANKS.dtype)
        metadata = [validate(rank.metadata, complete=True) for rank in ranks]
        encoded = [json.dumps({name: encode(name, value) for name, value in values.items()}) for values in metadata]
        file.create_dataset("metadata", data=encoded, dtype=h5py.string_dtype())
        file.attrs["format"], file.attrs["format_version"] = FORMAT, FORMAT_VERSION
        file.flush()
        image: bytes = file.id.get_file_image()
    return image
