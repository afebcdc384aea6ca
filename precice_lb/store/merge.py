"""Merging the files of a participant's ranks into one.

The merged file is written under a hidden name, brought to the disk, and read back: HDF5 compares the checksums of all
of it, and the calls of every rank are compared with those of the rank's own file. Then it gets its name, and only then
the ranks' files are removed. A merge that is interrupted leaves either all of them, or a complete merged file and some
of them: the next merge goes on from there, and reading counts no rank twice.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, TypeAlias

from precice_lb.exceptions import StoreError
from precice_lb.store.combine import MergedWriter
from precice_lb.store.files import lock, publish, sync
from precice_lb.store.merged import MergedStore
from precice_lb.store.rank_file import read_rank_file, writing_problem
from precice_lb.store.reader import distinct_ranks, find_stores, group_ranks, holds
from precice_lb.store.records import Complete, RankStore
from precice_lb.store.schema import MERGED_SUFFIX, TABLES, merged_filename, store_directory

__all__ = ["merge_stores"]

_LOCK_NAME = ".precice-lb-merge.lock"
_DRAFT_SUFFIX = ".draft"
_DRAFT_SECONDS = 3600.0
_NO_LOCKS = (errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK)
_State: TypeAlias = tuple[int, int, int]


def merge_stores(
    directory: str | Path, *, complete: Complete | None = None, remove: bool = True, force: bool = False
) -> list[Path]:
    """Merge the stores below a directory into one file per participant and run.

    Parameters
    ----------
    directory : path
        Searched with everything below it; each store directory is merged on its own, and nothing above is touched.
    complete : callable, optional
        Adds what was measured beside the stores before they are merged. It is called with some ranks at a time.
    remove : bool
        Whether the ranks' own files are removed once the merged file has been read back.
    force : bool
        Whether to merge what looks as if it were still being written.

    Returns
    -------
    list of Path
        The merged files written now, and those of an interrupted merge that was completed.

    Raises
    ------
    StoreError
        If there is no store, one cannot be read or is still being written, another merge works in the same directory,
        or a merged file does not hold what the rank files held. Whatever else could be merged has been.
    """
    if not Path(directory).is_dir():
        raise StoreError(f"{directory}: expected a directory with store files, found none there")
    root = Path(directory).resolve()
    places: dict[Path, list[Path]] = {}
    for path in find_stores([root]):
        places.setdefault(root if path.parent == root else store_directory(path), []).append(path)
    merged: list[Path] = []
    refused: list[str] = []
    for place, files in places.items():
        try:
            with _lock(place) as held:
                if held is not None:
                    _sweep(place)
                _merge_directory(place, files, complete, remove, force, merged, refused)
        except StoreError as error:
            refused.append(str(error))
        except OSError as error:
            refused.append(
                f"{place}: expected a directory that can be written to, found {error}; no rank file was removed"
            )
    if refused:
        more = f" (and {len(refused) - 1} more such problems)" if len(refused) > 1 else ""
        raise StoreError(f"{refused[0]}{more}")
    return merged


def _merge_directory(
    place: Path,
    files: Sequence[Path],
    complete: Complete | None,
    remove: bool,
    force: bool,
    merged: list[Path],
    refused: list[str],
) -> None:
    """Merge one store directory; say what was merged and what was refused."""
    states = {path: _state(path) for path in files if not path.name.endswith(MERGED_SUFFIX) and path.exists()}
    stores = [read_rank_file(path, ("initialize",)) for path in states]
    # What an earlier merge did not come to.
    for path in files:
        if path.name.endswith(MERGED_SUFFIX):
            ended = [store for store in stores if force or writing_problem(store) is None]
            held = _held(path, ended)
            if held:
                merged.append(path)
                stores = [store for store in stores if store.path not in held]
                if remove:
                    _remove(place, held, states)
    for group in group_ranks(distinct_ranks(stores)):
        problem = None if force else next(filter(None, map(writing_problem, group)), None)
        try:
            if problem is not None:
                raise StoreError(
                    f"{group[0].path}: expected participant {group[0].metadata['participant']!r} to have ended, found "
                    f"that {problem}; merge when the run has ended, or with --force if you know that it is over"
                )
            target = _merge_group(place, group, states, complete)
            merged.append(target)
            if remove:
                _remove(place, _held(target, stores), states)
        except StoreError as error:
            refused.append(str(error))


def _held(path: Path, stores: Sequence[RankStore]) -> set[Path]:
    """Find the ranks' files that hold no call of ``advance`` that is not in a merged file, too."""
    by_rank: dict[int, list[RankStore]] = {}
    for store in stores:
        by_rank.setdefault(store.metadata["rank"], []).append(store)
    found: set[Path] = set()
    merged = MergedStore(path)
    try:
        for first in range(0, len(merged.index), merged.block_ranks):
            block = merged.stores[first : first + merged.block_ranks]
            if by_rank.keys().isdisjoint(store.metadata["rank"] for store in block):
                continue
            for store, rows in zip(block, merged.tables(first, first + len(block)), strict=True):
                own = by_rank.get(store.metadata["rank"], [])
                found |= {each.path for each in own if holds(store.having(advances=rows), each)}
    finally:
        merged.close()
    return found


def _merge_group(
    place: Path, group: Sequence[RankStore], states: Mapping[Path, _State], complete: Complete | None
) -> Path:
    """Merge the ranks of one participant, whose files were in some state before they were first read."""
    data = group[0].metadata
    number = max(store.metadata["attempt"] for store in group)
    while (target := place / merged_filename(data["participant"], data["size"], number)).exists():
        number += 1
    draft = place / f".{target.name}.{os.getpid()}{_DRAFT_SUFFIX}"
    try:
        writer = MergedWriter(draft, len(group[0].advances))
        try:
            for first in range(0, len(group), writer.block_ranks):
                block = [
                    read_rank_file(store.path, tuple(TABLES)) for store in group[first : first + writer.block_ranks]
                ]
                writer.add(block if complete is None else complete(block))
            writer.close()
        finally:
            writer.abandon()
        changed = [store.path for store in group if not store.path.exists() or _state(store.path) != states[store.path]]
        if changed:
            raise StoreError(
                f"{changed[0]}: expected a store that nobody writes to, found it changed while it was merged; "
                "merge when the run has ended"
            )
        _verify(draft, target, group)
        if not publish(draft, target):
            raise StoreError(f"{target}: expected no such file yet, found one; merge again")
        sync(place)
    finally:
        draft.unlink(missing_ok=True)
    return target


def _verify(draft: Path, target: Path, group: Sequence[RankStore]) -> None:
    """Read a merged file back, and compare it with the ranks' own files."""
    merged = MergedStore(draft)
    try:
        merged.check()
        held = _held(draft, group)
        found = ", ".join(store.path.name for store in group if store.path not in held)
    except (OSError, RuntimeError) as error:
        found = str(error).splitlines()[0]
    finally:
        merged.close()
    if found:
        raise StoreError(
            f"{target}: expected the file to hold what the rank files hold when it is read back, found another content "
            f"({found}); the rank files are kept: look at the disk and merge again"
        )


def _remove(place: Path, files: set[Path], states: Mapping[Path, _State]) -> None:
    """Remove files that are still what was merged, and directories that are empty then."""
    for path in sorted(files):
        with contextlib.suppress(FileNotFoundError):
            if _state(path) == states[path]:
                path.unlink()
    for directory in {path.parent for path in files} - {place}:
        with contextlib.suppress(OSError):
            directory.rmdir()


def _state(path: Path) -> _State:
    """Tell what changes when a file is written to."""
    found = path.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns


def _sweep(place: Path) -> None:
    """Remove what killed merges and recorders left half made; only the holder of the lock may."""
    for path in place.glob(f".*{MERGED_SUFFIX}.*{_DRAFT_SUFFIX}"):
        path.unlink(missing_ok=True)
    for path in (*place.glob("*/.*.h5.*"), *place.glob("*/.*.spool.*")):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > _DRAFT_SECONDS:
                path.unlink()


def _lock(place: Path) -> contextlib.AbstractContextManager[IO[str] | None]:
    """Hold the directory's lock; None where there are no locks."""
    try:
        return lock(place / _LOCK_NAME)
    except BlockingIOError:
        raise StoreError(
            f"{place}: expected to be the only merge in this directory, found another at work; wait until it has ended"
        ) from None
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        return contextlib.nullcontext()
