"""The curves that a recommendation is decided on, and the window time that splits are expected to have by them.

Everything that is said later of a recommendation goes by these curves: nothing is drawn or fitted again.

The window time is a maximum of sums, so its mean under uncertainty lies above the window time of the mean curves, and
the split with the least of the one is not that of the other: a participant whose curve is uncertain should get some
ranks more.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import InfeasibleError
from precice_lb.recommend.limits import Limits
from precice_lb.schedule import Schedule
from precice_lb.schedule.residuals import LEAST_WINDOWS, recorded_windows, resampled_residuals
from precice_lb.split import Constraints, SplitResult, optimize_split
from precice_lb.split.problem import problem_of
from precice_lb.split.solve import descend

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
# From k rank counts to seconds per time window, shape (curves, k).
Curves = Callable[[Integers], Array]

# Curves drawn per participant: the mean window time is known to about a fiftieth of its spread.
DRAWS = 512
# Windows of a replay, those at its beginning that do not count, and of how many drawn curves one searches by replay.
WINDOWS, SETTLING = 256, 32
_THINNING = 8
# Level of an interval of a standard deviation to both sides, and the widest one that counts, in logarithms.
_ONE_SIGMA, _WIDEST = 0.6826894921370859, 1.0
# Seconds per window in place of such that are not positive.
_NEVER = 1e12
# Features of a curve's error, and the ratio of ranks over which errors stay alike.
_FEATURES, _ALIKE = 16, 4.0


def curves_of(model: Any, seed: list[int]) -> Curves:
    """Get the curves of a fitted model: drawn ones where it can draw, else the one that it predicts."""
    if hasattr(model, "draw"):
        drawn = model.draw(DRAWS, np.random.default_rng(seed))
        return lambda ranks: np.asarray(drawn(ranks), dtype=np.float64)
    return lambda ranks: np.asarray(model.predict(ranks[:, None].astype(np.float64)), dtype=np.float64)[None]


def curves_within_interval(model: Any, curve: Curves, least: float, seed: list[int]) -> Curves:
    """Draw curves around that of a model that draws none: as far off as its intervals say, and by the least."""
    rng = np.random.default_rng(seed)
    # Random Fourier features: errors are the more alike the nearer the ranks.
    frequencies = rng.standard_normal((DRAWS, _FEATURES, 1)) / np.log(_ALIKE)
    phases = rng.uniform(0.0, 2 * np.pi, (DRAWS, _FEATURES, 1))

    def curves(ranks: Integers) -> Array:
        seconds = curve(ranks)
        low, high = model.predict_interval(ranks[:, None].astype(np.float64), _ONE_SIGMA)
        with np.errstate(divide="ignore", invalid="ignore"):
            sigma = np.nan_to_num(0.5 * np.log(np.asarray(high) / np.asarray(low)), nan=0.0, posinf=_WIDEST)
        z = np.sqrt(2 / _FEATURES) * np.cos(frequencies * np.log(ranks) + phases).sum(axis=1)
        # What is no time at all is never best.
        seconds = np.where(np.isfinite(seconds) & (seconds > 0), seconds, _NEVER)
        return np.asarray(seconds * np.exp(z * np.clip(sigma, least, _WIDEST)))

    return curves


class ExpectedWindowTime:
    """Window time of splits over curves drawn for each participant; with recorded windows, by their replay."""

    def __init__(
        self,
        schedule: Schedule,
        curves: Mapping[str, Curves],
        recorded: Sequence[Mapping[str, Array]] = (),
        seed: int = 0,
    ) -> None:
        self.schedule = schedule
        self.names = schedule.participants
        self.curves = curves
        self._recorded = [run for run in recorded if set(run) >= set(self.names)]
        #: Of whatever is drawn.
        self.seed = seed
        one = np.ones(1, dtype=np.int64)
        #: Whether there is anything to average over.
        self.is_uncertain = any(len(curve(one)) > 1 for curve in curves.values())

    def own(self, split: Mapping[str, int]) -> dict[str, Array]:
        """Compute seconds per window of each participant, one for each drawn curve."""
        curves = [self.curves[name](np.array([split[name]], dtype=np.int64))[:, 0] for name in self.names]
        return dict(zip(self.names, np.broadcast_arrays(*curves), strict=True))

    @cached_property
    def residuals(self) -> dict[str, Array] | None:
        """Cost of each window of a replay over the median, by participant; None where too little was recorded."""
        runs = recorded_windows(self.schedule, self._recorded)
        if sum(run.shape[1] for run in runs) < LEAST_WINDOWS:
            return None
        return resampled_residuals(self.schedule, self._recorded, windows=WINDOWS, seed=self.seed)

    def mean_own(self, own: Mapping[str, Array]) -> dict[str, Array]:
        """Mean compute seconds per window for typical ones (medians): what windows differ by counts."""
        if self.residuals is None:
            return dict(own)
        return {name: seconds * float(self.residuals[name][SETTLING:].mean()) for name, seconds in own.items()}

    def mean_seconds(self, split: Mapping[str, int]) -> dict[str, float]:
        """Compute seconds per window of each participant of a split, means over the drawn curves and windows."""
        return {name: float(seconds.mean()) for name, seconds in self.mean_own(self.own(split)).items()}

    def seconds(self, own: Mapping[str, Array]) -> Array:
        """Seconds per window for compute seconds per window of each participant, arrays of one shape."""
        if self.residuals is None:
            return self.schedule.window_seconds(own)
        return self.schedule.replay_seconds(own, self.residuals, SETTLING)

    def window(self, split: Mapping[str, int]) -> Array:
        """Seconds per window, one for each drawn set of curves."""
        return self.seconds(self.own(split))

    def waits(self, own: Mapping[str, Array], windows: Array) -> dict[str, Array]:
        """Seconds that each participant waits per window, for its compute seconds and those of the window."""
        steady = self.schedule.window_seconds(own)
        # What windows last longer for noise, those who are waited for in turn wait themselves.
        more = np.maximum(windows - steady, 0.0)
        waits = self.schedule.waits(own)
        bound = {name: self.schedule.windows[name] * own[name] + wait for name, wait in waits.items()}
        return {name: wait + np.where(bound[name] >= steady * (1 - 1e-9), more, 0.0) for name, wait in waits.items()}

    def expected_windows(self, counts: Integers) -> Array:
        """Mean seconds per window of several splits, shape (k,), for ranks of shape (k, participants)."""
        return np.asarray(self.schedule.window_seconds(self._costs(counts)).mean(axis=0), dtype=np.float64)

    def steady_windows(self, counts: Integers) -> Array:
        """Seconds per window of several splits for each curve, shape (curves, k), without noise; NaN where unusable."""
        costs = self._costs(counts)
        usable = np.all([(np.isfinite(each) & (each > 0)).all(axis=0) for each in costs.values()], axis=0)
        windows = np.full(np.broadcast_shapes(*(each.shape for each in costs.values())), np.nan)
        if usable.any():
            windows[:, usable] = self.schedule.window_seconds({name: each[:, usable] for name, each in costs.items()})
        return windows

    def mean_windows(self, counts: Integers, thinning: int = 1) -> Array:
        """Like `expected_windows`, with what recorded windows differ by; of every so many curves one."""
        costs = {name: seconds[::thinning] for name, seconds in self._costs(counts).items()}
        return np.asarray(self.seconds(costs).mean(axis=0), dtype=np.float64)

    def _costs(self, counts: Integers) -> dict[str, Array]:
        """Compute seconds of each participant, shape (curves, k), at ranks of shape (k, participants)."""
        costs = {}
        for name, column in zip(self.names, counts.T, strict=True):
            ranks, inverse = np.unique(column, return_inverse=True)
            costs[name] = self.curves[name](ranks)[:, inverse.ravel()]
        return costs

    def searches(self) -> list[tuple[Callable[[Integers], Array], int]]:
        """Give what splits are searched by, one after the other, each with the part of the ranks of its first step."""
        found: list[tuple[Callable[[Integers], Array], int]] = []
        if self.is_uncertain:
            found.append((self.expected_windows, 8))
        if self.residuals is not None:
            found.append((partial(self.mean_windows, thinning=_THINNING), 32))
        return found


@dataclasses.dataclass(frozen=True, eq=False)
class SplitProblem:
    """What a split is sought by."""

    # Mean seconds per window of each participant at 1, 2, … ranks, shape (most ranks,).
    times: dict[str, Array]
    # The drawn curves of each participant, without what sharing cores costs.
    curves: dict[str, Curves]
    # Them with it, and the schedule.
    expected: ExpectedWindowTime
    limits: Limits

    @property
    def words(self) -> dict[str, Any]:
        """All but times and budget, as the optimiser takes it."""
        return {
            "coupling": self.expected.schedule,
            "minimum_ranks": self.limits.lowest,
            "maximum_ranks": self.limits.highest,
            "constraints": self.limits.constraints,
        }

    def optimum(self, budget: int) -> SplitResult:
        """Find the best split for the mean curves, exactly."""
        return optimize_split(self.times, budget, **self.words)

    def improved(self, start: Mapping[str, int], budget: int) -> dict[str, int]:
        """Search for the least mean window time over the drawn curves, from the optimum for the mean ones."""
        searches = self.expected.searches()
        if not searches:
            return dict(start)
        problem = problem_of(self.times, budget, **self.words)
        own = [curve for (curve,) in problem.curves().values()]
        at = zip(own, self.expected.names, strict=True)
        # The next fewer where the start stands on no curve, since what is faster was excluded.
        found = np.array([max(np.searchsorted(c.ranks, start[n], side="right") - 1, 0) for c, n in at])

        def counts(indices: Integers) -> Integers:
            return np.stack([curve.ranks[indices[:, i]] for i, curve in enumerate(own)], axis=1)

        for expected, part in searches:

            def objective(indices: Integers, expected: Callable[[Integers], Array] = expected) -> Array:
                splits = counts(indices)
                return np.where(self._excluded(splits), np.inf, expected(splits))

            found, _ = descend(own, problem.layout, objective, found, part)
        return dict(zip(self.expected.names, counts(found[None])[0].tolist(), strict=True))

    def _excluded(self, counts: Integers) -> NDArray[np.bool_]:
        """Whether splits must not be chosen, shape (k,), for ranks of shape (k, participants)."""
        names, found = self.expected.names, np.zeros(len(counts), dtype=np.bool_)
        for split in self.limits.constraints.excluded:
            found |= np.all([counts[:, names.index(name)] == ranks for name, ranks in split.items()], axis=0)
        return found

    def mean_windows(self, splits: Sequence[Mapping[str, int]]) -> Array:
        """Mean seconds per window of some splits over the drawn curves, shape (splits,)."""
        return self.expected.mean_windows(np.array([[split[name] for name in self.expected.names] for split in splits]))

    def used(self, split: Mapping[str, int]) -> dict[str, int]:
        """Count the ranks, cores and nodes that a split occupies."""
        free = dataclasses.replace(self.limits.constraints, fixed={}, excluded=())
        found = self._only(split, self.limits.budget, free)
        return dict.fromkeys(("ranks", "cores"), sum(split.values())) if found is None else dict(found.used)

    def fits(self, split: Mapping[str, int], budget: int) -> bool:
        """Whether a split is within a budget and all that the machine demands."""
        return self._only(split, budget, self.limits.constraints) is not None

    def _only(self, split: Mapping[str, int], budget: int, constraints: Constraints) -> SplitResult | None:
        """Let the optimiser say what one split takes; None where it does not fit the machine."""
        times = {name: np.ones(count) for name, count in split.items()}
        try:
            return optimize_split(
                times, budget, coupling=self.expected.schedule, minimum_ranks=split, constraints=constraints
            )
        except InfeasibleError:
            return None
