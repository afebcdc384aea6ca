"""A file that never fails and is whole at any moment, for HDF5 to write through.

HDF5 cannot get rid of a file it can no longer write: flushing and closing fail again and again, and the process crashes
when the library is unloaded (HDF5 2.0, disk full: segmentation fault). Here the first error is kept instead of
raised and stops all later writes, so that the disk holds what a kill at that moment would have left.

HDF5 also writes references to new parts of a file before it says that the file is longer, and refuses a file left
between the two. Here the writes of a flush are collected and go out in an order that is valid after each of them:
new parts, to which nothing refers yet; the superblock with the new length; changes in place.
"""

from __future__ import annotations

import os
from pathlib import Path

from precice_lb.store.own_file import OwnFile

__all__ = ["GuardedFile"]


class GuardedFile:
    """A new file for h5py's file-object driver.

    Parameters
    ----------
    path : Path
        Where it is created; it must not exist.

    Attributes
    ----------
    failure : BaseException or None
        The first error of a write. A signal handler's exception lands here too, for the caller to raise.

    Raises
    ------
    OSError
        If the file cannot be created.
    """

    def __init__(self, path: Path) -> None:
        self.failure: BaseException | None = None
        self._file = OwnFile(path)
        self._position = 0
        self._size = 0
        self._size_on_disk = 0
        self._pending: list[tuple[int, bytes]] = []

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move as in `io.IOBase.seek`."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = base + offset
        return self._position

    def tell(self) -> int:
        """Return the position in bytes."""
        return self._position

    def read(self, size: int) -> bytes:
        """Read from the position on, with what is yet to go out; what was never written reads as zeros."""
        start, end = self._position, self._position + size
        result = bytearray(size)
        found = os.pread(self._file.descriptor, size, start)
        result[: len(found)] = found
        for offset, data in self._pending:
            first, last = max(start, offset), min(end, offset + len(data))
            if first < last:
                result[first - start : last - start] = data[first - offset : last - offset]
        self._position = end
        return bytes(result)

    def write(self, data: memoryview) -> int:
        """Take data at the position; they go out with the next flush."""
        if self.failure is None:
            self._pending.append((self._position, bytes(data)))
        self._position += len(data)
        self._size = max(self._size, self._position)
        return len(data)

    def truncate(self, size: int | None = None) -> int:
        """Set the length that the file has after the next flush."""
        self._size = self._position if size is None else size
        return self._size

    def flush(self) -> None:
        """Write what was taken since the last flush, or do nothing once that has failed."""
        if self.failure is None and not self._file.in_child:
            try:
                self._commit()
            except BaseException as error:
                self.failure = error
        self._pending.clear()

    def close(self) -> None:
        """Flush and close the file."""
        self.flush()
        self._file.close()

    def _commit(self) -> None:
        self._file.check()
        old = self._size_on_disk
        new_parts: list[tuple[int, bytes]] = []
        superblock: list[tuple[int, bytes]] = []
        in_place: list[tuple[int, bytes]] = []
        for offset, data in self._pending:
            if offset >= old:
                new_parts.append((offset, data))
            elif offset + len(data) > old:
                new_parts.append((old, data[old - offset :]))
                in_place.append((offset, data[: old - offset]))
            else:
                (superblock if offset == 0 else in_place).append((offset, data))
        if self._size > old:
            os.ftruncate(self._file.descriptor, self._size)
        for offset, data in (*new_parts, *superblock, *in_place):
            self._file.write(offset, data)
        if self._size < old:
            os.ftruncate(self._file.descriptor, self._size)
        self._size_on_disk = self._size
