"""Giving a complete file its name, so that no reader ever sees a part of it and nothing is overwritten."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

__all__ = ["publish", "sync"]


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
