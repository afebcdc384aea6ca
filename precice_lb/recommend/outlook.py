"""What splits are expected to give when the curves are not known for sure, and which is best then.

The window time is a maximum of sums, so its mean under uncertainty lies above the window time of the mean curves, and
the split with the least of the one is not that of the other: a participant whose curve is uncertain should get some
ranks more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.schedule import Schedule
from precice_lb.schedule.residuals import LEAST_WINDOWS, recorded_windows, resampled_residuals

__all__ = ["Outlook", "curves_of"]

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
# From k rank counts to seconds per time window, shape (curves, k).
Curves = Callable[[Integers], Array]

# Curves drawn per participant: the mean window time is known to about a fiftieth of its spread.
DRAWS = 512
# Windows of a replay, those at its beginning that do not count, and every how-manieth drawn curve searches by replay.
WINDOWS, SETTLING = 256, 32
_THINNING = 8


def curves_of(model: Any, seed: list[int]) -> Curves:
    """Get the curves of a fitted model: drawn ones where it can draw, else the one that it predicts."""
    if hasattr(model, "draw"):
        drawn = model.draw(DRAWS, np.random.default_rng(seed))
        return lambda ranks: np.asarray(drawn(ranks), dtype=np.float64)
    return lambda ranks: np.asarray(model.predict(ranks[:, None].astype(np.float64)), dtype=np.float64)[None]


class Outlook:
    """Window time of splits over curves that were drawn independently for each participant.

    With the windows of recorded runs, noise and changing load count, by their replay (`precice_lb.schedule`); without
    them costs are taken to be the same in all windows.
    """

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

    @property
    def is_searched(self) -> bool:
        """Whether `improve` may find better splits than the optimum for the mean curves."""
        return self.is_uncertain or self.residuals is not None

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
        """Seconds per window of several splits for each curve, shape (curves, k), without noise between windows.

        NaN for splits at which a model has no value, or none above zero, far from what was measured.
        """
        costs = self._costs(counts)
        usable = np.all([(np.isfinite(each) & (each > 0)).all(axis=0) for each in costs.values()], axis=0)
        windows = np.full(np.broadcast_shapes(*(each.shape for each in costs.values())), np.nan)
        if usable.any():
            windows[:, usable] = self.schedule.window_seconds({name: each[:, usable] for name, each in costs.items()})
        return windows

    def mean_windows(self, counts: Integers, thinning: int = 1) -> Array:
        """Like `expected_windows`, with what windows differ by where that was recorded; every how-manieth curve."""
        costs = {name: seconds[::thinning] for name, seconds in self._costs(counts).items()}
        return np.asarray(self.seconds(costs).mean(axis=0), dtype=np.float64)

    def _costs(self, counts: Integers) -> dict[str, Array]:
        """Compute seconds of each participant, shape (curves, k), at ranks of shape (k, participants)."""
        costs = {}
        for name, column in zip(self.names, counts.T, strict=True):
            ranks, inverse = np.unique(column, return_inverse=True)
            costs[name] = self.curves[name](ranks)[:, inverse.ravel()]
        return costs

    def improve(
        self, start: Mapping[str, int], budget: int, lowest: Mapping[str, int], highest: Mapping[str, int]
    ) -> dict[str, int]:
        """Search from a split for the least mean window time.

        Ranks are moved between two participants, added from what is unused, or given back, in steps that halve from
        an eighth of the budget to 1, always the best of all such moves, until none is better. Where windows were
        recorded, a second search from there, in steps from a thirty-second of the budget, goes by replay.
        """
        n = len(self.names)
        low = np.array([lowest[name] for name in self.names])
        high = np.array([highest[name] for name in self.names])
        # One rank from a to b, for all a and b; the last row and column stand for the unused ranks.
        units = np.vstack([np.eye(n, dtype=np.int64), np.zeros((1, n), dtype=np.int64)])
        moves = (units[None, :, :] - units[:, None, :]).reshape(-1, n)
        moves = moves[moves.any(axis=1)]
        best = np.array([start[name] for name in self.names], dtype=np.int64)
        searches: list[tuple[Callable[[Integers], Array], int]]
        searches = [(self.expected_windows, budget // 8)] if self.is_uncertain else []
        if self.residuals is not None:
            searches.append((partial(self.mean_windows, thinning=_THINNING), budget // 32))
        for expected, widest in searches:
            least = float(expected(best[None])[0])
            step = 1 << max(widest, 1).bit_length() - 1
            while step:
                tried = best + step * moves
                tried = tried[((tried >= low) & (tried <= high)).all(axis=1) & (tried.sum(axis=1) <= budget)]
                seconds = expected(tried) if len(tried) else np.array([np.inf])
                at = int(np.argmin(seconds))
                if seconds[at] < least * (1 - 1e-9):
                    best, least = tried[at], float(seconds[at])
                else:
                    step //= 2
        return {name: int(count) for name, count in zip(self.names, best, strict=True)}
