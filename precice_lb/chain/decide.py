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
from dataclasses import dataclass, field
from functools import cached_property
from statistics import NormalDist, median
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from precice_lb.campaign.worth import PosteriorSplits
from precice_lb.chain.document import Decision, Segment
from precice_lb.dataset import Measurements, Samples
from precice_lb.exceptions import DataError, InfeasibleError
from precice_lb.layout import Layouts, count_text, split_text
from precice_lb.recommend import recommend
from precice_lb.recommend.limits import in_proportion
from precice_lb.schedule import Schedule
from precice_lb.split import Constraints
from precice_lb.split.admissible import Limits, limits_of
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
    """What a chain may do next.

    Attributes
    ----------
    schedule : Schedule
        How the participants wait for each other.
    budget : int
        Ranks in all.
    lowest, highest : mapping from participant to int
        Bounds of ranks.
    windows_left : int
        Time windows until the end of the chain.
    segment_windows : int
        Those of the next segment.
    allow : mapping from participant to sequence of int
        The only rank counts that are possible.
    earlier : mapping from participant to ndarray
        Of calibration runs, shape (n, 3): ranks, compute seconds per window, standard error (NaN where unknown).
    failed : sequence of mapping from participant to int
        Splits that cannot be run; of some participants alone, all in which these have so many ranks.
    seed : int
        The same question with the same seed has the same answer.
    layouts : mapping from participant to Layouts
        Ranks and threads of those whose splits count cores.
    """

    schedule: Schedule
    budget: int
    lowest: Mapping[str, int]
    highest: Mapping[str, int]
    windows_left: int
    segment_windows: int
    allow: Mapping[str, Sequence[int]] = field(default_factory=dict)
    earlier: Mapping[str, Array] = field(default_factory=dict)
    failed: Sequence[Mapping[str, int]] = ()
    seed: int = 0
    layouts: Mapping[str, Layouts] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """The participants."""
        return self.schedule.participants

    @cached_property
    def limits(self) -> Limits:
        """What bounds the splits."""
        constraints = Constraints(allow=self.allow, excluded=self.failed)
        return limits_of(self.names, self.budget, self.lowest, self.highest, constraints)

    def text(self, split: Mapping[str, int]) -> str:
        """Write a split."""
        return split_text(split, self.layouts)

    def problem(self, split: Mapping[str, int]) -> str:
        """Say why a split cannot be run; empty where it can."""
        for name in self.names:
            if split[name] not in self.limits.counts[name]:
                return f"{name} may not have {count_text(name, split[name], self.layouts)}"
        if (ranks := sum(split.values())) > self.budget:
            return f"{plural(ranks, 'core' if self.layouts else 'rank')} are above the budget of {self.budget}"
        return "it failed" if any(failed.items() <= split.items() for failed in self.failed) else ""


def decide(segments: Sequence[Segment], question: DecisionProblem) -> Decision:
    """Decide on the split of the next segment.

    A change costs what preparing and collecting took at the chain's borders, in the median: the border comes anyway.

    Parameters
    ----------
    segments : sequence of Segment
        Those that are done, at least one, in order.
    question : DecisionProblem
        What may be done.

    Returns
    -------
    Decision
        A split within budget and bounds that did not fail.

    Raises
    ------
    DataError
        No segments, or not all participants in their splits.
    InfeasibleError
        Bounds that leave no split, or each of them failed.
    """
    names = question.names
    if not segments or any(set(segment.split) != set(names) for segment in segments):
        raise DataError(f"expected segments with ranks of {', '.join(names)}, found {plural(len(segments), 'segment')}")
    unknown = [name for name in names if not len(question.earlier.get(name, ())) and not known_seconds(segments, name)]
    try:
        if not unknown:
            return _Choice(segments, question).decision()
        # Stay, or take an even split where that is not possible.
        present = {name: segments[-1].split[name] for name in names}
        why = f"the compute time of {', '.join(unknown)} is not known"
        if not (problem := question.problem(present)):
            return Decision(present, "stay", f"stay at {question.text(present)}: {why}")
        _, even = in_proportion(question.limits, dict.fromkeys(names, 1.0))
        return Decision(even, "move", f"move to {question.text(even)}, an even split: {problem}, and {why}")
    except InfeasibleError as error:
        raise InfeasibleError(
            f"expected a split within bounds and {plural(question.budget, 'rank')} that did not fail, found none: "
            f"{plural(len(question.failed), 'split')} failed; allow other ranks"
        ) from error


class _Option(NamedTuple):
    """Another split for the next segment."""

    split: Split
    # Seconds per window expected, and those saved until the end, the border taken off: if it then stays, and if what it
    # teaches is made use of.
    window: float
    saving: float
    learning: float
    # That the former is positive.
    probability: float


class _Choice:
    """What is expected of the splits that come into question, at the load of the latest windows."""

    def __init__(self, segments: Sequence[Segment], question: DecisionProblem) -> None:
        self.names, self.question = question.names, question
        self.present = {name: segments[-1].split[name] for name in self.names}
        self.left = max(question.windows_left, 1)
        self.next = min(max(question.segment_windows, 1), self.left)
        self.border = change_seconds(segments)
        brought = {name: at_present_load(segments, name, question.earlier.get(name)) for name in self.names}
        frames = {n: Samples(b.rows[:, 0], b.rows[:, 1], standard_error=b.rows[:, 2]) for n, b in brought.items()}
        recommendation = recommend(
            Measurements(frames), question.budget, coupling=question.schedule, minimum_ranks=question.lowest,
            maximum_ranks=question.highest, seed=question.seed, allow=question.allow, failed=question.failed,
        )  # fmt: skip
        self.posterior = PosteriorSplits(recommendation, {name: scaled.error for name, scaled in brought.items()})
        changes = {name: scaled.changes for name, scaled in brought.items()}
        self.measured = window_times(segments, question.schedule, changes)
        scale = measured_ratio(segments, question.schedule)
        here = np.array([[self.present[name] for name in self.names]])
        #: Seconds per window of the present split and of the others, for each set of curves.
        self.stays = scale * recommendation.expected.windows(here, replay=False)[:, 0]
        self.windows = scale * self.posterior.windows
        share = LEAST_AT_FIRST if len(segments) <= len(self.names) else LEAST_LATER
        self.least = share * self.left * float(self.stays.mean())

    def decision(self) -> Decision:
        """Go back where the gain did not come, go on where that pays or teaches enough, else stay."""
        options = self._options()
        if problem := self.question.problem(self.present):
            if not options:
                raise InfeasibleError(problem)
            best = min(options, key=lambda option: option.window)
            return Decision(best.split, "move", f"move to {self._expected(best)}: {problem}")
        sure = [option for option in options if option.probability >= SURE and option.saving >= self.least]
        move = max(sure, key=lambda option: option.saving, default=None)
        if back := self._back(move):
            return back
        here = f"{self.stays.mean():.4g} s with {self.question.text(self.present)}"
        least = move.saving if move else 0.0
        slowest = SLOWER * self.stays.mean()
        likely = [option for option in options if LIKELY <= option.probability < SURE and option.window <= slowest]
        teaches = max(likely, key=lambda option: option.learning, default=None)
        if teaches and teaches.learning - least >= self.least:
            text = f"learn at {self._expected(teaches)}, {here}: with what it teaches, {self._saves(teaches.learning)}"
            return Decision(teaches.split, "learn", text)
        if move:
            text = f"move to {self._expected(move)}, {here}: {self._saves(move.saving)}, "
            return Decision(move.split, "move", text + f"and pays with {100 * move.probability:.0f} %")
        return self._stay(options)

    def _options(self) -> list[_Option]:
        """Judge all splits but the present one and those that were measured to be slower."""
        posterior, means = self.posterior, self.windows.mean(axis=0)
        saved = (self.stays[:, None] - self.windows) * self.left - self.border
        learning = np.full(len(means), -np.inf)
        if (after := self.left - self.next) > 0:
            candidates = posterior.candidates()
            regret = np.maximum(posterior.saved(candidates), 0.0)
            # After the segment the best split in sight, for another border, or a better one by what was learned.
            later = after * (means[posterior.best] - regret * float(self.windows.min(axis=1).mean()))
            later += self.border * (candidates != posterior.best)
            learning[candidates] = (
                self.left * float(self.stays.mean()) - self.next * means[candidates] - self.border - later
            )
        present, problem = self.measured.get(tuple(self.present.values())), self.question.problem(self.present)
        columns = zip(means, saved.mean(axis=0), learning, (saved > 0).mean(axis=0), strict=True)
        options = []
        for ranks, values in zip(posterior.splits.tolist(), columns, strict=True):
            split, known = self._split(ranks), self.measured.get(tuple(ranks))
            slower = known is not None and present is not None and known.window >= present.window
            if split != self.present and (problem or not slower) and not self.question.problem(split):
                options.append(_Option(split, *map(float, values)))
        return options

    def _back(self, move: _Option | None) -> Decision | None:
        """Go back to the split that was fastest, where the present one was measured to be slower and that pays.

        Only a split between the two may be better still: beyond, what is expected has just been wrong.
        """
        here = tuple(self.present.values())
        others = [key for key in self.measured if key != here and not self.question.problem(self._split(key))]
        if here not in self.measured or not others:
            return None
        best = min(others, key=lambda key: self.measured[key].window)
        now, before = self.measured[here], self.measured[best]
        aim = now.window - self.border / self.left
        if aim <= before.window:
            return None
        probability = NormalDist().cdf(math.log(aim / before.window) / math.hypot(now.error, before.error))
        if probability < SURE:
            return None
        split = self._split(best)
        saving = self.left * (now.window - before.window) - self.border
        if move and move.saving > saving:
            ends = [sorted((self.present[name], split[name])) for name in self.names]
            if all(low <= move.split[name] <= high for name, (low, high) in zip(self.names, ends, strict=True)):
                return None
        text = (
            f"undo: back to {self.question.text(split)}, measured at {before.window:.4g} s per window at the present "
            f"load, from {self.question.text(self.present)}, measured at {now.window:.4g} s: {self._saves(saving)}, "
            f"and pays with {100 * probability:.0f} %"
        )
        return Decision(split, "undo", text)

    def _stay(self, options: Sequence[_Option]) -> Decision:
        text = f"stay at {self.question.text(self.present)}, {self.stays.mean():.4g} s per window expected"
        best = max(options, key=lambda option: option.saving, default=None)
        if best is None:
            return Decision(self.present, "stay", f"{text}: no other split comes into question")
        why = f"{self._saves(best.saving)}, and pays with {100 * best.probability:.0f} %: too little"
        return Decision(self.present, "stay", f"{text}: {self._expected(best)}, {why}")

    def _split(self, ranks: Sequence[int]) -> Split:
        return dict(zip(self.names, ranks, strict=True))

    def _expected(self, option: _Option) -> str:
        return f"{self.question.text(option.split)}, {option.window:.4g} s per window expected"

    def _saves(self, seconds: float) -> str:
        what = f"saves {seconds:.4g} s" if seconds > 0 else f"loses {-seconds:.4g} s"
        return f"{what} in the {plural(self.left, 'window')} left, {self.border:.3g} s for the change taken off"


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
    y = logs + octaves
    y = y - y.mean()
    means_and_variances, weights = [], []
    last = np.array([times.max()])
    for covariance_of, drift, noise in itertools.product((_walk, _trend), DRIFTS, NOISES):
        before = times[:means]
        covariance = curve + drift**2 * covariance_of(times, times) + noise**2 * same + np.diag(errors**2)
        # Of the change that is asked for, with each reading.
        across = drift**2 * (covariance_of(last, times) - covariance_of(before, times))
        solved = np.linalg.solve(covariance, np.column_stack([y, across.T]))
        change = covariance_of(last, last)[0] - 2 * covariance_of(before, last)[:, 0]
        change += np.diag(covariance_of(before, before))
        variance = drift**2 * change - (across * solved[:, 1:].T).sum(axis=1)
        means_and_variances.append((across @ solved[:, 0], np.maximum(variance, 0.0)))
        prior = np.log(1.0 if drift == 0 else 1.0 / (len(DRIFTS) - 1))
        prior -= 0.5 * (np.log(noise / NOISE) / NOISE_SCALE) ** 2
        weights.append(prior - 0.5 * (y @ solved[:, 0] + np.linalg.slogdet(covariance)[1]))
    weight = np.exp(np.array(weights) - max(weights))
    weight /= weight.sum()
    changes, variances = (np.array(part) for part in zip(*means_and_variances, strict=True))
    mean = weight @ changes
    return mean, np.sqrt(weight @ (variances + (changes - mean) ** 2))


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
        times[ranks] = WindowTime(float(np.exp(mean)), float(weight) ** -0.5)
    return times


def measured_ratio(segments: Sequence[Segment], schedule: Schedule) -> float:
    """Measured seconds per window over those of the schedule: what noise of windows and exchanges add."""
    pairs = [(segment.window_seconds, _steady(segment, schedule)) for segment in segments]
    ratios = [window / steady for window, steady in pairs if steady > 0 and math.isfinite(window) and window > 0]
    return median(ratios) if ratios else 1.0


def _steady(segment: Segment, schedule: Schedule, factors: Mapping[str, float] | None = None) -> float:
    """Window time of the schedule for a segment's seconds times changes of load; NaN where one is unknown."""
    names, known = schedule.participants, factors or {}
    seconds = {name: segment.seconds.get(name, math.nan) * known.get(name, 1.0) for name in names}
    is_known = all(0 < value < math.inf for value in seconds.values())
    return float(schedule.window_seconds(seconds)) if is_known else math.nan


def change_seconds(segments: Sequence[Segment]) -> float:
    """Median of what a change costs at a border; the whole border where that is not known apart."""
    costs = (s.border_seconds if math.isnan(s.change_seconds) else s.change_seconds for s in segments)
    return max(median(costs), 0.0)
