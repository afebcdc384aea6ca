"""The file of one rank that has ended, as HDF5, and reading that or its spool.

Read through h5py's low-level API, three times faster than its high-level one: a run has a file per rank. Written in
memory, so that HDF5 never touches a file of a solver: a write that fails there ends the process.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from h5py import h5a, h5d, h5f, h5o, h5p, h5s, h5t
from numpy.typing import NDArray

from precice_lb.exceptions import StoreError
from precice_lb.store.metadata import METADATA, decode, encode, validate
from precice_lb.store.records import RankStore, Tables
from precice_lb.store.schema import FORMAT, FORMAT_VERSION, SPOOL_SUFFIX, SUFFIX, TABLES, UNITS
from precice_lb.store.spool import read_spool

__all__ = ["hdf5_image", "read_rank_file", "told_damage"]

_TYPES = {name: h5t.py_create(dtype, logical=True) for name, dtype in TABLES.items()}
_ALWAYS = ("advances", "initialize")
_TIMES = (*_ALWAYS, "sections", "section_names")


def hdf5_image(store: RankStore) -> bytes:
    """Make the bytes of the HDF5 file of one rank, in memory, of its tables there."""
    with h5py.File("store", "w", driver="core", backing_store=False) as file:
        for name, value in store.metadata.items():
            file.attrs[name] = encode(name, value)
        file.create_dataset("configuration", data=store.configuration, dtype=h5py.string_dtype())
        for name, rows in store.tables.items():
            if len(rows) or name in _ALWAYS:
                table = file.create_dataset(name, data=rows)
                table.attrs["units"] = json.dumps({column: UNITS[column] for column in rows.dtype.names or ()})
        file.attrs["format"] = FORMAT
        file.attrs["format_version"] = FORMAT_VERSION
        file.flush()
        image: bytes = file.id.get_file_image()
    return image


def open_read_only(path: Path) -> h5f.FileID:
    """Open a file for h5py without a lock, so that on a network file system a reader never blocks a writer."""
    access = h5p.create(h5p.FILE_ACCESS)
    access.set_fclose_degree(h5f.CLOSE_STRONG)
    access.set_file_locking(False, True)
    return h5f.open(os.fsencode(path), h5f.ACC_RDONLY, access)


def read_rank_file(path: Path, names: Sequence[str] = _TIMES) -> RankStore:
    """Read the file of one rank with some tables, as `reader.read_store` does; others when asked for."""
    store = _read(path, names)
    # A spool is read whole: nobody has to ask for its rows to know when a killed rank ended.
    interval = store.interval_unix_ns if "advances" in store.tables and "advances" not in names else None
    kept = {name: table for name, table in store.tables.items() if name in names}
    store = dataclasses.replace(store, tables=kept, read=functools.partial(_tables, path))
    if interval is not None:
        vars(store)["interval_unix_ns"] = interval
    return store


def _tables(path: Path, names: Sequence[str]) -> Tables:
    return _read(path, names).tables


def _read(path: Path, names: Sequence[str]) -> RankStore:
    """Read some tables; of a spool, all of them."""
    with told_damage(path):
        hdf5 = path.with_suffix(SUFFIX)
        if path.suffix == SPOOL_SUFFIX and (path.exists() or not hdf5.exists()):
            store = read_spool(path)
        else:
            # What was a spool when it was found may have become this meanwhile.
            with _opened(hdf5 if path.suffix == SPOOL_SUFFIX else path) as root:
                store = _of_hdf5(path, root, names)
    tables = dict(store.tables)
    # Without rows that a machine lost when it went down, in files of earlier versions.
    for name in {"advances", "sections"} & tables.keys():
        written = tables[name]["window"] > 0
        if name == "sections":
            written &= tables[name]["name"] < len(tables["section_names"])
        if not written.all():
            tables[name] = tables[name][written]
    return dataclasses.replace(store, tables=tables)


def _of_hdf5(path: Path, root: h5o.ObjectID, names: Sequence[str]) -> RankStore:
    attributes = _attributes(root)
    _check_format(path, root, attributes)
    metadata = {name: decode(name, value) for name, value in attributes.items() if name in METADATA}
    validate(metadata, complete=True)
    wanted = {*names, "section_names"} if "sections" in names else names
    return RankStore(path, metadata, _text(root, b"configuration"), {name: _table(root, name) for name in wanted})


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[h5o.ObjectID]:
    file = open_read_only(path)
    try:
        yield h5o.open(file, b"/")
    finally:
        file.close()


@contextlib.contextmanager
def told_damage(path: Path) -> Iterator[None]:
    """Turn whatever a damaged or foreign file raises into one error with its name."""
    try:
        yield
    except (OSError, KeyError, RuntimeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise StoreError(
            f"{path}: expected a store written by precice_lb, found a file that cannot be read as one ({reason}); "
            "leave it out, or import it first if it holds measurements of another format (precice-lb import --help)"
        ) from error
    except StoreError as error:
        if str(error).startswith(str(path)):
            raise
        raise StoreError(f"{path}: {error}; leave the file out, or copy it anew where it was damaged") from error


def _attributes(root: h5o.ObjectID) -> dict[str, Any]:
    found = {}
    for index in range(h5a.get_num_attrs(root)):
        attribute = h5a.open(root, index=index)
        found[attribute.name.decode()] = _attribute(attribute)
    return found


def _attribute(attribute: h5a.AttrID) -> Any:
    value = np.empty(attribute.shape, attribute.dtype)
    attribute.read(value)
    scalar: Any = value[()]
    return scalar.decode("utf-8", "surrogateescape") if isinstance(scalar, bytes) else scalar


def _text(root: h5o.ObjectID, name: bytes) -> str:
    value = np.empty((), dtype=object)
    h5d.open(root, name).read(h5s.ALL, h5s.ALL, value)
    text: bytes = value.item()
    return text.decode("utf-8", "surrogateescape")


def _table(root: h5o.ObjectID, name: str) -> NDArray[Any]:
    if name.encode() not in root:
        return np.empty(0, dtype=TABLES[name])
    dataset = h5d.open(root, name.encode())
    table: NDArray[Any] = np.empty(dataset.shape, dtype=TABLES[name])
    dataset.read(h5s.ALL, h5s.ALL, table, _TYPES[name])
    return table


def _check_format(path: Path, root: h5o.ObjectID, attributes: dict[str, Any]) -> None:
    """Refuse what is not a store of a known format version."""
    found = attributes.get("format")
    if found != FORMAT:
        raise StoreError(
            f"{path}: expected an HDF5 file with attribute format={FORMAT!r}, found {found!r}; "
            "give only files that precice_lb wrote"
        )
    version = attributes.get("format_version")
    if version != FORMAT_VERSION:
        raise StoreError(
            f"{path}: expected format version {FORMAT_VERSION}, found {version}; "
            "read it with the version of precice_lb that wrote it or a newer one"
        )
    for name in _ALWAYS:
        kind = h5d.open(root, name.encode()).get_type()
        if not kind.equal(_TYPES[name]):
            raise StoreError(
                f"{path}: expected columns {TABLES[name].names} in /{name}, found {kind.dtype}; the file is damaged"
            )
