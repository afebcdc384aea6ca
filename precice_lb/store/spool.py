"""The file of one rank while it runs: one array after the other, each as `numpy.save` writes it.

Each array, called a block, has one field. Its name says what the block holds: the rows of a table with their columns,
the plain values of a table, or a text. The first block is the text ``head`` (metadata and configuration), the last one
the text ``end``, unless the process was killed. Killed at any byte, everything before the last complete block is read.
"""

from __future__ import annotations

import errno
import functools
import io
import json
import math
import os
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from precice_lb.exceptions import StoreError
from precice_lb.store.columns import TABLES, Rows, Values, encode_names
from precice_lb.store.records import RankFile, table_rows
from precice_lb.store.schema import (
    FORMAT,
    FORMAT_VERSION,
    METADATA,
    SPOOL_SUFFIX,
    check_format,
    refuse_link,
    store_filename,
    validate,
)

_TEXTS = ("head", "end")
_MAGIC = np.lib.format.magic(1, 0)


def _table_block(name: str, rows: Values) -> bytes:
    """Make a block with rows or plain values of a table; columns that the rows lack say "not recorded"."""
    table = TABLES[name]
    typed = table.completed(rows) if table.columns else np.ascontiguousarray(rows, table.dtype)
    return _header(name, table.dtype, len(typed)) + typed.tobytes()


def _text_block(name: str, values: Mapping[str, Any]) -> bytes:
    """Make the first block, ``head``, or one with metadata that are known later: the last ``end`` has the end."""
    text = json.dumps(values, default=lambda number: number.item(), allow_nan=False).encode()
    return _header(name, np.dtype(f"S{len(text)}"), 1) + text


@functools.lru_cache(maxsize=64)
def _header(name: str, dtype: np.dtype[Any], count: int) -> bytes:
    """Return what `numpy.save` writes before the values of a block; making it takes as long as the rest of a flush."""
    descr = np.lib.format.dtype_to_descr(np.dtype([(name, dtype)]))
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": descr, "fortran_order": False, "shape": (count,)})
    return header.getvalue()


def read_blocks(file: BinaryIO) -> Iterator[tuple[str, Values]]:
    """Yield the name and the values of each complete block from the file's position on.

    A table that is not known, and columns that are not known, are passed over.
    """
    while (array := _read_array(file)) is not None:
        names = array.dtype.names or ()
        if len(names) != 1:
            raise StoreError(f"expected blocks with one field, called as their table, found one with {array.dtype}")
        name = names[0]
        values = array[name]
        if values.ndim != 1:
            raise StoreError(f"expected one value in each row of {name}, found an array of shape {values.shape[1:]}")
        if name in TABLES:
            yield name, table_rows(name, values)
        elif name in _TEXTS:
            yield name, values


def _read_array(file: BinaryIO) -> Values | None:
    """Read what `numpy.save` wrote; None where it is not there to its end."""
    start = file.read(10)
    if len(start) < 10 or not start.startswith(_MAGIC):
        return None
    header = file.read(int.from_bytes(start[8:], "little"))
    if not header.endswith(b"\n"):
        return None
    count, dtype = _shape(start[8:] + header)
    size = count * dtype.itemsize
    if size > os.fstat(file.fileno()).st_size - file.tell():
        return None
    data = file.read(size)
    return np.frombuffer(data, dtype) if len(data) == size else None


@functools.lru_cache(maxsize=256)
def _shape(header: bytes) -> tuple[int, np.dtype[Any]]:
    """Rows and their type; numpy parses the text as Python, which takes longer than reading the rows."""
    shape, _, dtype = np.lib.format.read_array_header_1_0(io.BytesIO(header))
    if len(shape) != 1 or shape[0] < 0 or dtype.hasobject:
        raise StoreError(f"expected blocks of rows, found one of {dtype} with shape {shape}")
    return shape[0], dtype


def with_text(path: Path, store: RankFile | None, name: str, array: Values) -> RankFile:
    """Take the head or the end of a spool into what was read of it so far."""
    values = json.loads(array[0])
    if name == "head":
        check_format(values.get("format"), values.get("format_version"))
        if not isinstance(values["configuration"], str):
            raise StoreError(f"expected the text of a configuration, found {values['configuration']!r}")
        store, values = RankFile(path, {}, sys.intern(values["configuration"])), values["metadata"]
    store = checked(store)
    known = {key: value for key, value in values.items() if key in METADATA}
    return replace(store, metadata=validate({**store.metadata, **known}, complete=True))


def checked(store: RankFile | None) -> RankFile:
    """Refuse a spool whose head was not read."""
    if store is None:
        raise StoreError("expected a spool with a head, found none; its process ended before it was written")
    return store


def read_spool(
    path: Path, store: RankFile | None = None, begin: int = 0, most: float = math.inf
) -> tuple[RankFile, int]:
    """Read the complete blocks of a spool from a position on, until they have so many rows of ``advance``.

    ``store`` is what was read before. Also returned is where the last of them ends.
    """
    tables: dict[str, list[Values]] = {name: [table.empty()] for name, table in TABLES.items()}
    refuse_link(path)
    with path.open("rb") as file:
        file.seek(begin)
        for name, array in read_blocks(file):
            begin = file.tell()
            if name not in TABLES:
                store = with_text(path, store, name, array)
                continue
            tables[name].append(array)
            if name == "advances" and sum(map(len, tables[name])) >= most:
                break
    return replace(checked(store), tables={name: np.concatenate(arrays) for name, arrays in tables.items()}), begin


def note_stop(path: Path, why: str) -> None:
    """Complete the spool of a process that was stopped, behind its last complete block."""
    _, end = read_spool(path)
    with path.open("r+b") as file:
        file.truncate(end)
        file.seek(end)
        file.write(_text_block("end", {"stopped": why, "ended_unix_ns": time.time_ns()}))


def publish(draft: Path, target: Path) -> bool:
    """Give a file its name, and the draft's away; False, and the draft stays, if another file has it."""
    try:
        os.link(draft, target)
    except FileExistsError:
        return False
    except OSError:
        # A file system without hard links.
        if target.exists():
            return False
        os.rename(draft, target)
    draft.unlink(missing_ok=True)
    return True


# Whose code the recorder runs; a signal handler is none of theirs.
_RECORDING = frozenset({"precice_lb", "numpy", "h5py", "cyprecice", "precice", "mpi4py", "sklearn", "scipy", "joblib"})


class StoreWriter:
    """The store of one rank, of the first attempt whose name is free: nothing is ever overwritten.

    It grows by whole blocks, written by the process that made it only. ``attempt``, ``finished`` and ``ended_unix_ns``
    are set here; ``keep_spool`` leaves the spool at the end.
    """

    def __init__(
        self, directory: str | Path, metadata: Mapping[str, Any], configuration: str, *, keep_spool: bool = False
    ) -> None:
        self.metadata = validate({**metadata, "attempt": 1, "finished": False}, complete=True)
        self.lacks_h5py = False
        self._directory, self._keep_spool, self._pid = Path(directory), keep_spool, os.getpid()
        self.path = self._free_path()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # The name appears only once the file can be read; whoever comes second takes the next attempt.
        draft = self.path.with_name(f".{self.path.name}.{self._pid}")
        self._descriptor = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        self._identity = os.fstat(self._descriptor)
        head = {"format": FORMAT, "format_version": FORMAT_VERSION, "metadata": self.metadata}
        head["configuration"] = configuration
        try:
            while True:
                # Bytes of complete blocks, and what they hold: one value, so that no exception comes between.
                self._done: tuple[int, Mapping[str, int]] = (0, {})
                self._write(_text_block("head", head))
                if publish(draft, self.path):
                    break
                self.metadata["attempt"] += 1
                self.path = self._free_path()
        except BaseException:
            self.close_spool()
            raise
        finally:
            draft.unlink(missing_ok=True)

    def _write(self, data: bytes, **written: int) -> None:
        """Write blocks at the end, in place of what an earlier call left incomplete; in a forked child do nothing."""
        if os.getpid() != self._pid:
            return
        status = self._status()
        if status is None:
            raise OSError(errno.EBADF, "the solver has closed the file")
        view, end = memoryview(data), self._done[0]
        if status.st_size > end:
            os.ftruncate(self._descriptor, end)
        while view:
            count = os.pwrite(self._descriptor, view, end)
            view, end = view[count:], end + count
        self._done = end, {**self._done[1], **written}

    def _status(self) -> os.stat_result | None:
        """State of the file; None if the solver has closed the descriptor, or its number is another file's by now."""
        try:
            status = os.fstat(self._descriptor)
        except OSError:
            return None
        return status if os.path.samestat(status, self._identity) else None

    def close_spool(self) -> None:
        """Close the file as it is, if it is still open."""
        if self._status() is not None:
            os.close(self._descriptor)

    def write_launch(self, launch: str) -> None:
        """Write the id of the launch to disk, where the head has none."""
        if "launch" not in self.metadata:
            self._write(_text_block("end", {"launch": launch}))
            self.metadata["launch"] = launch

    def append(
        self,
        advances: Rows | None = None,
        names: Mapping[str, Sequence[str]] | None = None,
        once: Mapping[str, int] | None = None,
        **tables: Values,
    ) -> None:
        """Append rows of ``advance`` and of other tables by one system call; those come last, as what counts.

        Rows may lack columns, which then say "not recorded".

        ``names`` are by table all that its rows have counted so far. What was written last under the same word and
        number is not written again.
        """
        done, written = self._done[1], dict(once or {})
        if once and once.items() <= done.items():
            return
        new: dict[str, Values] = {}
        for table, texts in (names or {}).items():
            name = TABLES[table].names
            new[name] = encode_names(name, texts[done.get(name, 0) :])
            written[name] = len(texts)
        rows = {**new, **tables, **({} if advances is None else {"advances": advances})}
        blocks = [_table_block(name, values) for name, values in rows.items() if len(values)]
        self._write(b"".join(blocks), **written)

    def close(self, *, finished: bool, ended_unix_ns: int, keep_spool: bool = False) -> None:
        """Complete the metadata, close the spool, and put an HDF5 store in its place.

        Where that cannot be made, as without h5py, with a full disk, or while the interpreter ends, the spool stays:
        every reader takes both, and ``lacks_h5py`` says whether that is why. An `OSError` says that the spool could not
        be written to the end, or is gone.
        """
        try:
            self.metadata.update(finished=finished, ended_unix_ns=ended_unix_ns)
            self._write(_text_block("end", {"finished": finished, "ended_unix_ns": ended_unix_ns}))
        finally:
            self.close_spool()
        if not self.path.exists():
            raise FileNotFoundError("it was removed during the run")
        if not (keep_spool or self._keep_spool) and _may_load_hdf5():
            self._replace_spool()

    def _replace_spool(self) -> None:
        target = self._hdf5_path()
        draft = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            # h5py tells of other versions of HDF5 than its own, which is not for the solver's user.
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                from precice_lb.store.rank_file import write_hdf5

                write_hdf5(self.path, draft)
            if publish(draft, target):
                self.path.unlink()
                self.path = target
        except Exception as error:
            if raised_elsewhere(error):
                raise
            self.lacks_h5py = getattr(error.__cause__, "name", "") == "h5py"
        finally:
            draft.unlink(missing_ok=True)

    def _hdf5_path(self) -> Path:
        data = self.metadata
        return self._directory / store_filename(data["participant"], data["rank"], data["size"], data["attempt"])

    def _free_path(self) -> Path:
        """Path of the spool of the first attempt, from this one on, that nobody has."""
        while (path := self._hdf5_path()).exists() or path.with_suffix(SPOOL_SUFFIX).exists():
            self.metadata["attempt"] += 1
        return path.with_suffix(SPOOL_SUFFIX)


def _may_load_hdf5() -> bool:
    """Whether h5py does no harm: not while the interpreter ends, and not beside another HDF5 than its own."""
    # Python marks its main thread as stopped before it calls what is to be called at exit. Loaded then, h5py is not
    # unloaded in time, and the process ends with a segmentation fault.
    if not threading.main_thread().is_alive():
        return False
    if "h5py" in sys.modules:
        return True
    try:
        return "libhdf5" not in Path("/proc/self/maps").read_text(errors="replace")
    except OSError:
        return True


def raised_elsewhere(error: BaseException, *packages: str) -> bool:
    """Whether code has raised an exception that recording did not call: a signal handler of the solver.

    ``packages`` are others that it did call.
    """
    frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
    names = {str(frame.f_globals.get("__name__")).partition(".")[0] for frame in frames}
    return not names <= _RECORDING | sys.stdlib_module_names | set(packages)
