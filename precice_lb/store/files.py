"""Writing a file: bringing it to the disk, and giving it its name once complete, so that nobody sees a part of it."""

from __future__ import annotations

import contextlib
import io
import os
from pathlib import Path

__all__ = ["DraftFile", "publish", "sync"]


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


def sync(path: Path) -> None:
    """Bring a file or a directory to the disk, where the system can do that."""
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


class DraftFile(io.FileIO):
    """A file for h5py's file-object driver, which never fails; it must not exist.

    HDF5 cannot get rid of a file it can no longer write: flushing and closing fail again and again, and the process
    crashes when the library is unloaded (HDF5 2.0, disk full: segmentation fault). Here the first error is kept instead
    of raised.
    """

    # The first error of a write; nothing that is written after it counts.
    failure: OSError | None = None

    def __init__(self, path: str) -> None:
        super().__init__(path, "xb+")

    def write(self, data: memoryview) -> int:  # type: ignore[override]
        """Write all of the data, unless a write has failed."""
        view = memoryview(data).cast("B")
        while view and self.failure is None:
            try:
                view = view[super().write(view) :]
            except OSError as error:
                self.failure = error
        return len(data)

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Read; what was never written reads as zeros."""
        view = memoryview(buffer).cast("B")
        count = super().readinto(view) or 0
        view[count:] = bytes(len(view) - count)
        return len(view)

    def truncate(self, size: int | None = None) -> int:
        """Set the length, unless a write has failed."""
        if self.failure is None:
            try:
                return super().truncate(size)
            except OSError as error:
                self.failure = error
        return size or 0
