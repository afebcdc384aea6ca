"""Reading store files, finished or left behind by a kill."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from precice_lb.exceptions import StoreError
from precice_lb.store.distinct import distinct_ranks
from precice_lb.store.groups import group_ranks, group_runs
from precice_lb.store.merged import MergedStore
from precice_lb.store.rank_file import read_rank_file
from precice_lb.store.records import RankStore
from precice_lb.store.schema import MERGED_SUFFIX, is_store_name

__all__ = [
    "RankStore",
    "find_stores",
    "read_runs",
    "read_store",
    "read_stores",
]


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
            files = stores_below(source)
            if not files:
                raise StoreError(
                    f"{source}: expected a directory with store files (*.h5, *.spool), found none; "
                    "record a run first: python -m precice_lb run SOLVER"
                )
        elif source.is_file():
            files = [source]
        else:
            raise StoreError(f"{source}: expected a store file or a directory of them, found nothing there")
        found.update(dict.fromkeys(path.resolve() for path in files))
    return list(found)


def has_stores(directory: Path) -> bool:
    """Whether there is any store file below a directory."""
    return any(is_store_name(path.name) for path in directory.rglob("*"))


def stores_below(directory: Path) -> list[Path]:
    """Find the store files below a directory, sorted, by their names: solvers have HDF5 files of their own."""
    return sorted(path for path in directory.rglob("*") if is_store_name(path.name) and path.is_file())


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
    return read_rank_file(Path(path))


def read_runs(sources: Iterable[str | Path], *, rows: bool = True) -> list[list[Sequence[RankStore]]]:
    """Read store files and group them to coupled runs.

    Parameters
    ----------
    sources : iterable of path
        Store files, or directories that are searched with everything below them.
    rows : bool
        False leaves the rows of ``advance`` in the files until they are asked for.

    Returns
    -------
    list of list of sequence of RankStore
        By coupled run, in the order they started, then by participant, then by rank.

    Raises
    ------
    StoreError
        As in `find_stores` and `read_store`.
    """
    return group_runs(group_ranks(read_stores(sources, rows=rows)))


def read_stores(sources: Iterable[str | Path], *, rows: bool = True) -> list[RankStore]:
    """Read store files, those of one rank and merged ones.

    Parameters
    ----------
    sources : iterable of path
        Store files, or directories that are searched with everything below them.
    rows : bool
        As of `read_runs`.

    Returns
    -------
    list of RankStore
        Every rank of every launch once, as `precice_lb.store.distinct.distinct_ranks` says: a run counts once that was
        imported twice, copied, or is there both merged and in the ranks' own files.

    Raises
    ------
    StoreError
        As in `find_stores` and `read_store`.
    """
    return distinct_ranks(store for path in find_stores(sources) for store in read_file(path, rows=rows))


def keeps_meshes(path: Path) -> bool:
    """Whether a store file says anything about meshes, soon seen where it does not."""
    return any(len(store.meshes().rows) for store in read_file(path, rows=False))


def read_file(path: Path, *, rows: bool = True) -> list[RankStore]:
    """Read all ranks of one store file, whatever kind it is of; ``rows`` as of `read_runs`."""
    if path.name.endswith(MERGED_SUFFIX):
        return MergedStore(path).stores
    return [read_rank_file(path) if rows else read_rank_file(path, ("initialize",))]
