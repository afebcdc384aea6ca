"""The continuous relaxation: a bound for every split, and multipliers that tell which counts may be in the best one.

Minimise the window time T over convex combinations of the counts of each participant, subject to every cut of the
window time at the mean seconds and to the machine's resources at the mean uses. Counts (columns) and cuts (lines) are
added as they are needed. The dual multipliers of any round give a bound for all splits: the window time is never below
the cuts' average.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.schedule import Schedule
from precice_lb.split.admissible import Resources
from precice_lb.split.problem import Choice, Curve, costs_at, within

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
#: More boxes of splits than this are not bounded.
MAXIMUM_BOXES = 300_000
# Rounding must not decide between equal splits.
_LESS = 1 - 1e-12
# A cut that adds less than this, relatively, is rounding.
_NEW = 1 + 1e-9
# Counts of each curve to begin with, and rounds of adding the cheapest ones.
_FIRST, _ROUNDS = 24, 200


class Cuts:
    """Window time of compute seconds c: max over cuts v of v·c, with the cuts found as they are asked for."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        #: Weights of the cuts found, shape (cuts, participants).
        self.matrix: Floats = np.diag([float(count) for count in schedule.windows.values()])

    def seconds(self, costs: Floats) -> Floats:
        """Seconds per window, for compute seconds of shape (splits, participants)."""
        return self._schedule.window_seconds(dict(zip(self._schedule.participants, costs.T, strict=True)))

    def bound(self, costs: Floats) -> Floats:
        """Largest of the cuts found so far, never above `seconds`, for compute seconds of shape (..., participants)."""
        return np.asarray((costs @ self.matrix.T).max(axis=-1))

    def learn(self, costs: Floats) -> bool:
        """Find the cut that sets the window time of compute seconds, shape (participants,); whether it is a new one."""
        cut = self._schedule.cut(costs)
        if cut @ costs <= self.bound(costs) * _NEW:
            return False
        self.matrix = np.vstack([self.matrix, cut])
        return True


@dataclass(frozen=True, eq=False)
class Relaxation:
    """Best mixture of splits, over all counts on the curves, and dual multipliers."""

    curves: Sequence[Curve]
    # Weight of each participant's seconds, shape (participants,).
    work: Floats
    # Seconds for each resource, shape (kinds,), and for the whole machine.
    prices: Floats
    machine: float
    # Resources of each participant in the mixture, shape (participants, kinds).
    use: Floats

    @cached_property
    def reduced(self) -> list[Floats]:
        """Reduced cost of each count on each curve, in seconds: no split is shorter than the sum of its own."""
        part = self.machine / len(self.curves)
        return [
            weight * c.seconds + c.uses @ self.prices - part for weight, c in zip(self.work, self.curves, strict=True)
        ]

    @cached_property
    def bound(self) -> float:
        """Seconds below which there is no split."""
        return sum(float(costs.min()) for costs in self.reduced)

    def start(self) -> Choice:
        """Round the mixture off: for each participant the most counts within its mean use."""
        room = np.floor(self.use * (1 + 1e-9)).astype(np.int64)
        return tuple(max(int(curve.index_within(most)), 0) for curve, most in zip(self.curves, room, strict=True))

    def useful(self, limit: float) -> list[Integers]:
        """Find the counts that a split shorter than `limit` may have by their reduced costs: indices on each curve."""
        # A little more, so that rounding takes no optimum away.
        slack = limit - self.bound + 1e-9 * limit
        return [np.flatnonzero(costs <= costs.min() + slack) for costs in self.reduced]


def relax(curves: Sequence[Curve], machine: Resources, cuts: Cuts, scale: float, tolerance: float = 0.0) -> Relaxation:
    """Solve the linear program in which everyone mixes its counts; the scale is a window time of the right size."""
    kinds = len(machine.capacity)
    # Participant and index on its curve.
    columns = {
        (i, int(j))
        for i, curve in enumerate(curves)
        for j in np.geomspace(1, len(curve.ranks), min(_FIRST, len(curve.ranks))).round() - 1
    }
    # To begin with, any cut is a bound.
    best = Relaxation(curves, cuts.matrix[0], np.zeros(kinds), 0.0, np.zeros((len(curves), kinds)))
    for _ in range(_ROUNDS):
        solved = _solved(curves, sorted(columns), machine, cuts.matrix, scale)
        if solved is None:
            break
        value, costs, mixed = solved
        # Of the last round the mixture, of the best bound the multipliers.
        best = mixed if mixed.bound > best.bound else replace(best, use=mixed.use)
        before = len(columns)
        columns |= {(i, int(reduced.argmin())) for i, reduced in enumerate(mixed.reduced)}
        # More cuts only make it longer, more columns only shorter: at neither both agree.
        grown = cuts.learn(costs) or len(columns) > before
        seconds = float(cuts.seconds(costs[None])[0])
        if not grown or (value * (1 - tolerance) <= best.bound and seconds <= value * (1 + tolerance)):
            break
    return best


def _solved(
    curves: Sequence[Curve], columns: Sequence[tuple[int, int]], machine: Resources, cuts: Floats, scale: float
) -> tuple[float, Floats, Relaxation] | None:
    """Solve it over some columns, in units of the scale and of the machine; None where HiGHS cannot.

    Give its value, the mean seconds of each participant, and mixture and multipliers.
    """
    # Of which loading takes a third of a second.
    from scipy.optimize import linprog

    # A resource of which there is none needs no unit either.
    unit = np.maximum(machine.capacity, 1).astype(np.float64)
    owner = np.array([i for i, _ in columns])
    seconds = np.array([curves[i].seconds[j] for i, j in columns]) / scale
    uses = np.stack([curves[i].uses[j] for i, j in columns]) / unit
    owned = (np.arange(len(curves))[:, None] == owner).astype(np.float64)
    # Variables: the share of each column, and the window time.
    work, taken = cuts[:, owner] * seconds, np.pad(uses.T, ((0, 0), (0, 1)))
    lines = np.vstack([np.pad(work, ((0, 0), (0, 1)), constant_values=-1.0), taken])
    right = np.append(np.zeros(len(cuts)), machine.capacity / unit)
    cost = np.append(np.zeros(len(columns)), 1.0)
    done = linprog(cost, lines, right, np.pad(owned, ((0, 0), (0, 1))), np.ones(len(curves)), method="highs")
    if done.status != 0:
        return None
    marginals = np.maximum(-done.ineqlin.marginals, 0.0)
    share, prices = marginals[: len(cuts)], marginals[len(cuts) :] * scale / unit
    mixture = owned * done.x[:-1]
    # Rounding must not spoil the proof: shares of the cuts sum to 1.
    mixed = Relaxation(
        curves, share @ cuts / share.sum(), prices, float(prices @ machine.capacity), mixture @ uses * unit
    )
    return float(done.fun) * scale, mixture @ seconds * scale, mixed


@dataclass
class Best:
    """The best splits found so far."""

    # How many to keep.
    count: int = 1
    # None above this many seconds, if there is such a limit.
    within: float = np.inf
    splits: list[tuple[float, Choice]] = field(default_factory=list)

    @property
    def limit(self) -> float:
        """Seconds from which on a split is of no interest."""
        if len(self.splits) < self.count:
            return self.within
        return min(self.splits[-1][0] * _LESS, self.within)

    def add(self, seconds: float, choice: Choice) -> None:
        """Take a split in if it is of interest."""
        if seconds < self.limit and choice not in (known for _, known in self.splits):
            self.splits.append((seconds, choice))
            self.splits.sort(key=lambda entry: entry[0])
            del self.splits[self.count :]


class Boxes:
    """Boxes of splits that may hold one of interest; reduced costs bound them too, where there are any."""

    def __init__(
        self, curves: Sequence[Curve], machine: Resources, cuts: Cuts, best: Best, reduced: Sequence[Floats]
    ) -> None:
        self._curves, self._machine, self._cuts, self._best = curves, machine, cuts, best
        sizes = [len(curve.ranks) for curve in curves]
        # Of the best split alone: who has most counts takes what is left.
        self._last = int(np.argmax(sizes)) if best.count == 1 else -1
        self._free = np.array([i for i in range(len(curves)) if i != self._last], dtype=np.int64)
        self._reduced = [np.append(costs, np.inf) for costs in reduced]
        self._low, self._high = np.zeros((1, len(sizes)), dtype=np.int64), np.array([sizes]) - 1
        self._bounds: Floats = np.zeros(1)
        self._shrink()

    def search(self, most: int) -> float:
        """Find the shortest splits, bounding so many boxes at most; bound what is not in ``best``."""
        boxes = 0
        while len(self._low):
            if boxes + len(self._low) > most:
                return min(float(self._bounds.min()), self._best.limit)
            boxes += len(self._low)
            self._halve()
        return self._best.limit

    def _halve(self) -> None:
        """Split every box in its longest direction, and bound the halves."""
        rows = np.arange(len(self._low))
        longest = self._free[np.argmax((self._high - self._low)[:, self._free], axis=1)]
        middle = (self._low[rows, longest] + self._high[rows, longest]) // 2
        first, second = self._high.copy(), self._low.copy()
        first[rows, longest] = middle
        second[rows, longest] = middle + 1
        self._low = np.concatenate((self._low, second))
        self._high = np.concatenate((first, self._high))
        self._bounds = np.tile(self._bounds, 2)
        self._shrink()

    def _shrink(self) -> None:
        """Cut off what does not fit, take the fewest of each box in as a split, and drop the boxes of no interest."""
        most = within(self._curves, self._machine, self._low)
        self._high = np.minimum(self._high, most)
        self._keep((most >= self._low).all(axis=1))
        self._bounds = self._cuts.bound(costs_at(self._curves, self._high))
        if self._reduced:
            ends = zip(self._reduced, self._low.T, self._high.T, strict=True)
            # Of each participant the least from the fewest to the most counts of each box.
            lowest = [
                np.minimum.reduceat(costs, np.stack([low, high + 1], axis=1).ravel())[::2] for costs, low, high in ends
            ]
            reduced = np.sum(lowest, axis=0)
            self._bounds = np.maximum(self._bounds, reduced)
        self._keep(self._bounds < self._best.limit)
        fewest = self._low.copy()
        if self._last >= 0:
            fewest[:, self._last] = self._high[:, self._last]
        self._take(fewest)
        self._keep((self._bounds < self._best.limit) & (self._low < self._high)[:, self._free].any(axis=1))

    def _keep(self, kept: Any) -> None:
        self._low, self._high, self._bounds = self._low[kept], self._high[kept], self._bounds[kept]

    def _take(self, splits: Integers) -> None:
        costs = costs_at(self._curves, splits)
        promising = np.flatnonzero(self._cuts.bound(costs) < self._best.limit)
        seconds = self._cuts.seconds(costs[promising])
        for row in np.argsort(seconds, kind="stable")[: self._best.count]:
            self._best.add(float(seconds[row]), tuple(splits[promising[row]].tolist()))
        # The cut that makes the most promising one worse than it looked serves all boxes from now on.
        if len(promising):
            self._cuts.learn(costs[promising[np.argmin(self._cuts.bound(costs[promising]))]])
