"""What is recommended beside other splits, and how sure that is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import InfeasibleError
from precice_lb.layout import Layouts, count_text
from precice_lb.models.posterior import interpolated
from precice_lb.plural import plural
from precice_lb.recommend.case import rows_at
from precice_lb.recommend.limits import Limits, outside
from precice_lb.recommend.plan import Alternative, FailedSplit
from precice_lb.recommend.posterior import SplitProblem, geometric_mean
from precice_lb.schedule import Schedule

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

# All counts up to this, then so many per octave: between them curves are lines in logarithms.
DENSE, PER_OCTAVE = 24, 10
# Steps by which the best split of a curve is found.
BISECTIONS = 30
# A split to compare with, and the one that was meant where the bounds do not allow that.
Reference = tuple[dict[str, int], dict[str, int]]


def grid_of_ranks(highest: int) -> Integers:
    """Rank counts 1 … highest, all of them at first and then logarithmically spaced."""
    octaves = np.log2(max(highest / DENSE, 1.0))
    spaced = DENSE * 2.0 ** np.linspace(0.0, octaves, int(np.ceil(octaves * PER_OCTAVE)) + 1)
    grid = np.concatenate([np.arange(1, min(DENSE, highest) + 1), np.rint(spaced[1:])])
    return np.unique(np.minimum(grid, highest)).astype(np.int64)


class Table:
    """Drawn curves of one participant on a grid."""

    def __init__(self, grid: Integers, seconds: Array) -> None:
        self.grid = grid
        self.log_drawn = np.log(seconds)
        #: Least seconds of each curve with up to so many ranks.
        self.log_seconds = np.minimum.accumulate(self.log_drawn, axis=1)
        #: Ranks at which each curve is fastest.
        self.fastest = grid[np.argmin(seconds, axis=1)]

    def __call__(self, ranks: Array) -> Array:
        """Least seconds of each curve with up to so many ranks, for ranks of shape (curves, k)."""
        return np.asarray(np.exp(interpolated(ranks, self.grid, self.log_seconds)), dtype=np.float64)

    def reaching(self, log_seconds: Array) -> Array:
        """Fewest ranks with which each curve is as fast as wanted, shape (curves,); the last of the grid if none is."""
        logs = self.log_seconds
        right = (logs > log_seconds[:, None]).sum(axis=1)
        at, rows = right.clip(1, len(self.grid) - 1) if len(self.grid) > 1 else right * 0, np.arange(len(logs))
        high, low = logs[rows, at - 1], logs[rows, at]
        share = np.where(high > low, (high - log_seconds) / np.where(high > low, high - low, 1.0), 0.0).clip(0, 1)
        ranks = self.grid[at - 1] * (self.grid[at] / self.grid[at - 1]) ** share
        return np.asarray(np.where(right == 0, self.grid[0], ranks), dtype=np.float64)

    def worth(self, price: Array) -> Array:
        """Ranks at which seconds and a price for each rank are least in sum, for each curve, shape (curves,)."""
        return np.asarray(self.grid[np.argmin(np.exp(self.log_seconds) + price[:, None] * self.grid, axis=1)])


def best_ranks(
    tables: Mapping[str, Table], schedule: Schedule, budget: int, least: Mapping[str, int], most: Mapping[str, int]
) -> dict[str, Array]:
    """Split that would be best for each set of drawn curves, to about a percent of the ranks.

    Either all are equally slow, or a rank is worth the same to all of them, whichever makes the shorter window: that is
    the best where participants work at the same time and where they work in turn, and near to it in between.
    """
    names = list(tables)
    weights = {name: schedule.weights[name] for name in names}
    low = np.array([least[name] for name in names], dtype=np.float64)[:, None]
    high = np.array([min(most[name], int(tables[name].grid[-1])) for name in names], dtype=np.float64)[:, None]

    def as_fast(log_window: Array) -> Array:
        return np.array([tables[name].reaching(log_window - np.log(weights[name])) for name in names])

    def as_worth(log_price: Array) -> Array:
        return np.array([tables[name].worth(np.exp(log_price) / weights[name]) for name in names])

    count = len(next(iter(tables.values())).log_drawn)
    ends = [table.log_seconds + np.log(weights[name]) for name, table in tables.items()]
    slowest, fastest = max(float(each.max()) for each in ends) + 1.0, min(float(each.min()) for each in ends)
    found = []
    for ranks_of, first in ((as_fast, fastest), (as_worth, fastest - 4 * np.log(float(high.max()) + 1))):
        left, right = np.full(count, first), np.full(count, slowest)
        for _ in range(BISECTIONS):
            middle = 0.5 * (left + right)
            fits = ranks_of(middle).clip(low, high).sum(axis=0) <= budget
            left, right = np.where(fits, left, middle), np.where(fits, middle, right)
        found.append(np.rint(ranks_of(right).clip(low, high)))
    costs = [
        {name: tables[name](np.maximum(each[at], 1)[:, None])[:, 0] for at, name in enumerate(names)} for each in found
    ]
    shorter = schedule.window_seconds(costs[0]) <= schedule.window_seconds(costs[1])
    chosen = np.where(shorter, *found)
    return {name: np.minimum(chosen[at], tables[name].fastest.clip(low[at])) for at, name in enumerate(names)}


def reference_splits(
    limits: Limits, names: tuple[str, ...], unknowns: Mapping[str, float], present: dict[str, int] | None
) -> tuple[dict[str, Reference], list[str]]:
    """Give the splits that people use: equal, in proportion to unknowns where all are known, the present one."""
    weights = {"equal": dict.fromkeys(names, 1.0)}
    if min(unknowns.get(name, 0.0) for name in names) > 0:
        weights["degrees-of-freedom"] = {name: unknowns[name] for name in names}
    others: dict[str, Reference] = {}
    warnings = []
    for kind, each in weights.items():
        if limits.constraints.shared:
            warnings.append(f"The {kind} split is not compared: where participants share cores there is no such split.")
            continue
        try:
            meant, possible = limits.in_proportion(each)
        except InfeasibleError as error:
            warnings.append(f"The {kind} split is not compared: {error}.")
            continue
        others[kind] = (possible, meant if meant != possible else {})
    return others | ({"present": (present, {})} if present else {}), warnings


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
        alternatives[kind] = Alternative(other, mean, mean / window - 1, faster, meant)
    return alternatives


def window_interval(
    models: Mapping[str, Any],
    problem: SplitProblem,
    split: Mapping[str, int],
    windows: NDArray[np.float64],
    level: float,
    columns: Mapping[str, Mapping[str, float]],
) -> tuple[float, float]:
    """Give quantiles over drawn curves; else the window times of all low and all high bounds, as it is monotone.

    Either way with the expected window, which a few curves may take out of a narrow one.
    """
    expected, constraints = problem.expected, problem.limits.constraints
    if expected.is_uncertain:
        low, high = np.quantile(windows, [(1 - level) / 2, (1 + level) / 2])
    elif all(hasattr(model, "predict_interval") for model in models.values()):
        bounds = {
            name: model.predict_interval(rows_at([split[name]], columns[name]), level) for name, model in models.items()
        }
        # The curves have what sharing cores costs, the models' bounds do not.
        slower = {name: 1.0 + constraints.overhead(name) for name in models}
        low, high = (
            float(
                expected.seconds(
                    {name: np.array(max(float(pair[side][0]), 0.0) * slower[name]) for name, pair in bounds.items()}
                )
            )
            for side in (0, 1)
        )
    else:
        return float("nan"), float("nan")
    window = geometric_mean(windows)
    return min(float(low), window), max(float(high), window)


def rank_intervals(
    problem: SplitProblem, models: Mapping[str, Any], split: Mapping[str, int], level: float, limits: Limits
) -> dict[str, tuple[int, int]]:
    """Give quantiles of the ranks that would be best for each set of drawn curves; nothing where none are drawn."""
    threads = {limits.threads(name) for name in models}
    constraints = limits.constraints
    if len(threads) > 1 or constraints.shared or constraints.fixed or constraints.kinds:
        return {}
    if not all(hasattr(model, "draw") for model in models.values()):
        return {}
    grids = {name: grid_of_ranks(len(problem.times[name])) for name in models}
    tables = {name: Table(grid, problem.curves[name](grid)) for name, grid in grids.items()}
    budget = max(limits.cores // threads.pop(), sum(split.values()))
    best = best_ranks(tables, problem.expected.schedule, budget, limits.lowest, limits.highest)
    edges = [(1 - level) / 2, (1 + level) / 2]
    intervals = {}
    for name, ranks in best.items():
        counts = limits.counts(name)
        low, high = np.quantile(_nearest(ranks, counts), edges, method="nearest")
        # The recommended count is the best in the mean, which few curves need be: it never stands outside.
        intervals[name] = (min(int(low), split[name]), max(int(high), split[name]))
    return intervals


def _nearest(ranks: NDArray[np.float64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Round to the nearest of some rising counts."""
    right = np.searchsorted(counts, ranks).clip(0, len(counts) - 1)
    left = np.maximum(right - 1, 0)
    return np.asarray(np.where(ranks - counts[left] < counts[right] - ranks, counts[left], counts[right]))


def caveats(
    samples: Mapping[str, NDArray[np.float64]],
    split: Mapping[str, int],
    limits: Limits,
    node_ranks: Mapping[str, float | None],
) -> list[str]:
    """Find reasons for doubt."""
    found, beyond = [], []
    for name, rows in samples.items():
        ranks = np.unique(rows[:, 0]).astype(int)
        counts = "numbers of cores" if name in limits.layouts else "rank counts"
        if len(ranks) == 1:
            found.append(
                f"{name} was measured at {limits.count(name, int(ranks[0]))} only: how it scales is assumed (nearly "
                f"ideally), not measured; measure at other {counts}."
            )
        elif len(ranks) == 2:
            found.append(f"{name} was measured at two {counts} only: measure at a third to see its curve bend.")
        if len(ranks) > 1 and (known := outside(split[name], ranks)):
            found.append(
                f"{name}: {limits.count(name, split[name])}, outside of the measured range of {known[0]} to "
                f"{known[1]}: the prediction is an extrapolation."
            )
        if split[name] > ranks[-1] and node_ranks[name] is None:
            beyond.append(name)
    if beyond:
        found.append(
            f"{' and '.join(beyond)} would get more ranks than ever measured, perhaps of more nodes, where solvers "
            "scale anew: say how many cores a node has (--cores-per-node)."
        )
    return found


def beyond_failed(
    split: Mapping[str, int],
    failed: Sequence[FailedSplit],
    samples: Mapping[str, NDArray[np.float64]],
    layouts: Mapping[str, Layouts] | None = None,
) -> list[str]:
    """Say where a split gives a participant more (or fewer) ranks than failed, and no run with as many ended well."""
    worked = {name: set(rows[:, 0].astype(int).tolist()) for name, rows in samples.items()}
    runs: dict[tuple[str, int], set[str]] = {}
    for each in failed:
        for name, ranks in each.ranks.items():
            if ranks not in worked[name]:
                runs.setdefault((name, ranks), set()).update(each.runs)
    found = []
    for (name, ranks), names in sorted(runs.items()):
        chosen = split[name]
        more = chosen > ranks and not any(count > ranks for count in worked[name])
        fewer = chosen < ranks and not any(count < ranks for count in worked[name])
        if more or fewer:
            times = {1: "its only run", 2: "both runs"}.get(len(names), f"all {plural(len(names), 'run')}")
            found.append(
                f"{name} failed with {count_text(name, ranks, layouts)} in {times}: nothing is known about "
                f"{'more' if more else 'fewer'}, and this split has {chosen}; measure it before it is used."
            )
    return found
