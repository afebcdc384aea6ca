"""Drawn curves on a grid of rank counts, and the best split for each of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from precice_lb.models.interpolation import interpolated
from precice_lb.schedule import Schedule

__all__ = ["Table", "best_ranks", "grid_of_ranks"]

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

# All counts up to this, then so many per octave: between them curves are lines in logarithms.
DENSE, PER_OCTAVE = 24, 10
# Ways to divide the ranks of two participants that are tried for each curve, twice: over all and around the best.
TRIED = 32
# Rounds over all pairs of more than two participants.
ROUNDS = 3


def grid_of_ranks(highest: int) -> Integers:
    """Rank counts 1 … highest, all of them at first and then logarithmically spaced."""
    octaves = np.log2(max(highest / DENSE, 1.0))
    spaced = DENSE * 2.0 ** np.linspace(0.0, octaves, int(np.ceil(octaves * PER_OCTAVE)) + 1)
    grid = np.concatenate([np.arange(1, min(DENSE, highest) + 1), np.rint(spaced[1:])])
    return np.unique(np.minimum(grid, highest)).astype(np.int64)


class Table:
    """Curves of one participant on a grid."""

    def __init__(self, grid: Integers, seconds: Array) -> None:
        self.grid = grid
        self.log_mean = np.log(seconds.mean(axis=0))
        envelope = np.minimum.accumulate(seconds, axis=1)
        self.log_seconds = np.log(envelope)
        #: Ranks at which each curve is fastest.
        self.fastest = grid[np.argmin(seconds, axis=1)]

    def mean(self, highest: int) -> Array:
        """Mean seconds at 1 … highest ranks."""
        return np.asarray(np.exp(interpolated(np.arange(1.0, highest + 1), self.grid, self.log_mean[None])[0]))

    def __call__(self, ranks: Array) -> Array:
        """Least seconds of each curve with up to so many ranks, for ranks of shape (curves, k)."""
        return np.asarray(np.exp(interpolated(ranks, self.grid, self.log_seconds)), dtype=np.float64)


def best_ranks(
    tables: Mapping[str, Table],
    schedule: Schedule,
    start: Mapping[str, int],
    least: Mapping[str, int],
    spare: int,
    most: Mapping[str, int] | None = None,
) -> dict[str, Array]:
    """Split that would be best for each set of drawn curves, to about a percent of the ranks."""
    names = list(tables)
    # Ranks beyond these stay unused: they make nobody faster.
    ends = {name: min(int(tables[name].grid[-1]), (most or {}).get(name, int(tables[name].grid[-1]))) for name in names}
    count = len(next(iter(tables.values())).fastest)
    split = {name: np.full(count, float(start[name])) for name in names}
    split[names[0]] += spare
    seconds = {name: tables[name](np.minimum(split[name], ends[name])[:, None])[:, 0] for name in names}
    for _ in range(1 if len(names) == 2 else ROUNDS):
        for i, first in enumerate(names):
            for second in names[i + 1 :]:
                _divide(tables, schedule, split, seconds, first, second, least, ends)
    return {name: np.minimum(np.rint(split[name]), np.minimum(tables[name].fastest, ends[name])) for name in names}


def _divide(
    tables: Mapping[str, Table],
    schedule: Schedule,
    split: dict[str, Array],
    seconds: dict[str, Array],
    first: str,
    second: str,
    least: Mapping[str, int],
    ends: Mapping[str, int],
) -> None:
    """Divide the ranks of two participants anew, for each curve, while the others keep theirs."""
    both = split[first] + split[second]
    low, high = np.full_like(both, least[first]), np.maximum(both - least[second], least[first])
    window: Callable[[Mapping[str, Array]], Array] = schedule.window_seconds
    steps = np.linspace(0.0, 1.0, TRIED)
    rows = np.arange(len(both))
    for _ in range(2):
        # Dense at both ends, where a rank more or less counts most.
        share = 0.5 - 0.5 * np.cos(np.pi * steps)
        tried = low[:, None] + (high - low)[:, None] * share
        costs = {name: np.broadcast_to(own[:, None], tried.shape) for name, own in seconds.items()}
        costs[first] = tables[first](np.minimum(tried, ends[first]))
        costs[second] = tables[second](np.minimum(both[:, None] - tried, ends[second]))
        best = np.argmin(window(costs), axis=1)
        split[first], split[second] = tried[rows, best], both - tried[rows, best]
        seconds[first], seconds[second] = costs[first][rows, best], costs[second][rows, best]
        low, high = tried[rows, np.maximum(best - 1, 0)], tried[rows, np.minimum(best + 1, TRIED - 1)]
