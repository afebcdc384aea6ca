"""What is recommended beside other splits, and how sure that is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import InfeasibleError
from precice_lb.models.posterior import interpolated
from precice_lb.recommend.limits import in_proportion
from precice_lb.recommend.plan import Alternative
from precice_lb.recommend.posterior import Curves, SplitProblem, geometric_mean, grid_of_ranks
from precice_lb.split.admissible import Limits

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

# Rank counts of a participant that are looked at for its interval: so many over the participants, and at least. With
# twice so many participants, fewer of the drawn curves are.
LOOKED_AT, LEAST_LOOKED_AT, ALL_DRAWS = 1024, 40, 8
# A split to compare with, and the one that was meant where the bounds do not allow that.
Reference = tuple[dict[str, int], dict[str, int]]


def reference_splits(
    limits: Limits, names: tuple[str, ...], unknowns: Mapping[str, float], present: dict[str, int] | None
) -> tuple[dict[str, Reference], list[str]]:
    """Give the splits that people use: equal, in proportion to unknowns where all are known, the present one."""
    kinds = {"equal": dict.fromkeys(names, 1.0)}
    if min(unknowns.get(name, 0.0) for name in names) > 0:
        kinds["degrees-of-freedom"] = {name: unknowns[name] for name in names}
    others: dict[str, Reference] = {}
    warnings = []
    for kind, weights in kinds.items():
        try:
            if limits.constraints.shared:
                raise InfeasibleError("where participants share cores there is no such split")
            meant, possible = in_proportion(limits, weights)
            others[kind] = (possible, meant if meant != possible else {})
        except InfeasibleError as error:
            warnings.append(f"The {kind} split is not compared: {error}.")
    return others | ({"present": (present, {})} if present else {}), warnings


def in_turns(problem: SplitProblem) -> dict[str, Reference]:
    """Give the split in which everybody has all cores, where no two participants ever work at the same time."""
    limits, constraints = problem.limits, problem.limits.constraints
    if len(problem.times) < 2 or not problem.expected.schedule.is_sum or constraints.shared or constraints.kinds:
        return {}
    split = {}
    for name, times in problem.times.items():
        alone = limits.rows[name][0].within(limits.machine.capacity)
        counts = limits.counts[name] if alone is None else alone.counts
        known, last = counts[counts <= len(times)], counts[-1:]
        # Beyond what a split leaves to one alone, only the most is looked at.
        chosen = np.union1d(known[[np.argmin(times[known - 1])]], last)
        split[name] = int(chosen[np.argmin(geometric_mean(problem.expected.curves[name](chosen)))])
    return {"in-turns": (split, {})}


def compared(
    problem: SplitProblem, windows: NDArray[np.float64], others: Mapping[str, Reference]
) -> dict[str, Alternative]:
    """Compare the recommended split with others, curve by curve."""
    window = geometric_mean(windows)
    alternatives = {}
    for kind, (other, meant) in others.items():
        seconds = problem.expected.window(other)
        # The same split is not faster, whatever rounding says.
        faster = float((windows < seconds * (1 - 1e-12)).mean()) if problem.expected.is_uncertain else float("nan")
        mean = geometric_mean(seconds)
        alternatives[kind] = Alternative(other, mean, 1 - window / mean, faster, meant)
    return alternatives


def rank_intervals(problem: SplitProblem, split: Mapping[str, int], level: float) -> dict[str, tuple[int, int]]:
    """Give quantiles of the ranks that would be best for each set of drawn curves; nothing where none are drawn."""
    limits, constraints = problem.limits, problem.limits.constraints
    if not problem.expected.is_uncertain or constraints.shared or constraints.kinds:
        return {}
    budget = max(limits.machine.cores_in_all, sum(split.values()))
    schedule = problem.expected.schedule
    step = max(len(split) // ALL_DRAWS, 1 if schedule.is_maximum else 2)
    least = {name: _least(curve, len(problem.times[name]), step) for name, curve in problem.expected.curves.items()}
    # Of what is left others get more where they are slower than in the mean: as much where all go on at once and times
    # fall like 1/p, the root of it where times add up. Of a single other one it is all.
    power = 1.0 if schedule.is_maximum else 0.5
    seconds_now = {name: least[name](np.array([float(count)])) for name, count in split.items()}
    parts = {name: split[name] * (seconds / geometric_mean(seconds)) ** power for name, seconds in seconds_now.items()}
    intervals = {}
    for name in split:
        others = [other for other in split if other != name]
        counts = _looked_at(limits.counts[name], split[name], max(LOOKED_AT // len(split), LEAST_LOOKED_AT))
        counts = counts[counts <= max(budget - sum(limits.lowest[other] for other in others), split[name])]
        costs, all_parts = {name: least[name](counts)}, sum(parts[other] for other in others)
        for other in others:
            ranks = (budget - counts) * parts[other] / all_parts
            costs[other] = least[other](np.clip(ranks, limits.lowest[other], limits.highest[other]))
        windows = schedule.window_seconds(costs)
        # Of those that are as good the nearest to what is recommended.
        good = windows <= windows.min(axis=1, keepdims=True) * (1 + 1e-9)
        best = np.clip(split[name], counts[good.argmax(axis=1)], counts[::-1][good[:, ::-1].argmax(axis=1)])
        low, high = np.quantile(best, [(1 - level) / 2, (1 + level) / 2], method="nearest")
        # The recommended count is the best in the mean, which few curves need be: it never stands outside.
        intervals[name] = (min(int(low), split[name]), max(int(high), split[name]))
    return intervals


def _least(curve: Curves, highest: int, step: int) -> Callable[[NDArray[Any]], Array]:
    """Least seconds of drawn curves with up to so many ranks, (k,), or (curves, k) where each is asked at others."""
    grid = grid_of_ranks(highest)
    logs = np.minimum.accumulate(np.log(curve(grid)[::step]), axis=1)
    return lambda ranks: np.asarray(np.exp(interpolated(ranks, grid, logs)), dtype=np.float64)


def _looked_at(counts: Integers, middle: int, most: int) -> Integers:
    """Choose among rising counts: where there are more, half of them within a factor of two of one."""
    if len(counts) <= most:
        return counts
    wide, near = np.geomspace((counts[0], middle / 2), (counts[-1], 2 * middle), most // 2).T
    indices = np.searchsorted(counts, np.concatenate((wide, near, [middle]))).clip(max=len(counts) - 1)
    return np.asarray(counts[np.unique(indices)])
