"""How the load of a participant changed along a chain, and what its measurements are worth at the load of now.

In logarithms a segment's seconds are a curve over ranks plus the load plus what runs differ by. The load is a random
walk over the windows, or grows at a rate that is one; the curve is a line about the ideal one with what no line
explains; all normal, and so is what the measurements leave of the load (Rasmussen and Williams 2006, chapter 2). The
size of the drift and what runs differ by are unknown and integrated over on a grid; that there is no drift at all is as
probable as that there is some. So segments on the same ranks tell the change of load between them, the latest windows
that within one, and else the curve does what it can; a load that stands still leaves old measurements as they are.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from precice_lb.chain.document import Segment
from precice_lb.schedule import Schedule

Array = NDArray[np.float64]

# Of a segment's length: standard deviation of the load's logarithm after it; the first one is as probable as the rest.
DRIFTS = (0.0, 0.03, 0.06, 0.12, 0.25, 0.5)
# What runs differ by, relative; what is usual of it, and the standard deviation of that in logarithms.
NOISES = (0.005, 0.01, 0.02, 0.04, 0.08)
NOISE, NOISE_SCALE = 0.04, 0.8
# Standard deviations of a curve's slope beside the ideal one, of what no line explains, and of its level; the latter is
# alike where ranks differ by less than this factor.
SLOPE, ROUGHNESS, LEVEL, ALIKE = 0.5, 0.4, 10.0, 1.2
# The latest windows are fewer than those of a segment: their standard error over that of the segment, and the least.
LATEST_ERROR, LEAST_ERROR = 2.0, 0.005


def known_seconds(segments: Sequence[Segment], name: str) -> list[int]:
    """List the segments in which the seconds of a participant are known."""
    return [at for at, segment in enumerate(segments) if 0 < segment.seconds.get(name, math.nan) < math.inf]


class Brought(NamedTuple):
    """What was measured of a participant, at the load of its latest windows.

    Attributes
    ----------
    rows : ndarray of shape (n, 3)
        Ranks, seconds and standard errors of earlier runs, and then of the segments where they are known. An error is
        larger by how far the load may have changed otherwise, and at most the seconds.
    changes : ndarray of shape (segments, 2)
        Logarithm of the load now over that of each segment, and its standard error; NaN where seconds are unknown.
    error : float
        Relative standard error that windows of one run usually leave.
    """

    rows: Array
    changes: Array
    error: float


def at_present_load(segments: Sequence[Segment], name: str, earlier: Array | None = None) -> Brought:
    """Scale what was measured of a participant to the load of its latest windows."""
    before = np.empty((0, 3)) if earlier is None else np.asarray(earlier, dtype=np.float64).reshape(-1, 3)
    known = known_seconds(segments, name)
    changes = np.full((len(segments), 2), np.nan)
    measured = np.array([_reading(segments[at], name) for at in known]).reshape(-1, 4)
    rows = np.vstack([before, measured[:, :3]])
    if not known:
        return Brought(rows, changes, LEAST_ERROR)
    ends = np.cumsum([segment.windows for segment in segments]) / np.mean([segment.windows for segment in segments])
    lengths = np.diff(ends, prepend=0.0)
    # Earlier runs have the load of before the chain; the mean of a segment that of its middle.
    times = np.concatenate([np.zeros(len(before)), (ends - lengths / 2)[known]])
    errors = np.clip(np.nan_to_num(rows[:, 2] / rows[:, 1]), LEAST_ERROR, 1.0)
    # Where the load changed within a segment its windows differ for that, not by chance.
    usual = float(np.median(errors[len(before) :]))
    errors[len(before) :] = np.minimum(errors[len(before) :], usual)
    change, deviation = _change(
        np.concatenate([rows[:, 0], measured[:, 0]]),
        np.log(np.concatenate([rows[:, 1], measured[:, 3]])),
        np.concatenate([times, ends[known]]),
        np.concatenate([np.arange(len(rows)), len(before) + np.arange(len(known))]),
        np.concatenate([errors, LATEST_ERROR * errors[len(before) :]]),
        len(rows),
    )
    seconds = rows[:, 1] * np.exp(change)
    # What is as uncertain as it is large says as little as can be.
    relative = np.minimum(np.hypot(errors, deviation), 1.0)
    rows = np.column_stack([rows[:, 0], seconds, relative * seconds])
    changes[known] = np.column_stack([change, deviation])[len(before) :]
    return Brought(rows, changes, usual)


def _change(ranks: Array, logs: Array, times: Array, runs: Array, errors: Array, means: int) -> tuple[Array, Array]:
    """Change of load from each of the first ``means`` readings to the last time, and its standard deviation."""
    octaves = np.log(ranks)
    gap = octaves[:, None] - octaves
    curve = LEVEL**2 + SLOPE**2 * np.outer(octaves - octaves.mean(), octaves - octaves.mean())
    curve += ROUGHNESS**2 * np.exp(-0.5 * (gap / np.log(ALIKE)) ** 2)
    same = (runs[:, None] == runs).astype(np.float64)
    y = logs + octaves
    y = y - y.mean()
    found, weights = [], []
    last = np.array([times.max()])
    for covariance_of, drift, noise in itertools.product((_walk, _trend), DRIFTS, NOISES):
        before = times[:means]
        covariance = curve + drift**2 * covariance_of(times, times) + noise**2 * same + np.diag(errors**2)
        # Of the change that is asked for, with each reading.
        across = drift**2 * (covariance_of(last, times) - covariance_of(before, times))
        solved = np.linalg.solve(covariance, np.column_stack([y, across.T]))
        change = (
            covariance_of(last, last)
            - 2 * covariance_of(before, last)
            + np.diag(covariance_of(before, before))[:, None]
        )
        variance = drift**2 * change[:, 0] - (across * solved[:, 1:].T).sum(axis=1)
        found.append((across @ solved[:, 0], np.maximum(variance, 0.0)))
        prior = np.log(1.0 if drift == 0 else 1.0 / (len(DRIFTS) - 1))
        prior -= 0.5 * (np.log(noise / NOISE) / NOISE_SCALE) ** 2
        weights.append(prior - 0.5 * (y @ solved[:, 0] + np.linalg.slogdet(covariance)[1]))
    weight = np.exp(np.array(weights) - max(weights))
    weight /= weight.sum()
    each, variances = (np.array(part) for part in zip(*found, strict=True))
    mean = weight @ each
    return mean, np.sqrt(weight @ (variances + (each - mean) ** 2))


def _walk(one: Array, other: Array) -> Array:
    """Covariance of a random walk between times."""
    return np.minimum(one[:, None], other)


def _trend(one: Array, other: Array) -> Array:
    """Covariance between times of what grows at a rate that is a random walk, from an unknown one on."""
    first, second = np.minimum(one[:, None], other), np.maximum(one[:, None], other)
    return np.asarray(first * second + first**2 * (3 * second - first) / 6)


def _reading(segment: Segment, name: str) -> tuple[float, ...]:
    """Ranks, seconds, their standard error (NaN where unknown) and the seconds of the latest windows."""
    seconds, error = segment.seconds[name], segment.standard_errors.get(name, math.nan)
    latest = segment.latest.get(name, math.nan)
    known = 0 < latest < math.inf
    return segment.split[name], seconds, error if error < math.inf else math.nan, latest if known else seconds


class WindowTime(NamedTuple):
    """Of a split that ran: seconds per window at the present load, and their relative standard error."""

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
        logs, errors = np.array(each).T
        mean, weight = np.average(logs, weights=errors**-2, returned=True)
        found[ranks] = WindowTime(float(np.exp(mean)), float(weight) ** -0.5)
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
    costs = (s.border_seconds if math.isnan(s.change_seconds) else s.change_seconds for s in segments)
    return max(median(costs), 0.0)
