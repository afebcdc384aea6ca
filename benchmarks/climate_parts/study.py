"""From a few runs to a predictor, models and a split; and the best split by trying all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from climate_parts.coupling import NAMES, program, seconds_per_day
from climate_parts.run import Measured
from precice_lb.models import make_learner
from precice_lb.schedule import AutomaticPredictor, Point, Schedule, Trace, schedule_of_traces
from precice_lb.split import optimize_split

__all__ = [
    "Found",
    "calibration_splits",
    "exhaustive",
    "find_split",
    "law",
    "learned_seconds",
    "predictor_of",
    "random_splits",
    "true_schedule",
    "true_traces",
]

Floats = NDArray[np.float64]
_CHUNK = 4096


def true_traces() -> dict[str, Trace]:
    """Give the coupling as programmed, without anything measured."""
    traces = {}
    for name in NAMES:
        points, load = [], 0.0
        for step in program(name):
            load += step.share
            if step.kind == "meet":
                points.append(Point(load, step.partners))
                load = 0.0
        traces[name] = Trace(tuple(points), load)
    return traces


def true_schedule() -> Schedule:
    """Give the schedule of what is programmed."""
    return schedule_of_traces(true_traces())


def law(split: Mapping[str, int]) -> dict[str, float]:
    """Seconds per day of every constituent."""
    return {name: float(seconds_per_day(name, split[name])) for name in NAMES}


def predictor_of(run: Measured) -> AutomaticPredictor:
    """Learn fractions and alpha from one run, in the steady state of day after day."""
    return AutomaticPredictor(run.traces, synchronized=False).calibrated(run.day)


def calibration_splits(budget: int) -> list[dict[str, int]]:
    """Five splits with weights 1, 2, 3, 5, 9 in turn, so that each constituent is seen at five counts of ranks."""
    weights = np.array([1, 2, 3, 5, 9])
    splits = []
    for turn in range(len(NAMES)):
        counts = np.floor(budget * np.roll(weights, turn) / weights.sum()).astype(int)
        splits.append(dict(zip(NAMES, counts.tolist(), strict=True)))
    return splits


def random_splits(budget: int, count: int, generator: np.random.Generator, least: int = 4) -> list[dict[str, int]]:
    """Draw splits evenly among those of all ranks with a minimum for each."""
    splits = []
    for _ in range(count):
        room = budget - least * len(NAMES)
        cuts = np.sort(generator.choice(room + len(NAMES) - 1, len(NAMES) - 1, replace=False))
        parts = np.diff(np.concatenate(([-1], cuts, [room + len(NAMES) - 1]))) - 1
        splits.append({name: int(least + part) for name, part in zip(NAMES, parts, strict=True)})
    return splits


def learned_seconds(runs: Sequence[Measured], budget: int) -> dict[str, Floats]:
    """Seconds per day at 1, 2, … ranks by the default learner, from what the constituents computed in the runs."""
    times = {}
    for name in NAMES:
        ranks = np.array([[float(run.split[name])] for run in runs])
        seconds = np.array([run.traces[name].seconds for run in runs])
        model = make_learner("bayes").fit(ranks, seconds)
        times[name] = np.asarray(model.predict(np.arange(1.0, budget + 1)[:, None]))
    return times


@dataclass(frozen=True)
class Found:
    """A split and its seconds per day: as predicted, and by the law itself."""

    split: dict[str, int]
    predicted: float
    true: float


def find_split(predictor: AutomaticPredictor, times: Mapping[str, Floats], budget: int) -> Found:
    """Find the split that the predictor likes best, with seconds of the models."""
    result = optimize_split(times, budget, schedule=predictor.schedule)
    true = float(true_schedule().window_seconds(law(result.split)))
    return Found(result.split, predictor.alpha * result.window_seconds, true)


def exhaustive(budget: int, limit: float) -> tuple[dict[str, int], float, int]:
    """Try all splits of all ranks in which no constituent alone needs more than `limit` seconds.

    With the seconds of any split as limit, the others cannot be better: a day is never shorter than what one
    constituent computes, and more ranks never make one slower. Returns the best split, its seconds, and how many were
    tried.
    """
    schedule = true_schedule()
    ranks = np.arange(1, budget + 1)
    curves = {name: seconds_per_day(name, ranks) for name in NAMES}
    least = {name: int(ranks[np.argmax(curve <= limit)]) for name, curve in curves.items()}
    room = budget - sum(least.values())
    best, split, tried = np.inf, np.zeros(len(NAMES), dtype=int), 0
    for counts in _compositions(room, len(NAMES)):
        splits = counts + np.array([least[name] for name in NAMES])
        seconds = schedule.window_seconds({n: curves[n][splits[:, i] - 1] for i, n in enumerate(NAMES)})
        tried += len(seconds)
        at = int(np.argmin(seconds))
        if seconds[at] < best:
            best, split = float(seconds[at]), splits[at]
    return dict(zip(NAMES, split.tolist(), strict=True)), best, tried


def _compositions(total: int, parts: int) -> list[NDArray[np.int64]]:
    """All ways to give `total` to `parts`, in chunks."""
    rows = np.arange(total + 1)[:, None]
    for _ in range(parts - 2):
        left = total - rows.sum(axis=1)
        repeated = np.repeat(rows, left + 1, axis=0)
        last = np.concatenate([np.arange(each + 1) for each in left])
        rows = np.column_stack([repeated, last])
    rows = np.column_stack([rows, total - rows.sum(axis=1)])
    return [rows[begin : begin + _CHUNK] for begin in range(0, len(rows), _CHUNK)]
