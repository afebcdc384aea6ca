"""The continuous relaxation: a bound for every split, and multipliers that tell which counts may be in the best one.

Minimise the window time T over convex combinations of the counts of each participant, subject to every cut of the
window time at the mean seconds and to the machine's resources at the mean uses. Counts (columns) and cuts (lines) are
added as they are needed. The dual multipliers of any round give a bound for all splits: the window time is never below
the cuts' average, nor what is occupied below the average over the combinations of turns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product

import numpy as np
from numpy.typing import NDArray

from precice_lb.schedule import Schedule
from precice_lb.split.problem import Choice, Curve, costs_at, within
from precice_lb.split.resources import Resources

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
# How far the values of a row may be from its sum, relatively.
_EXACT = 1e-9
#: More boxes of splits than this are not bounded.
MAXIMUM_BOXES = 300_000
# Rounding must not decide between equal splits.
_LESS = 1 - 1e-12


class Cuts:
    """Window time of compute seconds c: max over cuts v of v·c, with the cuts found as they are asked for."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._names = schedule.participants
        #: Weights of the cuts found, shape (cuts, participants).
        self.matrix: Floats = np.diag([schedule.weights[name] for name in self._names])

    def seconds(self, costs: Floats) -> Floats:
        """Seconds per window, for compute seconds of shape (..., participants)."""
        if not costs.size:
            return np.zeros(costs.shape[:-1])
        return np.asarray(self._schedule.window_seconds({name: costs[..., i] for i, name in enumerate(self._names)}))

    def bound(self, costs: Floats) -> Floats:
        """Largest of the cuts found so far, never above `seconds`, for compute seconds of shape (..., participants)."""
        return np.asarray((costs @ self.matrix.T).max(axis=-1))

    def learn(self, costs: Floats) -> bool:
        """Find the cut that sets the window time of compute seconds, shape (participants,); whether it is a new one."""
        window = float(self.seconds(costs))
        if window <= float(self.bound(costs)) * (1 + _EXACT):
            return False
        row = self._slope(costs, window)
        self.matrix = np.vstack([self.matrix, row])
        return True

    def _slope(self, costs: Floats, window: float) -> Floats:
        generator = np.random.default_rng(len(self.matrix))
        best: Floats = self.matrix[0]
        tightness = 0.0
        # Between two cycles the differences belong to neither: step aside, less and less far.
        for aside, step in ((0.0, 1e-3), (0.0, 1e-5), (1e-4, 1e-6), (1e-6, 1e-8), (1e-7, 1e-9)):
            point = costs + aside * window * generator.random(len(costs))
            around = np.vstack([point, point + step * window * np.eye(len(costs))])
            values = self.seconds(around)
            row = _rational((values[1:] - values[0]) / (step * window), 1e-13 / step)
            # A slope belongs to one cycle if it adds up to the value itself.
            if abs(float(row @ point) - values[0]) <= max(_EXACT, 1e-14 / step) * values[0]:
                reached = float(row @ costs) / window
                if reached > tightness:
                    best, tightness = row, reached
                if reached >= 1 - _EXACT:
                    break
        return best


def _rational(row: Floats, error: float) -> Floats:
    """Snap to nearby fractions of small whole numbers, which weights of cycles are, within the error of differences."""
    snapped = np.array([float(Fraction(float(value)).limit_denominator(240)) for value in row])
    close = np.abs(snapped - row) <= 10 * error
    return np.maximum(np.where(close, snapped, row), 0.0)


@dataclass(frozen=True)
class Multipliers:
    """Dual multipliers of a relaxation: no split is better than the sum over participants of their reduced costs."""

    # Weight of each participant's seconds, shape (participants,).
    work: Floats
    # Seconds for each resource that each participant takes, shape (participants, kinds).
    use: Floats
    # Seconds to subtract: for the whole machine.
    capacity: float

    def reduced(self, index: int, curve: Curve) -> Floats:
        """Reduced cost of each count on a participant's curve, in seconds."""
        return np.asarray(self.work[index] * curve.seconds + curve.uses @ self.use[index])


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


class _RangeMinimum:
    """Minimum over any range of an array, in constant time."""

    def __init__(self, values: Floats) -> None:
        self._levels = [values]
        width = 1
        while 2 * width <= len(values):
            last = self._levels[-1]
            self._levels.append(np.minimum(last[:-width], last[width:]))
            width *= 2

    def __call__(self, low: Integers, high: Integers) -> Floats:
        # Exponent of the largest power of two within the length.
        level = np.frexp((high - low + 1).astype(np.float64))[1] - 1
        result = np.empty(len(low))
        for k in np.unique(level):
            rows = level == k
            values = self._levels[k]
            result[rows] = np.minimum(values[low[rows]], values[high[rows] - (1 << int(k)) + 1])
        return result


class Boxes:
    """Boxes of splits that may hold one of interest."""

    def __init__(
        self, curves: Sequence[Curve], machine: Resources, cuts: Cuts, best: Best, multipliers: Multipliers | None
    ) -> None:
        self._curves, self._machine = curves, machine
        self._cuts, self._best, self._multipliers = cuts, best, multipliers
        count = len(curves)
        self._last = int(np.argmax([len(curve.ranks) for curve in curves])) if best.count == 1 else -1
        self._free = [i for i in range(count) if i != self._last]
        if multipliers is not None:
            self._reduced = [_RangeMinimum(multipliers.reduced(i, curve)) for i, curve in enumerate(curves)]
        self.low = np.zeros((1, count), dtype=np.int64)
        self.high = np.array([[len(curve.ranks) - 1 for curve in curves]], dtype=np.int64)
        self.bounds: Floats = np.zeros(1)
        self._shrink()

    def search(self, most: int) -> tuple[int, float]:
        """Find the shortest splits; count the boxes that were bounded, and bound what is not in ``best``."""
        boxes = 0
        while len(self.low):
            if boxes + len(self.low) > most:
                return boxes, min(float(self.bounds.min()), self._best.limit)
            boxes += len(self.low)
            self._halve()
        return boxes, self._best.limit

    def _halve(self) -> None:
        """Split every box in its longest direction, and bound the halves."""
        extent = (self.high - self.low)[:, self._free]
        rows = np.arange(len(extent))
        longest = np.array(self._free)[np.argmax(extent, axis=1)] if self._free else np.zeros(len(rows), dtype=np.int64)
        middle = (self.low[rows, longest] + self.high[rows, longest]) // 2
        first, second = self.high.copy(), self.low.copy()
        first[rows, longest] = middle
        second[rows, longest] = middle + 1
        self.low = np.concatenate((self.low, second))
        self.high = np.concatenate((first, self.high))
        self._shrink()

    def _shrink(self) -> None:
        """Cut off what does not fit, take the fewest of each box in as a split, and drop the boxes of no interest."""
        most = within(self._curves, self._machine, self.low)
        fits = (most >= self.low).all(axis=1)
        self.low, self.high = self.low[fits], np.minimum(self.high, most)[fits]
        bounds = self._bounds()
        keep = bounds < self._best.limit
        self.low, self.high, bounds = self.low[keep], self.high[keep], bounds[keep]
        fewest = self.low.copy()
        if self._last >= 0:
            fewest[:, self._last] = self.high[:, self._last]
        self._take(fewest)
        is_open = (bounds < self._best.limit) & (self.low < self.high)[:, self._free].any(axis=1)
        self.low, self.high, self.bounds = self.low[is_open], self.high[is_open], bounds[is_open]

    def _bounds(self) -> Floats:
        bounds = self._cuts.bound(costs_at(self._curves, self.high))
        if self._multipliers is not None:
            reduced = sum(table(self.low[:, i], self.high[:, i]) for i, table in enumerate(self._reduced))
            bounds = np.maximum(bounds, reduced - self._multipliers.capacity)
        return bounds

    def _take(self, splits: Integers) -> None:
        costs = costs_at(self._curves, splits)
        promising = np.flatnonzero(self._cuts.bound(costs) < self._best.limit)
        seconds = self._cuts.seconds(costs[promising])
        for row in np.argsort(seconds, kind="stable")[: self._best.count]:
            self._best.add(float(seconds[row]), tuple(splits[promising[row]].tolist()))
        # The cut that makes the most promising one worse than it looked serves all boxes from now on.
        if len(promising):
            self._cuts.learn(costs[promising[np.argmin(self._cuts.bound(costs[promising]))]])


# Counts of each curve to begin with, and rounds of adding the cheapest ones.
_FIRST = 24
_ROUNDS = 200


@dataclass(frozen=True)
class Relaxation:
    """Best mixture of splits, over all counts on the curves."""

    # No split has a shorter window.
    bound: float
    # Proof of it.
    multipliers: Multipliers
    # Resources of each participant in the mixture, shape (participants, kinds).
    use: Floats

    def start(self, curves: Sequence[Curve]) -> Choice:
        """Round the mixture off: for each participant the most counts within its mean use."""
        room = np.floor(self.use * (1 + 1e-9)).astype(np.int64)
        return tuple(max(int(curve.index_within(most)), 0) for curve, most in zip(curves, room, strict=True))

    def useful(self, curves: Sequence[Curve], limit: float) -> list[Integers]:
        """Find the counts that a split shorter than `limit` may have by their reduced costs: indices on each curve."""
        reduced = [self.multipliers.reduced(index, curve) for index, curve in enumerate(curves)]
        # A little more, so that rounding takes no optimum away.
        slack = limit - self.bound + 1e-9 * limit
        return [np.flatnonzero(values <= values.min() + slack) for values in reduced]


def relax(curves: Sequence[Curve], machine: Resources, cuts: Cuts, scale: float, tolerance: float = 0.0) -> Relaxation:
    """Solve the linear program in which everyone mixes its counts; the scale is a window time of the right size."""
    # Participant and index on its curve.
    columns = {
        (i, int(j))
        for i, curve in enumerate(curves)
        for j in np.geomspace(1, len(curve.ranks), min(_FIRST, len(curve.ranks))).round() - 1
    }
    # To begin with, any cut is a bound.
    use = np.zeros((len(curves), len(machine.capacity)))
    multipliers = Multipliers(cuts.matrix[0], use, 0.0)
    bound = sum(float(multipliers.reduced(i, curve).min()) for i, curve in enumerate(curves))
    for _ in range(_ROUNDS):
        solved = _solved(curves, sorted(columns), machine, cuts.matrix, scale)
        if solved is None:
            break
        value, prices, costs, use = solved
        reduced = [prices.reduced(i, curve) for i, curve in enumerate(curves)]
        total = sum(float(values.min()) for values in reduced) - prices.capacity
        if total > bound:
            bound, multipliers = total, prices
        before = len(columns)
        columns |= {(i, int(values.argmin())) for i, values in enumerate(reduced)}
        # More cuts only make it longer, more columns only shorter: at neither both agree.
        grown = cuts.learn(costs) or len(columns) > before
        if not grown or (value - bound <= tolerance * value and float(cuts.seconds(costs)) <= value * (1 + tolerance)):
            break
    return Relaxation(bound, multipliers, use)


def _solved(
    curves: Sequence[Curve], columns: Sequence[tuple[int, int]], machine: Resources, cuts: Floats, scale: float
) -> tuple[float, Multipliers, Floats, Floats] | None:
    """Solve it over some columns, in units of the scale and of the machine.

    Give value, multipliers, and the mean seconds and uses of each participant; None where HiGHS cannot.
    """
    # A resource of which there is none needs no unit either.
    unit = np.maximum(machine.capacity, 1).astype(np.float64)
    owner = np.array([i for i, _ in columns])
    seconds = np.array([curves[i].seconds[j] for i, j in columns]) / scale
    uses = np.stack([curves[i].uses[j] for i, j in columns]) / unit
    # Who stands beside whom, in each combination of turns: what all of them take at most is what is occupied.
    beside = np.array([np.isin(range(len(curves)), np.concatenate(turns)) for turns in product(*machine.groups)])
    capacity = np.tile(machine.capacity / unit, len(beside))
    # Variables: the share of each column, and the window time.
    work = np.hstack([cuts[:, owner] * seconds, np.full((len(cuts), 1), -1.0)])
    taken = (beside[:, None, owner] * uses.T).reshape(len(capacity), -1)
    owned = np.arange(len(curves))[:, None] == owner
    lines = np.vstack([work, np.pad(taken, ((0, 0), (0, 1)))])
    right = np.concatenate((np.zeros(len(cuts)), capacity))
    cost = np.append(np.zeros(len(columns)), 1.0)
    whole = np.pad(owned.astype(np.float64), ((0, 0), (0, 1)))
    # Of which loading takes a third of a second.
    from scipy.optimize import linprog

    done = linprog(cost, lines, right, whole, np.ones(len(curves)), method="highs")
    if done.status != 0:
        return None
    mean, use = owned @ (done.x[:-1] * seconds), owned @ (done.x[:-1, None] * uses)
    marginals = np.maximum(-done.ineqlin.marginals, 0.0)
    share, prices = marginals[: len(cuts)], marginals[len(cuts) :]
    # Rounding must not spoil the proof: shares of the cuts sum to 1.
    multipliers = Multipliers(
        share @ cuts / share.sum(),
        beside.T @ prices.reshape(len(beside), -1) * scale / unit,
        float(prices @ capacity) * scale,
    )
    return float(done.fun) * scale, multipliers, mean * scale, use * unit
