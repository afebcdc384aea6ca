"""Reading store files, finished or left behind by a kill."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import h5py

from precice_lb.exceptions import StoreError
from precice_lb.store.groups import group_ranks, group_runs
from precice_lb.store.metadata import METADATA, decode, validate
from precice_lb.store.records import RankStore
from precice_lb.store.schema import ADVANCE_DTYPE, FORMAT, FORMAT_VERSION, INITIALIZE_DTYPE, SUFFIX

__all__ = ["RankStore", "find_stores", "read_runs", "read_store"]


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
    """Read one store file.

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
        If the file is not a store, is damaged, or has an unknown format version.
    """
    path = Path(path)
    try:
        # Without a lock a reader on a network file system never blocks the solver that writes.
        with h5py.File(path, "r", locking=False) as file:
            _check_format(path, file)
            advances = file["advances"][...]
            initialize = file["initialize"][...]
            configuration = file["configuration"].asstr()[()]
            metadata = {name: decode(name, file.attrs[name]) for name in METADATA if name in file.attrs}
            validate(metadata, complete=True)
    except (OSError, KeyError, RuntimeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise StoreError(
            f"{path}: expected a store written by precice_lb (HDF5), found a file that cannot be read as one "
            f"({reason}); remove it or record the run again"
        ) from error
    except StoreError as error:
        if str(error).startswith(str(path)):
            raise
        raise StoreError(f"{path}: {error}; remove the file or record the run again") from error
    return RankStore(path, metadata, configuration, advances[advances["window"] > 0], initialize)


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


def _check_format(path: Path, file: h5py.File) -> None:
    """Refuse what is not a store of a known format version."""
    found = file.attrs.get("format")
    if found != FORMAT:
        raise StoreError(
            f"{path}: expected an HDF5 file with attribute format={FORMAT!r}, found {found!r}; "
            "give only files that precice_lb wrote"
        )
    version = file.attrs.get("format_version")
    if version != FORMAT_VERSION:
        raise StoreError(
            f"{path}: expected format version {FORMAT_VERSION}, found {version}; "
            "read it with the version of precice_lb that wrote it or a newer one"
        )
    for name, dtype in (("advances", ADVANCE_DTYPE), ("initialize", INITIALIZE_DTYPE)):
        found_names = file[name].dtype.names
        if found_names != dtype.names:
            raise StoreError(
                f"{path}: expected columns {dtype.names} in /{name}, found {found_names}; the file is damaged"
            )
