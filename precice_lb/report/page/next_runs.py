"""What to measure next: which further run would remove most regret, and whether one is worth it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from precice_lb.calibrate.decision import Beliefs, learned
from precice_lb.recommend.bounds import rank_bounds

if TYPE_CHECKING:
    from precice_lb.recommend import Recommendation
    from precice_lb.schedule import Schedule

__all__ = ["NextRun", "Prospects", "next_runs"]

# Splits that are judged, and of which the best are listed.
_JUDGED, _LISTED = 12, 5
# Below this expected regret `precice_lb.calibrate.CalibrationDesign` stops.
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
    """

    regret: float
    runs: tuple[NextRun, ...]

    @property
    def is_worth_it(self) -> bool:
        """Whether calibration would go on."""
        return self.regret > TARGET_REGRET


def next_runs(recommendation: Recommendation, schedule: Schedule, seed: int = 0) -> Prospects:
    """Judge further runs by the regret that they are expected to remove.

    Parameters
    ----------
    recommendation
        What it rests on counts; measurements at other parameters as far as its models know them.
    schedule
        The coupling.
    seed
        Of whatever is drawn.

    Returns
    -------
    Prospects
        See `precice_lb.calibrate.decision` for the method. For the ranks that the recommended split has in all.
    """
    names = schedule.participants
    total = sum(recommendation.split.values())
    curves, noise = {}, {}
    for index, who in enumerate(names):
        curves[who], noise[who] = learned(*_rows(recommendation, who), [seed, index], usual_noise=True)
    beliefs = Beliefs(curves, noise, schedule, total, *rank_bounds(names, total, 1, None), seed)
    order = np.argsort(beliefs.splits[:, 0], kind="stable")
    every = order[np.linspace(0, len(order) - 1, _JUDGED).round().astype(np.intp)]
    splits = beliefs.splits[np.unique([*every, beliefs.best])]
    saved, cost = np.maximum(beliefs.saved_by(splits), 0.0), beliefs.core_seconds(splits)
    best = np.argsort(-saved / cost, kind="stable")[:_LISTED]
    regret = beliefs.expected_regret
    return Prospects(
        regret,
        tuple(
            NextRun(_split(names, splits[at]), max(regret - float(saved[at]), 0.0), float(cost[at]))
            for at in best
            if saved[at] > 0
        ),
    )


def _rows(recommendation: Recommendation, who: str) -> tuple[np.ndarray, list[float]]:
    """Ranks, seconds, standard errors and parameters of each measurement, and the parameters of the case."""
    measurements = recommendation.measurements
    case: Mapping[str, float] = recommendation.modelled(who)
    samples = np.asarray(measurements.samples[who], dtype=float)
    spread = np.asarray(measurements.spread.get(who, np.full(len(samples), np.nan)), dtype=float)
    columns = [np.asarray(measurements.parameters[who][key], dtype=float) for key in case]
    return np.column_stack([samples, spread, *columns]), list(case.values())


def _split(names: tuple[str, ...], ranks: np.ndarray) -> dict[str, int]:
    return {who: int(count) for who, count in zip(names, ranks, strict=True)}
