"""Reading store files, finished or left behind by a kill: every rank of every launch once, by coupled runs."""

from __future__ import annotations

import fcntl
import math
import os
import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import IO, TypeVar

import numpy as np

from precice_lb.exceptions import StoreError
from precice_lb.store.merged import read_merged
from precice_lb.store.rank_file import read_rank_file
from precice_lb.store.records import RankFile
from precice_lb.store.schema import MERGED_SUFFIX, is_store_name, xml_tags
from precice_lb.text import checked_list

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
    paths: dict[Path, None] = {}
    for source in map(Path, checked_list(sources, "sources", "paths", StoreError)):
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
        paths.update(dict.fromkeys(files))
    return list(paths)


def stores_below(directory: Path) -> list[Path]:
    """Find the store files below a directory, sorted, by their names: solvers have HDF5 files of their own."""
    return [path for path in paths_below(directory, is_store_name) if path.is_file()]


def paths_below(directory: Path, is_wanted: Callable[[str], bool]) -> list[Path]:
    """Return the files below a directory whose names are wanted, sorted."""
    paths = []
    # A running solver may remove a directory that was just listed: os.walk passes over it, rglob raises an error.
    for parent, _, names in os.walk(directory):
        paths += [Path(parent, name) for name in names if is_wanted(name)]
    return sorted(paths)


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
    return group_runs(read_stores(sources))


def read_stores(sources: Iterable[str | Path]) -> list[RankFile]:
    """Return every rank of every launch in store files once, as of `distinct_ranks`; arguments as of `read_runs`."""
    return distinct_ranks(store for path in find_stores(sources) for store in read_file(path))


def read_file(path: Path) -> list[RankFile]:
    """Read all ranks of one store file, whatever kind it is of."""
    return read_merged(path) if _is_merged(path) else [read_rank_file(path)]


def distinct_ranks(stores: Iterable[RankFile]) -> list[RankFile]:
    """Leave out what is given again: of two the one with fewer rows, else the one that is not merged.

    Two stores hold the same rank of the same launch if participant, rank, size, case and start agree to the
    nanosecond, run name, host and process do where both say them, and the calls of ``advance`` that both have took
    equally long. What was imported from preCICE's profiling files is left out where the same rank was recorded in the
    same working directory at the same time.
    """
    kept: dict[Hashable, list[RankFile]] = {}
    recorded: dict[Hashable, list[RankFile]] = {}
    for store in stores:
        same = kept.setdefault(_values(store, *_SAME, *_START), [])
        for number, other in enumerate(same):
            if _agree(store, other) and _rows_agree(store, other):
                same[number] = max(other, store, key=lambda store: (len(store.advances), _is_merged(store.path)))
                break
        else:
            same.append(store)
    once = [store for same in kept.values() for store in same]
    for store in once:
        if not store.is_imported:
            recorded.setdefault(_values(store, *_SAME, "working_directory"), []).append(store)
    return [
        store
        for store in once
        if not store.is_imported
        or not any(
            _agree(store, other) and _overlap(store.interval_unix_ns, other.interval_unix_ns) >= 0
            for other in recorded.get(_values(store, *_SAME, "working_directory"), [])
        )
    ]


def _is_merged(path: Path) -> bool:
    return path.name.endswith(MERGED_SUFFIX)


def _values(store: RankFile, *names: str) -> Hashable:
    return tuple(store.metadata.get(name) for name in names)


def _agree(first: RankFile, second: RankFile) -> bool:
    """Whether nothing that both say of run, host and process differs."""
    a, b = first.metadata, second.metadata
    return not any(name in a and name in b and a[name] != b[name] for name in _WHERE_KNOWN)


def _rows_agree(first: RankFile, second: RankFile) -> bool:
    """Whether all rows that both have are of the same calls; one of them may have been copied while it was written."""
    count = min(len(first.advances), len(second.advances))
    rows, others = first.advances[:count], second.advances[:count]
    # Joined with profiling files, just-in-time mapping has moved from one of the two to the other.
    wall, other_wall = (table["solve_ns"] + table["advance_ns"] for table in (rows, others))
    return np.array_equal(rows["begin_ns"], others["begin_ns"]) and np.array_equal(wall, other_wall)


T = TypeVar("T")
Group = Sequence[RankFile]

_BY_TIME = "which ranks and participants belong together is taken from when they ran: the stores say no launch"


def group_ranks(stores: Iterable[RankFile]) -> list[Group]:
    """Group ranks to participants of one launch, each sorted by rank, every rank at most once.

    Of one participant, size, case and name of the run, ranks with the same launch id belong together. One without an id
    (imported, or killed before it had one) belongs to the one such launch that ran then and lacks it; else those that
    ran at the same time do, and store directory and attempt tell them apart.
    """
    groups: list[list[RankFile]] = []
    for alike in _by(stores, lambda store: _values(store, "participant", "size", "case", "run")):
        launches = _by((store for store in alike if "launch" in store.metadata), lambda store: store.metadata["launch"])
        rest: list[RankFile] = []
        for store in (store for store in alike if "launch" not in store.metadata):
            lacking = [
                ranks
                for ranks in launches
                if store.metadata["rank"] not in {known.metadata["rank"] for known in ranks}
                and _overlap(group_interval(ranks), store.interval_unix_ns) >= 0
            ]
            (lacking[0] if len(lacking) == 1 else rest).append(store)
        for cluster in (*launches, *_overlapping(rest, lambda store: store.interval_unix_ns)):
            groups += _told_apart(cluster, lambda store: store.metadata["rank"], _place)
    return [sorted(group, key=lambda store: store.metadata["rank"]) for group in groups]


def group_runs(stores: Iterable[RankFile]) -> list[list[Group]]:
    """Group ranks to coupled runs, in the order they started; see `runs_with_doubts`."""
    return [run for run, _ in runs_with_doubts(stores)]


def runs_with_doubts(stores: Iterable[RankFile]) -> list[tuple[list[Group], str]]:
    """Group ranks to coupled runs, each with why it is uncertain who belongs to it, in the order they started.

    Of one case and name of the run, launches were coupled that name the same exchange directory and ran at the same
    time: preCICE runs one coupling at a time there. Where several are possible none is
    chosen. Without ids those that ran at the same time are grouped, and told apart by the directory of their stores and
    the attempt. A participant occurs once in each run.
    """
    runs: list[tuple[list[Group], str]] = []
    for alike in _by(group_ranks(stores), lambda group: _values(group[0], "case", "run")):
        runs += _joined([group for group in alike if has_launch(group)])
        untold: list[list[Group]] = []
        for cluster in _overlapping([group for group in alike if not has_launch(group)], group_interval):
            untold += _told_apart(
                cluster, lambda group: group[0].metadata["participant"], lambda group: _place(group[0])
            )
        places = [{store.directory for group in run for store in group} for run in untold]
        runs += [(run, _BY_TIME if places.count(of) > 1 else "") for run, of in zip(untold, places, strict=True)]
    return sorted(runs, key=lambda run: min(group_interval(group)[0] for group in run[0]))


def has_launch(group: Group) -> bool:
    """Whether it is known which ranks were started together."""
    return any("launch" in store.metadata for store in group)


def _joined(launches: Sequence[Group]) -> list[tuple[list[Group], str]]:
    """Join launches of one case that were coupled, each run with its doubt.

    Together belong those that meet in one directory and share far more time than either does with any other there. Else
    those of a participant ran in turn: as many of both belong together in their order, whatever their clocks.
    """
    names = [str(launch[0].metadata["participant"]) for launch in launches]
    times = [group_interval(launch) for launch in launches]
    runs, doubts = [{number} for number in range(len(launches))], dict[int, str]()
    meetings: dict[Hashable, list[int]] = {}
    for number, launch in enumerate(launches):
        for meeting in _meetings(launch):
            meetings.setdefault(meeting, []).append(number)
    for members in meetings.values():
        sides = _by(members, names.__getitem__)
        if len(sides) != 2:
            continue
        one, other = sides
        shared = {(a, b): both for a in one for b in other if (both := _overlap(times[a], times[b])) >= 0}
        for (a, b), both in shared.items():
            rivals = (time for pair, time in shared.items() if (a in pair) != (b in pair))
            joined = runs[a] | runs[b]
            if both > 2 * max(rivals, default=-1) and len({names[member] for member in joined}) == len(joined):
                for member in joined:
                    runs[member] = joined
        for a, b in shared:
            if not (runs[a] & {*other} or runs[b] & {*one}):
                for number, partner in ((a, b), (b, a)):
                    doubts[number] = (
                        f"it cannot be told which launch of {names[partner]} this launch of {names[number]} was "
                        "coupled with: several ran at that time with the same exchange directory"
                    )
    distinct = {min(members): sorted(members) for members in runs}
    return [
        ([launches[member] for member in members], next((doubts[m] for m in members if m in doubts), ""))
        for members in distinct.values()
    ]


def _meetings(group: Group) -> frozenset[tuple[frozenset[str], str]]:
    """Pairs of participants that meet, and the directory in which they do, of a launch's own communications."""
    data = group[0].metadata
    return frozenset(
        (pair, os.path.realpath(os.path.join(data.get("working_directory", ""), directory)))
        for pair, directory in _exchange_directories(group[0].configuration)
        if data["participant"] in pair
    )


@lru_cache(maxsize=64)
def _exchange_directories(configuration: str) -> tuple[tuple[frozenset[str], str], ...]:
    """Participants and exchange directory of each ``m2n`` of a configuration."""
    return tuple(
        (
            frozenset(attributes.get(name, "") for name in ("acceptor", "connector")),
            attributes.get("exchange-directory") or ".",
        )
        for tag, attributes in xml_tags(configuration) or ()
        if attributes is not None and tag.startswith("m2n:")
    )


def group_interval(group: Iterable[RankFile]) -> tuple[int, int]:
    """Give the first start and the last end of the ranks of a participant, in ns of Unix time."""
    intervals = [store.interval_unix_ns for store in group]
    return min(start for start, _ in intervals), max(end for _, end in intervals)


def lock(path: Path, seconds: float = 0.0) -> IO[str]:
    """Open a file and hold its lock until it is closed; `BlockingIOError` if another process does for so long."""
    deadline = time.monotonic() + seconds
    file = path.open("a+", encoding="utf-8")
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if not isinstance(error, BlockingIOError) or time.monotonic() >= deadline:
                file.close()
                raise
            time.sleep(0.1)
        else:
            return file


def _overlap(first: tuple[int, int], second: tuple[int, int]) -> int:
    """How long two closed intervals overlap; below 0 where they do not."""
    return min(first[1], second[1]) - max(first[0], second[0])


def _place(store: RankFile) -> Hashable:
    """Store directory and attempt."""
    return store.directory, store.metadata["attempt"]


def _by(items: Iterable[T], key: Callable[[T], Hashable]) -> list[list[T]]:
    groups: dict[Hashable, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return list(groups.values())


def _told_apart(items: list[T], name: Callable[[T], Hashable], place: Callable[[T], Hashable]) -> list[list[T]]:
    """Partition items by their places where a name is there more than once."""
    return [items] if len(set(map(name, items))) == len(items) else _by(items, place)


def _overlapping(items: Iterable[T], interval: Callable[[T], tuple[int, int]]) -> list[list[T]]:
    """Partition items into those whose closed intervals are connected by overlaps."""
    clusters: list[list[T]] = []
    latest = -math.inf
    for item in sorted(items, key=interval):
        start, end = interval(item)
        if start > latest:
            clusters.append([])
        clusters[-1].append(item)
        latest = max(latest, end)
    return clusters
