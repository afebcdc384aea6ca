"""One set of curves, one best split: which method, in which order.

`minimax_split` is exact where the slowest participant sets the window time: problem 1.6 of Schröder (2019) with the
parallel entries of his table 1.1 (problem 3.10 of Totounferoush, 2022), which both solve by trying all splits. Here by
bisection: for a makespan T every participant needs a smallest number of ranks, which never rises with T; the optimum is
the shortest T whose needs fit on the machine, and it is one of the times on the curves. Neither falling times nor a
spent budget (their equation 3.13) are assumed. Cores that are shared in turns change only what fits.

`descend` finds good splits by moving counts between participants: to begin with, or where nothing exact is at hand. A
move takes one participant a step up or down, alone, or with another one that goes the opposite way or takes all that is
left. The best of all counts; steps halve from a part of the curves, by default an eighth, to one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from precice_lb.split.admissible import Resources
from precice_lb.split.problem import Choice, Curve, Problem, costs_at, fitting, uses_at
from precice_lb.split.relax import MAXIMUM_BOXES, Best, Boxes, Cuts, relax

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
#: With no more splits than this the relaxation is not worth its time.
DIRECT_SPLITS = 4096
#: Where this many would have to be compared, sums are not.
MAXIMUM_SUMS = 2_000_000_000
# Times as many boxes for lists of splits, and for a quick answer.
_LISTED, _QUICK = 10, 0.1
# How close a bound that is only averaged must be.
_AVERAGED = 1e-5


def minimax_split(curves: Sequence[Curve], machine: Resources, only_slowest: bool = False) -> Choice:
    """Minimise the slowest participant's seconds, then the next slowest's, and so on."""
    choice: Choice = (0,) * len(curves)
    spent = machine.total(uses_at(curves, choice))
    left = list(range(len(curves)))
    while left:
        makespan = _longest(curves, left, choice)
        ties = [i for i in left if curves[i].seconds[choice[i]] == makespan]
        steps = [np.diff(curves[i].uses[choice[i] : choice[i] + 2], axis=0) for i in ties]
        # Most often nothing shorter fits once the slowest is settled.
        if all(map(len, steps)) and machine.fits(np.vstack([spent, *steps])):
            choice = _shortest(curves, machine, left, choice)
            spent = machine.total(uses_at(curves, choice))
        elif only_slowest:
            break
        else:
            # At equal times the one whose next step costs most stays behind.
            left.remove(max(ties, key=lambda i: _next_step(curves[i], choice[i])) if len(ties) > 1 else ties[0])
    return choice


def _longest(curves: Sequence[Curve], left: Sequence[int], choice: Sequence[int]) -> float:
    """Give the makespan of those that are not settled."""
    return max(float(curves[i].seconds[choice[i]]) for i in left)


def _shortest(curves: Sequence[Curve], machine: Resources, left: Sequence[int], choice: Choice) -> Choice:
    """Shorten the makespan of those that are not settled as far as it goes; a shorter one is known to fit."""

    def needs(makespan: float) -> Choice:
        return tuple(curves[i].index_reaching(makespan) if i in left else index for i, index in enumerate(choice))

    # Nobody can be faster than at the end of its curve.
    low, high = _longest(curves, left, [-1] * len(curves)), _longest(curves, left, choice)
    if machine.fits(uses_at(curves, needs(low))):
        return needs(low)
    while low < (middle := math.sqrt(low * high)) < high:
        tried = needs(middle)
        if machine.fits(uses_at(curves, tried)):
            # Always a time on one of the curves.
            choice, high = tried, _longest(curves, left, tried)
        elif tried == needs(math.nextafter(high, low)):
            break
        else:
            low = middle
    return choice


def _next_step(curve: Curve, index: int) -> float:
    """Give what one count more takes of the kind that rises most; no end where there is none."""
    if index + 1 == len(curve.ranks):
        return math.inf
    return int(curve.uses[index + 1].max() - curve.uses[index].max())


def descend(
    curves: Sequence[Curve], machine: Resources, objective: Callable[[Integers], Floats], start: Integers, part: int = 8
) -> tuple[Integers, float]:
    """Descend from a split, given as indices on the curves; give its indices and objective."""
    sizes = np.array([len(curve.ranks) for curve in curves])
    units = np.vstack([np.zeros((1, len(curves)), dtype=np.int64), np.eye(len(curves), dtype=np.int64)])
    # From every one to every other one; the first stands for nobody.
    moves = np.unique((units[:, None] - units[None]).reshape(-1, len(curves)), axis=0)
    alone = moves[np.abs(moves).sum(axis=1) < 2]
    best, least = start, float(objective(start[None])[0])
    step = 1 << max(int(sizes.max()) // part, 1).bit_length() - 1
    while step:
        moved = np.clip(best + step * alone, 0, sizes - 1)
        splits = fitting(curves, machine, [best + step * moves, moved], moved)
        seconds = objective(splits)
        lowest = int(np.argmin(seconds))
        if seconds[lowest] < least * (1 - 1e-9):
            best, least = splits[lowest], float(seconds[lowest])
        else:
            step //= 2
    return best, least


@dataclass(frozen=True)
class Solution:
    """The best split of one set of curves."""

    choice: Choice
    # Seconds per window.
    seconds: float
    # No split has a shorter window.
    bound: float
    # What proves it: "bisection", "programme" (all sums were compared), "boxes" (no box of splits is left) or
    # "relaxation" (a linear one bounds what is left).
    proof: str


class Solver:
    """Solves one problem for one or many sets of curves; what it learns about the window time serves all of them."""

    def __init__(self, problem: Problem, budget: int | None = None, quick: bool = False) -> None:
        self._schedule = problem.schedule
        self._machine = problem.machine if budget is None else problem.machine.with_budget(budget)
        self._cuts = Cuts(problem.schedule)
        self._boxes = MAXIMUM_BOXES * (_QUICK if quick else 1)

    def solve(self, curves: Sequence[Curve]) -> Solution:
        """Find the split with the shortest window."""
        is_maximum = self._schedule.is_maximum
        choice = minimax_split(self.weighted(curves), self._machine, only_slowest=not is_maximum)
        seconds = self.seconds(curves, choice)
        if is_maximum:
            return Solution(choice, seconds, seconds, "bisection")
        best = Best()
        best.add(seconds, choice)
        bound, proof = self._search(curves, best)
        seconds, choice = best.splits[0]
        return Solution(choice, seconds, bound, proof)

    def bounded(self, curves: Sequence[Curve]) -> Choice:
        """Find a split that is nearly as short as a bound, which is enough where many are only averaged."""
        if self._schedule.is_maximum or _count(curves) <= DIRECT_SPLITS:
            return self.solve(curves).choice
        choice = minimax_split(self.weighted(curves), self._machine, only_slowest=True)
        start = relax(curves, self._machine, self._cuts, self.seconds(curves, choice), _AVERAGED).start()
        return start if self._machine.fits(uses_at(curves, start)) else choice

    def several(self, curves: Sequence[Curve], count: int, within: float) -> tuple[list[tuple[float, Choice]], bool]:
        """Find the best splits up to a window time, best first; and whether that is proven."""
        best = Best(count, within)
        bound, _ = self._search(curves, best)
        return best.splits, bound >= best.limit

    def seconds(self, curves: Sequence[Curve], choice: Choice) -> float:
        """Seconds per window of a choice."""
        return float(self._seconds(curves, np.array([choice]))[0])

    def weighted(self, curves: Sequence[Curve]) -> list[Curve]:
        """Weigh the seconds as the window time does if nobody else costs anything."""
        windows = self._schedule.windows.values()
        return [replace(curve, seconds=curve.seconds * count) for curve, count in zip(curves, windows, strict=True)]

    def leftover(self, curves: Sequence[Curve], choice: Choice) -> Choice:
        """Give out what a split leaves over: to the slowest that gets faster by it, then the next."""
        if self._schedule.is_maximum:
            return choice
        rest = [curve.take(slice(i, None)) for curve, i in zip(curves, choice, strict=True)]
        more = minimax_split(self.weighted(rest), self._machine)
        return tuple(i + further for i, further in zip(choice, more, strict=True))

    def _search(self, curves: Sequence[Curve], best: Best) -> tuple[float, str]:
        """Find the best splits; give the seconds that no other split is below, and what proves it."""
        kept, reduced, relaxation = [np.arange(len(curve.ranks)) for curve in curves], [], None
        if _count(curves) > DIRECT_SPLITS:
            scale = best.splits[0][0] if best.splits else best.within
            relaxation = relax(curves, self._machine, self._cuts, scale)
            starts = [choice for _, choice in best.splits]
            if self._machine.fits(uses_at(curves, start := relaxation.start())):
                starts.append(start)
                best.add(self.seconds(curves, start), start)
            is_sum = self._schedule.is_sum and len(self._machine.capacity) == 1
            if is_sum and best.count == 1 and self._add_up(curves, relaxation.useful(best.limit), best):
                return best.splits[0][0], "programme"
            for choice in starts:
                indices, seconds = descend(curves, self._machine, partial(self._seconds, curves), np.array(choice))
                best.add(seconds, tuple(indices.tolist()))
            kept = relaxation.useful(best.limit)
            reduced = [costs[indices] for costs, indices in zip(relaxation.reduced, kept, strict=True)]
        shorter = Best(best.count, best.limit)
        bound = np.inf
        if all(map(len, kept)):
            useful = [curve.take(indices) for curve, indices in zip(curves, kept, strict=True)]
            most = int(self._boxes * (_LISTED if best.count > 1 else 1))
            bound = Boxes(useful, self._machine, self._cuts, shorter, reduced).search(most)
        for seconds, choice in shorter.splits:
            best.add(seconds, tuple(int(indices[i]) for indices, i in zip(kept, choice, strict=True)))
        least = best.splits[0][0] if best.count == 1 else bound
        if bound >= shorter.limit:
            return least, "boxes"
        return min(bound if relaxation is None else max(bound, relaxation.bound), least), "relaxation"

    def _add_up(self, curves: Sequence[Curve], kept: Sequence[Integers], best: Best) -> bool:
        """Find the least sum of seconds by a dynamic programme over what all may take beyond their least."""
        if not all(map(len, kept)):
            return True
        useful = [curve.take(indices) for curve, indices in zip(self.weighted(curves), kept, strict=True)]
        room = int(self._machine.capacity[0]) - sum(int(curve.uses[0, 0]) for curve in useful)
        if room < 0:
            return True
        if room * sum(len(curve.ranks) for curve in useful) > MAXIMUM_SUMS:
            return False
        least = np.zeros(room + 1)
        taken = []
        for curve in useful:
            before, least = least, np.full(room + 1, np.inf)
            chosen = np.zeros(room + 1, dtype=np.int64)
            for i, more in enumerate((curve.uses[:, 0] - curve.uses[0, 0]).tolist()):
                if more <= room:
                    sums = before[: room + 1 - more] + curve.seconds[i]
                    shorter = np.flatnonzero(sums < least[more:]) + more
                    least[shorter], chosen[shorter] = sums[shorter - more], i
            taken.append(chosen)
        split, left = [], room
        for curve, indices, chosen in zip(reversed(useful), reversed(kept), reversed(taken), strict=True):
            split.append(int(indices[chosen[left]]))
            left -= int(curve.uses[chosen[left], 0] - curve.uses[0, 0])
        choice = tuple(reversed(split))
        best.add(self.seconds(curves, choice), choice)
        return True

    def _seconds(self, curves: Sequence[Curve], splits: Integers) -> Floats:
        """Seconds per window of splits given as indices, shape (splits,)."""
        return self._cuts.seconds(costs_at(curves, splits))


def _count(curves: Sequence[Curve]) -> int:
    """Count the splits to compare: the participant with the most counts gets what is left."""
    sizes = [len(curve.ranks) for curve in curves]
    return math.prod(sizes) // max(sizes)
