"""The continuous relaxation: a bound for every split, and prices that tell which counts may be in the best one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from precice_lb.split.branch import Prices
from precice_lb.split.layout import Layout
from precice_lb.split.linear import Column, Curves, LinearProgram
from precice_lb.split.rows import Rows

__all__ = ["Relaxation", "relax"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

# Counts of each curve to begin with, and rounds of adding the cheapest ones.
_FIRST = 24
_ROUNDS = 200


@dataclass(frozen=True)
class Relaxation:
    """Best mixture of splits, over all counts on the curves.

    Attributes
    ----------
    bound : float
        No split has a shorter window.
    prices : Prices
        Proof of it.
    use : ndarray
        Resources of each participant in the mixture, shape (participants, kinds).
    """

    bound: float
    prices: Prices
    use: Floats

    def start(self, curves: Curves) -> dict[str, tuple[int, int]]:
        """Round the mixture off: for each participant its cheapest version, and the most counts within its mean use."""
        start = {}
        for index, (name, own) in enumerate(curves.items()):
            version = int(np.argmin([self.prices.reduced(index, curve).min() for curve in own]))
            within = own[version].index_within(np.floor(self.use[index] * (1 + 1e-9)).astype(np.int64))
            start[name] = (version, max(int(within), 0))
        return start

    def useful(self, curves: Curves, limit: float) -> dict[str, list[Integers]]:
        """Find the counts that a split shorter than `limit` may have by their priced seconds: indices on each curve."""
        useful = {}
        for index, (name, own) in enumerate(curves.items()):
            reduced = [self.prices.reduced(index, curve) for curve in own]
            least = min(float(values.min()) for values in reduced)
            # A little more, so that rounding takes no optimum away.
            slack = limit - self.bound + 1e-9 * limit
            useful[name] = [np.flatnonzero(values <= least + slack) for values in reduced]
        return useful


def relax(
    curves: Curves, layout: Layout, capacity: Integers, rows: Rows, scale: float, tolerance: float = 0.0
) -> Relaxation:
    """Solve the linear program in which everyone mixes its counts.

    Minimise the window time T over convex combinations of the counts of each participant, subject to every row of the
    window time at the mean seconds and to the machine's resources at the mean uses. Counts (columns) and rows are added
    as they are needed. The multipliers of any round give a bound for all splits: the window time is never below the
    rows' average, nor what is occupied below the average over the turns of a group.
    """
    program = _Program(LinearProgram(curves, layout, capacity, scale), rows)
    # To begin with, any row is a bound.
    use = np.zeros((len(curves), len(capacity)))
    prices = Prices(rows.matrix[0], use, 0.0)
    bound = sum(min(float(prices.reduced(i, c).min()) for c in own) for i, own in enumerate(curves.values()))
    for _ in range(_ROUNDS):
        solved = program.solve()
        if solved is None:
            break
        value, found, costs, use = solved
        reduced = [[found.reduced(i, curve) for curve in own] for i, own in enumerate(curves.values())]
        total = sum(min(float(v.min()) for v in own) for own in reduced) - found.income
        if total > bound:
            bound, prices = total, found
        grown = program.add([[int(np.argmin(v)) for v in own] for own in reduced])
        # More rows only make it longer, more columns only shorter: at neither both agree.
        grown |= rows.learn(costs)
        if not grown or (value - bound <= tolerance * value and float(rows.seconds(costs)) <= value * (1 + tolerance)):
            break
    return Relaxation(bound, prices, use)


class _Program:
    """The relaxation over the columns found so far."""

    def __init__(self, linear: LinearProgram, rows: Rows) -> None:
        self._linear, self._rows = linear, rows
        self._columns: set[Column] = set()
        for i, own in enumerate(linear.curves):
            for v, curve in enumerate(own):
                size = len(curve.ranks)
                spread = np.unique(np.geomspace(1, size, min(_FIRST, size)).round().astype(int)) - 1
                self._columns |= {(i, v, int(j)) for j in spread}

    def add(self, cheapest: Sequence[Sequence[int]]) -> bool:
        """Take the cheapest counts in; whether any is new."""
        before = len(self._columns)
        self._columns |= {(i, v, j) for i, own in enumerate(cheapest) for v, j in enumerate(own)}
        return len(self._columns) > before

    def solve(self) -> tuple[float, Prices, Floats, Floats] | None:
        """Solve it: value, multipliers, and the mean seconds and uses of each participant; None where HiGHS cannot."""
        linear = self._linear
        table = linear.tableau(sorted(self._columns), self._rows.matrix)
        people, kinds = len(linear.curves), table.uses.shape[1]
        done = linprog(table.cost, table.upper, table.right, table.each, np.ones(people), method="highs")
        if done.status != 0:
            return None
        shares = done.x[: len(table.columns)]
        owner = np.array([i for i, _, _ in table.columns])
        mean, use = np.zeros(people), np.zeros((people, kinds))
        np.add.at(mean, owner, shares * table.seconds)
        np.add.at(use, owner, shares[:, None] * table.uses)
        prices = self._prices(np.maximum(-done.ineqlin.marginals, 0.0), kinds)
        return float(done.fun) * linear.scale, prices, mean * linear.scale, use * linear.unit

    def _prices(self, marginals: Floats, kinds: int) -> Prices:
        matrix = self._rows.matrix
        share, rest = marginals[: len(matrix)], marginals[len(matrix) :]
        # Rounding must not spoil the proof: shares of the rows sum to 1, shares of a group's turns to its price.
        work = share @ matrix / share.sum()
        money, rest = rest[:kinds], rest[kinds:]
        use = np.zeros((len(self._linear.curves), kinds))
        at = 0
        for group in self._linear.layout.groups:
            if len(group) == 1:
                use[group[0]] = money
                continue
            parts = rest[at : at + len(group) * kinds].reshape(len(group), kinds)
            at += len(group) * kinds
            sums = parts.sum(axis=0)
            parts = np.where(sums > 0, parts / np.where(sums > 0, sums, 1.0), 1.0 / len(group)) * money
            for turn, part in zip(group, parts, strict=True):
                use[turn] = part
        price = use * self._linear.scale / self._linear.unit
        return Prices(work, price, float(money @ self._linear.capacity) * self._linear.scale)
