"""The file of one rank that has ended, as HDF5; reading that or its spool, also while it is written.

HDF5 makes it in memory, and never touches a file of a solver: a write that fails there ends the process.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import functools
import io
import json
import math
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import h5py
import numpy as np

from precice_lb.exceptions import StoreError
from precice_lb.store.columns import ADVANCES, INITIALIZE, NOT_MEASURED, TABLES, Rows, Tables, Values
from precice_lb.store.records import RankFile, check_type, in_order, table_rows
from precice_lb.store.schema import (
    FORMAT,
    FORMAT_VERSION,
    METADATA,
    SPOOL_SUFFIX,
    SUFFIX,
    decode,
    encode,
    refuse_link,
    validate,
)
from precice_lb.store.spool import checked, read_blocks, read_spool, with_text

_ALWAYS = ("advances", "initialize")
# A recorder writes at the latest every so many windows.
_FLUSH_WINDOWS = 64
_QUIET_SECONDS = 3600.0
_CLOCK_TOLERANCE_SECONDS = 60.0


def write_hdf5(spool: Path, target: Path) -> None:
    """Write the HDF5 file of a spool, block by block, however long it is.

    HDF5 makes a file without rows, in memory: there its empty places take none. The rows are written into them here.
    """
    store: RankFile | None = None
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
                    table = image.create_dataset(name, (length,), TABLES[name].dtype, dcpl=_placed())
                    table.attrs["units"] = json.dumps(TABLES[name].units)
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


def read_rank_file(path: Path) -> RankFile:
    """Read the file of one rank but for its tables, which are read when asked for."""
    read = functools.partial(_tables, path)
    with told_damage(path):
        place = _place(path)
        if place.suffix == SPOOL_SUFFIX:
            store = read_spool(path)[0]
            store = dataclasses.replace(store, tables=_written(store.tables))
            lazy = RankFile(path, store.metadata, store.configuration, {"initialize": store.initialize}, read)
            # A spool is read whole: nobody has to ask for its rows to know when a killed rank ended.
            vars(lazy)["interval_unix_ns"] = store.interval_unix_ns
            return lazy
        # Without a lock, so that on a network file system a reader never blocks a writer.
        with opened(place, locking=False) as file:
            _check_format(path, file)
            configuration = dataset(file, "configuration", None, 0).asstr(errors="surrogateescape")[()]
            dataset(file, "advances", ADVANCES.least)
            tables = {"initialize": table_rows("initialize", dataset(file, "initialize", INITIALIZE.least)[...])}
            # Ranks have the configuration in common.
            return RankFile(path, validate(metadata_of(file), complete=True), sys.intern(configuration), tables, read)


def _tables(path: Path, names: Sequence[str]) -> Tables:
    """Read those tables that are there; of a spool, all of them."""
    with told_damage(path):
        place = _place(path)
        if place.suffix == SPOOL_SUFFIX:
            return _written(read_spool(path)[0].tables)
        with opened(place, locking=False) as file:
            wanted = {*names, *(TABLES[name].names for name in names)} & set(file)
            return _written({name: table(file, name) for name in wanted})


def _place(path: Path) -> Path:
    """Return where a file is by now: what was a spool when it was found may have become HDF5."""
    hdf5 = path.with_suffix(SUFFIX)
    return hdf5 if path.suffix == SPOOL_SUFFIX and not path.exists() and hdf5.exists() else path


def _written(tables: Tables) -> Tables:
    """Leave out rows that a machine lost when it went down, in files of earlier versions; the others are in order."""
    kept = dict(tables)
    for name, rows in tables.items():
        if name == "advances":
            kept[name] = in_order(rows)
        elif "window" in (rows.dtype.names or ()):
            written = rows["window"] > 0
            if TABLES[name].names:
                written &= rows["name"] < len(tables.get(TABLES[name].names, ()))
            if not written.all():
                kept[name] = rows[written]
    return kept


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


def writing_problem(store: RankFile) -> str | None:
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


_FOREIGN = "leave it out, or import it first if it holds measurements of another format (precice-lb import --help)"
_FILTERS = {h5py.h5z.FILTER_DEFLATE, h5py.h5z.FILTER_SHUFFLE, h5py.h5z.FILTER_FLETCHER32, h5py.h5z.FILTER_SCALEOFFSET}
# Deflate makes at most so many bytes of one (RFC 1951: 258 bytes of two bits).
_INFLATED = 1032
# Of values that are all alike earlier packing leaves so many bytes of a chunk, which is no larger than this.
_LEAST_OF_CHUNK, _LARGEST_CHUNK = 16, 1 << 20
# For chunks that are not there: a file may end before its first rows.
_FREE_BYTES = 1 << 20
# Texts that are read at once: any number of them may be one and the same in the file.
_TEXTS = 256


def opened(path: Path, *, locking: bool | str) -> h5py.File:
    """Open a file for reading, which must not be a link."""
    refuse_link(path)
    return h5py.File(path, "r", locking=locking)


@contextlib.contextmanager
def told_damage(
    path: Path,
    expected: str = "a store written by precice_lb",
    remedy: str = _FOREIGN,
    remedy_within: str = "leave the file out, or copy it anew where it was damaged",
) -> Iterator[None]:
    """Turn whatever a foreign file raises, or one that is damaged within, into one error with its name and a remedy."""
    try:
        yield
    except StoreError as error:
        if str(error).startswith(str(path)):
            raise
        raise StoreError(f"{path}: {error}; {remedy_within}") from error
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise StoreError(
            f"{path}: expected {expected}, found a file that cannot be read as one ({reason}); {remedy}"
        ) from error


def attribute(file: h5py.File, name: str) -> Any:
    """Read a single value; None where there is none."""
    attributes = file.attrs
    if name not in attributes:
        return None
    if attributes.get_id(name).shape != ():
        raise StoreError(f"attribute {name}: expected one value, found an array")
    value = attributes[name]
    return value.item() if isinstance(value, np.generic) else value


def metadata_of(file: h5py.File) -> dict[str, Any]:
    """Read the metadata that are attributes; keys that a later version added are passed over."""
    return {name: decode(name, attribute(file, name)) for name in file.attrs if name in METADATA}


def has(parent: h5py.Group, name: str) -> bool:
    """Whether there is anything of a name, whatever it is."""
    return parent.get(name, getlink=True) is not None


def item(parent: h5py.Group, name: str, kind: type[h5py.Group] | type[h5py.Dataset]) -> Any:
    """Give a group or a dataset that lies in the file itself."""
    link = parent.get(name, getlink=True)
    if link is None:
        raise StoreError(f"expected /{name}, found none")
    if not isinstance(link, h5py.HardLink):
        raise StoreError(f"expected /{name} in the file itself, found a link to elsewhere")
    found = parent[name]
    if not isinstance(found, kind):
        raise StoreError(f"expected /{name} to be a {kind.__name__.lower()}, found a {type(found).__name__.lower()}")
    return found


def dataset(parent: h5py.Group, name: str, dtype: np.dtype[Any] | None, dimensions: int = 1) -> h5py.Dataset:
    """Give a dataset, unread: of a type (or of texts) and a shape that its bytes in the file allow."""
    found = item(parent, name, h5py.Dataset)
    if found.external or found.is_virtual:
        raise StoreError(f"expected the values of /{name} in the file itself, found them said to be elsewhere")
    if found.shape is None or len(found.shape) != dimensions:
        raise StoreError(f"expected /{name} to have {dimensions} dimensions, found shape {found.shape}")
    if dtype is not None:
        check_type(name, found.dtype, dtype)
    elif h5py.check_string_dtype(found.dtype) is None:
        raise StoreError(f"expected texts in /{name}, found {found.dtype}")
    properties = found.id.get_create_plist()
    filters = [properties.get_filter(at)[0] for at in range(properties.get_nfilters())]
    if len(set(filters)) < len(filters) or not set(filters) <= _FILTERS:
        raise StoreError(f"expected /{name} to be packed as stores are, found the filters {filters}")
    stored = min(found.id.get_storage_size(), found.file.id.get_filesize())
    chunk = math.prod(found.chunks or ()) * found.dtype.itemsize
    inflated = _INFLATED if h5py.h5z.FILTER_DEFLATE in filters else 1
    if h5py.h5z.FILTER_SCALEOFFSET in filters:
        inflated *= min(chunk, _LARGEST_CHUNK) // _LEAST_OF_CHUNK
    most = _FREE_BYTES + stored * inflated
    if max(math.prod(found.shape) * found.dtype.itemsize, chunk) > most:
        raise StoreError(f"expected as many values in /{name} as its {stored} bytes hold, found shape {found.shape}")
    return found


def table(file: h5py.File, name: str) -> Values:
    """Read one of `TABLES`; without rows where it is not there."""
    if not has(file, name):
        return TABLES[name].empty()
    return table_rows(name, dataset(file, name, TABLES[name].least)[...])


def texts(file: h5py.File, name: str) -> list[str]:
    """Read texts, which together are no longer than the file."""
    found: list[str] = []
    length, source = 0, dataset(file, name, None)
    for begin in range(0, len(source), _TEXTS):
        found.extend(source.asstr()[begin : begin + _TEXTS])
        length += sum(map(len, found[begin:]))
        if length > file.id.get_filesize():
            raise StoreError(f"expected texts in /{name} of their own, found the same ones many times")
    return found


# Clocks of file systems tick slowly: a file changed less long ago may change again without showing it.
_SETTLED_SECONDS = 2.0


class Filler:
    """Tells what the rows of one rank lack, or makes them, out of another file that grows; this one nothing."""

    def __init__(self) -> None:
        # What it says of the rank besides, and why the file could not be read just now; empty if it could.
        self.metadata: dict[str, Any] = {}
        self.problem = ""

    @property
    def tables(self) -> Tables:
        """Tables that it tells, but calls."""
        return {}

    @property
    def is_replaced(self) -> bool:
        """Whether another run writes to the file by now."""
        return False

    def fill(self, rows: Rows, *, is_last: bool) -> Rows:
        """Take new rows in the order of the calls, and give, each once, those that are known by now.

        With ``is_last`` nobody writes any more: then all are given.
        """
        return rows


class Tail:
    """One rank: what its file says by now, with the rows of the windows that were not forgotten.

    Parameters
    ----------
    source
        Its file; where a spool becomes HDF5, that is read on. Or what is known of a rank whose file does not grow.
    waits
        Makes the filler of a rank whose file does not tell how long it waited.
    filler
        Makes all rows of a rank that was not recorded.
    tables
        Those that are wanted of a spool besides, their latest rows.
    most
        Rows that are read at once: memory stays bounded where a long run is first seen.
    """

    def __init__(
        self,
        source: Path | RankFile,
        waits: Callable[[RankFile], Filler] | None = None,
        filler: Filler | None = None,
        tables: Sequence[str] = (),
        most: int = 4096,
    ) -> None:
        self.path = source if isinstance(source, Path) else source.path
        # Everything but the rows; None as long as the file could not be read.
        self.head = None if isinstance(source, Path) else source
        self.rows = ADVANCES.empty()
        self.has_more = False
        # Whether the recorder has counted its iterations.
        self.is_recorded = filler is None
        self._left = self.head
        self._is_fixed = self.head is not None
        self._waits, self._filler, self._most = waits, filler or Filler(), most
        self._tables = {"initialize", *tables, *(TABLES[name].names for name in tables)}
        self._problem = ""
        self._seen: tuple[Path, int, int] | None = None
        # Rows that were read, and bytes of the blocks of a spool.
        self._count = self._offset = 0

    @property
    def problem(self) -> str:
        """Why the last `read` failed: a file that is just being written to may fail once; empty if it did not."""
        return self._problem or self._filler.problem

    @property
    def is_replaced(self) -> bool:
        """Whether another run writes to its file by now, as solvers without a recorder do."""
        return self._filler.is_replaced

    @property
    def store(self) -> RankFile:
        """The rank with the rows that were not forgotten; only where there is a `head`."""
        assert self.head is not None
        return self.head.having(self._filler.metadata, **self._filler.tables, advances=self.rows)

    @property
    def state(self) -> str:
        """What its writer does: ``running``, ``ended``, or ``stopped`` before the end of the coupling."""
        store = self.store
        if "ended_unix_ns" in store.metadata:
            return "ended" if store.metadata["finished"] else "stopped"
        return "stopped" if writing_problem(store) is None else "running"

    def update(self) -> None:
        """Read what is new, and fill it."""
        rows, head = self.read(), self.head
        if head is None:
            return
        lacks_waits = "timing_source" not in head.metadata and (rows["wait_ns"] == NOT_MEASURED).any()
        if self._waits is not None and lacks_waits:
            self._filler, self._waits = self._waits(head), None
        rows = self._filler.fill(rows, is_last=not self.has_more and self.state != "running")
        if len(rows):
            self.rows = np.concatenate([self.rows, rows])

    def forget(self, window: int) -> None:
        """Drop the rows of all windows before this one."""
        kept = self.rows["window"] >= window
        if not kept.all():
            self.rows = self.rows[kept]

    def read(self) -> Rows:
        """Read what is new in its file since the last call: nothing where that fails, which `problem` then says."""
        if self._is_fixed:
            left, self._left = self._left, None
            return ADVANCES.empty() if left is None else left.advances
        try:
            if self.path.suffix == SPOOL_SUFFIX and not self.path.exists():
                self.path = self.path.with_suffix(SUFFIX)
            status = os.stat(self.path)
            seen = (self.path, status.st_mtime_ns, status.st_size)
            if seen == self._seen and not self.has_more:
                return ADVANCES.empty()
            with told_damage(self.path):
                rows = self._of_spool() if self.path.suffix == SPOOL_SUFFIX else self._of_hdf5()
                written = in_order(rows)
        except (StoreError, OSError) as error:
            self._problem = " ".join(str(error).split())
            return ADVANCES.empty()
        self._problem = ""
        self._seen = seen if time.time() - status.st_mtime > _SETTLED_SECONDS else None
        self._count += len(rows)
        self.has_more = len(rows) >= self._most
        return written

    def _of_spool(self) -> Rows:
        before = {} if self.head is None else self.head.tables
        found, self._offset = read_spool(self.path, self.head, self._offset, self._most)
        tables = {}
        for name in self._tables:
            rows = np.concatenate([before.get(name, found.tables[name][:0]), found.tables[name]])
            tables[name] = rows[-2 * self._most :] if TABLES[name].columns else rows
        self.head = dataclasses.replace(found, tables=tables)
        return found.tables["advances"]

    def _of_hdf5(self) -> Rows:
        self.head = read_rank_file(self.path)
        with opened(self.path, locking=False) as file:
            source = dataset(file, "advances", ADVANCES.least)
            return table_rows("advances", source[self._count : self._count + self._most])
