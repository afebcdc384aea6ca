"""A file that is written in steps, each of which leaves it whole, and a table in it that grows."""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.store import hdf5, hdf5_messages
from precice_lb.store.own_file import OwnFile

__all__ = ["AppendFile", "Table"]


class AppendFile:
    """A new file that grows at its end and changes in place, in that order.

    The first error stops all writes: the disk holds what a kill at that moment would have left. A forked child leaves
    the file alone.

    Parameters
    ----------
    path : Path
        Where it is created; it must not exist.

    Attributes
    ----------
    size : int
        Bytes, with what `allocate` gave out since the last `commit`.
    failure : BaseException or None
        The first error of a write.

    Raises
    ------
    OSError
        If the file cannot be created.
    """

    def __init__(self, path: Path) -> None:
        self.size = 0
        self.failure: BaseException | None = None
        self._file = OwnFile(path)
        self._size_on_disk = 0
        self._new: list[tuple[int, bytes]] = []
        self._in_place: list[tuple[int, bytes]] = []

    def allocate(self, size: int, data: bytes = b"") -> int:
        """Take new bytes at the end of the file.

        Parameters
        ----------
        size : int
            Bytes.
        data : bytes
            What the first of them hold; the others are zero.

        Returns
        -------
        int
            Their address.
        """
        address = self.size
        self.size += size + -size % 8
        if data:
            self._new.append((address, data))
        return address

    def change(self, address: int, data: bytes) -> None:
        """Write over bytes once all new ones are there, after the changes that were asked for before."""
        self._in_place.append((address, data))

    def replace(self, data: bytes) -> None:
        """Write all that is in the file anew."""
        self.size = len(data)
        self._new = [(0, data)]
        self.commit()

    def commit(self) -> None:
        """Hand everything to the operating system.

        Raises
        ------
        OSError
            If that failed now or before. A signal handler's exception is raised here too.
        """
        if self.failure is None and not self._file.in_child:
            try:
                self._write()
            except BaseException as error:
                self.failure = error
        self._new.clear()
        self._in_place.clear()
        if self.failure is not None:
            raise self.failure

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _write(self) -> None:
        self._file.check()
        if self.size > self._size_on_disk:
            os.ftruncate(self._file.descriptor, self.size)
        grown = [(hdf5.END_OF_FILE, struct.pack("<Q", self.size))] if self.size > self._size_on_disk > 0 else []
        for address, data in [*self._new, *grown, *self._in_place]:
            self._file.write(address, data)
        self._size_on_disk = self.size


class Table:
    """A dataset with one dimension that rows are appended to.

    Parameters
    ----------
    file : AppendFile
        Where it is.
    header : int
        Address of its object header, which begins with `Table.messages`.
    dtype : numpy.dtype
        Of the rows.
    chunk : int
        Rows per chunk.

    Attributes
    ----------
    rows : int
        Rows appended so far.
    """

    def __init__(self, file: AppendFile, header: int, dtype: np.dtype[Any], chunk: int) -> None:
        self.rows = 0
        self._file = file
        self._dtype = dtype
        self._chunk = chunk
        messages = self.messages(dtype, chunk)
        self._rows_at = header + hdf5.HEADER_PREFIX + hdf5.MESSAGE_PREFIX + 8
        before_layout = sum(hdf5.MESSAGE_PREFIX + len(hdf5.padded(data)) for _, data in messages[:-1])
        self._index_at = header + hdf5.HEADER_PREFIX + before_layout + hdf5.MESSAGE_PREFIX + 3
        # Addresses of the last chunk and of the topmost node; per level, from the lowest, address and number of
        # children of the last node.
        self._last = self._top = 0
        self._chunks = 0
        self._path: list[tuple[int, int]] = []

    @staticmethod
    def messages(dtype: np.dtype[Any], chunk: int) -> list[tuple[int, bytes]]:
        """Make the messages that a table without rows has in its header.

        Parameters
        ----------
        dtype : numpy.dtype
            Of the rows.
        chunk : int
            Rows per chunk.

        Returns
        -------
        list of (int, bytes)
            For `hdf5.object_header`; more may follow them.
        """
        return [
            (hdf5_messages.DATASPACE, hdf5_messages.dataspace(0)),
            (hdf5_messages.DATATYPE, hdf5_messages.datatype(dtype)),
            (hdf5_messages.FILL_VALUE, hdf5_messages.fill_value()),
            (hdf5_messages.LAYOUT, hdf5_messages.chunked_layout(hdf5.UNDEFINED, chunk, dtype.itemsize)),
        ]

    def append(self, rows: NDArray[Any]) -> None:
        """Append rows, with the file's next `AppendFile.commit`.

        Parameters
        ----------
        rows : ndarray of the table's dtype, shape (n,)
        """
        data = memoryview(rows.astype(self._dtype, copy=False).tobytes())
        size = self._dtype.itemsize
        pieces = []
        while data:
            position = self.rows % self._chunk
            if position == 0:
                self._last = self._file.allocate(self._chunk * size)
                self._add(self._last)
            count = min(self._chunk - position, len(data) // size)
            pieces.append((self._last + position * size, bytes(data[: count * size])))
            data = data[count * size :]
            self.rows += count
        for address, piece in pieces:
            self._file.change(address, piece)
        if pieces:
            self._file.change(self._rows_at, struct.pack("<Q", self.rows))

    def _add(self, child: int) -> None:
        """Take a chunk into the index: on the lowest level whose last node has room, nodes below it are new."""
        level = 0
        while level < len(self._path) and self._path[level][1] == hdf5.CHILDREN:
            left = self._path[level][0]
            child = self._node(level, self._chunks, [child], left)
            self._file.change(left + hdf5.NODE_RIGHT, struct.pack("<Q", child))
            level += 1
        if level == len(self._path):
            self._path.append((0, 0))
            self._top = self._node(level, 0, [child] if level == 0 else [self._top, child])
            self._file.change(self._index_at, struct.pack("<Q", self._top))
        else:
            address, count = self._path[level]
            self._file.change(address + hdf5.node_child(count), struct.pack("<Q", child))
            self._file.change(address + hdf5.NODE_COUNT, struct.pack("<H", count + 1))
            self._path[level] = (address, count + 1)
        self._chunks += 1

    def _node(self, level: int, first: int, children: Sequence[int], left: int = hdf5.UNDEFINED) -> int:
        data = hdf5.node(level, first, children, self._chunk, self._chunk * self._dtype.itemsize, left)
        address = self._file.allocate(len(data), data)
        self._path[level] = (address, len(children))
        return address
