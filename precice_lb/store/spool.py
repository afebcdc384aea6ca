"""The file of one rank while it runs: one array after the other, each as `numpy.save` writes it.

The first block is the head (metadata and configuration), the names of a block's fields say which table its rows belong
to, and the last block is the end, unless the process was killed. Killed at any byte, everything before the last
complete block is read.
"""

from __future__ import annotations

import errno
import functools
import io
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import StoreError
from precice_lb.store.metadata import METADATA, validate
from precice_lb.store.records import RankStore
from precice_lb.store.schema import FORMAT, FORMAT_VERSION, TABLES

_NAMES = {dtype.names or (name,): name for name, dtype in TABLES.items()}
_TEXTS = ("head", "end")
_MAGIC = np.lib.format.magic(1, 0)


def block(name: str, rows: NDArray[Any]) -> bytes:
    """Make the block with further rows of a table."""
    dtype = TABLES[name]
    return _saved(np.ascontiguousarray(rows, dtype).view(dtype if dtype.names else [(name, dtype)]))


def head_block(metadata: Mapping[str, Any], configuration: str) -> bytes:
    """Make the first block."""
    head = {"format": FORMAT, "format_version": FORMAT_VERSION, "metadata": metadata, "configuration": configuration}
    return _text_block("head", head)


def end_block(metadata: Mapping[str, Any]) -> bytes:
    """Make the last block, with the metadata that are known at the end."""
    return _text_block("end", metadata)


def _text_block(name: str, values: Mapping[str, Any]) -> bytes:
    text = json.dumps(values, default=lambda number: number.item(), allow_nan=False).encode()
    return _saved(np.array([(text,)], [(name, f"S{len(text)}")]))


def _saved(array: NDArray[Any]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


class Spool:
    """A new file, which must not exist, that grows by whole blocks, written by the process that created it only."""

    def __init__(self, path: Path) -> None:
        self._pid = os.getpid()
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        self._identity = self._found()
        self._size = 0

    def append(self, data: bytes) -> None:
        """Write blocks at the end, in place of what an earlier call left incomplete; in a forked child do nothing."""
        if os.getpid() != self._pid:
            return
        # A solver that closes all descriptors it does not know may have this number for a file of its own now.
        if self._found() != self._identity:
            raise OSError(errno.EBADF, "the solver has closed the file")
        view, at = memoryview(data), self._size
        while view:
            done = os.pwrite(self._descriptor, view, at)
            view, at = view[done:], at + done
        self._size = at

    def rewrite(self, data: bytes) -> None:
        """Write other blocks in place of all that is there, which must not be longer."""
        self._size = 0
        self.append(data)

    def close(self) -> None:
        """Close the file, if it is still open."""
        if self._found() == self._identity:
            os.close(self._descriptor)

    def _found(self) -> tuple[int, int] | None:
        """Device and inode behind the descriptor; None if it is closed."""
        try:
            status = os.fstat(self._descriptor)
        except OSError:
            return None
        return status.st_dev, status.st_ino


def read_blocks(file: BinaryIO) -> Iterator[tuple[str, NDArray[Any]]]:
    """Read complete blocks from where the file stands: ``head`` and ``end`` as text, else the name of a table."""
    while (array := _read_array(file)) is not None:
        names = array.dtype.names or ()
        if names in _NAMES:
            name = _NAMES[names]
            yield name, array.view(TABLES[name]) if array.dtype != TABLES[name] else array
        # What a later version adds is passed over.
        elif len(names) == 1 and names[0] in _TEXTS:
            yield names[0], array[names[0]]


def _read_array(file: BinaryIO) -> NDArray[Any] | None:
    """Read what `numpy.save` wrote; None where it is not there to its end."""
    start = file.read(10)
    if len(start) < 10 or not start.startswith(_MAGIC):
        return None
    header = file.read(int.from_bytes(start[8:], "little"))
    if not header.endswith(b"\n"):
        return None
    count, dtype = _shape(start[8:] + header)
    data = file.read(count * dtype.itemsize)
    return np.frombuffer(data, dtype) if len(data) == count * dtype.itemsize else None


@functools.lru_cache(maxsize=256)
def _shape(header: bytes) -> tuple[int, np.dtype[Any]]:
    """Rows and their type; numpy parses the text as Python, which takes longer than reading the rows."""
    shape, _, dtype = np.lib.format.read_array_header_1_0(io.BytesIO(header))
    return shape[0], dtype


def with_text(path: Path, store: RankStore | None, name: str, array: NDArray[Any]) -> RankStore:
    """Take the head or the end of a spool into what was read of it so far."""
    values = json.loads(array[0])
    if name == "head":
        if values.get("format") != FORMAT or values.get("format_version") != FORMAT_VERSION:
            raise StoreError(
                f"expected format {FORMAT!r} in version {FORMAT_VERSION}, found {values.get('format')!r} in version "
                f"{values.get('format_version')}; read it with the version of precice_lb that wrote it or a newer one"
            )
        store, values = RankStore(path, {}, values["configuration"]), values["metadata"]
    store = checked(store)
    known = {key: value for key, value in values.items() if key in METADATA}
    return replace(store, metadata=validate({**store.metadata, **known}, complete=True))


def checked(store: RankStore | None) -> RankStore:
    """Refuse a spool whose head was not read."""
    if store is None:
        raise StoreError("expected a spool with a head, found none; its process ended before it was written")
    return store


def read_spool(path: Path) -> RankStore:
    """Read all complete blocks of a spool."""
    store: RankStore | None = None
    found: dict[str, list[NDArray[Any]]] = {name: [np.empty(0, dtype)] for name, dtype in TABLES.items()}
    with path.open("rb") as file:
        for name, array in read_blocks(file):
            if name in TABLES:
                found[name].append(array)
            else:
                store = with_text(path, store, name, array)
    return replace(checked(store), tables={name: np.concatenate(arrays) for name, arrays in found.items()})
