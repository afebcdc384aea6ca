"""Where the profiling file of a recorded rank may lie."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from precice_lb.ingest.profiling.find import FOLDER, SUFFIXES
from precice_lb.store.records import RankStore

__all__ = ["moved_candidates", "profile_candidates"]

# A campaign has its stores one directory below what is moved, runs that share a store directory up to three.
_LEVELS = 4


def profile_candidates(store: RankStore, directory: str) -> list[Path]:
    """Where a rank's profiling file should lie: below the solver's working directory, or that of the store."""
    return _files(store, [*_recorded_in(store, directory), _folder(store.directory.parent, directory)])


def moved_candidates(store: RankStore, directory: str) -> list[Path]:
    """Where a rank's profiling file may lie after both it and the store were moved together.

    In each of the next directories above the store, what ends like the place it was written to; the nearest first, and
    of one directory the longest end.
    """
    above = [store.directory, *store.directory.parents][1 : _LEVELS + 1]
    ends = [Path(*old.parts[first:]) for old in _recorded_in(store, directory) for first in range(1, len(old.parts))]
    return _files(store, [place / end for place in above for end in ends])


def _recorded_in(store: RankStore, directory: str) -> list[Path]:
    """Return the folder of profiling files that the solver wrote to, if its working directory is known."""
    working = store.metadata.get("working_directory")
    return [] if working is None else [_folder(Path(working), directory)]


def _folder(base: Path, directory: str) -> Path:
    return Path(os.path.normpath(base / directory / FOLDER))


def _files(store: RankStore, folders: Iterable[Path]) -> list[Path]:
    data = store.metadata
    name = f"{data['participant']}-{data['rank']}-{data['size']}"
    return [folder / f"{name}{suffix}" for folder in dict.fromkeys(folders) for suffix in SUFFIXES]
