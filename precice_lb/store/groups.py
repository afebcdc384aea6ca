"""Which store files belong together: the ranks of a participant, the participants of a coupled run."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

from precice_lb.store.records import RankStore

__all__ = ["group_interval", "group_ranks", "group_runs"]

T = TypeVar("T")


def group_ranks(stores: Iterable[RankStore]) -> list[list[RankStore]]:
    """Group ranks to participants of one launch, each sorted by rank, every rank at most once.

    Ranks belong together when participant, size, case and name of the run are the same and they ran at the same
    time; where two launches overlap, store directory and attempt tell them apart.
    """

    def key(store: RankStore) -> Hashable:
        data = store.metadata
        return data["participant"], data["size"], data["case"], data.get("run")

    groups: list[list[RankStore]] = []
    for cluster in _overlapping(stores, key, lambda store: store.interval_unix_ns):
        ranks = [store.metadata["rank"] for store in cluster]
        if len(set(ranks)) == len(ranks):
            groups.append(cluster)
            continue
        groups.extend(_by(cluster, _place))
    return [sorted(group, key=lambda store: store.metadata["rank"]) for group in groups]


def group_runs(participants: Iterable[Sequence[RankStore]]) -> list[list[Sequence[RankStore]]]:
    """Group participants to coupled runs, in the order they started: same case and name of the run, at the same time.

    A participant occurs once in each: where two coupled runs of the same case overlap without a name, they are told
    apart by the directory of their stores and the attempt.
    """

    def key(group: Sequence[RankStore]) -> Hashable:
        return group[0].metadata["case"], group[0].metadata.get("run")

    runs: list[list[Sequence[RankStore]]] = []
    for cluster in _overlapping(participants, key, group_interval):
        names = [group[0].metadata["participant"] for group in cluster]
        if len(set(names)) == len(names):
            runs.append(cluster)
            continue
        runs.extend(_by(cluster, lambda group: _place(group[0])))
    return sorted(runs, key=lambda run: min(group_interval(group)[0] for group in run))


def group_interval(group: Iterable[RankStore]) -> tuple[int, int]:
    """Give the first start and the last end of the ranks of a participant, in ns of Unix time."""
    intervals = [store.interval_unix_ns for store in group]
    return min(start for start, _ in intervals), max(end for _, end in intervals)


def _place(store: RankStore) -> Hashable:
    """Store directory and attempt."""
    return store.directory, store.metadata["attempt"]


def _by(items: Iterable[T], key: Callable[[T], Hashable]) -> list[list[T]]:
    groups: dict[Hashable, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return list(groups.values())


def _overlapping(
    items: Iterable[T], key: Callable[[T], Hashable], interval: Callable[[T], tuple[int, int]]
) -> list[list[T]]:
    """Partition items into those with the same key whose closed intervals are connected by overlaps."""
    clusters: list[list[T]] = []
    for group in _by(items, key):
        latest = None
        for item in sorted(group, key=interval):
            start, end = interval(item)
            if latest is None or start > latest:
                clusters.append([])
            clusters[-1].append(item)
            latest = end if latest is None else max(latest, end)
    return clusters
