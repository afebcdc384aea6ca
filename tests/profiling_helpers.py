"""Samples of profiling files, laid out as runs leave them."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

DATA = Path(__file__).parent / "data" / "profiling"


def case(directory: Path, run: str) -> Path:
    """Lay out a sample as a run leaves it."""
    folder = directory / "precice-profiling"
    folder.mkdir(parents=True)
    for path in (DATA / run).iterdir():
        shutil.copy(path, folder if path.suffix == ".txt" else directory)
    return directory


def database(directory: Path, run: str) -> Path:
    """Lay out a merged sample with its configuration and logs beside it."""
    directory.mkdir(parents=True)
    path = directory / "profiling.db"
    path.write_bytes(gzip.decompress((DATA / "databases" / f"{run}.db.gz").read_bytes()))
    for other in (DATA / run).iterdir():
        if other.suffix != ".txt":
            shutil.copy(other, directory)
    return path
