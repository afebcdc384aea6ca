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

import contextlib
import functools
import json
from collections.abc import Iterator, Sequence
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
    Rows,
    Table,
    Tables,
    Values,
    decode_names,
    joined,
)
from precice_lb.store.rank_file import attribute, dataset, has, item, metadata_of, opened, table, texts, told_damage
from precice_lb.store.records import RankFile, check_calls, table_rows
from precice_lb.store.schema import METADATA, decode, encode, validate

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


def _has_starts(table: Table) -> bool:
    """Whether nothing else tells which rows are of which rank."""
    elsewhere = table.name in ("initialize", "sections") or table.counted is not None
    return not elsewhere and "rank" not in (table.dtype.names or ())


def _starts_of(table: Table) -> str:
    """Name the table that says where the rows of each rank begin, shape (ranks + 1,)."""
    return f"{table.names.removesuffix('_names') or table.name}_starts"


class MergedStore:
    """A merged store, read lazily: of the ranks in ``stores``, rising, as ``index`` has them, rows stay in the file."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        # Calls of some ranks by their position, and all rows of the tables that others are counted by.
        self._calls: dict[int, Rows] = {}
        self._whole: dict[str, Rows] = {}
        with self._opened() as file:
            found, version = attribute(file, "format"), attribute(file, "format_version")
            if found != FORMAT or version not in range(1, FORMAT_VERSION + 1):
                raise StoreError(
                    f"{self.path}: expected an HDF5 file with format={FORMAT!r} and format_version up to "
                    f"{FORMAT_VERSION}, found {found!r} and {version!r}; read it with the version of precice_lb that "
                    "wrote it or a newer one"
                )
            self.index: Rows = dataset(file, "ranks", RANK_DTYPE)[...]
            self._names = {each.names: table(file, each.names) for each in TABLES.values() if each.names}
            self.stores = self._read_stores(file)
            self._check_index(file)

    @contextlib.contextmanager
    def _opened(self) -> Iterator[h5py.File]:
        """Open the file; whatever is wrong within becomes one error. Unlike a rank's file, nobody writes to it."""
        expected = "a merged store (HDF5) whose rows have the checksums they were written with"
        with (
            told_damage(self.path, expected, "copy it anew", "copy it anew"),
            opened(self.path, locking="best-effort") as file,
        ):
            yield file

    def read(self, position: int, names: Sequence[str]) -> Tables:
        """Read tables of one rank, by name; of a store that was merged before there were such, none."""
        with self._opened() as file:
            return {
                name: self._advances(file, position) if name == "advances" else self._rows(file, TABLES[name], position)
                for name in names
            }

    def _advances(self, file: h5py.File, position: int) -> Rows:
        """Rows of ``advance`` of one rank; those of the next ones, which lie beside them, are kept for these."""
        if position not in self._calls:
            most = _MOST_BYTES // (ADVANCES.dtype.itemsize * (int(self.index["rows"].max()) + 1))
            step = max(1, min(_CHUNK_RANKS, most))
            first = position - position % step
            lengths = self.index["rows"][first : first + step].tolist()
            self._calls = {at: ADVANCES.blank(length) for at, length in enumerate(lengths, first)}
            for name, column in _columns(file).items():
                values = column[:] if len(column) == 1 else column[first : first + step]
                for row, rows in enumerate(self._calls.values()):
                    rows[name] = values[row % len(values)][: len(rows)]
        rows = table_rows("advances", self._calls[position])
        check_calls(rows)
        return rows

    def _rows(self, file: h5py.File, table: Table, position: int) -> Values:
        if not has(file, table.name):
            return table.empty()
        source = dataset(file, table.name, table.least)
        first, last = self._range(file, table, position)
        if not 0 <= first <= last <= len(source):
            raise StoreError(
                f"expected the rows of a rank among the {len(source)} of /{table.name}, found {first} to {last}"
            )
        rows = table_rows(table.name, source[first:last])
        if table.names and len(rows) and rows["name"].max() >= (count := len(decode_names(self._names[table.names]))):
            raise StoreError(f"expected positions of the {count} names in /{table.names}, found {rows['name'].max()}")
        return rows

    def _range(self, file: h5py.File, table: Table, position: int) -> tuple[int, int]:
        """Where the rows of a rank begin and end in a table."""
        row = self.index[position]
        if table.name == "sections":
            return row["first_section"], row["first_section"] + row["sections"]
        if table.counted is not None:
            of, count = table.counted
            starts = np.cumsum([0, *count(self._all(file, of))])
            first, last = self._range(file, TABLES[of], position)
            return starts[first], starts[last]
        if "rank" in (table.dtype.names or ()):
            first, last = np.searchsorted(self._all(file, table.name)["rank"], [row["rank"], row["rank"] + 1])
            return first, last
        if not has(file, _starts_of(table)):
            return 0, 0
        first, last = dataset(file, _starts_of(table), _POSITION)[position : position + 2]
        return first, last

    def _all(self, file: h5py.File, name: str) -> Rows:
        """Rows of a table of all ranks."""
        if name not in self._whole:
            self._whole[name] = table(file, name)
        return self._whole[name]

    def _read_stores(self, file: h5py.File) -> list[RankFile]:
        common = metadata_of(file)
        own = [json.loads(text) for text in texts(file, "metadata")]
        initialize, configurations = table(file, "initialize"), texts(file, "configurations")
        if not len(own) == len(initialize) == len(self.index):
            raise StoreError(f"expected metadata and a row of /initialize of each of the {len(self.index)} ranks")
        stores = []
        for position, row in enumerate(self.index):
            # As of one rank's file, keys that a later version added are passed over.
            metadata = common | {name: decode(name, value) for name, value in own[position].items() if name in METADATA}
            validate(metadata, complete=True)
            if metadata["rank"] != row["rank"]:
                raise StoreError(f"rank {row['rank']}: expected its metadata, found those of rank {metadata['rank']}")
            if not 0 <= row["configuration"] < len(configurations):
                raise StoreError(f"rank {row['rank']}: expected its configuration, found none")
            tables = {"initialize": initialize[position : position + int(row["initialized"])], **self._names}
            read = functools.partial(self.read, position)
            stores.append(RankFile(self.path, metadata, configurations[row["configuration"]], tables, read))
        return stores

    def _check_index(self, file: h5py.File) -> None:
        """Refuse an index that does not fit what it is of."""
        if (np.diff(self.index["rank"]) <= 0).any():
            raise StoreError("expected every rank once, rising, found others in /ranks")
        shapes = {name: column.shape for name, column in _columns(file).items()}
        ranks, rows = len(self.index), int(self.index["rows"].max(initial=0))
        if self.index["rows"].min(initial=0) < 0 or not all(n in (1, ranks) and m >= rows for n, m in shapes.values()):
            raise StoreError(f"expected columns of {ranks} ranks with {rows} rows in /advances, found {shapes}")


def _columns(file: h5py.File) -> dict[str, h5py.Dataset]:
    """Columns of ``advance``, unread."""
    group = item(file, "advances", h5py.Group)
    return {
        column.name: dataset(group, column.name, np.dtype(column.dtype), 2)
        for column in ADVANCES.columns
        if column.missing is None or has(group, column.name)
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
            for each, rows in joined(tables, name).items():
                _describe(file.create_dataset(each, data=rows, maxshape=(None,), **_PACKING), TABLES[each])
            if _has_starts(TABLES[name]):
                file[_starts_of(TABLES[name])] = np.cumsum([0, *(len(rank[name]) for rank in tables)])
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
        _write_metadata(file, [validate(rank.metadata, complete=True) for rank in ranks])
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


def _describe(item: h5py.Group | h5py.Dataset, table: Table) -> None:
    if table.columns:
        item.attrs["units"] = json.dumps(table.units)
