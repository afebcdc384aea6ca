"""Merging the files of a participant's ranks into one.

The merged file is written under a hidden name, brought to the disk, read back and compared with what was read from the
parts; then it gets its name, and only then the parts are removed. A merge that is interrupted leaves either all parts,
or a complete merged file and some of the parts: the next merge goes on from there, and reading counts no rank twice.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from precice_lb.exceptions import StoreError
from precice_lb.store.combine import MergedWriter
from precice_lb.store.digest import content_digest
from precice_lb.store.groups import group_ranks
from precice_lb.store.liveness import writing_problem
from precice_lb.store.merged import MergedStore
from precice_lb.store.parts import read_part, read_tables
from precice_lb.store.reader import find_stores
from precice_lb.store.records import RankStore
from precice_lb.store.schema import MERGED_SUFFIX, merged_filename, store_directory

__all__ = ["Complete", "merge_stores"]

Complete: TypeAlias = Callable[[Sequence[RankStore]], Sequence[RankStore]]
"""Takes some ranks of one participant, returns the same ranks with what was measured beside the store."""

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
        Searched with everything below it; each store directory is merged on its own.
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
        or a merged file does not hold what its parts held. Whatever else could be merged has been.
    """
    if not Path(directory).is_dir():
        raise StoreError(f"{directory}: expected a directory with store files, found none there")
    places = dict.fromkeys(store_directory(path) for path in find_stores([directory]))
    merged: list[Path] = []
    refused: list[str] = []
    for place in places:
        try:
            with _lock(place) as locked:
                if locked:
                    _sweep(place)
                _merge_directory(place, complete, remove, force, merged, refused)
        except StoreError as error:
            refused.append(str(error))
        except OSError as error:
            refused.append(f"{place}: expected a directory that can be written to, found {error}; no part was removed")
    if refused:
        more = f" (and {len(refused) - 1} more such problems)" if len(refused) > 1 else ""
        raise StoreError(f"{refused[0]}{more}")
    return merged


def _merge_directory(
    place: Path, complete: Complete | None, remove: bool, force: bool, merged: list[Path], refused: list[str]
) -> None:
    """Merge one store directory; say what was merged and what was refused."""
    files = [path for path in find_stores([place]) if store_directory(path) == place]
    parts = {path.relative_to(place).as_posix(): path for path in files if not path.name.endswith(MERGED_SUFFIX)}
    for path in files:
        if path.name.endswith(MERGED_SUFFIX) and _finish(path, parts, remove):
            merged.append(path)
    states = {path: _state(path) for path in parts.values()}
    for group in group_ranks(read_part(path, rows=False) for path in states):
        problem = None if force else next(filter(None, map(writing_problem, group)), None)
        try:
            if problem is not None:
                raise StoreError(
                    f"{group[0].path}: expected participant {group[0].metadata['participant']!r} to have ended, found "
                    f"that {problem}; merge when the run has ended, or with --force if you know that it is over"
                )
            merged.append(_merge_group(place, group, states, complete, remove))
        except StoreError as error:
            refused.append(str(error))


def _finish(path: Path, parts: dict[str, Path], remove: bool) -> bool:
    """Take away parts that a merged file already holds; whether there were any."""
    store = MergedStore(path)
    try:
        held = []
        for position, name in enumerate(store.parts):
            if name in parts:
                state = _state(parts[name])
                if content_digest(read_part(parts[name])).encode() == store.index["part_digest"][position]:
                    held.append((position, parts.pop(name), state))
        if held and remove:
            positions = [position for position, _, _ in held]
            _verify(store, [digest.decode() for digest in store.index["digest"]], positions)
            _remove([(part, state) for _, part, state in held])
        return bool(held)
    finally:
        store.close()


def _merge_group(
    place: Path, group: Sequence[RankStore], states: Mapping[Path, _State], complete: Complete | None, remove: bool
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
                raw = [_with_rows(store) for store in group[first : first + writer.block_ranks]]
                digests = [content_digest(store) for store in raw]
                names = [store.path.relative_to(place).as_posix() for store in raw]
                writer.add(raw if complete is None else complete(raw), names, digests)
            writer.close()
        finally:
            writer.abandon()
        store = MergedStore(draft)
        try:
            _verify(store, writer.digests, range(len(group)))
        finally:
            store.close()
        changed = [store.path for store in group if _state(store.path) != states[store.path]]
        if changed:
            raise StoreError(
                f"{changed[0]}: expected a store that nobody writes to, found it changed while it was merged; "
                "merge when the run has ended"
            )
        _publish(draft, target)
    finally:
        draft.unlink(missing_ok=True)
    if remove:
        _remove([(store.path, states[store.path]) for store in group])
    return target


def _with_rows(store: RankStore) -> RankStore:
    advances, sections, meshes = read_tables(store.path)
    return dataclasses.replace(store, advances=advances, sections=sections, meshes=lambda: meshes)


def _verify(store: MergedStore, digests: Sequence[str], positions: Sequence[int]) -> None:
    """Read ranks back and compare them with what went in."""
    wanted = set(positions)
    for first in range(0, len(store.index), store.block_ranks):
        block = range(first, min(first + store.block_ranks, len(store.index)))
        if wanted.isdisjoint(block):
            continue
        for position, rows in zip(block, store.tables(block.start, block.stop), strict=True):
            if position not in wanted:
                continue
            found = content_digest(dataclasses.replace(store.stores[position], advances=rows))
            if found != digests[position]:
                raise StoreError(
                    f"{store.path}: expected rank {store.index['rank'][position]} with digest {digests[position]}, "
                    f"found {found}; the parts are kept: look at the disk, remove this file and merge again"
                )


def _publish(draft: Path, target: Path) -> None:
    """Give the draft its name; nothing is ever overwritten."""
    try:
        os.link(draft, target)
    except OSError as error:
        # Without hard links on this file system, a rename has to do.
        if isinstance(error, FileExistsError) or target.exists():
            raise StoreError(f"{target}: expected no such file yet, found one; merge again") from error
        os.rename(draft, target)
    _sync(target.parent)


def _remove(parts: Sequence[tuple[Path, _State]]) -> None:
    """Remove parts that are still what was merged, and directories that are empty then."""
    for path, state in parts:
        with contextlib.suppress(FileNotFoundError):
            if _state(path) == state:
                path.unlink()
    for directory in dict.fromkeys(path.parent for path, _ in parts):
        if directory != store_directory(parts[0][0]):
            with contextlib.suppress(OSError):
                directory.rmdir()


def _state(path: Path) -> _State:
    """Tell what changes when a file is written to."""
    found = path.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns


def _sync(directory: Path) -> None:
    with contextlib.suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _sweep(place: Path) -> None:
    """Remove what killed merges and recorders left half made; only the holder of the lock may."""
    for path in place.glob(f".*{MERGED_SUFFIX}.*{_DRAFT_SUFFIX}"):
        path.unlink(missing_ok=True)
    for path in place.glob("[0-9a-f][0-9a-f]/.*.h5.*"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > _DRAFT_SECONDS:
                path.unlink()


@contextlib.contextmanager
def _lock(place: Path) -> Iterator[bool]:
    """Hold the directory's lock; the system frees it however the process ends. False where there are no locks."""
    with open(place / _LOCK_NAME, "a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            locked = True
        except BlockingIOError:
            raise StoreError(
                f"{place}: expected to be the only merge in this directory, found another at work; "
                "wait until it has ended"
            ) from None
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            locked = False
        yield locked
