"""Cycles of graphs: the largest mean weight of one, and any one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["find_cycle", "maximum_cycle_mean"]

Floats = NDArray[np.float64]


def maximum_cycle_mean(matrix: Floats) -> Floats:
    """Largest mean weight of a cycle in each of a batch of max-plus matrices."""
    batch, size, _ = matrix.shape
    walks = np.empty((size + 1, batch, size))
    walks[0] = 0.0
    for k in range(size):
        walks[k + 1] = (matrix + walks[k][:, None, :]).max(axis=2)
    steps = np.arange(size, 0, -1.0)[:, None, None]
    final = walks[-1]
    reached = np.isfinite(final)
    # A walk of n edges ends in a walk of k edges: where the former exists, so do all of the latter.
    difference = np.where(reached, final, 0.0) - np.where(reached, walks[:-1], 0.0)
    means = np.where(reached, (difference / steps).min(axis=0), -np.inf)
    return np.asarray(means.max(axis=1))


def find_cycle(followers: Mapping[int, Sequence[int]], size: int) -> list[int]:
    """Find any cycle of a graph that has one, by depth-first search."""
    done = [False] * size
    for root in range(size):
        if done[root]:
            continue
        path, position = [root], {root: 0}
        pending = [iter(followers.get(root, ()))]
        while pending:
            follower = next(pending[-1], None)
            if follower is None:
                done[path[-1]] = True
                del position[path.pop()]
                pending.pop()
            elif follower in position:
                return path[position[follower] :]
            elif not done[follower]:
                position[follower] = len(path)
                path.append(follower)
                pending.append(iter(followers.get(follower, ())))
    return []
