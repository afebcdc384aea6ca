"""What segments of a chain say by themselves: window times of their splits, and what changes at borders cost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from precice_lb.calibrate.decision import NOISE
from precice_lb.chain.records import Segment
from precice_lb.schedule import Schedule

Array = NDArray[np.float64]


class WindowTime(NamedTuple):
    """A split that ran: seconds per window at the present load, and their relative standard error."""

    ranks: tuple[int, ...]
    window: float
    error: float


def window_times(
    segments: Sequence[Segment], schedule: Schedule, changes: Mapping[str, Array]
) -> dict[tuple[int, ...], WindowTime]:
    """Bring the window times of all segments to the present load, and take the mean of those of each split."""
    readings: dict[tuple[int, ...], list[tuple[float, float]]] = {}
    for at, segment in enumerate(segments):
        change = {name: changes[name][at] for name in schedule.participants}
        before, now = (_steady(segment, schedule, {n: share * change[n][0] for n in change}) for share in (0.0, 1.0))
        seconds = segment.window_seconds * (now / before if before > 0 and now > 0 else 1.0)
        if math.isfinite(seconds) and seconds > 0:
            error = max((each[1] for each in change.values() if math.isfinite(each[1])), default=0.0)
            ranks = tuple(segment.split[name] for name in schedule.participants)
            readings.setdefault(ranks, []).append((math.log(seconds), math.hypot(NOISE, error)))
    found = {}
    for ranks, each in readings.items():
        weights = [error**-2 for _, error in each]
        mean = sum(w * log for w, (log, _) in zip(weights, each, strict=True)) / sum(weights)
        found[ranks] = WindowTime(ranks, math.exp(mean), sum(weights) ** -0.5)
    return found


def measured_ratio(segments: Sequence[Segment], schedule: Schedule) -> float:
    """Measured seconds per window over those of the schedule: what noise of windows and exchanges add."""
    none = dict.fromkeys(schedule.participants, 0.0)
    pairs = [(segment.window_seconds, _steady(segment, schedule, none)) for segment in segments]
    ratios = [window / steady for window, steady in pairs if steady > 0 and math.isfinite(window) and window > 0]
    return median(ratios) if ratios else 1.0


def _steady(segment: Segment, schedule: Schedule, change: Mapping[str, float]) -> float:
    """Window time of the schedule for a segment's seconds times changes of load; NaN where one is unknown."""
    seconds = {name: segment.seconds.get(name, math.nan) * math.exp(change[name]) for name in schedule.participants}
    if not all(math.isfinite(each) and each > 0 for each in seconds.values()):
        return math.nan
    return float(schedule.window_seconds(seconds))


def change_seconds(segments: Sequence[Segment]) -> float:
    """Median of what a change costs at a border; the whole border where that is not known apart."""
    each = [(segment.change_seconds, segment.border_seconds) for segment in segments]
    known = [next(filter(math.isfinite, pair), math.nan) for pair in each]
    return max(median(filter(math.isfinite, known)), 0.0) if any(map(math.isfinite, known)) else 0.0
