"""Copies of a case: what is copied, linked and left out."""

from __future__ import annotations

import fnmatch
import os
import shutil
import stat
from collections.abc import Collection, Sequence
from pathlib import Path

from precice_lb.calibrate.state import STATE_FILE
from precice_lb.calibrate.study import Study

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


def copy_of_case(study: Study, target: Path, directory: Path) -> None:
    """Copy the case of a study, in the developed state that it names, without caches and what earlier runs wrote.

    ``directory`` is the campaign's own, which may lie in the case, as others' may.
    """
    case = study.case_directory
    copy_tree(case, target, link=study.case.link, without=directory, left_out=LEFT_OUT)
    if study.restart_path is not None:
        copy_tree(study.restart_path, target, link=study.case.link)


def copy_tree(
    source: Path,
    target: Path,
    *,
    link: Sequence[str] = (),
    without: Path | None = None,
    left_out: Sequence[str] = (),
    only: Collection[Path] | None = None,
) -> None:
    """Copy a tree over another one, with links to its own files and directories where ``link`` says so.

    With ``only`` these paths of it, and what is below them, are copied and nothing else. A symbolic link that points
    outside of the tree keeps pointing there; one that points inside points into the copy.
    """

    def copy(relative: Path) -> None:
        # A case may be read-only; its copy is worked in.
        place = target / relative
        place.mkdir(parents=True, exist_ok=True)
        place.chmod(stat.S_IMODE((source / relative).stat().st_mode) | stat.S_IRWXU)
        for entry in sorted(os.scandir(source / relative), key=lambda entry: entry.name):
            inside = relative / entry.name
            new = target / inside
            if any(fnmatch.fnmatch(entry.name, pattern) for pattern in left_out) or not wanted(inside):
                continue
            if without is not None and (
                Path(entry.path).resolve() == without or (source / inside / STATE_FILE).exists()
            ):
                continue
            if entry.is_dir(follow_symlinks=False) and not linked(inside):
                copy(inside)
                continue
            _clear(new)
            if entry.is_symlink():
                new.symlink_to(_led(entry, source))
            elif linked(inside):
                new.symlink_to(entry.path)
            else:
                shutil.copy2(entry.path, new)

    above = set() if only is None else {parent for path in only for parent in path.parents}

    def wanted(path: Path) -> bool:
        return only is None or path in above or any(each in only for each in (path, *path.parents))

    def linked(path: Path) -> bool:
        return any(fnmatch.fnmatch(str(path), pattern) for pattern in link)

    copy(Path())


def _clear(path: Path) -> None:
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.is_dir():
        shutil.rmtree(path)


def _led(entry: os.DirEntry[str], source: Path) -> str:
    """Where a copy of a link has to point; a relative one that leads out of the tree to where it led before."""
    link = os.readlink(entry)
    led = os.path.normpath(Path(entry.path).parent / link)
    return link if os.path.isabs(link) or Path(led).is_relative_to(source) else led
