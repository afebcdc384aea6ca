"""Splits under uncertain times: the least mean window time over samples of them.

The bound is the mean of the samples' own optima (with many splits of a linear relaxation's, which are below them by no
more than single ranks make). The splits are all compared where there are few; otherwise the search descends from the
best split for the mean times, from the median of the samples' best splits, and from the best of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product

import numpy as np
from numpy.typing import NDArray

from precice_lb.split.problem import Curve, Options, Problem, Split, split_of, uses_at
from precice_lb.split.solve import Solver, descend

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

# More splits, times the samples of the times, than this are not compared.
MAXIMUM_SPLITS = 4_000_000
_CHUNK = 100_000


def _count_splits(problem: Problem) -> int:
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
            seconds = _mean_windows(problem, own, indices)
            at = int(np.argmin(seconds))
            if seconds[at] < best:
                best = float(seconds[at])
                chosen = {o.name: (o.version, int(o.ranks[indices[at, i]])) for i, o in enumerate(own)}
    return best, chosen, count


def _mean_windows(problem: Problem, own: tuple[Options, ...], indices: Integers) -> Floats:
    """Mean seconds per window over the samples, for splits as indices of shape (splits, participants)."""
    costs = {o.name: o.seconds[:, indices[:, i]] for i, o in enumerate(own)}
    return np.asarray(problem.schedule.window_seconds(costs).mean(axis=0))


def _batches(own: tuple[Options, ...]) -> Iterator[Integers]:
    sizes = [len(o.ranks) for o in own]
    total = math.prod(sizes)
    for begin in range(0, total, _CHUNK):
        numbers = np.arange(begin, min(begin + _CHUNK, total))
        yield np.stack(np.unravel_index(numbers, sizes), axis=1)


def solve_samples(problem: Problem) -> tuple[Split, float, float, str]:
    """Minimise the mean window time over the samples; give split, seconds, bound and what is known of it."""
    solver = Solver(problem)
    bounds, splits = [], []
    for sample in range(problem.samples):
        curves = problem.curves(sample)
        solution = solver.bounded(curves)
        bounds.append(solution.bound)
        splits.append(split_of(curves, solution.choice))
    bound = float(np.mean(bounds))
    about = f"the {problem.samples} samples' own optima have a mean of {bound:.6g} s"
    if _count_splits(problem) * problem.samples <= MAXIMUM_SPLITS:
        seconds, split, count = best_of_all(problem)
        return split, seconds, bound, f"none of all {count} splits is shorter; {about}"
    mean = problem.curves()
    splits.append(split_of(mean, solver.solve(mean).choice))
    found = [
        _descended(problem, own, start)
        for own in product(*problem.options.values())
        for start in _starts(problem, own, splits)
    ]
    seconds, split = min(found, key=lambda each: each[0])
    return split, seconds, bound, f"the best found by descent; {about}"


def _starts(problem: Problem, own: tuple[Options, ...], splits: list[Split]) -> list[Integers]:
    """Choose splits to begin with, as indices, among the versions at hand."""
    alike = [split for split in splits if all(split[o.name][0] == o.version for o in own)]
    if not alike:
        return []
    ranks = np.array([[split[o.name][1] for o in own] for split in alike])
    candidates = [np.median(ranks, axis=0), *np.unique(ranks, axis=0)]
    indices = np.array(
        [
            [max(int(np.searchsorted(o.ranks, row[i], side="right")) - 1, 0) for i, o in enumerate(own)]
            for row in candidates
        ]
    )
    indices = indices[problem.layout.fits(uses_at(own, indices))]
    seconds = _mean_windows(problem, own, indices)
    starts = [indices[np.argmin(seconds)], indices[0]]
    return starts[:1] if np.array_equal(*starts) else starts


def _descended(problem: Problem, own: tuple[Options, ...], start: Integers) -> tuple[float, Split]:
    curves = [Curve(o.ranks, o.uses, o.seconds[0], o.version) for o in own]
    found, seconds = descend(curves, problem.layout, lambda indices: _mean_windows(problem, own, indices), start)
    return seconds, {o.name: (o.version, int(o.ranks[i])) for o, i in zip(own, found, strict=True)}
