"""Recorded data of the tests, unpacked."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

DATA = Path(__file__).parent / "data"


def unpack(archive: str, directory: Path) -> Path:
    """Unpack an archive below tests/data into a new directory, or copy a file or directory; return the new path.

    All files then have been written long ago: a young file without an end is a run that goes on.
    """
    source, target = DATA / archive, directory / Path(archive).stem
    if source.suffix == ".zip":
        shutil.unpack_archive(source, target)
    elif source.is_dir():
        shutil.copytree(source, target)
    else:
        target = Path(shutil.copy(source, directory))
    for path in [target, *target.rglob("*")]:
        os.utime(path, (1.8e9, 1.8e9))
    return target
