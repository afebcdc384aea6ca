"""Which split the next segment of a chain gets: the same, one that pays, one that teaches, or one from before.

What is known of each participant is brought to the load of the latest windows; curves drawn from it are possible truths
(`precice_lb.campaign.worth`), and a split is worth what it saves over the windows that are left, in each of them. A
segment at another split costs its border and what its windows take longer, and earns what is decided better after it.

How the load of a participant changed along a chain decides what its measurements are worth at the load of now. In
logarithms a segment's seconds are a curve over ranks plus the load plus what runs differ by. The load is a random walk
over the windows, or grows at a rate that is one; the curve is a line about the ideal one with what no line explains;
all normal, and so is what the measurements leave of the load (Rasmussen and Williams 2006, chapter 2). The size of the
drift and what runs differ by are unknown and integrated over on a grid; that there is no drift at all is as probable as
that there is some. So segments on the same ranks tell the change of load between them, the latest windows that within
one, and else the curve does what it can; a load that stands still leaves old measurements as they are.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import NormalDist, median
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from precice_lb.campaign.worth import PosteriorSplits
from precice_lb.chain.document import Decision, Segment
from precice_lb.dataset import Measurements, Samples
from precice_lb.exceptions import InfeasibleError
from precice_lb.layout import Layouts, split_text
from precice_lb.recommend import recommend_split
from precice_lb.recommend.limits import in_proportion
from precice_lb.schedule import Schedule
from precice_lb.split.admissible import Limits
from precice_lb.text import plural

Array = NDArray[np.float64]
Split = dict[str, int]

# A change is made where it pays with this probability.
SURE = 0.9
# Nor is a segment spent on a split that pays with less than this probability: what rare curves promise is the prior's.
LIKELY = 0.25
# Nor on one whose windows are expected to take longer by more than this factor: it is production that pays for it.
SLOWER = 1.1
# Of the time left, what a change is to save at least: little while a chain has fewer segments than it has participants
# and one more, since what is learned early serves longest; then more than runs differ by.
LEAST_AT_FIRST, LEAST_LATER = 0.002, 0.025


@dataclass(frozen=True, eq=False)
class DecisionProblem:
    """What a chain may do next."""

    schedule: Schedule
    limits: Limits
    #: Time windows until the end of the chain, and those of the next segment.
    windows_left: int
    segment_windows: int
    #: Of calibration runs by participant, shape (n, 3): ranks, seconds per window, standard error (NaN where unknown).
    earlier: Mapping[str, Array] = field(default_factory=dict)
    #: Splits that cannot be run; of some participants alone, all in which these have so many ranks.
    failed: Sequence[Mapping[str, int]] = ()
    seed: int = 0
    #: Ranks and threads of those whose splits count cores.
    layouts: Mapping[str, Layouts] = field(default_factory=dict)

    def text(self, split: Mapping[str, int]) -> str:
        """Write a split."""
        return split_text(split, self.layouts)

    def problem(self, split: Mapping[str, int]) -> str:
        """Say why a split cannot be run; empty where it can."""
        if any(failed.items() <= split.items() for failed in self.failed):
            return "it failed"
        is_possible = all(split[name] in counts for name, counts in self.limits.counts.items())
        return "" if is_possible and sum(split.values()) <= self.limits.budget else "it is not within bounds and budget"


def decide(segments: Sequence[Segment], question: DecisionProblem) -> Decision:
    """Decide on the split of the next segment: one within budget and bounds that did not fail.

    A change costs what preparing and collecting took at the chain's borders, in the median: the border comes anyway.
    An `InfeasibleError` says that there is no such split.
    """
    names, limits = question.schedule.participants, question.limits
    unknown = [name for name in names if not len(question.earlier.get(name, ())) and not known_seconds(segments, name)]
    try:
        if not unknown:
            return _Choice(segments, question).decision()
        # Stay, or take an even split where that is not possible.
        present = {name: segments[-1].split[name] for name in names}
        why = f"the compute time of {', '.join(unknown)} is not known"
        if not (problem := question.problem(present)):
            return Decision(present, "stay", f"stay at {question.text(present)}: {why}")
        possible = replace(limits.constraints, excluded=tuple(question.failed))
        _, even = in_proportion(limits, dict.fromkeys(names, 1.0), possible)
        return Decision(even, "move", f"move to {question.text(even)}, an even split: {problem}, and {why}")
    except InfeasibleError as error:
        raise InfeasibleError(
            "expected a split within bounds and budget that did not fail, found none; allow other ranks"
        ) from error


class _Choice:
    """What is expected of the splits that come into question, at the load of the latest windows."""

    def __init__(self, segments: Sequence[Segment], question: DecisionProblem) -> None:
        schedule, self.question = question.schedule, question
        self.names = schedule.participants
        self.present = {name: segments[-1].split[name] for name in self.names}
        self.left = max(question.windows_left, 1)
        self.next = min(max(question.segment_windows, 1), self.left)
        costs = (s.border_seconds if math.isnan(s.change_seconds) else s.change_seconds for s in segments)
        self.border = max(median(costs), 0.0)
        brought = {name: at_present_load(segments, name, question.earlier.get(name)) for name in self.names}
        frames = {n: Samples(b.rows[:, 0], b.rows[:, 1], standard_error=b.rows[:, 2]) for n, b in brought.items()}
        recommendation = recommend_split(
            Measurements(frames), question.limits.budget, coupling=schedule, machine=question.limits.constraints,
            seed=question.seed, failed=question.failed,
        )  # fmt: skip
        self.posterior = PosteriorSplits(recommendation, {name: scaled.error for name, scaled in brought.items()})
        self.measured = window_times(segments, schedule, {name: scaled.changes for name, scaled in brought.items()})
        # Noise of windows, and exchanges, add to those of the schedule.
        pairs = [(segment.window_seconds, _steady(segment, schedule)) for segment in segments]
        ratios = [window / steady for window, steady in pairs if steady > 0 and math.isfinite(window) and window > 0]
        scale = median(ratios) if ratios else 1.0
        here = np.array([[self.present[name] for name in self.names]])
        #: Seconds per window of the present split and of the others, for each set of curves.
        self.stays = scale * recommendation.expected.windows(here, replay=False)[:, 0]
        self.windows = scale * self.posterior.windows
        self.expected = float(self.stays.mean())
        share = LEAST_AT_FIRST if len(segments) <= len(self.names) else LEAST_LATER
        self.least = share * self.left * self.expected

    def decision(self) -> Decision:
        """Go back where the gain did not come, go on where that pays or teaches enough, else stay."""
        question, present = self.question, self.present
        problem = question.problem(present)
        means, saved = self.windows.mean(axis=0), (self.stays[:, None] - self.windows) * self.left - self.border
        saving, probability = saved.mean(axis=0), (saved > 0).mean(axis=0)
        splits = [dict(zip(self.names, ranks, strict=True)) for ranks in self.posterior.splits.tolist()]
        now = self.measured.get(tuple(present.values()))

        def is_possible(split: Split) -> bool:
            """Not tried again what was measured to be slower, but where the present split has to be left."""
            known = self.measured.get(tuple(split.values()))
            is_slower = now is not None and known is not None and known[0] >= now[0]
            return split != present and bool(problem or not is_slower) and not question.problem(split)

        possible = np.array([is_possible(split) for split in splits])

        def best(values: Array, among: NDArray[np.bool_]) -> int | None:
            places = np.flatnonzero(among)
            return int(places[np.argmax(values[places])]) if len(places) else None

        if problem:
            if (fastest := best(-means, possible)) is None:
                raise InfeasibleError(problem)
            why = f"move to {question.text(splits[fastest])}, {means[fastest]:.4g} s per window expected: {problem}"
            return Decision(splits[fastest], "move", why)
        move = best(saving, possible & (probability >= SURE) & (saving >= self.least))
        if back := self._back(None if move is None else splits[move], 0.0 if move is None else float(saving[move])):
            return back
        likely = possible & (probability >= LIKELY) & (probability < SURE) & (means <= SLOWER * self.expected)
        learning = self._learning(means)
        teaches = best(learning, likely)
        if teaches is not None and learning[teaches] - (0.0 if move is None else saving[move]) >= self.least:
            gain = self._gain(splits[teaches], means[teaches], self.expected, learning[teaches])
            return Decision(splits[teaches], "learn", f"learn at {gain} with what it teaches")
        nearest = best(saving, possible) if move is None else move
        stay = f"stay at {question.text(present)}: "
        if nearest is None:
            return Decision(present, "stay", f"{stay}no other split comes into question")
        gain = self._gain(splits[nearest], means[nearest], self.expected, saving[nearest])
        gain += f" with {100 * probability[nearest]:.0f} %"
        if move is None:
            return Decision(present, "stay", f"{stay}{gain}, too little")
        return Decision(splits[move], "move", f"move to {gain}")

    def _learning(self, means: Array) -> Array:
        """Seconds saved until the end if what a segment at each split teaches is made use of; -inf if not judged."""
        posterior, after = self.posterior, self.left - self.next
        learning = np.full(len(means), -np.inf)
        if after > 0:
            candidates = posterior.candidates()
            regret = np.maximum(posterior.saved(candidates), 0.0)
            # After the segment the best split in sight, for another border, or a better one by what was learned.
            later = after * (means[posterior.best] - regret * float(self.windows.min(axis=1).mean()))
            later += self.border * (candidates != posterior.best)
            learning[candidates] = self.left * self.expected - self.next * means[candidates] - self.border - later
        return learning

    def _back(self, move: Split | None, move_saving: float) -> Decision | None:
        """Go back to the split that was fastest, where the present one was measured to be slower and that pays.

        Only a split between the two may be better still: beyond, what is expected has just been wrong.
        """
        here = tuple(self.present.values())
        splits = {key: dict(zip(self.names, key, strict=True)) for key in self.measured if key != here}
        others = [key for key, split in splits.items() if not self.question.problem(split)]
        if here not in self.measured or not others:
            return None
        best = min(others, key=lambda key: self.measured[key])
        (now, now_error), (before, error), split = self.measured[here], self.measured[best], splits[best]
        aim = now - self.border / self.left
        if aim <= before:
            return None
        probability = NormalDist().cdf(math.log(aim / before) / math.hypot(now_error, error))
        saving = self.left * (now - before) - self.border
        ends = {name: sorted((self.present[name], split[name])) for name in self.names}
        is_between = move is not None and all(low <= move[name] <= high for name, (low, high) in ends.items())
        if probability < SURE or (is_between and move_saving > saving):
            return None
        gain = self._gain(split, before, now, saving)
        return Decision(split, "undo", f"undo: back to {gain} with {100 * probability:.0f} %, as measured")

    def _gain(self, split: Split, window: float, present: float, saving: float) -> str:
        """Say what a split saves, beside the present one."""
        text, what = self.question.text, f"saves {saving:.4g} s" if saving > 0 else f"loses {-saving:.4g} s"
        return (
            f"{text(split)}, {window:.4g} s per window in place of {present:.4g} s at {text(self.present)}: {what} in "
            f"the {plural(self.left, 'window')} left ({self.border:.3g} s for the change taken off)"
        )


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
    return [place for place, segment in enumerate(segments) if 0 < segment.seconds.get(name, math.nan) < math.inf]


class Brought(NamedTuple):
    """What was measured of a participant, at the load of its latest windows."""

    #: Ranks, seconds and standard errors of earlier runs, then of the segments where they are known, shape (n, 3). An
    #: error is larger by how far the load may have changed otherwise, and at most the seconds.
    rows: Array
    #: Logarithm of the load now over that of each segment, and its standard error, shape (segments, 2); NaN if unknown.
    changes: Array
    #: Relative standard error that windows of one run usually leave.
    error: float


def at_present_load(segments: Sequence[Segment], name: str, earlier: Array | None = None) -> Brought:
    """Scale what was measured of a participant to the load of its latest windows."""
    before = np.empty((0, 3)) if earlier is None else np.asarray(earlier, dtype=np.float64).reshape(-1, 3)
    known = known_seconds(segments, name)
    changes = np.full((len(segments), 2), np.nan)
    measured = np.array([_reading(segments[place], name) for place in known]).reshape(-1, 4)
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
    y = logs + octaves - (logs + octaves).mean()
    # Takes from loads at all times the changes that are asked for.
    pick = -np.eye(means, len(times))
    pick[:, times.argmax()] += 1.0
    first, second = np.minimum.outer(times, times), np.maximum.outer(times, times)
    # Covariances of a random walk, and of what grows at a rate that is one, from an unknown one on.
    walk, trend = first, first * second + first**2 * (3 * second - first) / 6
    changes, variances, weights = [], [], []
    for unit, drift, noise in itertools.product((walk, trend), DRIFTS, NOISES):
        load = drift**2 * unit
        covariance = curve + load + noise**2 * same + np.diag(errors**2)
        across = pick @ load
        solved = np.linalg.solve(covariance, np.column_stack([y, across.T]))
        changes.append(across @ solved[:, 0])
        variances.append(np.maximum((across * (pick - solved[:, 1:].T)).sum(axis=1), 0.0))
        prior = np.log(1.0 if drift == 0 else 1.0 / (len(DRIFTS) - 1))
        prior -= 0.5 * (np.log(noise / NOISE) / NOISE_SCALE) ** 2
        weights.append(prior - 0.5 * (y @ solved[:, 0] + np.linalg.slogdet(covariance)[1]))
    weight = np.exp(np.array(weights) - max(weights))
    weight /= weight.sum()
    mean = weight @ np.array(changes)
    return mean, np.sqrt(weight @ (np.array(variances) + (np.array(changes) - mean) ** 2))


def _reading(segment: Segment, name: str) -> tuple[float, ...]:
    """Ranks, seconds, their standard error (NaN where unknown) and the seconds of the latest windows."""
    seconds, error = segment.seconds[name], segment.standard_errors.get(name, math.nan)
    latest = segment.latest.get(name, math.nan)
    known = 0 < latest < math.inf
    return segment.split[name], seconds, error if error < math.inf else math.nan, latest if known else seconds


def window_times(
    segments: Sequence[Segment], schedule: Schedule, changes: Mapping[str, Array]
) -> dict[tuple[int, ...], tuple[float, float]]:
    """Bring the window times of all segments to the present load: by split their mean and its relative error."""
    readings: dict[tuple[int, ...], list[tuple[float, float]]] = {}
    for place, segment in enumerate(segments):
        change = {name: changes[name][place] for name in schedule.participants}
        before = _steady(segment, schedule)
        now = _steady(segment, schedule, {name: math.exp(log) for name, (log, _) in change.items()})
        seconds = segment.window_seconds * (now / before if before > 0 and now > 0 else 1.0)
        if math.isfinite(seconds) and seconds > 0:
            error = max((error for _, error in change.values() if math.isfinite(error)), default=0.0)
            ranks = tuple(segment.split[name] for name in schedule.participants)
            readings.setdefault(ranks, []).append((math.log(seconds), math.hypot(NOISE, error)))
    times = {}
    for ranks, pairs in readings.items():
        logs, errors = np.array(pairs).T
        mean, weight = np.average(logs, weights=errors**-2, returned=True)
        times[ranks] = float(np.exp(mean)), float(weight) ** -0.5
    return times


def _steady(segment: Segment, schedule: Schedule, factors: Mapping[str, float] | None = None) -> float:
    """Window time of the schedule for a segment's seconds times changes of load; NaN where one is unknown."""
    known = factors or {}
    seconds = {n: segment.seconds.get(n, math.nan) * known.get(n, 1.0) for n in schedule.participants}
    is_known = all(0 < value < math.inf for value in seconds.values())
    return float(schedule.window_seconds(seconds)) if is_known else math.nan
