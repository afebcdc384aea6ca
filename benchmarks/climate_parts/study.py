"""From a few runs to a predictor, models and a split; and the best split by trying all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from climate_parts.coupling import NAMES, program, seconds_per_day
from climate_parts.run import Measured
from precice_lb.recommend import Recommendation, recommend_split
from precice_lb.schedule import AutomaticPredictor, Point, Schedule, Trace, schedule_of_traces

__all__ = [
    "calibration_splits",
    "exhaustive",
    "law",
    "predictor_of",
    "random_splits",
    "recommended",
    "true_day",
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


def true_day(split: Mapping[str, int]) -> float:
    """Give the seconds per day of a split by the law."""
    return float(true_schedule().window_seconds(law(split)))


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


def recommended(runs: Sequence[Measured], predictor: AutomaticPredictor, budget: int) -> Recommendation:
    """Recommend a split from what the constituents computed in the runs, in the coupling of the predictor."""
    measured = {name: [(run.split[name], run.traces[name].seconds) for run in runs] for name in NAMES}
    return recommend_split(measured, budget, coupling=predictor.schedule)


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
