"""One rank of one run counts once, however often it is given: copied, imported again, merged beside its own file."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

import numpy as np

from precice_lb.store.records import RankStore
from precice_lb.store.schema import MERGED_SUFFIX

__all__ = ["distinct_ranks", "holds"]

# What two stores of one launch of one rank have in common, wherever they lie and however they were made.
_SAME = ("participant", "rank", "size", "case")
_START = ("started_unix_ns", "started_clock_ns")
# What only some stores say; where both do, it has to be the same.
_WHERE_KNOWN = ("run", "hostname", "pid")


def distinct_ranks(stores: Iterable[RankStore]) -> list[RankStore]:
    """Leave out what is given again: of two the one with fewer rows, else the one that is not merged.

    Two stores hold the same rank of the same launch if participant, rank, size, case and start agree to the
    nanosecond, run name, host and process do where both say them, and the calls of ``advance`` that both have took
    equally long. What was imported from preCICE's profiling files is left out where the same rank was recorded in the
    same working directory at the same time.
    """
    kept: dict[Hashable, list[RankStore]] = {}
    for store in stores:
        same = kept.setdefault(_values(store, *_SAME, *_START), [])
        other = next((each for each in same if _agree(store, each) and _rows_agree(store, each)), None)
        if other is None:
            same.append(store)
        elif _worth(other) < _worth(store):
            same[same.index(other)] = store
    once = [store for same in kept.values() for store in same]
    recorded: dict[Hashable, list[RankStore]] = {}
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


def holds(store: RankStore, other: RankStore) -> bool:
    """Whether a store has every call of ``advance`` that another has, of the same rank of the same launch."""
    same = _values(store, *_SAME, *_START) == _values(other, *_SAME, *_START) and _agree(store, other)
    return same and len(other.advances) <= len(store.advances) and _rows_agree(store, other)


def _values(store: RankStore, *names: str) -> Hashable:
    return tuple(store.metadata.get(name) for name in names)


def _agree(first: RankStore, second: RankStore) -> bool:
    """Whether nothing that both say of run, host and process differs."""
    a, b = first.metadata, second.metadata
    return not any(name in a and name in b and a[name] != b[name] for name in _WHERE_KNOWN)


def _overlap(first: RankStore, second: RankStore) -> bool:
    a, b = first.interval_unix_ns, second.interval_unix_ns
    return a[0] <= b[1] and b[0] <= a[1]


def _rows_agree(first: RankStore, second: RankStore) -> bool:
    """Whether all rows that both have are of the same calls; one of them may have been copied while it was written."""
    rows, others = first.advances, second.advances
    count = min(len(rows), len(others))
    rows, others = rows[:count], others[:count]
    # Joined with profiling files, just-in-time mapping has moved from one of the two to the other.
    wall, other_wall = (each["solve_ns"] + each["advance_ns"] for each in (rows, others))
    return np.array_equal(rows["begin_ns"], others["begin_ns"]) and np.array_equal(wall, other_wall)


def _worth(store: RankStore) -> tuple[int, bool]:
    return len(store.advances), store.path.name.endswith(MERGED_SUFFIX)
