"""Couplings that are sums and maxima of their participants, and what every budget gives for them at once.

From the cuts of the window time that random costs show, participants are joined two by two: those that stand in the
same cuts add up, those that can stand for each other in all cuts are alternatives. What comes out is never above the
window time, since all cuts belong to it, and is proven not to be below: the window time is convex, so that it is enough
to look at the corners of what the composition calls 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from precice_lb.schedule import Schedule
from precice_lb.split.branch import Cuts
from precice_lb.split.problem import Choice, Curve, Curves

__all__ = ["Composition", "best_of_every_budget", "composition_of"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

# Random costs at which cuts of the window time are looked for, per participant.
_TRIES = 40


@dataclass(frozen=True)
class Composition:
    """A participant (no parts), or parts of which the seconds add up (`is_sum`) or the slowest counts."""

    # The participant, -1 for parts.
    index: int = -1
    # How the parts come together.
    is_sum: bool = False
    # Two of them.
    parts: tuple[Composition, ...] = ()

    def members(self) -> list[int]:
        """All participants within."""
        return [self.index] if not self.parts else [i for part in self.parts for i in part.members()]

    def corners(self, count: int) -> Floats:
        """List the costs that span, with all lesser ones, what the composition puts at 1 or below: (corners, count)."""
        if not self.parts:
            return np.eye(count)[[self.index]]
        first, second = (part.corners(count) for part in self.parts)
        if self.is_sum:
            return np.concatenate((first, second))
        return (first[:, None, :] + second[None, :, :]).reshape(-1, count)


def composition_of(schedule: Schedule) -> Composition | None:
    """Find out whether the window time is a series-parallel mixture of the participants' weighted seconds."""
    cuts, count = Cuts(schedule), len(schedule.participants)
    random = np.random.default_rng(0)
    weights = np.array([schedule.weights[name] for name in schedule.participants])
    for _ in range(_TRIES * count):
        cuts.learn(np.exp(2 * random.standard_normal(count)) / weights)
    scaled = cuts.matrix / weights
    if not np.all(np.isclose(scaled, 0, atol=1e-6) | np.isclose(scaled, 1, rtol=1e-6)):
        return None
    sets = {frozenset(np.flatnonzero(row > 0.5).tolist()) for row in scaled}
    sets = {one for one in sets if not any(one < other for other in sets)}
    found = _joined(sets, {i: Composition(i) for i in range(count)})
    if found is None or float(cuts.seconds(found.corners(count) / weights).max()) > 1 + 1e-9:
        return None
    return found


def _joined(sets: set[frozenset[int]], open_parts: dict[int, Composition]) -> Composition | None:
    while len(open_parts) > 1:
        for i, j in combinations(sorted(open_parts), 2):
            with_i, with_j = {s for s in sets if i in s}, {s for s in sets if j in s}
            if with_i == with_j:
                is_sum = True
            elif {s - {i} for s in with_i} == {s - {j} for s in with_j}:
                is_sum = False
            else:
                continue
            open_parts[i] = Composition(is_sum=is_sum, parts=(open_parts[i], open_parts.pop(j)))
            sets = {s - {j} for s in sets} if is_sum else sets - with_j
            break
        else:
            return None
    return next(iter(open_parts.values()))


def best_of_every_budget(
    composition: Composition, curves: Curves, weights: Sequence[float], unit: int, largest: int
) -> list[Choice]:
    """Optimise for all budgets up to the largest at once, by dynamic programming; those that no lesser one equals."""
    table = _solve(composition, list(curves.values()), weights, unit, largest)
    choices: list[Choice] = []
    for budget in np.flatnonzero(table.seconds < np.concatenate(([np.inf], table.seconds[:-1]))):
        given: dict[int, tuple[int, int]] = {}
        table.collect(int(budget), given)
        choices.append({name: given[i] for i, name in enumerate(curves)})
    return choices


@dataclass(frozen=True)
class _Table:
    """Least seconds at each number of units, and how they come about."""

    seconds: Floats
    how: Integers
    index: int = -1
    parts: tuple[_Table, ...] = ()

    def collect(self, units: int, into: dict[int, tuple[int, int]]) -> None:
        if not self.parts:
            into[self.index] = (int(self.how[0, units]), int(self.how[1, units]))
            return
        first = int(self.how[units])
        self.parts[0].collect(first, into)
        self.parts[1].collect(units - first, into)


def _solve(
    part: Composition, curves: Sequence[Sequence[Curve]], weights: Sequence[float], unit: int, largest: int
) -> _Table:
    seconds = np.full(largest + 1, np.inf)
    how: Integers
    if not part.parts:
        how = np.zeros((2, largest + 1), dtype=np.int64)
        allowance = unit * np.arange(largest + 1)[:, None]
        for version, curve in enumerate(curves[part.index]):
            at = curve.index_within(allowance)
            own = np.where(at >= 0, curve.seconds[at] * weights[part.index], np.inf)
            faster = own < seconds
            seconds[faster], how[0, faster], how[1, faster] = own[faster], version, at[faster]
        return _Table(seconds, how, part.index)
    first, second = (_solve(one, curves, weights, unit, largest) for one in part.parts)
    how = np.zeros(largest + 1, dtype=np.int64)
    join = np.add if part.is_sum else np.maximum
    # Units that make the first part no faster gain nothing.
    for units in np.flatnonzero(first.seconds < np.concatenate(([np.inf], first.seconds[:-1]))):
        together = join(first.seconds[units], second.seconds[: largest + 1 - units])
        better = together < seconds[units:]
        seconds[units:][better] = together[better]
        how[units:][better] = units
    return _Table(seconds, how, parts=(first, second))
