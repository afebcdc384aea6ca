"""Finding the profiling files of one run among those of others, or of one recorded rank."""

from __future__ import annotations

import contextlib
import math
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from precice_lb.exceptions import DataError
from precice_lb.ingest.profiling.files import Header, read_header
from precice_lb.ingest.profiling.tables import is_database, read_database
from precice_lb.store.records import RankFile
from precice_lb.text import plural

# The folder that preCICE writes profiling files into, and their endings since preCICE 3.3 and before.
_FOLDER, _SUFFIXES = "precice-profiling", (".txt", ".json")
_NAME = re.compile(r".+-\d+-\d+\.(?:txt|json)")
# A campaign has its stores one directory below what is moved, runs that share a store directory up to three.
_LEVELS = 4


def profiles_below(directory: Path) -> list[Path]:
    """Find what is named as preCICE names profiling files, sorted."""
    paths = (path for suffix in _SUFFIXES for path in directory.rglob(f"*{suffix}"))
    return sorted(path for path in paths if _NAME.fullmatch(path.name))


def later_runs(directory: Path, stores: Sequence[Path]) -> list[Path]:
    """Find folders below a directory with profiling files of runs that began after all stores were written, sorted."""
    written = max((store.stat().st_mtime for store in stores), default=math.inf)
    later = set()
    for path in profiles_below(directory):
        if path.stat().st_mtime > written:
            with contextlib.suppress(DataError):
                if read_header(path).unix_us * 1e-6 > written:
                    later.add(path.parent)
    return sorted(later)


def made_below(directory: Path) -> Iterator[DataError]:
    """Say what of precice-profiling lies in a directory that it made of profiling files, in JSON."""
    for path in sorted(path for name in ("profiling.json", "trace.json") for path in directory.rglob(name)):
        try:
            read_header(path)
        except DataError as error:
            yield error


def find_profiles(sources: Iterable[str | Path]) -> tuple[list[Header], list[str]]:
    """Find the latest run of each participant in each folder.

    Parameters
    ----------
    sources : iterable of path
        Profiling files, databases of precice-profiling, or directories that are searched for profiling files with
        everything below them.

    Returns
    -------
    headers : list of Header
        By folder, participant and rank.
    left_out : list of str
        Files that were left out, and why.

    Raises
    ------
    DataError
        If a source does not exist, there is no profiling file at all, or a database is none of precice-profiling's.
    """
    paths: dict[Path, None] = {}
    roots = [Path(source) for source in sources]
    for source in roots:
        if source.is_dir():
            paths.update(dict.fromkeys(path.resolve() for path in profiles_below(source)))
        elif source.is_file():
            paths[source.resolve()] = None
        else:
            raise DataError(
                f"{source}: expected a profiling file of preCICE or a directory of them, found nothing there"
            )
    headers: list[Header] = []
    left_out: list[str] = []
    for path in paths:
        if is_database(path):
            headers += read_database(path)
            continue
        try:
            header = read_header(path)
        except DataError as error:
            left_out.append(str(error))
            continue
        named = f"{header.participant}-{header.rank}-{header.size}"
        if path.stem != named:
            left_out.append(f"{path}: expected the name {named}{path.suffix}, as its header says")
            continue
        headers.append(header)
    if not headers and not left_out:
        left_out += [str(problem) for root in roots if root.is_dir() for problem in made_below(root)]
    groups: dict[tuple[Path, str], list[Header]] = {}
    for header in headers:
        groups.setdefault(header.group, []).append(header)
    latest = [header for group in groups.values() for header in _latest(group, left_out)]
    if not latest:
        shown = ", ".join(map(str, roots)) or "no directory"
        reason = f"; {left_out[0]}" if left_out else ""
        raise DataError(
            f"{shown}: expected profiling files of preCICE (<Participant>-<rank>-<size>.txt), found none{reason}"
        )
    return latest, left_out


def _latest(group: Sequence[Header], left_out: list[str]) -> list[Header]:
    """Files of the latest run in one folder: files of a run on another number of ranks stay behind there."""
    newest = max(group, key=lambda header: header.unix_us)
    ranks: dict[int, Header] = {}
    for header in sorted(group, key=lambda header: header.unix_us):
        if header.size != newest.size:
            known = f"{plural(header.size, 'rank')}, not {newest.size}"
            left_out.append(f"{header.path}: left by an earlier run on {known}")
            continue
        if header.rank in ranks:
            left_out.append(f"{ranks[header.rank].path}: left by an earlier run")
        ranks[header.rank] = header
    return [ranks[rank] for rank in sorted(ranks)]


def profile_candidates(store: RankFile, directory: str) -> list[Path]:
    """Where a rank's profiling file should lie: below the solver's working directory, or that of the store."""
    return _files(store, [*_recorded_in(store, directory), _folder(store.directory.parent, directory)])


def moved_candidates(store: RankFile, directory: str) -> list[Path]:
    """Where a rank's profiling file may lie after both it and the store were moved together.

    In each of the next directories above the store, what ends like the place it was written to; the nearest first, and
    of one directory the longest end.
    """
    above = [store.directory, *store.directory.parents][1 : _LEVELS + 1]
    ends = [Path(*old.parts[first:]) for old in _recorded_in(store, directory) for first in range(1, len(old.parts))]
    return _files(store, [place / end for place in above for end in ends])


def _recorded_in(store: RankFile, directory: str) -> list[Path]:
    """Return the folder of profiling files that the solver wrote to, if its working directory is known."""
    working = store.metadata.get("working_directory")
    return [] if working is None else [_folder(Path(working), directory)]


def _folder(base: Path, directory: str) -> Path:
    return Path(os.path.normpath(base / directory / _FOLDER))


def _files(store: RankFile, folders: Iterable[Path]) -> list[Path]:
    data = store.metadata
    name = f"{data['participant']}-{data['rank']}-{data['size']}"
    return [folder / f"{name}{suffix}" for folder in dict.fromkeys(folders) for suffix in _SUFFIXES]
