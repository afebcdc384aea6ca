"""Finding the profiling files of one run among those of others."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from precice_lb.exceptions import DataError
from precice_lb.ingest.profiling.database import is_database, read_database
from precice_lb.ingest.profiling.files import Header, read_header
from precice_lb.plural import plural

__all__ = ["FOLDER", "SUFFIXES", "find_configuration", "find_profiles"]

FOLDER = "precice-profiling"
"""Name of the folder that preCICE writes profiling files into."""

SUFFIXES = (".txt", ".json")
"""Endings of profiling files, since preCICE 3.3 and before."""

_NAME = re.compile(r".+-\d+-\d+\.(?:txt|json)")


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
            found = (path for suffix in SUFFIXES for path in source.rglob(f"*{suffix}"))
            paths.update(dict.fromkeys(path.resolve() for path in sorted(found) if _NAME.fullmatch(path.name)))
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
    groups: dict[tuple[Path, str], list[Header]] = {}
    for header in headers:
        groups.setdefault((header.path.parent, header.participant), []).append(header)
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
            left_out.append(
                f"{header.path}: left by an earlier run on {plural(header.size, 'rank')}, not {newest.size}"
            )
        elif header.rank in ranks:
            left_out.append(f"{ranks[header.rank].path}: left by an earlier run")
            ranks[header.rank] = header
        else:
            ranks[header.rank] = header
    return [ranks[rank] for rank in sorted(ranks)]


def find_configuration(start: Path, roots: Iterable[Path]) -> Path | None:
    """Find a ``precice-config.xml`` where the solver ran, one level further up, or in or above the roots."""
    places = [start, start.parent]
    for root in roots:
        directory = (root if root.is_dir() else root.parent).resolve()
        places += [directory, directory.parent]
    for place in places:
        if (place / "precice-config.xml").is_file():
            return place / "precice-config.xml"
    return None
