"""All splits, one after the other: what every answer can be checked against where there are few."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product

import numpy as np
from numpy.typing import NDArray

from precice_lb.split.problem import Options, Problem, Split, uses_at

__all__ = ["MAXIMUM_SPLITS", "best_of_all", "count_splits"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

#: More splits, times the samples of the times, than this are not compared.
MAXIMUM_SPLITS = 4_000_000
_CHUNK = 100_000


def count_splits(problem: Problem) -> int:
    """Count the splits that bounds admit, whether they fit together or not."""
    return sum(math.prod(len(o.ranks) for o in own) for own in product(*problem.options.values()))


def best_of_all(problem: Problem) -> tuple[float, Split, int]:
    """Compare all splits that fit (Schröder 2019, section 1.3.1): mean seconds of the best, the best, and how many."""
    best, chosen, count = np.inf, {}, 0
    for own in product(*problem.options.values()):
        for indices in _batches(own):
            indices = indices[problem.layout.fits(uses_at(own, indices))]
            if not len(indices):
                continue
            count += len(indices)
            seconds = mean_windows(problem, own, indices)
            at = int(np.argmin(seconds))
            if seconds[at] < best:
                best = float(seconds[at])
                chosen = {o.name: (o.version, int(o.ranks[indices[at, i]])) for i, o in enumerate(own)}
    return best, chosen, count


def mean_windows(problem: Problem, own: tuple[Options, ...], indices: Integers) -> Floats:
    """Mean seconds per window over the samples, for splits as indices of shape (splits, participants)."""
    costs = {o.name: o.seconds[:, indices[:, i]] for i, o in enumerate(own)}
    return np.asarray(problem.schedule.window_seconds(costs).mean(axis=0))


def _batches(own: tuple[Options, ...]) -> Iterator[Integers]:
    sizes = [len(o.ranks) for o in own]
    total = math.prod(sizes)
    for begin in range(0, total, _CHUNK):
        numbers = np.arange(begin, min(begin + _CHUNK, total))
        yield np.stack(np.unravel_index(numbers, sizes), axis=1)
