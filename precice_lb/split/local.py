"""Good splits by moving ranks between participants, to begin with or where nothing exact is at hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from precice_lb.split.layout import Layout
from precice_lb.split.problem import Curve

__all__ = ["improve"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def improve(
    curves: Sequence[Curve],
    layout: Layout,
    capacity: Integers,
    objective: Callable[[Integers], Floats],
    start: Integers,
) -> tuple[Integers, float]:
    """Descend from a split.

    One participant goes up or down by a step, another takes what that leaves; the best of all such moves counts. Steps
    halve from an eighth of the curves to one count.
    """
    count = len(curves)
    sizes = np.array([len(curve.ranks) for curve in curves])
    best, least = start, float(objective(start[None])[0])
    step = 1 << max(int(sizes.max()) // 8, 1).bit_length() - 1
    while step:
        moves = np.concatenate([np.zeros((1, count), dtype=np.int64), step * np.eye(count, dtype=np.int64)])
        moved = np.clip(best + np.concatenate((moves, -moves[1:])), 0, sizes - 1)
        tried = [moved]
        uses = np.stack([curve.uses[moved[:, i]] for i, curve in enumerate(curves)], axis=1)
        room = layout.allowance(uses, capacity)
        for taker, curve in enumerate(curves):
            with_rest = moved.copy()
            with_rest[:, taker] = curve.index_within(room[:, taker])
            tried.append(with_rest)
        splits = np.unique(np.concatenate(tried), axis=0)
        splits = splits[(splits >= 0).all(axis=1)]
        uses = np.stack([curve.uses[splits[:, i]] for i, curve in enumerate(curves)], axis=1)
        splits = splits[(layout.total(uses) <= capacity).all(axis=1)]
        seconds = objective(splits)
        at = int(np.argmin(seconds))
        if seconds[at] < least * (1 - 1e-9):
            best, least = splits[at], float(seconds[at])
        else:
            step //= 2
    return best, least
