"""Files that several processes share: given their names once complete and on the disk, and locked by one at a time."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from typing import IO


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


def lock(path: Path, seconds: float = 0.0) -> IO[str]:
    """Open a file and hold its lock until it is closed; `BlockingIOError` if another process does for so long."""
    deadline = time.monotonic() + seconds
    file = path.open("a+", encoding="utf-8")
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if not isinstance(error, BlockingIOError) or time.monotonic() >= deadline:
                file.close()
                raise
            time.sleep(0.1)
        else:
            return file
