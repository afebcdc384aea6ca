"""Which rank owns a received vertex that several tagged: preCICE's ``ReceivedPartition::createOwnerInformation``."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from precice_lb.partners.level1 import overlapping_pairs

__all__ = ["owners_one_level", "owners_two_level"]


def owners_one_level(tags: list[NDArray[np.int64]], vertices: int) -> list[NDArray[np.int64]]:
    """Owners as the primary rank gives them out: rank by rank up to an even share, then the rest greedily."""
    at_interface = sum(bool(len(each)) for each in tags)
    share = vertices // max(at_interface, 1)
    owner = np.full(vertices, -1, np.int64)
    for limit in (share or vertices, vertices):
        for rank, tagged in enumerate(tags):
            free = tagged[owner[tagged] < 0]
            owner[free[:limit]] = rank
    return [tagged[owner[tagged] == rank] for rank, tagged in enumerate(tags)]


def owners_two_level(
    points: NDArray[np.float64], tags: list[NDArray[np.int64]], boxes: NDArray[np.float64]
) -> list[NDArray[np.int64]]:
    """Owners as neighbours settle them: of two ranks the one that owns fewer vertices of its own keeps a shared one."""
    pairs = overlapping_pairs(boxes, boxes)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    starts = np.searchsorted(pairs[:, 0], np.arange(len(boxes) + 1))
    shared: list[dict[int, NDArray[np.int64]]] = []
    shared_at_all: list[NDArray[np.bool_]] = []
    for rank, tagged in enumerate(tags):
        coordinates = points[tagged]
        anywhere = np.zeros(len(tagged), bool)
        sent: dict[int, NDArray[np.int64]] = {}
        for other in pairs[starts[rank] : starts[rank + 1], 1]:
            box = boxes[other]
            inside = ((coordinates >= box[:, 0]) & (coordinates <= box[:, 1])).all(axis=1)
            anywhere |= inside
            if inside.any():
                sent[int(other)] = tagged[inside]
        shared.append(sent)
        shared_at_all.append(anywhere)
    alone = [int((~anywhere).sum()) for anywhere in shared_at_all]
    owned = []
    for rank, tagged in enumerate(tags):
        keeps = np.ones(len(tagged), bool)
        for other in pairs[starts[rank] : starts[rank + 1], 1]:
            theirs = shared[other].get(rank)
            if theirs is not None and (alone[rank], rank) > (alone[other], other):
                keeps &= ~(shared_at_all[rank] & np.isin(tagged, theirs))
        owned.append(tagged[keeps])
    return owned
