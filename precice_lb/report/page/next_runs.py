"""What to measure next: which further run would remove most regret, and whether one is worth it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from precice_lb.calibrate.decision import NOISE, Beliefs, Curves
from precice_lb.recommend.case import learner_name
from precice_lb.recommend.limits import rank_bounds
from precice_lb.recommend.posterior import curves_within_interval
from precice_lb.split import optimize_split

if TYPE_CHECKING:
    from precice_lb.recommend import Recommendation
    from precice_lb.recommend.limits import Limits
    from precice_lb.schedule import Schedule
    from precice_lb.split import Constraints

# Splits that are judged, and of which the best are listed.
_JUDGED, _LISTED = 12, 5
# Drawn curves for which the best split that a machine allows is found.
_SOLVED = 32
# Below this expected regret `precice_lb.calibrate.CalibrationDesign` stops by default.
TARGET_REGRET = 0.002


@dataclass(frozen=True)
class NextRun:
    """A split that may be measured."""

    # Ranks by participant.
    split: dict[str, int]
    # Expected regret of the recommended split after it was measured.
    regret: float
    # What a window of it costs.
    core_seconds: float


@dataclass(frozen=True)
class Prospects:
    """What further runs are worth."""

    # Expected regret now: window time of the recommended split over that of the best one, minus 1; NaN where a learner
    # gives neither curves nor intervals.
    regret: float
    # Those that save most per core-second, best first.
    runs: tuple[NextRun, ...]
    # Below this expected regret calibration stops.
    target_regret: float = TARGET_REGRET
    # A learner that draws no curves, so that its intervals say so.
    intervals_of: str = ""

    @property
    def is_worth_it(self) -> bool:
        """Whether calibration would go on."""
        return self.regret > self.target_regret


def next_runs(recommendation: Recommendation, target_regret: float = TARGET_REGRET) -> Prospects:
    """Judge further runs by the regret that they are expected to remove.

    The curves are those that the recommendation was decided on; where its learner draws none, they are drawn as far off
    as its intervals say, and as runs usually differ. `precice_lb.calibrate.decision` has the method. Without demands of
    a machine it looks at splits of the ranks that the recommended one has in all, within the bounds; with them at those
    of the whole budget that meet them.
    """
    expected, limits = recommendation.expected, recommendation.limits
    schedule, names, seed, constraints = expected.schedule, expected.names, expected.seed, limits.constraints
    curves, intervals_of = dict(expected.curves), ""
    for index, (who, model) in enumerate(recommendation.models.items()):
        if hasattr(model, "draw"):
            continue
        if not hasattr(model, "predict_interval"):
            return Prospects(math.nan, (), target_regret, learner_name(model))
        # Formulas through a few points have intervals of no width: nothing is known better than runs repeat.
        curves[who] = curves_within_interval(model, curves[who], NOISE, [seed, index])
        intervals_of = learner_name(model)
    noise = {who: _noise(recommendation, who) for who in names}
    chosen = np.array([[recommendation.split[who] for who in names]], dtype=np.int64)
    total = int(chosen.sum())
    if not limits.is_free:
        possible = np.unique(np.vstack([chosen, _possible(curves, limits, constraints, schedule)]), axis=0)
        lowest, highest = _columns(names, possible.min(axis=0)), _columns(names, possible.max(axis=0))
        beliefs = Beliefs(curves, noise, schedule, int(possible.sum(axis=1).max()), lowest, highest, seed, possible)
    else:
        most = {who: max(limits.highest[who], limits.lowest[who]) for who in names}
        beliefs = Beliefs(curves, noise, schedule, total, *rank_bounds(names, total, dict(limits.lowest), most), seed)
    order = np.argsort(beliefs.splits[:, 0], kind="stable")
    every = order[np.linspace(0, len(order) - 1, _JUDGED).round().astype(np.intp)]
    splits = beliefs.splits[np.unique([*every, beliefs.best])]
    saved, cost = np.maximum(beliefs.expected_value_of_information(splits), 0.0), beliefs.core_seconds(splits)
    best = np.argsort(-saved / cost, kind="stable")[:_LISTED]
    # Of the split that was recommended, which these curves need not find the best.
    windows = beliefs.windows(np.vstack([chosen, beliefs.splits]))
    regret = float((windows[:, 0] / windows.min(axis=1) - 1.0).mean())
    runs = (
        NextRun(_columns(names, splits[at]), max(beliefs.expected_regret - float(saved[at]), 0.0), float(cost[at]))
        for at in best
        if saved[at] > 0
    )
    return Prospects(regret, tuple(runs), target_regret, intervals_of)


def _possible(
    curves: Mapping[str, Curves], limits: Limits, constraints: Constraints, schedule: Schedule
) -> NDArray[np.int64]:
    """Find the best split under the machine's demands for some of the drawn curves, shape (k, participants)."""
    names = schedule.participants
    counts = {who: limits.counts(who) for who in names}
    seconds = {who: np.asarray(curves[who](counts[who]), dtype=float) for who in names}
    drawn = min(len(rows) for rows in seconds.values())
    # What sharing cores costs is in the curves already.
    shared = tuple(dataclasses.replace(group, overhead=0.0) for group in constraints.shared)
    constraints = dataclasses.replace(constraints, shared=shared)
    found = [
        optimize_split(
            {who: partial(_looked_up, counts[who], seconds[who][at]) for who in names}, limits.budget,
            schedule=schedule, minimum_ranks=limits.lowest, maximum_ranks=limits.highest, constraints=constraints,
        ).split
        for at in np.unique(np.linspace(0, drawn - 1, _SOLVED).round().astype(np.intp))
    ]  # fmt: skip
    return np.array([[split[who] for who in names] for split in found], dtype=np.int64)


def _looked_up(counts: NDArray[np.int64], seconds: NDArray[np.float64], ranks: NDArray[np.int64]) -> np.ndarray:
    return np.asarray(seconds[np.searchsorted(counts, ranks)])


def _noise(recommendation: Recommendation, who: str) -> float:
    """Relative standard deviation of a run's seconds, from how far the model misses them; at least what is usual."""
    seconds = np.asarray(recommendation.measurements.samples[who], dtype=float)[:, 1]
    missed = np.log(seconds / recommendation.predicted(who))
    return max(float(np.sqrt(np.mean(missed**2))), NOISE)


def _columns(names: tuple[str, ...], ranks: np.ndarray) -> dict[str, int]:
    return {who: int(count) for who, count in zip(names, ranks, strict=True)}
