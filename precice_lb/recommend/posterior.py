"""The curves that a recommendation is decided on, and the window time that splits are expected to have by them.

Everything that is said later of a recommendation goes by these curves: nothing is drawn or fitted again.

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

__all__ = ["ExpectedWindowTime", "curves_of", "curves_within_interval"]

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
