"""The curves that a recommendation is decided on, and the window time that splits are expected to have by them.

Everything that is said later of a recommendation goes by these curves: nothing is drawn or fitted again.

A window is a maximum of sums, so its mean under uncertainty lies above the window of the mean curves, and the best
split for the one is not that for the other: a participant whose curve is uncertain should get some ranks more. Draws
have heavy tails, in which means of seconds are those of a few of them. So it is the *logarithm* whose mean counts: the
split with the least of it has the least expected loss E[ln(window / best window of the draw)], as the latter is the
same for all splits.

The logarithm of a split's window is what the participants' curves say, plus a Gaussian process over splits: a part that
all of them have in common, such as what the coupling itself costs, one that is alike for splits whose ranks differ by
little, and a larger one of each split alone, as a decomposition may suit one number of ranks and not the next. A
measured window is a noisy reading of it. So windows of a split that ran count for what it is thought to take, and a
split that never ran is not preferred for what the curves leave out of all of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.dataset import MeasuredRun
from precice_lb.exceptions import ScheduleError
from precice_lb.models.base import median_of_repeats
from precice_lb.models.posterior import BayesRegressor, interpolated, share_noise
from precice_lb.recommend.limits import node_ranks
from precice_lb.recommend.sources import Selection, fit_model, rows_at
from precice_lb.schedule import Schedule
from precice_lb.schedule.graph import resampled_residuals
from precice_lb.split import Constraints, optimize_split
from precice_lb.split.admissible import Limits
from precice_lb.split.problem import problems_of
from precice_lb.split.solve import descend

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
# From k rank counts to seconds per time window, shape (curves, k).
Curves = Callable[[Integers], Array]

# Curves drawn per participant.
DRAWS = 256
# Windows of a replay, those at its beginning that do not count, and of how many drawn curves one searches by replay.
WINDOWS, SETTLING = 256, 32
_THINNING = 8
# With more participants than this only the best splits for cautious curves are compared, so many deviations too slow.
MOST_DESCENDED, CAUTIOUS = 8, (0.5, 1.0)
# All counts up to this, then so many per octave: between them curves are lines in logarithms.
DENSE, PER_OCTAVE = 24, 10
# Seconds per window in place of such that are not positive.
NEVER = 1e12


def grid_of_ranks(highest: int) -> Integers:
    """Rank counts 1 … highest, all of them at first and then logarithmically spaced."""
    octaves = np.log2(max(highest / DENSE, 1.0))
    spaced = DENSE * 2.0 ** np.linspace(0.0, octaves, int(np.ceil(octaves * PER_OCTAVE)) + 1)
    grid = np.concatenate([np.arange(1, min(DENSE, highest) + 1), np.rint(spaced[1:])])
    return np.unique(np.minimum(grid, highest)).astype(np.int64)


def curves_of(model: Any, seed: list[int], columns: Mapping[str, float] | None = None) -> Curves:
    """Get the curves of a fitted model of a case: drawn ones where it can draw, else the one that it predicts."""
    if hasattr(model, "draw"):
        drawn = model.draw(DRAWS, np.random.default_rng(seed))
        return lambda ranks: np.asarray(drawn(rows_at(ranks, columns or {})), dtype=np.float64)

    def curve(ranks: Integers) -> Array:
        seconds = np.asarray(model.predict(rows_at(ranks, columns or {})), dtype=np.float64)[None]
        # What is no time at all is never best.
        return np.where(np.isfinite(seconds) & (seconds > 0), seconds, NEVER)

    return curve


# Standard deviations of what all splits have in common, and, as cells, of what each has for itself.
COMMON, APART = 0.3, (0.02, 0.06, 0.2)
# Ratio of a participant's ranks, in logarithms, over which splits are alike, and which part of a split's variance is
# its own (almost: over the second ratio).
ALIKE, ALONE, OWN = 0.5, 0.03, 0.8


@dataclasses.dataclass(frozen=True)
class Comparison:
    """A measured split beside its prediction."""

    # Ranks by participant.
    split: dict[str, int]
    # Mean seconds per window; of several runs, their median.
    measured: float
    # Relative, with what runs usually differ by.
    standard_error: float
    # Seconds per window by the participants' curves alone.
    predicted: float
    # The runs that measured it.
    runs: tuple[str, ...]


def compared_with_measured(
    schedule: Schedule, runs: Sequence[MeasuredRun], modelled: Callable[[Integers], Array]
) -> tuple[Comparison, ...]:
    """Set predictions, seconds of shape (curves, splits), beside the windows of measured splits, the shortest first."""
    names = schedule.participants
    groups: dict[tuple[int, ...], list[MeasuredRun]] = {}
    for run in runs:
        if set(names) <= set(run.split):
            groups.setdefault(tuple(run.split[name] for name in names), []).append(run)
    if not groups:
        return ()
    predicted = np.exp(np.log(modelled(np.array(list(groups), dtype=np.int64))).mean(axis=0))
    comparisons = []
    for (ranks, group), seconds in zip(groups.items(), predicted, strict=True):
        windows = np.array([_window(schedule, run) for run in group])
        measured, error = median_of_repeats(windows[:, 0], windows[:, 1])
        split = dict(zip(names, ranks, strict=True))
        runs_of = tuple(dict.fromkeys(run.name for run in group))
        comparisons.append(Comparison(split, measured, error, float(seconds), runs_of))
    return tuple(sorted(comparisons, key=lambda comparison: comparison.measured))


def _window(schedule: Schedule, run: MeasuredRun) -> tuple[float, float]:
    """Mean seconds of the coupling's windows in a run, and their standard error: of who takes longest for them."""
    counts: Mapping[str, int] = schedule.windows
    seconds = {name: counts[name] * run.window_seconds[name] for name in schedule.participants}
    longest = max(seconds, key=seconds.__getitem__)
    return seconds[longest], counts[longest] * run.standard_errors[longest]


class Correction:
    """What measured windows add to the logarithms of windows, for each drawn set of curves.

    Parameters
    ----------
    comparisons : sequence of Comparison
        The measured windows.
    ranks : array of shape (m, participants)
        Their splits.
    logs : array of shape (draws, m)
        What the curves say of them.
    seed : int
        Of the draws of the readings' noise.
    """

    def __init__(self, comparisons: Sequence[Comparison], ranks: Integers, logs: Array, seed: int) -> None:
        self._ranks = ranks
        errors = np.array([comparison.standard_error for comparison in comparisons])
        draws = np.random.default_rng([seed, 77]).standard_normal(logs.shape)
        draws -= draws.mean(axis=0)
        missed = np.log([comparison.measured for comparison in comparisons]) - logs
        middle = missed.mean(axis=0)
        weights, solved = [], []
        for apart in APART:
            covariance = self._covariance(ranks, apart) + np.diag(errors**2)
            weights.append(-0.5 * (middle @ np.linalg.solve(covariance, middle) + np.linalg.slogdet(covariance)[1]))
            solved.append(np.linalg.solve(covariance, (missed + errors * draws).T))
        shares = np.exp(np.array(weights) - max(weights))
        self._solved = [weights * share for weights, share in zip(solved, shares / shares.sum(), strict=True)]

    def __call__(self, ranks: Integers) -> Array:
        """Give it for splits of shape (k, participants), shape (draws, k)."""
        parts = zip(APART, self._solved, strict=True)
        return np.asarray(sum((self._covariance(ranks, apart) @ solved).T for apart, solved in parts))

    def _covariance(self, ranks: Integers, apart: float) -> Array:
        distance = np.abs(np.log(ranks)[:, None] - np.log(self._ranks)[None]).max(axis=2)
        alike = (1 - OWN) * np.exp(-distance / ALIKE) + OWN * np.exp(-distance / ALONE)
        return np.asarray(COMMON**2 + apart**2 * alike)


class ExpectedWindowTime:
    """Window time of splits over curves drawn for each participant; with recorded windows, by their replay.

    What the windows of measured splits were is known beside that.
    """

    def __init__(
        self,
        schedule: Schedule,
        curves: Mapping[str, Curves],
        recorded: Sequence[Mapping[str, Array]] = (),
        runs: Sequence[MeasuredRun] = (),
        seed: int = 0,
    ) -> None:
        self.schedule = schedule
        self.names = schedule.participants
        self.curves = curves
        self._recorded = [run for run in recorded if set(run) >= set(self.names)]
        #: Of whatever is drawn.
        self.seed = seed
        self._draws = max(len(curve(np.ones(1, dtype=np.int64))) for curve in curves.values())
        #: Whether there is anything to average over.
        self.is_uncertain = self._draws > 1
        self._correction: Correction | None = None
        #: Measured splits beside what the curves say of them.
        self.comparisons = compared_with_measured(schedule, runs, self.modelled)
        if self.comparisons:
            ranks = self.counts([comparison.split for comparison in self.comparisons])
            self._correction = Correction(self.comparisons, ranks, np.log(self.modelled(ranks)), seed)

    def compute_seconds(self, split: Mapping[str, int]) -> dict[str, Array]:
        """Compute seconds per window of each participant, one for each drawn curve."""
        return {name: seconds[:, 0] for name, seconds in self._costs(self.counts([split])).items()}

    @cached_property
    def residuals(self) -> dict[str, Array] | None:
        """Cost of each window of a replay over the median, by participant; None where too little was recorded."""
        try:
            return resampled_residuals(self.schedule, self._recorded, windows=WINDOWS, seed=self.seed)
        except ScheduleError:
            return None

    def mean_compute_seconds(self, split: Mapping[str, int]) -> dict[str, Array]:
        """Mean compute seconds per window, by drawn curve: what windows differ by counts, too."""
        typical = self.compute_seconds(split)
        if self.residuals is None:
            return typical
        return {name: seconds * float(self.residuals[name][SETTLING:].mean()) for name, seconds in typical.items()}

    def mean_seconds(self, split: Mapping[str, int]) -> dict[str, float]:
        """Compute seconds per window of each participant of a split, over the drawn curves and windows."""
        return {name: geometric_mean(seconds) for name, seconds in self.mean_compute_seconds(split).items()}

    def modelled(self, counts: Integers, *, replay: bool = True, thinning: int = 1) -> Array:
        """Seconds per window of splits by the curves alone, shape (curves, k); of every so many curves one.

        Without replay they are those of a window that is like every other one.
        """
        compute = {name: seconds[::thinning] for name, seconds in self._costs(counts).items()}
        if self.residuals is None or not replay:
            return self.schedule.window_seconds(compute)
        return self.schedule.replay_seconds(compute, self.residuals, SETTLING)

    def windows(self, counts: Integers, *, replay: bool = True, thinning: int = 1) -> Array:
        """Seconds per window of splits, ranks of shape (k, participants), for each set of curves, shape (curves, k)."""
        windows = self.modelled(counts, replay=replay, thinning=thinning)
        return windows if self._correction is None else windows * np.exp(self._correction(counts)[::thinning])

    def window(self, split: Mapping[str, int]) -> Array:
        """Seconds per window, one for each drawn set of curves."""
        return self.windows(self.counts([split]))[:, 0]

    def expected(self, splits: Sequence[Mapping[str, int]]) -> Array:
        """Seconds per window of some splits: geometric means over the drawn curves, shape (splits,)."""
        return np.asarray(geometric_mean(self.windows(self.counts(splits))))

    def waits(self, split: Mapping[str, int]) -> dict[str, Array]:
        """Share of a window that each participant waits, for each drawn curve."""
        compute, windows = self.mean_compute_seconds(split), self.modelled(self.counts([split]))[:, 0]
        steady = self.schedule.window_seconds(compute)
        # What windows last longer for noise, those who are waited for in turn wait themselves.
        more = np.maximum(windows - steady, 0.0)
        waits = self.schedule.waits(compute)
        bound = {name: self.schedule.windows[name] * compute[name] + wait for name, wait in waits.items()}
        return {
            name: (wait + np.where(bound[name] >= steady * (1 - 1e-9), more, 0.0)) / np.maximum(windows, steady)
            for name, wait in waits.items()
        }

    def counts(self, splits: Sequence[Mapping[str, int]]) -> Integers:
        """Give splits as ranks, shape (splits, participants)."""
        return np.array([[split[name] for name in self.names] for split in splits], dtype=np.int64)

    def _costs(self, counts: Integers) -> dict[str, Array]:
        """Compute seconds of each participant, shape (curves, k), at ranks of shape (k, participants)."""
        costs = {}
        for name, column in zip(self.names, counts.T, strict=True):
            ranks, inverse = np.unique(column, return_inverse=True)
            seconds = self.curves[name](ranks)[:, inverse.ravel()]
            costs[name] = np.broadcast_to(seconds, (self._draws, len(counts)))
        return costs

    def searches(self) -> list[tuple[Callable[[Integers], Array], int]]:
        """Give what splits are searched by, one after the other, each with the part of the ranks of its first step.

        The logarithm of a window over the best one of its draw is, in the mean, least where that of the window is.
        """
        objectives: list[tuple[Callable[[Integers], Array], int]] = []
        if self.is_uncertain or self._correction is not None:
            objectives.append((lambda counts: geometric_mean(self.windows(counts, replay=False)), 8))
        if self.residuals is not None:
            objectives.append((lambda counts: geometric_mean(self.windows(counts, thinning=_THINNING)), 32))
        return objectives


def geometric_mean(seconds: Array) -> Any:
    """Mean of the logarithms over the curves, as seconds: a float of shape (curves,), an array of (curves, k)."""
    mean = np.exp(np.log(seconds).mean(axis=0))
    return float(mean) if np.ndim(mean) == 0 else mean


def excluded_splits(counts: Integers, names: Sequence[str], constraints: Constraints) -> NDArray[np.bool_]:
    """Whether splits must not be chosen, shape (k,), for ranks of shape (k, participants)."""
    excluded = np.zeros(len(counts), dtype=np.bool_)
    for split in constraints.excluded:
        excluded |= np.all([counts[:, names.index(name)] == ranks for name, ranks in split.items()], axis=0)
    return excluded


@dataclasses.dataclass(frozen=True, eq=False)
class SplitProblem:
    """What a split is sought by."""

    # The fitted models.
    models: dict[str, Any]
    # Mean seconds per window of each participant at 1, 2, … ranks, shape (most ranks,).
    times: dict[str, Array]
    # By what factor one standard deviation of the curves is above that, shape (most ranks,).
    spread: dict[str, Array]
    # The drawn curves of each participant, with what sharing cores costs, and the schedule.
    expected: ExpectedWindowTime
    limits: Limits

    @property
    def words(self) -> dict[str, Any]:
        """All but times and budget, as the optimiser takes it."""
        return {"coupling": self.expected.schedule, "constraints": self.limits.constraints}

    def improved(self, start: Mapping[str, int], budget: int) -> dict[str, int]:
        """Search for the least expected loss over the drawn curves, from the optimum for their means and what ran."""
        expected = self.expected
        searches = expected.searches()
        if not searches:
            return dict(start)

        def best(splits: Sequence[Mapping[str, int]]) -> dict[str, int]:
            return dict(splits[int(np.argmin(expected.expected(splits)))])

        starts = [start, *(measured.split for measured in expected.comparisons if self.fits(measured.split, budget))]
        if len(start) > MOST_DESCENDED and expected.is_uncertain:
            # The best for curves that are all as much too slow, so that who is uncertain gets more.
            for z in CAUTIOUS:
                slow = {name: times * self.spread[name] ** z for name, times in self.times.items()}
                starts.append(optimize_split(slow, budget, **self.words).split)
            return best(starts)
        first = best(starts)
        return best([self._descended(first, budget, searches), first])

    def _descended(
        self, start: Mapping[str, int], budget: int, searches: Sequence[tuple[Callable[[Integers], Array], int]]
    ) -> dict[str, int]:
        (problem,), names = problems_of(self.times, budget, **self.words), self.expected.names
        curves = problem.curves()
        # The next fewer where the start stands on no curve, since what is faster was excluded.
        below = [
            np.searchsorted(curve.ranks, start[name], side="right") - 1
            for curve, name in zip(curves, names, strict=True)
        ]
        indices = np.maximum(below, 0)

        def counts(indices: Integers) -> Integers:
            return np.stack([curve.ranks[indices[:, i]] for i, curve in enumerate(curves)], axis=1)

        for expected, part in searches:

            def objective(indices: Integers, expected: Callable[[Integers], Array] = expected) -> Array:
                splits = counts(indices)
                return np.where(excluded_splits(splits, names, self.limits.constraints), np.inf, expected(splits))

            indices, _ = descend(curves, problem.machine, objective, indices, part)
        return dict(zip(names, counts(indices[None])[0].tolist(), strict=True))

    def used(self, split: Mapping[str, int]) -> dict[str, int]:
        """Count the ranks, cores and nodes that a split within the limits occupies."""
        uses, machine = self.limits.uses(split), self.limits.machine
        assert uses is not None
        ranks = sum(machine.layouts(name, "").of(count).ranks for name, count in split.items())
        return {"ranks": ranks, **machine.used(machine.total(uses))}

    def fits(self, split: Mapping[str, int], budget: int) -> bool:
        """Whether a split is within a budget and all that the machine demands."""
        uses, counts = self.limits.uses(split), self.expected.counts([split])
        if uses is None or excluded_splits(counts, self.expected.names, self.limits.constraints).any():
            return False
        return bool(self.limits.machine.with_budget(budget).fits(uses))


def problem_of(schedule: Schedule, selection: Selection, limits: Limits, prototype: Any, seed: int) -> SplitProblem:
    """Fit a model for each participant and draw its curves; each is asked as far as its counts go."""
    names, measured = schedule.participants, selection.measurements
    models = {name: fit_model(selection, name, prototype, node_ranks(measured, name, limits)) for name in names}
    if all(isinstance(model, BayesRegressor) for model in models.values()):
        share_noise([*models.values()])
    curves = {name: curves_of(models[name], [seed, index], selection.columns[name]) for index, name in enumerate(names)}
    means = {name: _mean(curves[name], limits.highest[name]) for name in names}
    times, spread = ({name: pair[index] for name, pair in means.items()} for index in (0, 1))
    slowed = {name: _slowed(curve, 1.0 + limits.constraints.overhead(name)) for name, curve in curves.items()}
    expected = ExpectedWindowTime(schedule, slowed, measured.recorded, measured.runs, seed)
    return SplitProblem(models, times, spread, expected, limits)


def _mean(curve: Curves, highest: int) -> Array:
    """Mean curve at 1 … highest ranks, and the factor of a standard deviation; of many drawn ones on a grid."""
    grid = grid_of_ranks(highest)
    logs = np.log(curve(grid))
    if len(logs) == 1:
        grid = np.arange(1, highest + 1)
        logs = np.log(curve(grid))
    both = np.array([logs.mean(axis=0), logs.std(axis=0)])
    return np.exp(interpolated(np.arange(1.0, highest + 1), grid, both))


def _slowed(curve: Curves, factor: float) -> Curves:
    """Give a curve with what sharing cores costs."""
    return lambda ranks: curve(ranks) * factor
