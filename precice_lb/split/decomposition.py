"""Rank counts that cut a structured grid into parts that are smaller than those of any fewer ranks."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

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
    smallest = np.where(np.arange(most + 1) == 1, 1.0, np.inf)
    for points in grid:
        longest = points / np.maximum(np.arange(most + 1), 1)
        extent = (np.ceil(longest) if isinstance(points, int) else longest) + 2
        before, smallest = smallest, np.full(most + 1, np.inf)
        for first in range(1, math.isqrt(most) + 1):
            other = np.arange(first, most // first + 1)
            parts = np.minimum(extent[first] * before[other], extent[other] * before[first])
            smallest[first * other] = np.minimum(smallest[first * other], parts)
    fewer = np.minimum.accumulate(smallest)[:-1]
    return np.asarray(np.flatnonzero(smallest[1:] < fewer) + 1, dtype=np.int64)
