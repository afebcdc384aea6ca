"""What else there is to choose from: splits nearly as good, fewer cores, and how sure the choice is beside others."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import InfeasibleError, ModelError
from precice_lb.models.posterior import interpolated
from precice_lb.recommend.limits import in_proportion
from precice_lb.recommend.posterior import Curves, SplitProblem, geometric_mean, grid_of_ranks
from precice_lb.recommend.remarks import Remark, remark
from precice_lb.split import TradeoffCurve, TradeoffPoint, near_optimal_splits, tradeoff_curve
from precice_lb.split.admissible import Limits

Prefer = Literal["time", "cost"] | float
# Splits that are listed, of so many near the best one for the mean curves.
LISTED, NEAR = 10, 60
# Without multiples or whole nodes, splits are listed in steps of about so many parts of the budget.
PARTS = 64
# Budgets of the curve.
POINTS = 48


@dataclass(frozen=True)
class Alternative:
    """A split beside the recommended one, and its seconds per window.

    Attributes
    ----------
    split : dict of str to int
        Ranks by participant.
    window_seconds : float
        Seconds per time window, expected over the drawn curves.
    gain : float
        1 minus the recommended window time over this one: 0.25 says that the recommended split is 25 % faster.
    probability : float
        That the recommended split is faster than this one; NaN where that is not known.
    meant : dict of str to int
        Where the bounds do not allow the split that this one stands for, such as the equal one: that split.
    used : dict of str to int
        Ranks, cores and nodes that it occupies, in lists of splits that are nearly as good.
    """

    split: dict[str, int]
    window_seconds: float
    gain: float
    probability: float = math.nan
    meant: dict[str, int] = field(default_factory=dict)
    used: dict[str, int] = field(default_factory=dict)

    @property
    def longer(self) -> float:
        """By what share the window is longer than with the recommended split."""
        return self.gain / (1 - self.gain)


@dataclass(frozen=True, eq=False)
class Plan:
    """More than one split to choose from."""

    # Splits whose window is at most a share ``within`` longer than the recommended one's, best first.
    near: tuple[Alternative, ...]
    # That share.
    within: float
    # Ranks in the list are multiples of this, as people round them.
    step: int
    # Window time against core-hours over budgets up to the whole one, without budgets that are beaten in both.
    # Windows are expected over the drawn curves; efficiency is the least core-hours per window over a point's.
    tradeoff: TradeoffCurve
    # The point that is recommended.
    chosen: TradeoffPoint
    # What decided which.
    prefer: Prefer
    # From which on more cores pay less than they cost; None where they never do.
    knee: TradeoffPoint | None


@dataclass(frozen=True)
class FailedSplit:
    """A split all of whose runs failed, or a participant's number of ranks."""

    # Ranks by participant; of one participant alone where it failed beside any others.
    ranks: dict[str, int]
    # Names of the runs.
    runs: tuple[str, ...]
    # Lines of their logs that say why, each after its participant's name.
    reasons: tuple[str, ...] = ()
    # Versions that failed, by participant; of those that have several.
    versions: dict[str, str] = field(default_factory=dict)

    def is_of(self, versions: Mapping[str, str]) -> bool:
        """Whether it is one of these versions."""
        return all(versions.get(name, version) == version for name, version in self.versions.items())


def _near_splits(
    problem: SplitProblem, budget: int, best: Mapping[str, int], within: float
) -> tuple[tuple[Alternative, ...], int]:
    """List splits whose window is at most a share longer than the best one's."""
    if not 0 <= within <= 1:
        raise ModelError(f"expected splits within 0 to 100 % of the best one, found {100 * within:g} %")
    constraints = problem.limits.constraints
    is_free = constraints.multiple == 1 and not (constraints.allow or constraints.whole_nodes or constraints.kinds)
    cores = problem.limits.machine.with_budget(budget).cores_in_all if is_free else 1
    step = 1 << max(cores // PARTS, 1).bit_length() - 1
    splits = None
    while splits is None:
        stepped = dataclasses.replace(constraints, multiple=step) if step > 1 else constraints
        words = problem.words | {"constraints": stepped, "within": 2 * within + 0.02, "count": NEAR}
        try:
            splits = near_optimal_splits(problem.times, budget, **words)
        except InfeasibleError:
            if step == 1:
                raise
            step //= 2
    least, *seconds = problem.expected.expected([best, *(other.split for other in splits)])
    near = [
        Alternative(dict(other.split), float(value), 1 - float(least / value), used=dict(other.used))
        for value, other in zip(seconds, splits, strict=True)
        if value <= least * (1 + within)
    ]
    return tuple(sorted(near, key=lambda alternative: alternative.window_seconds)[:LISTED]), step


def tradeoff_of(problem: SplitProblem) -> TradeoffCurve:
    """Optimise for budgets up to the whole one, for the mean curves, and give means over the drawn ones."""
    curve = tradeoff_curve(problem.times, problem.limits.budget, **problem.words)
    indices = np.unique(np.geomspace(1, len(curve.points), min(POINTS, len(curve.points))).round().astype(int)) - 1
    picked = [curve.points[index] for index in indices]
    seconds = problem.expected.expected([point.split for point in picked]).tolist()
    return _front([_with_seconds(point, value) for point, value in zip(picked, seconds, strict=True)])


def plan_of(
    problem: SplitProblem,
    curve: TradeoffCurve,
    chosen: TradeoffPoint,
    budget: int,
    split: Mapping[str, int],
    window: float,
    within: float,
    prefer: Prefer,
) -> Plan:
    """List what else there is to choose from, with the recommended split among the points of the curve."""
    near, step = _near_splits(problem, budget, split, within)
    used = problem.used(split)
    cores = used.get("cores", used["ranks"])
    point = dataclasses.replace(chosen, split=dict(split), cores=cores, budget=used.get("nodes", cores))
    point = _with_seconds(point, window)
    front = _front([*(other for other in curve.points if other.split != split and other is not chosen), point])
    point = dataclasses.replace(point, efficiency=front.points[0].core_hours / point.core_hours)
    point = next((other for other in front.points if other.split == split), point)
    return Plan(near, within, step, front, point, prefer, front.knee)


def _with_seconds(point: TradeoffPoint, seconds: float) -> TradeoffPoint:
    return dataclasses.replace(point, window_seconds=seconds, core_hours=seconds * point.cores / 3600.0)


def _front(points: list[TradeoffPoint]) -> TradeoffCurve:
    """Keep the points that no other one beats in time and in core-hours; efficiency is over the cheapest."""
    kept: list[TradeoffPoint] = []
    for point in sorted(points, key=lambda candidate: (candidate.window_seconds, candidate.core_hours)):
        if not kept or point.core_hours < kept[-1].core_hours:
            kept.append(point)
    cheapest = kept[-1].core_hours
    return TradeoffCurve(
        tuple(dataclasses.replace(point, efficiency=cheapest / point.core_hours) for point in reversed(kept))
    )


Array = NDArray[np.float64]
Integers = NDArray[np.int64]

# Rank counts of a participant that are looked at for its interval: so many over the participants, and at least. With
# twice so many participants, fewer of the drawn curves are.
LOOKED_AT, LEAST_LOOKED_AT, ALL_DRAWS = 1024, 40, 8
# A split to compare with, and the one that was meant where the bounds do not allow that.
Reference = tuple[dict[str, int], dict[str, int]]


def reference_splits(
    limits: Limits, unknowns: Mapping[str, float], present: dict[str, int] | None, failed: Sequence[FailedSplit]
) -> tuple[dict[str, Reference], list[Remark]]:
    """Give the splits that people use: equal, in proportion to unknowns where all are known, the present one."""
    names = [*limits.rows]
    kinds = {"equal": dict.fromkeys(names, 1.0)}
    if min(unknowns.get(name, 0.0) for name in names) > 0:
        kinds["degrees-of-freedom"] = {name: unknowns[name] for name in names}
    others: dict[str, Reference] = {"present": (present, {})} if present else {}
    reasons, doubts = {}, []
    if len(names) == 1:
        kinds = {}
        doubts.append(remark("only-participant", participant=names[0]))
    for kind, weights in kinds.items():
        try:
            if limits.constraints.shared:
                raise InfeasibleError("where participants share cores there is no such split")
            meant, possible = in_proportion(limits, weights)
            others[kind] = (possible, meant if meant != possible else {})
        except InfeasibleError as error:
            reasons[kind] = str(error)
    for kind, (other, _) in others.items():
        if any(failure.ranks.items() <= other.items() for failure in failed):
            reasons[kind] = "its runs failed"
    doubts += [remark("not-compared", split=kind, why=why) for kind, why in reasons.items()]
    # The present one last.
    return {kind: others[kind] for kind in (*kinds, "present") if kind in others and kind not in reasons}, doubts


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
