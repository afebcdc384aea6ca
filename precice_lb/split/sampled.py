"""Splits under uncertain times: the least mean window time over samples of them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from precice_lb.split.brute import MAXIMUM_SPLITS, best_of_all, count_splits, mean_windows
from precice_lb.split.local import improve
from precice_lb.split.problem import Curve, Options, Problem
from precice_lb.split.solve import Solver

__all__ = ["SampledSolution", "solve_samples"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class SampledSolution:
    """The split of the least mean window time found.

    Attributes
    ----------
    split : dict
        Version and ranks of each participant.
    seconds : float
        Mean seconds per window over the samples.
    bound : float
        Mean over the samples of what no split is below in that sample.
    proof : str
        What is known of the split.
    """

    split: dict[str, tuple[str, int]]
    seconds: float
    bound: float
    proof: str


def solve_samples(problem: Problem) -> SampledSolution:
    """Minimise the mean window time over the samples.

    The bound is the mean of the samples' own optima (with many splits of a linear relaxation's, which are below them by
    no more than single ranks make). The splits are all compared where there are few; otherwise the
    search descends from the best split for the mean times, from the median of the samples' best splits, and from the
    best of them.
    """
    solver = Solver(problem)
    bounds, splits = [], []
    for sample in range(problem.samples):
        curves = problem.curves(sample)
        solution = solver.bounded(curves)
        bounds.append(solution.bound)
        splits.append({n: (curves[n][v].version, int(curves[n][v].ranks[i])) for n, (v, i) in solution.choice.items()})
    bound = float(np.mean(bounds))
    about = f"the {problem.samples} samples' own optima have a mean of {bound:.6g} s"
    if count_splits(problem) * problem.samples <= MAXIMUM_SPLITS:
        seconds, split, count = best_of_all(problem)
        return SampledSolution(split, seconds, bound, f"none of all {count} splits is shorter; {about}")
    mean = problem.curves()
    solution = solver.solve(mean)
    splits.append({n: (mean[n][v].version, int(mean[n][v].ranks[i])) for n, (v, i) in solution.choice.items()})
    best: tuple[float, dict[str, tuple[str, int]]] | None = None
    for own in product(*problem.options.values()):
        for start in _starts(problem, own, splits):
            found = _descend(problem, own, start)
            if best is None or found[0] < best[0]:
                best = found
    assert best is not None
    return SampledSolution(best[1], best[0], bound, f"the best found by descent; {about}")


def _starts(problem: Problem, own: tuple[Options, ...], splits: list[dict[str, tuple[str, int]]]) -> list[Integers]:
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
    uses = np.stack([o.uses[indices[:, i]] for i, o in enumerate(own)], axis=1)
    fits = (problem.layout.total(uses) <= problem.machine.capacity).all(axis=1)
    indices = indices[fits]
    seconds = mean_windows(problem, own, indices)
    starts = [indices[np.argmin(seconds)], indices[0]]
    return starts[:1] if np.array_equal(*starts) else starts


def _descend(problem: Problem, own: tuple[Options, ...], start: Integers) -> tuple[float, dict[str, tuple[str, int]]]:
    curves = [Curve(o.ranks, o.uses, o.seconds[0], o.version) for o in own]
    found, seconds = improve(
        curves, problem.layout, problem.machine.capacity, lambda indices: mean_windows(problem, own, indices), start
    )
    return seconds, {o.name: (o.version, int(o.ranks[i])) for o, i in zip(own, found, strict=True)}
