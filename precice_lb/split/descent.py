"""Good splits by moving counts between participants: to begin with, or where nothing exact is at hand.

A move takes one participant a step up or down, alone, or with another one that goes the opposite way or takes all that
is left. The best of all counts; steps halve from a part of the curves, by default an eighth, to one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from precice_lb.split.problem import Curve, uses_at
from precice_lb.split.resources import Layout

__all__ = ["descend"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def descend(
    curves: Sequence[Curve], layout: Layout, objective: Callable[[Integers], Floats], start: Integers, part: int = 8
) -> tuple[Integers, float]:
    """Descend from a split, given as indices on the curves; give its indices and objective."""
    sizes = np.array([len(curve.ranks) for curve in curves])
    units = np.vstack([np.zeros((1, len(curves)), dtype=np.int64), np.eye(len(curves), dtype=np.int64)])
    # From every one to every other one; the first stands for nobody.
    moves = np.unique((units[:, None] - units[None]).reshape(-1, len(curves)), axis=0)
    alone = moves[np.abs(moves).sum(axis=1) < 2]
    best, least = start, float(objective(start[None])[0])
    step = 1 << max(int(sizes.max()) // part, 1).bit_length() - 1
    while step:
        moved = np.clip(best + step * alone, 0, sizes - 1)
        room = layout.allowance(uses_at(curves, moved))
        tried = [best + step * moves, moved]
        for taker, curve in enumerate(curves):
            with_rest = moved.copy()
            with_rest[:, taker] = curve.index_within(room[:, taker])
            tried.append(with_rest)
        splits = np.unique(np.concatenate(tried), axis=0)
        splits = splits[((splits >= 0) & (splits < sizes)).all(axis=1)]
        splits = splits[layout.fits(uses_at(curves, splits))]
        seconds = objective(splits)
        at = int(np.argmin(seconds))
        if seconds[at] < least * (1 - 1e-9):
            best, least = splits[at], float(seconds[at])
        else:
            step //= 2
    return best, least
