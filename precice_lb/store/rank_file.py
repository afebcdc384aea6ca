"""The file of one rank that has ended, as HDF5; reading that or its spool, and following either while it is written.

HDF5 makes it in memory, and never touches a file of a solver: a write that fails there ends the process.
"""

from __future__ import annotations

import dataclasses
import errno
import functools
import io
import json
import os
import platform
import time
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import h5py
import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import StoreError
from precice_lb.store.checks import in_order, table_rows
from precice_lb.store.hdf5 import attribute, dataset, metadata_of, opened, table, told_damage
from precice_lb.store.records import RankStore, Tables
from precice_lb.store.schema import (
    ADVANCE_DTYPE,
    FORMAT,
    FORMAT_VERSION,
    NAMED,
    SPOOL_SUFFIX,
    SUFFIX,
    TABLES,
    UNITS,
    encode,
    refuse_link,
    validate,
)
from precice_lb.store.spool import checked, read_blocks, read_spool, with_text

_ALWAYS = ("advances", "initialize")
_TIMES = (*_ALWAYS, *NAMED, *NAMED.values(), "mpi", "cpu", "meshes")
# Clocks of file systems tick slowly: a file changed less long ago may change again without showing it.
_SETTLED_SECONDS = 2.0
# A recorder writes at the latest every so many windows.
_FLUSH_WINDOWS = 64
_QUIET_SECONDS = 3600.0
_CLOCK_TOLERANCE_SECONDS = 60.0


def write_hdf5(spool: Path, target: Path) -> None:
    """Write the HDF5 file of a spool, block by block, however long it is.

    HDF5 makes a file without rows, in memory: there its empty places take none. The rows are written into them here.
    """
    store: RankStore | None = None
    lengths, places = dict.fromkeys(TABLES, 0), {}
    with spool.open("rb") as source, io.FileIO(os.memfd_create(spool.name), "r+") as memory, target.open("xb") as file:
        for name, array in read_blocks(source):
            if name in TABLES:
                lengths[name] += len(array)
            else:
                store = with_text(spool, store, name, array)
        store = checked(store)
        with h5py.File(memory, "w") as image:
            for name, value in store.metadata.items():
                image.attrs[name] = encode(name, value)
            image.create_dataset("configuration", data=store.configuration, dtype=h5py.string_dtype())
            for name, length in lengths.items():
                if length or name in _ALWAYS:
                    table = image.create_dataset(name, (length,), TABLES[name], dcpl=_placed())
                    table.attrs["units"] = json.dumps({column: UNITS[column] for column in TABLES[name].names or ()})
                    places[name] = table.id.get_offset()
            image.attrs["format"] = FORMAT
            image.attrs["format_version"] = FORMAT_VERSION
        _copy(memory.fileno(), file)
        source.seek(0)
        for name, array in read_blocks(source):
            if name in TABLES and len(array):
                file.seek(places[name])
                file.write(array.view(np.uint8).data)
                places[name] += array.nbytes
        file.flush()
        os.fsync(file.fileno())


def _placed() -> h5py.h5p.PropDCID:
    """Have a table given its place at once, and nothing written there."""
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    properties.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    return properties


def _copy(descriptor: int, file: BinaryIO) -> None:
    """Copy what was written into a file in memory, and its length."""
    end, size = 0, os.fstat(descriptor).st_size
    while end < size:
        try:
            begin = os.lseek(descriptor, end, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            # Nothing more was written.
            break
        end = os.lseek(descriptor, begin, os.SEEK_HOLE)
        file.seek(begin)
        file.write(os.pread(descriptor, end - begin, begin))
    file.truncate(size)


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
            store = _of_hdf5(path, hdf5 if path.suffix == SPOOL_SUFFIX else path, names)
        return dataclasses.replace(store, tables=_written(store.tables))


def _written(tables: Tables) -> Tables:
    """Leave out rows that a machine lost when it went down, in files of earlier versions; the others are in order."""
    kept = dict(tables)
    for name in {"mpi", "cpu", *NAMED} & kept.keys():
        written = kept[name]["window"] > 0
        if name in NAMED:
            written &= kept[name]["name"] < len(kept[NAMED[name]])
        if not written.all():
            kept[name] = kept[name][written]
    if "advances" in kept:
        kept["advances"] = in_order(kept["advances"])
    return kept


def _of_hdf5(path: Path, hdf5: Path, names: Sequence[str]) -> RankStore:
    # Without a lock, so that on a network file system a reader never blocks a writer.
    with opened(hdf5, locking=False) as file:
        _check_format(path, file)
        wanted = {*names, *(NAMED[name] for name in names if name in NAMED)}
        tables = {name: table(file, name) for name in wanted}
        configuration = dataset(file, "configuration", None, 0).asstr(errors="surrogateescape")[()]
        return RankStore(path, validate(metadata_of(file), complete=True), configuration, tables)


def _check_format(path: Path, file: h5py.File) -> None:
    """Refuse what is not a store of a known format version."""
    found = attribute(file, "format")
    if found != FORMAT:
        raise StoreError(
            f"{path}: expected an HDF5 file with attribute format={FORMAT!r}, found {found!r}; "
            "give only files that precice_lb wrote"
        )
    version = attribute(file, "format_version")
    if version != FORMAT_VERSION:
        raise StoreError(
            f"{path}: expected format version {FORMAT_VERSION}, found {version!r}; "
            "read it with the version of precice_lb that wrote it or a newer one"
        )
    for name in _ALWAYS:
        dataset(file, name, TABLES[name])


class StoreTail:
    """Reads the rows of ``advance`` of one rank's store as they appear; where a spool becomes HDF5, that is read on."""

    def __init__(self, path: Path, most: int = 4096) -> None:
        self.path = path
        # Everything but the rows; None as long as the file could not be read.
        self.head: RankStore | None = None
        # How many were read, and whether the file had more: memory stays bounded where a long run is first seen.
        self.rows, self.has_more, self._most = 0, False, most
        # Why the last `read` failed: a file that is just being written to may fail once.
        self.problem = ""
        self._seen: tuple[Path, int, int] | None = None
        # Bytes of the blocks of a spool that were read.
        self._offset = 0

    def read(self) -> NDArray[np.void]:
        """Read what is new since the last call: nothing where the file cannot be read, which `problem` then says."""
        nothing: NDArray[np.void] = np.empty(0, dtype=ADVANCE_DTYPE)
        try:
            if self.path.suffix == SPOOL_SUFFIX and not self.path.exists():
                self.path = self.path.with_suffix(SUFFIX)
            status = os.stat(self.path)
            state = (self.path, status.st_mtime_ns, status.st_size)
            if state == self._seen and not self.has_more:
                return nothing
            with told_damage(self.path):
                rows = self._of_spool() if self.path.suffix == SPOOL_SUFFIX else self._of_hdf5()
                written = in_order(rows)
        except (StoreError, OSError) as error:
            self.problem = " ".join(str(error).split())
            return nothing
        self.problem = ""
        self._seen = state if time.time() - status.st_mtime > _SETTLED_SECONDS else None
        self.rows += len(rows)
        return written

    def _of_spool(self) -> NDArray[np.void]:
        head, found = self.head, [np.empty(0, dtype=ADVANCE_DTYPE)]
        refuse_link(self.path)
        with self.path.open("rb") as file:
            file.seek(self._offset)
            for name, array in read_blocks(file):
                self._offset = file.tell()
                if name == "advances":
                    found.append(array)
                elif name == "initialize":
                    head = checked(head).having(initialize=array)
                elif name in ("guesses", "guess_names"):
                    head = checked(head)
                    latest = None if name == "guess_names" else -2 * self._most
                    head = head.having({}, **{name: np.concatenate([head.tables.get(name, array[:0]), array])[latest:]})
                elif name not in TABLES:
                    head = with_text(self.path, head, name, array)
                self.has_more = sum(map(len, found)) >= self._most
                if self.has_more:
                    break
            else:
                self.has_more = False
        rows = np.concatenate(found)
        self.head = checked(head).having(advances=rows)
        return rows

    def _of_hdf5(self) -> NDArray[np.void]:
        self.head = read_rank_file(self.path, ("initialize",))
        with opened(self.path, locking=False) as file:
            source = dataset(file, "advances", ADVANCE_DTYPE)
            rows: NDArray[np.void] = table_rows("advances", source[self.rows : self.rows + self._most])
            self.has_more = self.rows + len(rows) < len(source)
        return rows


def writing_problem(store: RankStore) -> str | None:
    """Say why the store of a rank may still be written to; None if nobody writes any more.

    A closed store is complete. One that was not closed belongs to a killed run or to a running one: on this host the
    process tells; on another host the run counts as dead once nothing was written for an hour and for four times as
    long as its windows took from one flush to the next.
    """
    data = store.metadata
    if "ended_unix_ns" in data:
        return None
    host, pid = data.get("hostname"), data.get("pid")
    if host == platform.node() and pid is not None:
        return f"process {pid} still runs" if _runs(pid, data["started_unix_ns"] * 1e-9) else None
    quiet = time.time() - os.stat(store.path).st_mtime
    advances = store.advances
    if len(advances):
        recorded = (int(advances["begin_ns"][-1]) - int(advances["begin_ns"][0])) * 1e-9
        quiet_limit = max(_QUIET_SECONDS, 4 * _FLUSH_WINDOWS * recorded / int(advances["window"][-1]))
    else:
        quiet_limit = _QUIET_SECONDS
    if quiet >= quiet_limit:
        return None
    return f"rank {data['rank']} on host {host} did not close it and wrote to it {quiet:.0f} s ago"


def _runs(pid: int, since: float) -> bool:
    """Whether a process that already ran at Unix time ``since`` still does."""
    # A solver, which makes its file here, has no use for it.
    import psutil

    try:
        process = psutil.Process(pid)
        # A zombie is a dead process whose parent has not asked for it; a later start is another process.
        is_dead = process.status() == psutil.STATUS_ZOMBIE
        return not is_dead and bool(process.create_time() <= since + _CLOCK_TOLERANCE_SECONDS)
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True
