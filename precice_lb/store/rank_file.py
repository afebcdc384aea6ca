"""The file of one rank that has ended, as HDF5; reading that or its spool, also while it is written.

HDF5 makes it in memory, and never touches a file of a solver: a write that fails there ends the process.
"""

from __future__ import annotations

import dataclasses
import functools
import io
import json
import os
import platform
import shutil
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from precice_lb.exceptions import StoreError
from precice_lb.store.columns import ADVANCES, TABLES, Rows, StoreTable, Tables, Values
from precice_lb.store.records import (
    RankFile,
    check_columns,
    check_type,
    in_order,
    table_rows,
    wrap_read_errors,
    written,
)
from precice_lb.store.schema import (
    FORMAT,
    FORMAT_VERSION,
    MERGED_SUFFIX,
    METADATA,
    SPOOL_SUFFIX,
    SUFFIX,
    check_format,
    decode,
    encode,
    refuse_link,
    validate,
)
from precice_lb.store.spool import checked, read_blocks, read_spool, with_text

if TYPE_CHECKING:
    import h5py

_ALWAYS = ("advances", "initialize")
# Without a word for so long a rank on another host counts as dead.
_QUIET_SECONDS = 3600.0
_CLOCK_TOLERANCE_SECONDS = 60.0


def hdf5(path: str | Path) -> Any:
    """Load h5py for a file: spools do without it."""
    try:
        import h5py
    except ImportError as error:
        raise StoreError(
            f"{path}: expected h5py, which HDF5 files need, found that it cannot be imported ({error}); "
            "pip install h5py"
        ) from error
    return h5py


def write_hdf5(spool: Path, target: Path) -> None:
    """Write the HDF5 file of a spool, block by block, however long it is.

    HDF5 makes a file without rows, in memory: there its empty places take none. The rows are written into them here.
    """
    h5py = hdf5(target)
    store: RankFile | None = None
    lengths, places = dict.fromkeys(TABLES, 0), {}
    with spool.open("rb") as source, io.FileIO(os.memfd_create(spool.name), "r+") as memory, target.open("xb") as file:
        for name, array in read_blocks(source):
            if name in TABLES:
                lengths[name] += len(array)
            else:
                store = with_text(spool, store, name, array)
        store = checked(store)
        # A table gets its place at once, and nothing is written there.
        placed = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        placed.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        placed.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
        with h5py.File(memory, "w") as image:
            for key, value in store.metadata.items():
                image.attrs[key] = encode(key, value)
            image.create_dataset("configuration", data=store.configuration, dtype=h5py.string_dtype())
            for name, length in lengths.items():
                if length or name in _ALWAYS:
                    empty = image.create_dataset(name, (length,), TABLES[name].dtype, dcpl=placed.copy())
                    empty.attrs["units"] = json.dumps({column.name: column.unit for column in TABLES[name].columns})
                    places[name] = empty.id.get_offset()
            image.attrs["format"], image.attrs["format_version"] = FORMAT, FORMAT_VERSION
        memory.seek(0)
        shutil.copyfileobj(memory, file)
        source.seek(0)
        for name, array in read_blocks(source):
            if name in TABLES and len(array):
                file.seek(places[name])
                file.write(array.view(np.uint8).data)
                places[name] += array.nbytes
        file.flush()
        os.fsync(file.fileno())


def read_rank_file(path: Path) -> RankFile:
    """Read the file of one rank but for its tables, which are read when asked for."""
    read = functools.partial(_tables, path)
    with wrap_read_errors(path):
        place = _place(path)
        if place.suffix == SPOOL_SUFFIX:
            store = read_spool(path)[0]
            whole = dataclasses.replace(store, tables=written(store.tables))
            # A spool is read whole: nobody has to ask for its rows to know when a killed rank ended.
            lazy = RankFile(path, store.metadata, store.configuration, {"initialize": whole.initialize}, read)
            vars(lazy)["interval_unix_ns"] = whole.interval_unix_ns
            return lazy
        with opened(place) as file:
            return dataclasses.replace(_head(place, file), path=path)


def _head(path: Path, file: h5py.File) -> RankFile:
    """Read everything but the tables of an HDF5 file."""
    attributes = file.attrs
    check_format(attribute(attributes, "format"), attribute(attributes, "format_version"))
    configuration = dataset(file, "configuration", None, 0).asstr(errors="surrogateescape")[()]
    # Its rows are checked where they are read.
    if "advances" not in file:
        raise StoreError("expected /advances, found none")
    initialize = table_rows("initialize", dataset(file, "initialize", TABLES["initialize"])[...])
    metadata = validate(metadata_of(attributes), complete=True)
    # Ranks have the configuration in common.
    tables = {"initialize": initialize}
    return RankFile(path, metadata, sys.intern(configuration), tables, functools.partial(_tables, path))


def _tables(path: Path, names: Iterable[str]) -> Tables:
    """Read those tables that are there; of a spool, all of them."""
    place = _place(path)
    if place.suffix == SPOOL_SUFFIX:
        return read_spool(path)[0].tables
    with opened(place) as file:
        return {name: table(file, name) for name in names}


def _place(path: Path) -> Path:
    """Return where a file is by now: what was a spool when it was found may have become HDF5."""
    hdf5 = path.with_suffix(SUFFIX)
    return hdf5 if path.suffix == SPOOL_SUFFIX and not path.exists() and hdf5.exists() else path


def _may_have_writer(store: RankFile) -> bool:
    """Tell whether the process that writes a rank's store may still be alive.

    A closed store is complete. One that was not closed belongs to a killed run or to a running one. If its process ran
    on this host, it is looked up; if it ran on another host, or its number is unknown, it counts as dead once nothing
    was written for an hour.
    """
    data = store.metadata
    if "ended_unix_ns" in data:
        return False
    if data.get("hostname") != platform.node() or "pid" not in data:
        try:
            written = os.stat(store.path).st_mtime
        except FileNotFoundError:
            return False
        return time.time() - written < _QUIET_SECONDS
    # Solvers import this module too, but never come here.
    import psutil

    try:
        process = psutil.Process(data["pid"])
        # A dead process whose parent has not asked for its exit code yet.
        is_zombie = process.status() == psutil.STATUS_ZOMBIE
        # A process that was started after the store has got the number of the dead writer.
        latest_start = data["started_unix_ns"] * 1e-9 + _CLOCK_TOLERANCE_SECONDS
        return not is_zombie and process.create_time() <= latest_start
    except psutil.AccessDenied:
        return True
    except psutil.Error:
        return False


def opened(path: Path) -> h5py.File:
    """Open a file for reading, which must not be a link.

    Without a lock, so that on a network file system a reader never blocks a writer.
    """
    refuse_link(path)
    return hdf5(path).File(path, "r", locking=False)


def attribute(attributes: h5py.AttributeManager, name: str) -> Any:
    """Read a single value; None where there is none."""
    return _value(attributes, name) if name in attributes else None


def _value(attributes: h5py.AttributeManager, name: str) -> Any:
    # By what h5py offers below its own reading, which describes each type to HDF5 anew and takes three times as long.
    stored = attributes.get_id(name)
    dtype = stored.dtype
    if stored.shape != () or dtype.shape:
        raise StoreError(f"attribute {name}: expected one value, found an array")
    place = np.empty((), dtype)
    stored.read(place)
    value = place.item()
    # Of a text of any length; one of fixed length is none that we write.
    is_text = dtype.kind == "O" and isinstance(value, bytes)
    return value.decode("utf-8", "surrogateescape") if is_text else value


def metadata_of(attributes: h5py.AttributeManager) -> dict[str, Any]:
    """Read the metadata that are attributes; keys that are not known are passed over."""
    return {name: decode(name, _value(attributes, name)) for name in attributes if name in METADATA}


def item(parent: h5py.Group, name: str, kind: str) -> Any:
    """Give a Group or a Dataset that lies in the file itself; None where nothing has the name."""
    import h5py

    link = parent.get(name, getlink=True)
    if link is None:
        return None
    if not isinstance(link, h5py.HardLink):
        raise StoreError(f"expected /{name} in the file itself, found a link to elsewhere")
    there = parent[name]
    if not isinstance(there, getattr(h5py, kind)):
        raise StoreError(f"expected /{name} to be a {kind.lower()}, found a {type(there).__name__.lower()}")
    return there


def dataset(
    parent: h5py.Group, name: str, wanted: StoreTable | np.dtype[Any] | None, dimensions: int = 1
) -> h5py.Dataset:
    """Find a dataset, and check its type before anything is read.

    Parameters
    ----------
    parent : h5py.Group
        Where it is.
    name : str
        Its name there.
    wanted : StoreTable or dtype or None
        The table whose rows it has, or the type of its values; None for texts.
    dimensions : int
        Its number of dimensions.

    Returns
    -------
    h5py.Dataset

    Raises
    ------
    StoreError
        If there is none, or one of another type, or its values are elsewhere.
    """
    import h5py

    source = item(parent, name, "Dataset")
    if source is None:
        raise StoreError(f"expected /{name}, found none")
    if source.external or source.is_virtual:
        raise StoreError(f"expected the values of /{name} in the file itself, found them said to be elsewhere")
    shape, stored_type = source.shape, source.dtype
    if shape is None or len(shape) != dimensions:
        raise StoreError(f"expected /{name} to have {dimensions} dimensions, found shape {shape}")
    if isinstance(wanted, StoreTable):
        check_columns(wanted, stored_type)
    elif wanted is not None:
        check_type(f"values in /{name}", stored_type, wanted)
    elif h5py.check_string_dtype(stored_type) is None:
        raise StoreError(f"expected texts in /{name}, found {stored_type}")
    return source


def table(file: h5py.File, name: str) -> Values:
    """Read one of `TABLES`; without rows where it is not there."""
    if name not in file:
        return TABLES[name].empty()
    return table_rows(name, dataset(file, name, TABLES[name])[...])


class Tail:
    """One rank: what its file says by now, with the rows of the windows that were not forgotten.

    Parameters
    ----------
    source
        Its file, or what is known of that by now if it is no spool; where a spool becomes HDF5, that is read on.
    most
        Rows that are read at once: memory stays bounded where a long run is first seen.
    """

    def __init__(self, source: Path | RankFile, most: int = 4096) -> None:
        self.path = source if isinstance(source, Path) else source.path
        # Everything but the rows; None as long as the file could not be read.
        self.head = None if isinstance(source, Path) else source
        self.rows = ADVANCES.empty()
        self.has_more = False
        # What another file says of the rank besides.
        self.metadata: dict[str, Any] = {}
        # Why the last `read` failed: a file that is just being written to may fail once; empty if it did not.
        self.problem = ""
        self._most = most
        self._seen: tuple[Path, int, int] | None = None
        # Rows that were read, and bytes of the blocks of a spool.
        self._count = self._offset = 0

    @property
    def is_replaced(self) -> bool:
        """Whether another run writes to its file by now, as solvers without a recorder do."""
        return False

    @property
    def store(self) -> RankFile:
        """The rank with the rows that were not forgotten; only where there is a `head`."""
        assert self.head is not None
        return self.head.having(self.metadata, advances=self.rows)

    @property
    def state(self) -> str:
        """What its writer does: ``running``, ``ended``, or ``stopped`` before the end of the coupling."""
        store = self.store
        if "ended_unix_ns" in store.metadata:
            return "ended" if store.metadata["finished"] else "stopped"
        return "running" if _may_have_writer(store) else "stopped"

    def update(self) -> None:
        """Read what is new, and fill it."""
        rows = self.read()
        if self.head is not None:
            filled = self.filled(rows, is_last=not self.has_more and self.state != "running")
            self.rows = np.concatenate([self.rows, filled]) if len(self.rows) else filled

    def forget(self, window: int) -> None:
        """Drop the rows of all windows before this one."""
        self.rows = self.rows[self.rows["window"] >= window]

    def filled(self, rows: Rows, *, is_last: bool) -> Rows:
        """Take new rows in the order of the calls, and give, once, those whose times are known by now.

        With ``is_last`` nobody writes any more: then all are given. Here nothing is missing.
        """
        return rows

    def read(self) -> Rows:
        """Read what is new in its file since the last call: nothing where that fails, which `problem` then says."""
        try:
            self.path = _place(self.path)
            status = os.stat(self.path)
            seen = (self.path, status.st_mtime_ns, status.st_size)
            if seen == self._seen and not self.has_more:
                return ADVANCES.empty()
            with wrap_read_errors(self.path):
                rows = self._new_rows()
                in_windows = rows["window"] > 0
                ordered = in_order(rows if in_windows.all() else rows[in_windows])
        except (StoreError, OSError) as error:
            self.problem = " ".join(str(error).split())
            return ADVANCES.empty()
        self.problem, self._seen = "", seen
        self._count += len(rows)
        self.has_more = len(rows) >= self._most
        return ordered

    def _new_rows(self) -> Rows:
        head, new = self.head, slice(self._count, self._count + self._most)
        if self.path.suffix == SPOOL_SUFFIX:
            store, self._offset = read_spool(self.path, head, self._offset, self._most)
            begun = [] if head is None else [head.initialize]
            initialize = np.concatenate([*begun, store.initialize])
            self.head = dataclasses.replace(store, tables={"initialize": initialize})
            return store.advances
        if head is not None and self.path.name.endswith(MERGED_SUFFIX):
            return head.advances[new]
        with opened(self.path) as file:
            if head is None or head.path != self.path or "ended_unix_ns" not in head.metadata:
                self.head = _head(self.path, file)
            return table_rows("advances", dataset(file, "advances", ADVANCES)[new])
