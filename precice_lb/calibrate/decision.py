"""What another run is worth: how much regret it is expected to save, under what the runs so far leave possible.

The curves that `precice_lb.models.BayesRegressor` draws are possible truths. For each of them the best split is known,
and so is what another split would lose there: the mean over the curves is the expected regret of a recommendation. A
run at a split would read each participant's seconds with noise; curves that disagree with the reading would count for
less, and another split might be recommended. Reading many possible truths in turn gives the expected regret after the
run (the expected value of sample information; Raiffa and Schlaifer 1961, chapter 4; the present curves are reweighted
for each reading, in place of a new posterior).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from precice_lb.calibrate.design import Allow, allowed_splits
from precice_lb.models import make_learner
from precice_lb.models.measurements import widened_errors
from precice_lb.models.posterior import interpolated
from precice_lb.recommend.compare import Table, best_ranks, grid_of_ranks
from precice_lb.recommend.posterior import DRAWS, geometric_mean
from precice_lb.schedule import Schedule

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
Curves = Callable[[Integers], Array]

# What is usual between runs, and its standard deviation in logarithms.
NOISE, NOISE_SCALE = 0.04, 0.8
# Two participants: as many ways to divide the ranks are compared one by one; beyond, those best for some curves.
ALL_SPLITS = 1024
# Splits among which a decision after another run is made.
ALTERNATIVES = 64
# Splits of either kind whose measurement is judged.
CANDIDATES = 12
# Possible truths that are read when a run is judged.
READINGS = 256


def learned(
    tables: Mapping[str, Array],
    parameters: Sequence[float],
    seed: int,
    *,
    draws: int = DRAWS,
    within: Mapping[str, float] | None = None,
) -> tuple[dict[str, Curves], dict[str, float]]:
    """Draw curves of each participant from what was measured, and tell the relative noise of a run's seconds.

    Tables have shape (n, 3 + k): ranks, seconds, standard errors (NaN where unknown), and k ``parameters``; the curves
    are for the case's own. They go from rank counts, shape (m,), to seconds per window, shape (draws, m). What the
    windows of a run leave open is the median of the errors, or as given, relative.
    """
    curves, noise = {}, {}
    for index, (name, rows) in enumerate(tables.items()):
        curves[name], between = _learned(rows, parameters, [seed, index], draws)
        noise[name] = float(np.hypot(between, within_runs(rows[:, 1], rows[:, 2]) if within is None else within[name]))
    return curves, noise


def _learned(rows: Array, parameters: Sequence[float], seed: Sequence[int], draws: int) -> tuple[Curves, float]:
    varying = [at for at in range(len(parameters)) if len(np.unique(rows[:, 3 + at])) > 1]
    values = [parameters[at] for at in varying]
    model = make_learner("bayes")
    errors = rows[:, 2] if varying else widened_errors(rows[:, 0], rows[:, 1], rows[:, 2])
    model.fit(rows[:, [0, *(3 + at for at in varying)]], rows[:, 1], standard_error=errors)
    drawn = model.draw(draws, np.random.default_rng(list(seed)))

    def curves(ranks: Integers) -> Array:
        at = np.column_stack([ranks, np.tile(values, (len(ranks), 1))]) if values else ranks
        return np.asarray(drawn(at), dtype=np.float64)

    return curves, model.noise_


def within_runs(seconds: Array, errors: Array) -> float:
    """Tell what the windows of a run leave open, relative: the median of standard errors that are known."""
    known = np.isfinite(errors)
    return float(np.median(errors[known] / seconds[known])) if known.any() else 0.0


class Beliefs:
    """What drawn curves, and the relative ``noise`` of a run's seconds, tell of the window time of every split.

    With ``splits``, shape (k, participants), these are the only ones possible; with ``allow``, the ranks of some
    participants are among these. ``failed`` splits are not chosen; with some participants alone, none in which these
    have so many ranks.
    """

    def __init__(
        self,
        curves: Mapping[str, Curves],
        noise: Mapping[str, float],
        schedule: Schedule,
        budget: int,
        lowest: Mapping[str, int],
        highest: Mapping[str, int],
        seed: int,
        splits: Integers | None = None,
        failed: Sequence[Mapping[str, int]] = (),
        allow: Allow | None = None,
    ) -> None:
        self.names = schedule.participants
        self.schedule = schedule
        self.budget = budget
        self.lowest, self.highest = lowest, highest
        self.low, self.high = (np.array([each[name] for name in self.names]) for each in (lowest, highest))
        grids = {name: grid_of_ranks(highest[name]) for name in self.names}
        self.tables = {name: Table(grid, np.asarray(curves[name](grid))) for name, grid in grids.items()}
        self.noise = dict(noise)
        self._rng = np.random.default_rng([seed, len(self.names)])
        #: Splits that come into question, shape (k, participants).
        self.splits = self._without(self._in_question(allow or {}) if splits is None else splits, failed)
        #: Seconds per window for each set of curves and each of these, shape (curves, k).
        self.drawn = windows = self.windows(self.splits)
        #: What each would lose for each set of curves, relative, shape (curves, k).
        self.regrets = windows / windows.min(axis=1, keepdims=True) - 1.0
        #: Geometric means over the curves, by which splits are recommended too.
        self.expected_windows = np.asarray(geometric_mean(windows))
        #: Index of the recommended split.
        self.best = int(np.argmin(self.expected_windows))

    @property
    def expected_regret(self) -> float:
        """Of the recommended split: its window time over that of the best split, minus 1, in the mean."""
        return float(self.regrets[:, self.best].mean())

    def next_run(self, free: Integers) -> tuple[int, Array, Array]:
        """Which of some splits saves most regret per core-second, and what each of them saves and costs."""
        saved, cost = self.expected_value_of_information(free), self.core_seconds(free)
        # Where none saves anything, the cheapest: it is near the recommended one.
        return int(np.argmax(saved / cost) if saved.max() > 0 else np.argmin(cost)), saved, cost

    @property
    def recommended(self) -> Integers:
        """The split with the least mean window time, shape (participants,)."""
        return np.asarray(self.splits[self.best])

    def log_seconds(self, splits: Integers) -> dict[str, Array]:
        """Log seconds of each participant, shape (curves, k), for ranks of shape (k, participants)."""
        columns = zip(self.tables.items(), splits.T, strict=True)
        return {name: interpolated(ranks, table.grid, table.log_drawn) for (name, table), ranks in columns}

    def windows(self, splits: Integers) -> Array:
        """Seconds per window for each set of curves and split, shape (curves, k)."""
        costs = {name: np.exp(logs) for name, logs in self.log_seconds(splits).items()}
        return np.asarray(self.schedule.window_seconds(costs), dtype=np.float64)

    def core_seconds(self, splits: Integers) -> Array:
        """Mean seconds per window times ranks, shape (k,)."""
        return np.asarray(self.windows(splits).mean(axis=0) * splits.sum(axis=1), dtype=np.float64)

    def expected_value_of_information(self, splits: Integers) -> Array:
        """Give the expected regret that one more run at each of some splits would save, shape (k,)."""
        regrets = self.regrets[:, self._alternatives()]
        curves = len(regrets)
        truths = np.arange(curves) if curves <= READINGS else np.arange(READINGS) * curves // READINGS
        # Common random numbers for all splits, so that their difference is not one of luck.
        draws = self._rng.standard_normal((len(self.names), len(truths)))
        rows = np.arange(len(truths))
        each = self.log_seconds(splits)
        found = []
        for at in range(len(splits)):
            logs = np.array([each[name][:, at] / self.noise[name] for name in self.names])
            read = logs[:, truths] + draws
            log_weights = read.T @ logs - 0.5 * (logs * logs).sum(axis=0)
            # What is read must not be recognised.
            log_weights[rows, truths] = -np.inf
            weights = np.exp(log_weights - log_weights.max(axis=1, keepdims=True))
            chosen = np.argmin(weights @ regrets, axis=1)
            # For the same truths, so that their luck is not the split's.
            found.append(float((self.regrets[truths, self.best] - regrets[truths, chosen]).mean()))
        return np.array(found)

    def candidates(self) -> NDArray[np.intp]:
        """List splits to judge: the recommended one, those that may be best, and others over the whole range."""
        every = _evenly(np.argsort(self.splits[:, 0], kind="stable"), CANDIDATES)
        likely = _evenly(np.sort(np.argmin(self.regrets, axis=1)), CANDIDATES)
        return np.unique(np.concatenate([every, likely, [self.best]]))

    def _alternatives(self) -> NDArray[np.intp]:
        """List splits that are best for some curves, and the recommended one: among them a decision is made."""
        best, times = np.unique(np.argmin(self.regrets, axis=1), return_counts=True)
        if len(best) > ALTERNATIVES:
            # Evenly over the curves: as dense as the splits are probable.
            order = np.repeat(best, times)
            best = np.unique(_evenly(order, ALTERNATIVES))
        return np.union1d(best, [self.best])

    def _in_question(self, allow: Allow) -> Integers:
        """List splits among which the best one is; only those that are allowed, if any are."""
        splits = self._free_splits()
        if not allow:
            return splits
        splits = np.unique(allowed_splits(splits, self.names, allow), axis=0)
        return np.asarray(splits[splits.sum(axis=1) <= self.budget])

    def _free_splits(self) -> Integers:
        """All splits of two participants, if there are not too many; else those that are best for some curves."""
        least, room = self.low, self.budget - int(self.low.sum())
        if len(self.names) == 2 and room < ALL_SPLITS:
            first = np.arange(self.low[0], self.budget - self.low[1] + 1)
            splits = np.column_stack([first, self.budget - first])
            splits = splits[(splits <= self.high).all(axis=1)]
            if len(splits):
                fastest = np.array([self.tables[name].fastest.max() for name in self.names])
                trimmed = np.maximum(np.minimum(splits, fastest), least)
                return np.asarray(np.unique(np.vstack([splits, trimmed]), axis=0))
        found = best_ranks(self.tables, self.schedule, self.budget, self.lowest, self.highest)
        splits = np.column_stack([found[name] for name in self.names]).astype(np.int64)
        splits = np.unique(np.minimum(np.maximum(splits, self.low), self.high), axis=0)
        splits = _within(splits, self.low, self.budget)
        return np.asarray(np.unique(np.vstack([splits, self._around(splits)]), axis=0))

    def _without(self, splits: Integers, failed: Sequence[Mapping[str, int]]) -> Integers:
        """Leave out splits that failed; where nothing is left, nothing is to be chosen and all stay."""
        free = np.ones(len(splits), dtype=np.bool_)
        for split in failed:
            same = [splits[:, self.names.index(name)] == ranks for name, ranks in split.items()]
            free &= ~np.logical_and.reduce(same)
        return splits[free] if free.any() else splits

    def _around(self, splits: Integers) -> Integers:
        """Search from the best of some splits: one rank, or several, from one participant to another."""
        n = len(self.names)
        units = np.vstack([np.eye(n, dtype=np.int64), np.zeros((1, n), dtype=np.int64)])
        moves = (units[None] - units[:, None]).reshape(-1, n)
        seconds = self.windows(splits).mean(axis=0)
        best, least = splits[int(np.argmin(seconds))], float(seconds.min())
        seen = [best[None]]
        step = 1 << max(self.budget // 16, 1).bit_length() - 1
        while step:
            tried = best + step * moves
            fits = ((tried >= self.low) & (tried <= self.high)).all(axis=1) & (tried.sum(axis=1) <= self.budget)
            tried = tried[fits]
            seconds = self.windows(tried).mean(axis=0)
            if seconds.min() < least * (1 - 1e-9):
                best, least = tried[int(np.argmin(seconds))], float(seconds.min())
            else:
                step //= 2
            seen.append(tried)
        return np.vstack(seen)


def _evenly(values: NDArray[np.intp], count: int) -> NDArray[np.intp]:
    """Take so many of some values, from the first to the last in even steps."""
    return np.asarray(values[np.linspace(0, len(values) - 1, count).round().astype(np.intp)])


def _within(splits: Integers, low: Integers, budget: int) -> Integers:
    """Take ranks that rounding has given out too many from who has most above the least."""
    splits = splits.copy()
    for split in splits:
        while split.sum() > budget:
            split[int(np.argmax(split - low))] -= 1
    return splits
