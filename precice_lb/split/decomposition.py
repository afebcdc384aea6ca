"""Rank counts that cut a structured grid into parts that are smaller than those of any fewer ranks."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

MOST = 10**6
"""Ranks up to which counts are looked at."""


def grid_text(grid: Sequence[float]) -> str:
    """Write a grid: 720 x 360, or its number of axes."""
    return " x ".join(map(str, grid)) if isinstance(grid[0], int) else f"{len(grid)} axes"


@functools.lru_cache(maxsize=64)
def good_counts(grid: tuple[float, ...], most: int) -> NDArray[np.int64]:
    """Find the counts up to ``most`` whose largest part, a layer of neighbours included, is smaller than of any fewer.

    Of each count the best of its factorisations into as many numbers as the grid has axes counts. 215 ranks on a grid
    of 720 x 360 can only be 43 x 5, with parts of 17 x 72 points; 210 ranks have 48 x 26, and less to exchange.
    """
    most = min(most, MOST)
    smallest = np.full(most + 1, np.inf)
    for head in _heads(len(grid), most):
        last = np.arange(head[-1] if head else 1, most // math.prod(head) + 1)
        ranks = math.prod(head) * last
        for axes in set(itertools.permutations(grid)):
            parts = np.full(len(last), 1.0)
            for points, cut in zip(axes, (*head, last), strict=True):
                longest = points / np.asarray(cut, dtype=np.float64)
                parts *= (np.ceil(longest) if isinstance(points, int) else longest) + 2
            smallest[ranks] = np.minimum(smallest[ranks], parts)
    fewer = np.minimum.accumulate(smallest)[:-1]
    return np.asarray(np.flatnonzero(smallest[1:] < fewer) + 1, dtype=np.int64)


def _heads(axes: int, most: int) -> Iterator[tuple[int, ...]]:
    """List all but the largest factor of counts up to ``most``, rising."""
    if axes == 1:
        yield ()
    for first in itertools.takewhile(lambda first: axes > 1 and first**axes <= most, itertools.count(1)):
        for second in range(first, math.isqrt(most // first) + 1) if axes == 3 else [0]:
            yield (first, second) if axes == 3 else (first,)
