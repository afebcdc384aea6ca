"""The continuous relaxation: a bound for every split, and multipliers that tell which counts may be in the best one.

Minimise the window time T over convex combinations of the counts of each participant, subject to every cut of the
window time at the mean seconds and to the machine's resources at the mean uses. Counts (columns) and cuts (lines) are
added as they are needed. The dual multipliers of any round give a bound for all splits: the window time is never below
the cuts' average, nor what is occupied below the average over the turns of a group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from precice_lb.split.branch import Cuts, Multipliers
from precice_lb.split.problem import Choice, Curves
from precice_lb.split.resources import Layout

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

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

    def start(self, curves: Curves) -> Choice:
        """Round the mixture off: for each participant its cheapest version, and the most counts within its mean use."""
        start = {}
        for index, (name, own) in enumerate(curves.items()):
            version = int(np.argmin([self.multipliers.reduced(index, curve).min() for curve in own]))
            within = own[version].index_within(np.floor(self.use[index] * (1 + 1e-9)).astype(np.int64))
            start[name] = (version, max(int(within), 0))
        return start

    def useful(self, curves: Curves, limit: float) -> dict[str, list[Integers]]:
        """Find the counts that a split shorter than `limit` may have by their reduced costs: indices on each curve."""
        useful = {}
        for index, (name, own) in enumerate(curves.items()):
            reduced = [self.multipliers.reduced(index, curve) for curve in own]
            least = min(float(values.min()) for values in reduced)
            # A little more, so that rounding takes no optimum away.
            slack = limit - self.bound + 1e-9 * limit
            useful[name] = [np.flatnonzero(values <= least + slack) for values in reduced]
        return useful


def relax(curves: Curves, layout: Layout, cuts: Cuts, scale: float, tolerance: float = 0.0) -> Relaxation:
    """Solve the linear program in which everyone mixes its counts; the scale is a window time of the right size."""
    program = _Program(curves, layout, cuts, scale)
    # To begin with, any cut is a bound.
    use = np.zeros((len(curves), len(layout.capacity)))
    multipliers = Multipliers(cuts.matrix[0], use, 0.0)
    bound = sum(min(float(multipliers.reduced(i, c).min()) for c in own) for i, own in enumerate(curves.values()))
    for _ in range(_ROUNDS):
        solved = program.solve()
        if solved is None:
            break
        value, found, costs, use = solved
        reduced = [[found.reduced(i, curve) for curve in own] for i, own in enumerate(curves.values())]
        total = sum(min(float(v.min()) for v in own) for own in reduced) - found.capacity
        if total > bound:
            bound, multipliers = total, found
        grown = program.add([[int(np.argmin(v)) for v in own] for own in reduced])
        # More cuts only make it longer, more columns only shorter: at neither both agree.
        grown |= cuts.learn(costs)
        if not grown or (value - bound <= tolerance * value and float(cuts.seconds(costs)) <= value * (1 + tolerance)):
            break
    return Relaxation(bound, multipliers, use)


class _Program:
    """The relaxation over the columns found so far, in units of the scale and of the machine."""

    def __init__(self, curves: Curves, layout: Layout, cuts: Cuts, scale: float) -> None:
        self._curves = [list(own) for own in curves.values()]
        self._layout, self._cuts, self._scale = layout, cuts, scale
        # A resource of which there is none needs no unit either.
        self._unit = np.maximum(layout.capacity, 1).astype(np.float64)
        # Participant, version and index on the curve.
        self._columns: set[tuple[int, int, int]] = set()
        for i, own in enumerate(self._curves):
            for v, curve in enumerate(own):
                size = len(curve.ranks)
                apart = np.unique(np.geomspace(1, size, min(_FIRST, size)).round().astype(int)) - 1
                self._columns |= {(i, v, int(j)) for j in apart}

    def add(self, cheapest: Sequence[Sequence[int]]) -> bool:
        """Take the cheapest counts in; whether any is new."""
        before = len(self._columns)
        self._columns |= {(i, v, j) for i, own in enumerate(cheapest) for v, j in enumerate(own)}
        return len(self._columns) > before

    def solve(self) -> tuple[float, Multipliers, Floats, Floats] | None:
        """Solve it: value, multipliers, and the mean seconds and uses of each participant; None where HiGHS cannot."""
        columns, matrix, people = sorted(self._columns), self._cuts.matrix, len(self._curves)
        owner = np.array([i for i, _, _ in columns])
        seconds = np.array([self._curves[i][v].seconds[j] for i, v, j in columns]) / self._scale
        uses = np.stack([self._curves[i][v].uses[j] for i, v, j in columns]) / self._unit
        count, kinds = uses.shape
        # Variables: the share of each column, what each group occupies of each kind of resource, and the window time.
        pools = [g for g, turns in enumerate(self._layout.groups) if len(turns) > 1]
        width = count + len(pools) * kinds + 1
        work = np.zeros((len(matrix), width))
        work[:, :count] = matrix[:, owner] * seconds
        work[:, -1] = -1.0
        machine = np.zeros((kinds, width))
        turns: list[Floats] = []
        for g, group in enumerate(self._layout.groups):
            for turn in group:
                member = np.isin(owner, turn)
                for kind in range(kinds):
                    if g in pools:
                        pool = count + pools.index(g) * kinds + kind
                        line = np.zeros(width)
                        line[:count][member] = uses[member, kind]
                        line[pool] = -1.0
                        turns.append(line)
                        machine[kind, pool] = 1.0
                    else:
                        machine[kind, :count][member] = uses[member, kind]
        each = np.zeros((people, width))
        each[owner, np.arange(count)] = 1.0
        cost = np.zeros(width)
        cost[-1] = 1.0
        right = np.concatenate((np.zeros(len(matrix)), self._layout.capacity / self._unit, np.zeros(len(turns))))
        done = linprog(cost, np.vstack([work, machine, *turns]), right, each, np.ones(people), method="highs")
        if done.status != 0:
            return None
        shares = done.x[:count]
        mean, use = np.zeros(people), np.zeros((people, kinds))
        np.add.at(mean, owner, shares * seconds)
        np.add.at(use, owner, shares[:, None] * uses)
        multipliers = self._multipliers(np.maximum(-done.ineqlin.marginals, 0.0), kinds)
        return float(done.fun) * self._scale, multipliers, mean * self._scale, use * self._unit

    def _multipliers(self, marginals: Floats, kinds: int) -> Multipliers:
        matrix = self._cuts.matrix
        share, rest = marginals[: len(matrix)], marginals[len(matrix) :]
        # Rounding must not spoil the proof: shares of the cuts sum to 1, shares of a group's turns to its multiplier.
        work = share @ matrix / share.sum()
        machine, rest = rest[:kinds], rest[kinds:]
        use = np.zeros((len(self._curves), kinds))
        at = 0
        for group in self._layout.groups:
            if len(group) == 1:
                use[group[0]] = machine
                continue
            parts = rest[at : at + len(group) * kinds].reshape(len(group), kinds)
            at += len(group) * kinds
            sums = parts.sum(axis=0)
            parts = np.where(sums > 0, parts / np.where(sums > 0, sums, 1.0), 1.0 / len(group)) * machine
            for turn, part in zip(group, parts, strict=True):
                use[turn] = part
        capacity = float(machine @ (self._layout.capacity / self._unit)) * self._scale
        return Multipliers(work, use * self._scale / self._unit, capacity)
