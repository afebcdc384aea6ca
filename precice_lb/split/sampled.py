"""Splits under uncertain times: the least mean window time over samples of them.

The bound is the mean of the samples' own optima (with many splits of a linear relaxation's, which are below them by no
more than single ranks make). The splits are all compared where there are few; otherwise the search descends from the
best split for the mean times, from the median of the samples' best splits, and from the best of them.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.typing import NDArray

from precice_lb.split.brute import MAXIMUM_SPLITS, best_of_all, count_splits, mean_windows
from precice_lb.split.descent import descend
from precice_lb.split.problem import Curve, Options, Problem, Split, split_of, uses_at
from precice_lb.split.solve import Solver

__all__ = ["solve_samples"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


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
    if count_splits(problem) * problem.samples <= MAXIMUM_SPLITS:
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
    seconds = mean_windows(problem, own, indices)
    starts = [indices[np.argmin(seconds)], indices[0]]
    return starts[:1] if np.array_equal(*starts) else starts


def _descended(problem: Problem, own: tuple[Options, ...], start: Integers) -> tuple[float, Split]:
    curves = [Curve(o.ranks, o.uses, o.seconds[0], o.version) for o in own]
    found, seconds = descend(curves, problem.layout, lambda indices: mean_windows(problem, own, indices), start)
    return seconds, {o.name: (o.version, int(o.ranks[i])) for o, i in zip(own, found, strict=True)}
