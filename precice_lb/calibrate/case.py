"""The copy of a case that one run works on."""

from __future__ import annotations

import fnmatch
import os
import shutil
import stat
from collections.abc import Sequence
from pathlib import Path

__all__ = ["copy_case", "copy_tree"]

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


def copy_case(source: Path, target: Path, without: Path, link: Sequence[str] = ()) -> None:
    """Copy a case directory without caches, stores and results of preCICE, and without the campaign's own directory.

    A symbolic link that points outside the case keeps pointing there; one that points inside points into the copy.
    """
    copy_tree(source, target, link=link, without=without, left_out=LEFT_OUT)
    for place, directories, files in os.walk(target):
        for name in (*directories, *files):
            path = Path(place) / name
            if path.is_symlink():
                _retarget(path, source / path.relative_to(target), source)


def copy_tree(
    source: Path, target: Path, *, link: Sequence[str] = (), without: Path | None = None, left_out: Sequence[str] = ()
) -> None:
    """Copy a tree over another one, with links to its own files and directories where ``link`` says so."""

    def copy(relative: Path) -> None:
        # A case may be read-only; its copy is worked in.
        place = target / relative
        place.mkdir(parents=True, exist_ok=True)
        place.chmod(stat.S_IMODE((source / relative).stat().st_mode) | stat.S_IRWXU)
        for entry in sorted(os.scandir(source / relative), key=lambda entry: entry.name):
            inside = relative / entry.name
            new = target / inside
            if any(fnmatch.fnmatch(entry.name, pattern) for pattern in left_out):
                continue
            if without is not None and Path(entry.path).resolve() == without:
                continue
            if not entry.is_symlink() and any(fnmatch.fnmatch(str(inside), pattern) for pattern in link):
                _clear(new)
                new.symlink_to(entry.path)
            elif entry.is_dir(follow_symlinks=False):
                copy(inside)
            else:
                _clear(new)
                shutil.copy2(entry.path, new, follow_symlinks=False)

    copy(Path())


def _clear(path: Path) -> None:
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.is_dir():
        shutil.rmtree(path)


def _retarget(path: Path, original: Path, source: Path) -> None:
    """Point a relative link that leads out of the case to where it led before it was copied."""
    link = os.readlink(path)
    led = os.path.normpath(original.parent / link)
    if not os.path.isabs(link) and not Path(led).is_relative_to(source):
        path.unlink()
        path.symlink_to(led)
