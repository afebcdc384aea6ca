"""Reading store files, finished or left behind by a kill."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from precice_lb.exceptions import StoreError
from precice_lb.store.columns import RankColumns, aligned_columns
from precice_lb.store.groups import group_ranks, group_runs
from precice_lb.store.parts import read_part
from precice_lb.store.records import RankStore
from precice_lb.store.schema import SUFFIX

__all__ = ["RankColumns", "RankStore", "aligned_columns", "find_stores", "read_runs", "read_store"]


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
            files = sorted(
                path for path in source.rglob(f"*{SUFFIX}") if not path.name.startswith(".") and path.is_file()
            )
            if not files:
                raise StoreError(
                    f"{source}: expected a directory with store files (*{SUFFIX}), found none; "
                    "record a run first: python -m precice_lb run SOLVER"
                )
        elif source.is_file():
            files = [source]
        else:
            raise StoreError(f"{source}: expected a store file or a directory of them, found nothing there")
        found.update(dict.fromkeys(path.resolve() for path in files))
    return list(found)


def read_store(path: str | Path) -> RankStore:
    """Read the store file of one rank.

    Parameters
    ----------
    path : path
        The file; it may still be written to, or have been left behind by a kill.

    Returns
    -------
    RankStore
        What it holds up to the last flush.

    Raises
    ------
    StoreError
        If the file is not a store of one rank, is damaged, or has an unknown format version.
    """
    return read_part(Path(path))


def read_runs(sources: Iterable[str | Path]) -> list[list[Sequence[RankStore]]]:
    """Read store files and group them to coupled runs.

    Parameters
    ----------
    sources : iterable of path
        Store files, or directories that are searched with everything below them.

    Returns
    -------
    list of list of sequence of RankStore
        By coupled run, in the order they started, then by participant, then by rank.

    Raises
    ------
    StoreError
        As in `find_stores` and `read_store`.
    """
    return group_runs(group_ranks(read_store(path) for path in find_stores(sources)))
