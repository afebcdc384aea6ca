"""What the posterior of a recommendation says of all splits, and what measuring another one is worth.

The curves that a recommendation was decided on are possible truths. For each of them the best split is known, and so is
what another split would lose there: the logarithm of its window over the best one's, which is the rule of the decision
too. In the mean over the curves it is the expected regret. A run at a split would read each participant's seconds with
noise; curves that disagree with the reading would count for less, and another split might be recommended. Reading many
possible truths in turn gives the expected regret after the run (the expected value of sample information; Raiffa and
Schlaifer 1961, chapter 4; the present curves are reweighted for each reading, in place of a new posterior).

Where a reading is far more exact than what is known, hardly any of the present curves agrees with it, and a decision
by the one or two that do is one by chance. So a reading counts as exact only as far as some curves are left: those
nearest to it, which is what regression on the readings by nearest neighbours does (Strong, Oakley and Brennan 2014).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precice_lb.models.base import USUAL_NOISE
from precice_lb.recommend import Recommendation
from precice_lb.recommend.limits import node_ranks
from precice_lb.recommend.posterior import Curves, excluded_splits, geometric_mean
from precice_lb.split.problem import fitting, problems_of, ranks_of
from precice_lb.split.solve import Solver

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

# Another run is not worth it where the expected regret is below this, or would fall by less than that part of it: the
# answer is stable.
TARGET_REGRET, STABLE_PART = 0.002, 0.1
# Of the splits that are judged so many are listed.
LISTED = 5
# Rank counts at which every participant is to be measured: two do not show a curve bend.
DIFFERENT = 3
# Splits of either kind whose measurement is judged, and those among which a decision after it is made.
CANDIDATES, ALTERNATIVES = 12, 64
# Of so many curves one at least is left to decide by after a reading.
LEFT = 32
# Counts of each of two participants up to which all splits are compared; beyond, so many in geometric steps.
ALL_COUNTS = 384
# Of how many drawn curves the best split of one comes into question: with few and with many participants.
THINNING, THINNING_OF_MANY, MANY = 5, 32, 8


class NextRun(NamedTuple):
    """A split that may be measured."""

    # Ranks by participant.
    split: dict[str, int]
    # Expected regret that measuring it saves, and the one of the recommended split after it.
    saved: float
    regret: float


class PosteriorSplits:
    """What the posterior of a recommendation says of all splits, and what measuring another one is worth.

    What the windows of one run leave open of its seconds is the median of the errors, or ``within`` as told, relative.
    """

    def __init__(self, result: Recommendation, within: Mapping[str, float] | None = None) -> None:
        self.expected, self.names = result.expected, result.expected.names
        self._seed = result.expected.seed
        # Relative standard deviation of the seconds that a run would tell.
        self.noise = {n: _noise(result, n, None if within is None else within[n]) for n in self.names}
        frames = result.measurements.frames
        self._measured = [set(frames[n].cores[result.measured_here(n)].tolist()) for n in self.names]
        chosen = self.expected.counts([result.split])
        #: Splits that come into question, shape (k, participants).
        self.splits = np.unique(np.vstack([chosen, _in_question(result)]), axis=0)
        #: Seconds per window for each set of curves and each of these, shape (curves, k).
        self.windows = self.expected.windows(self.splits, replay=False)
        logs = np.log(self.windows)
        #: What each would lose for each set of curves, as a logarithm, shape (curves, k).
        self.losses = logs - logs.min(axis=1, keepdims=True)
        #: Index of the recommended split, and of the best one by these windows.
        self.recommended = int(np.flatnonzero((self.splits == chosen).all(axis=1))[0])
        self.best = int(np.argmin(logs.mean(axis=0)))

    @property
    def expected_regret(self) -> float:
        """Of the recommended split: the logarithm of its window time over that of the best split, in the mean."""
        return float(self.losses[:, self.recommended].mean())

    @cached_property
    def runs(self) -> list[NextRun]:
        """Splits to measure, those first that save most per core-second.

        Where none saves anything, the cheapest first: it is near the recommended one.
        """
        rows = self.candidates()
        saved = self.saved(rows)
        # In core-seconds of a window.
        cost = np.asarray(geometric_mean(self.windows[:, rows]) * self.splits[rows].sum(axis=1))
        order = np.argsort(-saved / cost if saved.max() > 0 else cost, kind="stable")
        splits = (dict(zip(self.names, split, strict=True)) for split in self.splits[rows[order]].tolist())
        now = self.expected_regret
        return [
            NextRun(split, s, max(now - max(s, 0.0), 0.0))
            for split, s in zip(splits, saved[order].tolist(), strict=True)
        ]

    def enough(self, target: float) -> str:
        """Say why another run is not worth it; empty where it is."""
        now, stable = 100 * self.expected_regret, STABLE_PART * target
        if now <= 100 * target:
            return f"the expected regret of {now:.2f} % is below {100 * target:.2g} %"
        lower = f"another run is expected to lower the regret of {now:.2f} % by less than {100 * stable:.2g} %"
        return f"the answer is stable: {lower}" if max(run.saved for run in self.runs) < stable else ""

    def candidates(self) -> Integers:
        """List splits to judge: the recommended one, those that may be best, and others over the whole range.

        With more than two participants these are of fewer and fewer ranks in the proportion of the recommended one.
        Where there are some, those at new counts of who was measured at few.
        """
        every = _evenly(np.argsort(self.splits[:, 0], kind="stable"), CANDIDATES)
        likely = _evenly(np.sort(np.argmin(self.losses, axis=1)), CANDIDATES)
        chosen = np.unique(np.concatenate([every, likely, [self.recommended]]))
        if len(self.names) > 2:
            octaves = np.floor(np.log2(self.splits.sum(axis=1)))
            unlike = np.ptp(np.log(self.splits / self.splits[self.recommended]), axis=1)
            order = np.lexsort((unlike, octaves))
            chosen = np.union1d(chosen, order[np.unique(octaves[order], return_index=True)[1]])
        counts = zip(self._measured, self.splits[chosen].T, strict=True)
        old = [np.isin(ranks, list(known)) for known, ranks in counts if len(known) < DIFFERENT]
        new = chosen[~np.any(old, axis=0)] if old else chosen
        return np.asarray(new if len(new) else chosen)

    def saved(self, rows: Integers) -> Array:
        """Give the expected regret that one more run at each of some splits would save, shape (rows,)."""
        # A decision is made among the best one and those that are best for some curves: of many, as dense as these.
        best = np.sort(np.argmin(self.losses, axis=1))
        likely = best if len(np.unique(best)) <= ALTERNATIVES else _evenly(best, ALTERNATIVES)
        alternatives = np.union1d(likely, [self.best])
        losses, truths = self.losses[:, alternatives], np.arange(len(self.losses))
        # Common random numbers for all splits, so that their difference is not one of luck.
        rng = np.random.default_rng([self._seed, len(self.names)])
        draws = rng.standard_normal((len(self.names), len(truths)))
        every = np.empty((len(rows), len(self.names), len(truths)))
        for place, (name, ranks) in enumerate(zip(self.names, self.splits[rows].T, strict=True)):
            every[:, place] = np.log(self.expected.curves[name](ranks)).T / self.noise[name]
        savings = []
        for logs in every:
            read = logs + draws
            distance = (read * read).sum(axis=0)[:, None] + (logs * logs).sum(axis=0) - 2 * read.T @ logs
            # What is read must not be recognised.
            distance[truths, truths] = np.inf
            distance -= distance.min(axis=1, keepdims=True)
            near = np.partition(distance, len(truths) // LEFT, axis=1)[:, len(truths) // LEFT, None]
            weights = np.exp(-0.5 * distance / np.maximum(near, 1.0))
            chosen = np.argmin(weights @ losses, axis=1)
            # For the same truths, so that their luck is not the split's.
            savings.append(float((self.losses[truths, self.best] - losses[truths, chosen]).mean()))
        return np.array(savings)


def _noise(result: Recommendation, name: str, within: float | None) -> float:
    """Relative standard deviation of a run's seconds: between runs as learned, and what its windows leave open."""
    if within is None:
        frame = result.measurements.frames[name]
        errors = frame.standard_error / frame.seconds
        within = float(np.nanmedian(errors)) if np.isfinite(errors).any() else 0.0
    return math.hypot(getattr(result.models[name], "noise_", USUAL_NOISE), within)


def _in_question(result: Recommendation) -> Integers:
    """List splits that may be the best one, or tell of it: with two participants all that spend the budget."""
    limits, names = result.limits, result.expected.names
    step = THINNING if len(names) <= MANY else THINNING_OF_MANY
    # What sharing cores costs is in the curves already.
    shared = tuple(dataclasses.replace(group, overhead=0.0) for group in limits.constraints.shared)
    (problem,) = problems_of(
        {name: partial(_some, curve, step) for name, curve in result.expected.curves.items()}, limits.budget,
        result.expected.schedule, constraints=dataclasses.replace(limits.constraints, shared=shared),
    )  # fmt: skip
    # More ranks than are fastest for any of the curves are of no use.
    candidates = [o.take(slice(int(o.seconds.argmin(axis=1).max()) + 1)) for o in problem.options.values()]

    def below(counts: Any) -> Integers:
        """Find the indices of the most ranks that are not above some, shape (splits, participants)."""
        columns = zip(candidates, np.asarray(counts).T, strict=True)
        indices = [np.searchsorted(c.ranks, counts, "right") - 1 for c, counts in columns]
        return np.asarray(np.maximum(np.stack(indices, axis=1), 0))

    def ranks_at(indices: Integers) -> Integers:
        return np.stack([c.ranks[column] for c, column in zip(candidates, indices.T, strict=True)], axis=1)

    here = np.array([result.split[name] for name in names])
    likely = [here]
    if len(names) > 2:
        solver = Solver(problem, quick=True)
        samples = map(problem.curves, range(problem.samples))
        likely += [np.array(ranks_of(curves, solver.bounded(curves))) for curves in samples]
    # The number of one participant changes: all there are, or of many, and with more participants, in geometric steps.
    lines, most = [below(likely)], ALL_COUNTS if len(names) <= 2 else 2 * ALL_COUNTS // len(names) ** 2
    for column, size in enumerate(len(curve.ranks) for curve in candidates):
        steps = np.arange(size) if size <= most else np.unique(np.geomspace(1, size, most).astype(np.int64)) - 1
        lines.append(np.tile(lines[0][0], (len(steps), 1)))
        lines[-1][:, column] = steps
    tried = []
    nodes = [int(node_ranks(result.measurements, name, limits) or 1) for name in names]
    if max(nodes) > 1:
        counts = ranks_at(np.vstack(lines))
        tried.append(below(counts - counts % nodes))
    if len(names) > 2:
        # Nor do the lines lead to all of them having fewer: the proportion of the recommended one, by halves.
        lines.append(below(np.outer(2.0 ** -np.arange(1 + np.log2(here.max())), here)))
    # Runs may have fewer ranks than the budget: they cost less. And one participant after the other takes what is left.
    splits = ranks_at(fitting(candidates, problem.machine, [*tried, *lines], np.vstack(lines)))
    return splits[~excluded_splits(splits, names, limits.constraints)]


def _some(curve: Curves, step: int, ranks: Integers) -> Array:
    return curve(ranks)[::step]


def _evenly(values: NDArray[Any], count: int) -> Integers:
    """Take so many of some values, from the first to the last in even steps."""
    return np.asarray(values[np.linspace(0, len(values) - 1, count).round().astype(np.int64)])


class Prospects(NamedTuple):
    """What further runs are worth."""

    # Expected regret now: window time of the recommended split over that of the best one, minus 1; NaN where a learner
    # draws no curves.
    regret: float
    # Those that save most per core-second, best first; none where calibration would stop.
    runs: tuple[NextRun, ...] = ()
    # Whether calibration would go on.
    is_worth_it: bool = False


def next_runs(result: Recommendation, target_regret: float = TARGET_REGRET) -> Prospects:
    """Judge further runs by the regret that they are expected to remove, as calibration does.

    The curves are those that the recommendation was decided on.
    """
    if not result.expected.is_uncertain:
        return Prospects(math.nan)
    posterior = PosteriorSplits(result)
    if posterior.enough(target_regret):
        return Prospects(posterior.expected_regret)
    runs = [run for run in posterior.runs if run.saved > 0]
    return Prospects(posterior.expected_regret, tuple(runs[:LISTED]), True)
