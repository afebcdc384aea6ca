"""The copy of a case that one run works on."""

from __future__ import annotations

import fnmatch
import os
import shutil
import stat
from pathlib import Path

__all__ = ["copy_case"]

# Left behind: what runs write and would only mislead or slow down the next one.
LEFT_OUT = (
    "__pycache__",
    "*.pyc",
    ".git",
    ".venv",
    ".*_cache",
    "precice-run",
    "precice-profiling",
    "precice-exports",
    "precice-lb-store",
    "precice-*-iterations.log",
    "precice-*-convergence.log",
    "precice-*-watchpoint-*.log",
)


def copy_case(source: Path, target: Path, without: Path) -> None:
    """Copy a case directory without caches, stores and results of preCICE, and without the campaign's own directory.

    A symbolic link that points outside the case keeps pointing there; one that points inside points into the copy.

    Parameters
    ----------
    source
        The case, absolute.
    target
        The copy, which must not exist yet.
    without
        Directory of the campaign, left out where it lies inside the case.

    Raises
    ------
    OSError
        When a file cannot be read or written.
    """

    def ignore(directory: str, names: list[str]) -> set[str]:
        inside = {name for name in names if (Path(directory) / name).resolve() == without}
        return inside | {name for name in names if any(fnmatch.fnmatch(name, pattern) for pattern in LEFT_OUT)}

    shutil.copytree(source, target, symlinks=True, ignore=ignore)
    for place, directories, files in os.walk(target):
        # A case may be read-only; its copy is worked in.
        os.chmod(place, os.stat(place).st_mode | stat.S_IRWXU)
        for name in (*directories, *files):
            path = Path(place) / name
            if path.is_symlink():
                _retarget(path, source / path.relative_to(target), source)


def _retarget(path: Path, original: Path, source: Path) -> None:
    """Point a relative link that leads out of the case to where it led before it was copied."""
    link = os.readlink(path)
    led = os.path.normpath(original.parent / link)
    if not os.path.isabs(link) and not Path(led).is_relative_to(source):
        path.unlink()
        path.symlink_to(led)
