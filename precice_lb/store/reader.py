"""Reading store files, finished or left behind by a kill: every rank of every launch once, by coupled runs."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from pathlib import Path

import numpy as np

from precice_lb.exceptions import StoreError
from precice_lb.store.grouping import group_ranks, group_runs
from precice_lb.store.merged import MergedStore
from precice_lb.store.rank_file import read_rank_file
from precice_lb.store.records import RankFile
from precice_lb.store.schema import MERGED_SUFFIX, is_store_name

__all__ = ["RankFile", "find_stores", "read_runs", "read_store"]

# What two stores of one launch of one rank have in common, wherever they lie and however they were made.
_SAME = ("participant", "rank", "size", "case")
_START = ("started_unix_ns", "started_clock_ns")
# What only some stores say; where both do, it has to be the same.
_WHERE_KNOWN = ("launch", "run", "hostname", "pid")


def find_stores(sources: Iterable[str | Path]) -> list[Path]:
    """Store files among files and directories.

    Parameters
    ----------
    sources : iterable of path
        Store files, or directories that are searched with everything below them.

    Returns
    -------
    list of Path
        Without duplicates, sorted within each directory.

    Raises
    ------
    StoreError
        If a source does not exist or a directory holds no store.
    """
    found: dict[Path, None] = {}
    for source in map(Path, sources):
        if source.is_dir():
            # Links among them are refused where they are opened, so that directories alone are resolved.
            files = [path.parent.resolve() / path.name for path in stores_below(source)]
            if not files:
                raise StoreError(
                    f"{source}: expected a directory with store files (*.h5, *.spool), found none; "
                    "record a run first: python -m precice_lb run SOLVER; or make stores of preCICE's profiling files: "
                    "precice-lb import precice-profiling DIRECTORY --output stores"
                )
        elif source.is_file():
            files = [source.resolve()]
        else:
            raise StoreError(f"{source}: expected a store file or a directory of them, found nothing there")
        found.update(dict.fromkeys(files))
    return list(found)


def has_stores(directory: Path) -> bool:
    """Whether there is any store file below a directory."""
    return any(is_store_name(path.name) for path in directory.rglob("*"))


def stores_below(directory: Path) -> list[Path]:
    """Find the store files below a directory, sorted, by their names: solvers have HDF5 files of their own."""
    return sorted(path for path in directory.rglob("*") if is_store_name(path.name) and path.is_file())


def read_store(path: str | Path) -> RankFile:
    """Read the store file of one rank, with all its tables.

    Parameters
    ----------
    path : path
        The file; it may still be written to, or have been left behind by a kill.

    Returns
    -------
    RankFile
        What it holds up to the last flush.

    Raises
    ------
    StoreError
        If the file is not a store of one rank, is damaged, or has an unknown format version.
    """
    return read_rank_file(Path(path)).loaded()


def read_runs(sources: Iterable[str | Path]) -> list[list[Sequence[RankFile]]]:
    """Read store files and group them to coupled runs; tables stay in the files until they are asked for.

    Parameters
    ----------
    sources : iterable of path
        Store files, or directories that are searched with everything below them.

    Returns
    -------
    list of list of sequence of RankFile
        By coupled run, in the order they started, then by participant, then by rank.

    Raises
    ------
    StoreError
        As in `find_stores` and `read_store`.
    """
    return group_runs(group_ranks(read_stores(sources)))


def read_stores(sources: Iterable[str | Path]) -> list[RankFile]:
    """Return every rank of every launch in store files once, as of `distinct_ranks`; arguments as of `read_runs`."""
    return distinct_ranks(store for path in find_stores(sources) for store in read_file(path))


def read_file(path: Path) -> list[RankFile]:
    """Read all ranks of one store file, whatever kind it is of."""
    return MergedStore(path).stores if path.name.endswith(MERGED_SUFFIX) else [read_rank_file(path)]


def distinct_ranks(stores: Iterable[RankFile]) -> list[RankFile]:
    """Leave out what is given again: of two the one with fewer rows, else the one that is not merged.

    Two stores hold the same rank of the same launch if participant, rank, size, case and start agree to the
    nanosecond, run name, host and process do where both say them, and the calls of ``advance`` that both have took
    equally long. What was imported from preCICE's profiling files is left out where the same rank was recorded in the
    same working directory at the same time.
    """
    kept: dict[Hashable, list[RankFile]] = {}
    for store in stores:
        same = kept.setdefault(_values(store, *_SAME, *_START), [])
        other = next((each for each in same if _agree(store, each) and _rows_agree(store, each)), None)
        if other is None:
            same.append(store)
        elif _worth(other) < _worth(store):
            same[same.index(other)] = store
    once = [store for same in kept.values() for store in same]
    recorded: dict[Hashable, list[RankFile]] = {}
    for store in once:
        if not store.is_imported:
            recorded.setdefault(_values(store, *_SAME, "working_directory"), []).append(store)
    return [
        store
        for store in once
        if not store.is_imported
        or not any(
            _agree(store, each) and _overlap(store, each)
            for each in recorded.get(_values(store, *_SAME, "working_directory"), [])
        )
    ]


def _values(store: RankFile, *names: str) -> Hashable:
    return tuple(store.metadata.get(name) for name in names)


def _agree(first: RankFile, second: RankFile) -> bool:
    """Whether nothing that both say of run, host and process differs."""
    a, b = first.metadata, second.metadata
    return not any(name in a and name in b and a[name] != b[name] for name in _WHERE_KNOWN)


def _overlap(first: RankFile, second: RankFile) -> bool:
    a, b = first.interval_unix_ns, second.interval_unix_ns
    return a[0] <= b[1] and b[0] <= a[1]


def _rows_agree(first: RankFile, second: RankFile) -> bool:
    """Whether all rows that both have are of the same calls; one of them may have been copied while it was written."""
    rows, others = first.advances, second.advances
    count = min(len(rows), len(others))
    rows, others = rows[:count], others[:count]
    # Joined with profiling files, just-in-time mapping has moved from one of the two to the other.
    wall, other_wall = (each["solve_ns"] + each["advance_ns"] for each in (rows, others))
    return np.array_equal(rows["begin_ns"], others["begin_ns"]) and np.array_equal(wall, other_wall)


def _worth(store: RankFile) -> tuple[int, bool]:
    return len(store.advances), store.path.name.endswith(MERGED_SUFFIX)
