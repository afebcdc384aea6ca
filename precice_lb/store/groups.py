"""Which store files belong together: the ranks of a participant, the participants of a coupled run."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

from precice_lb.store.records import RankStore

__all__ = ["group_interval", "group_ranks", "group_runs"]

T = TypeVar("T")


def group_ranks(stores: Iterable[RankStore]) -> list[list[RankStore]]:
    """Group store files to participants of one launch.

    Ranks belong together when participant, size, case and name of the run are the same and they ran at the same
    time; where two launches overlap, the attempt tells them apart.

    Parameters
    ----------
    stores : iterable of RankStore
        Any files.

    Returns
    -------
    list of list of RankStore
        Each sorted by rank, every rank at most once.
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
        for attempt in sorted({store.metadata["attempt"] for store in cluster}):
            groups.append([store for store in cluster if store.metadata["attempt"] == attempt])
    return [sorted(group, key=lambda store: store.metadata["rank"]) for group in groups]


def group_runs(participants: Iterable[Sequence[RankStore]]) -> list[list[Sequence[RankStore]]]:
    """Group participants to coupled runs: same case and name of the run, at the same time.

    Parameters
    ----------
    participants : iterable of sequence of RankStore
        What `group_ranks` returned.

    Returns
    -------
    list of list of sequence of RankStore
        Coupled runs in the order they started. A participant occurs once in each: where two coupled runs of the
        same case overlap without a name, they are told apart by the directory of their stores.
    """

    def key(group: Sequence[RankStore]) -> Hashable:
        return group[0].metadata["case"], group[0].metadata.get("run")

    runs: list[list[Sequence[RankStore]]] = []
    for cluster in _overlapping(participants, key, group_interval):
        names = [group[0].metadata["participant"] for group in cluster]
        if len(set(names)) == len(names):
            runs.append(cluster)
            continue
        places: dict[Hashable, list[Sequence[RankStore]]] = {}
        for group in cluster:
            place = group[0].path.parent.parent, group[0].metadata["attempt"]
            places.setdefault(place, []).append(group)
        runs.extend(places.values())
    return sorted(runs, key=lambda run: min(group_interval(group)[0] for group in run))


def group_interval(group: Iterable[RankStore]) -> tuple[int, int]:
    """Unix time in ns in which all ranks of a participant recorded.

    Parameters
    ----------
    group : iterable of RankStore
        Ranks of one participant.

    Returns
    -------
    tuple of int
        First start and last end.
    """
    intervals = [store.interval_unix_ns for store in group]
    return min(start for start, _ in intervals), max(end for _, end in intervals)


def _overlapping(
    items: Iterable[T], key: Callable[[T], Hashable], interval: Callable[[T], tuple[int, int]]
) -> list[list[T]]:
    """Partition items into those with the same key whose closed intervals are connected by overlaps."""
    by_key: dict[Hashable, list[T]] = {}
    for item in items:
        by_key.setdefault(key(item), []).append(item)
    clusters: list[list[T]] = []
    for group in by_key.values():
        latest = None
        for item in sorted(group, key=interval):
            start, end = interval(item)
            if latest is None or start > latest:
                clusters.append([])
            clusters[-1].append(item)
            latest = end if latest is None else max(latest, end)
    return clusters
