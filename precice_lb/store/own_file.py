"""A new file that only the process that created it writes to, and only while it is that file."""

from __future__ import annotations

import errno
import os
from pathlib import Path

__all__ = ["OwnFile"]


class OwnFile:
    """A file by its descriptor, which a solver may close and the system may then give to another file.

    Parameters
    ----------
    path : Path
        Where it is created; it must not exist.

    Attributes
    ----------
    descriptor : int
        Open for reading and writing.

    Raises
    ------
    OSError
        If the file cannot be created.
    """

    def __init__(self, path: Path) -> None:
        self._pid = os.getpid()
        self.descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        self._identity = self._found()

    @property
    def in_child(self) -> bool:
        """Whether this is a forked child, which shares the descriptor and must leave the file alone."""
        return os.getpid() != self._pid

    def check(self) -> None:
        """See that the descriptor is still the file's.

        Raises
        ------
        OSError
            If it is not.
        """
        # A solver that closes all descriptors it does not know may have this number for a file of its own now.
        if self._found() != self._identity:
            raise OSError(errno.EBADF, "the solver has closed the file")

    def write(self, address: int, data: bytes) -> None:
        """Write all of some bytes.

        Parameters
        ----------
        address : int
            Where, in bytes from the beginning.
        data : bytes
            What.

        Raises
        ------
        OSError
            If they cannot be written.
        """
        view = memoryview(data)
        while view:
            done = os.pwrite(self.descriptor, view, address)
            view, address = view[done:], address + done

    def close(self) -> None:
        """Close the file, if it is still open."""
        if self._found() == self._identity:
            os.close(self.descriptor)

    def _found(self) -> tuple[int, int] | None:
        """Device and inode behind the descriptor; None if it is closed."""
        try:
            status = os.fstat(self.descriptor)
        except OSError:
            return None
        return status.st_dev, status.st_ino
