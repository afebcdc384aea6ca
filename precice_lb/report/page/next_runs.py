"""What to measure next: which further run would remove most regret, and whether one is worth it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from precice_lb.calibrate.decision import NOISE, Beliefs, Curves, learned
from precice_lb.recommend.bounds import rank_bounds
from precice_lb.recommend.outlook import curves_of
from precice_lb.split import optimize_split

if TYPE_CHECKING:
    from precice_lb.recommend import Recommendation
    from precice_lb.recommend.limits import Limits
    from precice_lb.schedule import Schedule
    from precice_lb.split import Constraints

__all__ = ["TARGET_REGRET", "NextRun", "Prospects", "next_runs"]

# Splits that are judged, and of which the best are listed.
_JUDGED, _LISTED = 12, 5
# Drawn curves for which the best split that a machine allows is found.
_SOLVED = 32
# Below this expected regret `precice_lb.calibrate.CalibrationDesign` stops by default.
TARGET_REGRET = 0.002


@dataclass(frozen=True)
class NextRun:
    """A split that may be measured.

    Attributes
    ----------
    split
        Ranks by participant.
    regret
        Expected regret of the recommended split after it was measured.
    core_seconds
        What a window of it costs.
    """

    split: dict[str, int]
    regret: float
    core_seconds: float


@dataclass(frozen=True)
class Prospects:
    """What further runs are worth.

    Attributes
    ----------
    regret
        Expected regret now: window time of the recommended split over that of the best one, minus 1.
    runs
        Those that save most per core-second, best first.
    target_regret
        Below this expected regret calibration stops.
    judge
        Name of the learner whose curves say so.
    """

    regret: float
    runs: tuple[NextRun, ...]
    target_regret: float = TARGET_REGRET
    judge: str = "bayes"

    @property
    def is_worth_it(self) -> bool:
        """Whether calibration would go on."""
        return self.regret > self.target_regret


def next_runs(
    recommendation: Recommendation, schedule: Schedule, seed: int = 0, target_regret: float = TARGET_REGRET
) -> Prospects:
    """Judge further runs by the regret that they are expected to remove.

    Parameters
    ----------
    recommendation
        What it rests on counts; measurements at other parameters as far as its models know them.
    schedule
        The coupling.
    seed
        Of whatever is drawn.
    target_regret
        Below this expected regret another run is not worth it.

    Returns
    -------
    Prospects
        See `precice_lb.calibrate.decision` for the method. Without demands of a machine for the ranks that the
        recommended split has in all, within the bounds; with them for the whole budget, and only for splits that meet
        them.

    Notes
    -----
    The curves are those that the recommendation's learner draws; where it draws none, those of ``bayes``.
    """
    names = schedule.participants
    limits = recommendation.limits
    constraints = None if limits is None else limits.constraints
    curves, noise = {}, {}
    drawn = all(hasattr(model, "draw") for model in recommendation.models.values())
    judge = recommendation.learner if drawn else "bayes"
    for index, who in enumerate(names):
        if judge == "bayes":
            curves[who], noise[who] = learned(*_rows(recommendation, who), [seed, index], usual_noise=True)
        else:
            curves[who], noise[who] = curves_of(recommendation.models[who], [seed, index]), _noise(recommendation, who)
        if constraints is not None and constraints.overhead(who):
            curves[who] = _slower(curves[who], 1.0 + constraints.overhead(who))
    chosen = np.array([[recommendation.split[who] for who in names]], dtype=np.int64)
    total = int(chosen.sum())
    if limits is not None and constraints is not None:
        possible = np.unique(np.vstack([chosen, _possible(curves, limits, constraints, schedule)]), axis=0)
        lowest, highest = _columns(names, possible.min(axis=0)), _columns(names, possible.max(axis=0))
        beliefs = Beliefs(curves, noise, schedule, int(possible.sum(axis=1).max()), lowest, highest, seed, possible)
    else:
        lowest = {who: 1 if limits is None else limits.lowest[who] for who in names}
        most = None if limits is None else {who: max(limits.highest[who], lowest[who]) for who in names}
        beliefs = Beliefs(curves, noise, schedule, total, *rank_bounds(names, total, lowest, most), seed)
    order = np.argsort(beliefs.splits[:, 0], kind="stable")
    every = order[np.linspace(0, len(order) - 1, _JUDGED).round().astype(np.intp)]
    splits = beliefs.splits[np.unique([*every, beliefs.best])]
    saved, cost = np.maximum(beliefs.saved_by(splits), 0.0), beliefs.core_seconds(splits)
    best = np.argsort(-saved / cost, kind="stable")[:_LISTED]
    # Of the split that was recommended, which these curves need not find the best.
    windows = beliefs.windows(np.vstack([chosen, beliefs.splits]))
    regret = float((windows[:, 0] / windows.min(axis=1) - 1.0).mean())
    return Prospects(
        regret,
        tuple(
            NextRun(_columns(names, splits[at]), max(beliefs.expected_regret - float(saved[at]), 0.0), float(cost[at]))
            for at in best
            if saved[at] > 0
        ),
        target_regret,
        judge,
    )


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


def _slower(curves: Curves, factor: float) -> Curves:
    return lambda ranks: curves(ranks) * factor


def _noise(recommendation: Recommendation, who: str) -> float:
    """Relative standard deviation of a run's seconds, from how far the model misses them; at least what is usual."""
    seconds = np.asarray(recommendation.measurements.samples[who], dtype=float)[:, 1]
    missed = np.log(seconds / recommendation.predicted(who))
    return max(float(np.sqrt(np.mean(missed**2))), NOISE)


def _rows(recommendation: Recommendation, who: str) -> tuple[np.ndarray, list[float]]:
    """Ranks, seconds, standard errors and parameters of each measurement, and the parameters of the case."""
    measurements = recommendation.measurements
    case: Mapping[str, float] = recommendation.modelled(who)
    samples = np.asarray(measurements.samples[who], dtype=float)
    spread = np.asarray(measurements.spread.get(who, np.full(len(samples), np.nan)), dtype=float)
    columns = [np.asarray(measurements.parameters[who][key], dtype=float) for key in case]
    return np.column_stack([samples, spread, *columns]), list(case.values())


def _columns(names: tuple[str, ...], ranks: np.ndarray) -> dict[str, int]:
    return {who: int(count) for who, count in zip(names, ranks, strict=True)}
