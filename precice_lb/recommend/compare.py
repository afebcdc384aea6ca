"""What is recommended beside other splits, and how sure that is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import InfeasibleError
from precice_lb.layout import Layouts, count_text
from precice_lb.models.interpolation import interpolated
from precice_lb.plural import plural
from precice_lb.recommend.limits import Limits, outside
from precice_lb.recommend.plan import Alternative, FailedSplit
from precice_lb.recommend.posterior import SplitProblem
from precice_lb.schedule import Schedule

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

# All counts up to this, then so many per octave: between them curves are lines in logarithms.
DENSE, PER_OCTAVE = 24, 10
# Ways to divide the ranks of two participants that are tried for each curve, twice: over all and around the best.
TRIED = 32
# Rounds over all pairs of more than two participants.
ROUNDS = 3
# Participants whose pairs are tried at most where window times are sums: 8 take seconds, 12 a minute and a half.
MOST_IN_TURN = 8
# A split to compare with, and the one that was meant where the bounds do not allow that.
Reference = tuple[dict[str, int], dict[str, int]]


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
        self.log_drawn = np.log(seconds)
        self.log_seconds = np.minimum.accumulate(self.log_drawn, axis=1)
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
    most: Mapping[str, int],
) -> dict[str, Array]:
    """Split that would be best for each set of drawn curves, to about a percent of the ranks."""
    names = list(tables)
    # Ranks beyond these stay unused: they make nobody faster.
    ends = {name: min(int(tables[name].grid[-1]), most[name]) for name in names}
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
    if (high <= low).all():
        # Neither has a rank to spare.
        return
    window: Callable[[Mapping[str, Array]], Array] = schedule.window_seconds
    others = seconds
    if schedule.is_maximum:
        # What the others make of it is one number for each curve.
        weights = schedule.weights
        rest = np.max(
            [np.zeros(len(both)), *(weights[n] * s for n, s in seconds.items() if n not in (first, second))], 0
        )
        others = {}

        def window(costs: Mapping[str, Array]) -> Array:
            pair = np.maximum(weights[first] * costs[first], weights[second] * costs[second])
            return np.asarray(np.maximum(pair, rest[:, None]))

    steps = np.linspace(0.0, 1.0, TRIED)
    rows = np.arange(len(both))
    for _ in range(2):
        # Dense at both ends, where a rank more or less counts most.
        share = 0.5 - 0.5 * np.cos(np.pi * steps)
        tried = low[:, None] + (high - low)[:, None] * share
        costs = {name: np.broadcast_to(own[:, None], tried.shape) for name, own in others.items()}
        costs[first] = tables[first](np.minimum(tried, ends[first]))
        costs[second] = tables[second](np.minimum(both[:, None] - tried, ends[second]))
        best = np.argmin(window(costs), axis=1)
        split[first], split[second] = tried[rows, best], both - tried[rows, best]
        seconds[first], seconds[second] = costs[first][rows, best], costs[second][rows, best]
        low, high = tried[rows, np.maximum(best - 1, 0)], tried[rows, np.minimum(best + 1, TRIED - 1)]


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
    problem: SplitProblem,
    windows: NDArray[np.float64],
    others: Mapping[str, Reference],
    models: Mapping[str, Any],
    valid: Mapping[str, tuple[int, int]],
) -> tuple[dict[str, Alternative], list[str]]:
    """Compare the recommended split with others, curve by curve."""
    window = float(windows.mean())
    alternatives, warnings = {}, []
    for kind, (other, meant) in others.items():
        doubtful = [
            name
            for name, model in models.items()
            if not getattr(model, "always_valid", False) and not valid[name][0] <= other[name] <= valid[name][1]
        ]
        if doubtful:
            name = doubtful[0]
            low, high = valid[name]
            warnings.append(
                f"The {kind} split is not compared: the model of {name} is valid from {low} to "
                f"{problem.limits.plural(name, high)}, not at {other[name]}."
            )
            continue
        seconds = problem.expected.window(other)
        # The same split is not faster, whatever rounding says.
        faster = float((windows < seconds * (1 - 1e-12)).mean()) if problem.expected.is_uncertain else float("nan")
        mean = float(seconds.mean())
        alternatives[kind] = Alternative(other, mean, mean / window - 1, faster, meant)
    return alternatives, warnings


def window_interval(
    models: Mapping[str, Any],
    problem: SplitProblem,
    split: Mapping[str, int],
    windows: NDArray[np.float64],
    level: float,
) -> tuple[float, float]:
    """Give quantiles over drawn curves; else the window times of all low and all high bounds, as it is monotone."""
    expected, constraints = problem.expected, problem.limits.constraints
    if expected.is_uncertain:
        low, high = np.quantile(windows, [(1 - level) / 2, (1 + level) / 2])
    elif all(hasattr(model, "predict_interval") for model in models.values()):
        ranks = {name: np.array([[split[name]]], dtype=np.float64) for name in models}
        bounds = {name: model.predict_interval(ranks[name], level) for name, model in models.items()}
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
    return float(low), float(high)


def rank_intervals(
    problem: SplitProblem, tables: Mapping[str, Table | None], split: Mapping[str, int], level: float, limits: Limits
) -> dict[str, tuple[int, int]]:
    """Give quantiles of the ranks that would be best for each set of drawn curves.

    Nothing where none are drawn, or where many participants wait for each other in turn: it would take minutes.
    """
    known = {name: table for name, table in tables.items() if table is not None}
    threads = {limits.threads(name) for name in tables}
    constraints = limits.constraints
    if len(threads) > 1 or constraints.shared or constraints.fixed or constraints.kinds:
        return {}
    budget = limits.cores // threads.pop()
    schedule = problem.expected.schedule
    if len(known) < len(tables) or (len(tables) > MOST_IN_TURN and not schedule.is_maximum):
        return {}
    spare = max(budget - sum(split.values()), 0)
    bounds = problem.limits
    best = best_ranks(known, schedule, split, bounds.lowest, spare, bounds.highest)
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
    valid: Mapping[str, tuple[int, int]],
) -> list[str]:
    """Find reasons for doubt."""
    found = []
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
        low, high = valid[name]
        if split[name] == low > limits.lowest[name] or split[name] == high < limits.highest[name]:
            found.append(
                f"{name}: its model is valid for {limits.span(name, low, high)} only (elsewhere it is not "
                "positive or bends as no run time does), and that bound decided; measure beyond it or choose another "
                "learner."
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
