"""Telling runs apart: repeats of one split have the same ranks and so, unless somebody named them, one name."""

from __future__ import annotations

import os.path
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

__all__ = ["common_directory", "distinct_names"]

# Longer directories are no help in a table.
_LONGEST = 40


def common_directory(directories: Iterable[Path]) -> Path:
    """Find the innermost directory that holds all of some, at least one; all absolute."""
    return Path(os.path.commonpath(list(directories)))


def distinct_names(names: Sequence[str], directories: Sequence[Path | None]) -> list[str]:
    """Add to names that occur more than once the part of the runs' directories that differs, or a number."""
    groups: dict[str, list[int]] = defaultdict(list)
    for at, name in enumerate(names):
        groups[name].append(at)
    found = list(names)
    for name, places in groups.items():
        if len(places) == 1:
            continue
        parts = _differing([directories[at] for at in places])
        for number, at in enumerate(places):
            found[at] = f"{name} ({parts[number]})" if parts else f"{name} #{number + 1}"
    return found


def _differing(directories: Sequence[Path | None]) -> list[str]:
    """Give what differs between paths, without what they begin and end with; nothing where that is no name of each."""
    known = [directory for directory in directories if directory is not None]
    if len(known) < len(directories):
        return []
    root = common_directory(known)
    parts = [directory.relative_to(root).parts for directory in known]
    while all(len(each) > 1 for each in parts) and len({each[-1] for each in parts}) == 1:
        parts = [each[:-1] for each in parts]
    names = ["/".join(each) for each in parts]
    if len(set(names)) < len(names) or not all(0 < len(each) <= _LONGEST for each in names):
        return []
    return names
