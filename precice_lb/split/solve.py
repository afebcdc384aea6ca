"""One set of curves, one best split: which method, in which order.

`minimax_split` is exact where the slowest participant sets the window time: problem 1.6 of Schröder (2019) with the
parallel entries of his table 1.1 (problem 3.10 of Totounferoush, 2022), which both solve by trying all splits. Here by
bisection: for a makespan T every participant needs a smallest number of ranks, which never rises with T; the optimum is
the shortest T whose needs fit on the machine, and it is one of the times on the curves. Neither falling times nor a
spent budget (their equation 3.13) are assumed. Cores that are shared in turns change only what fits; where there are
several kinds of resource, so that there is no smallest need among the versions of a participant, all combinations of
versions are tried.

`descend` finds good splits by moving counts between participants: to begin with, or where nothing exact is at hand. A
move takes one participant a step up or down, alone, or with another one that goes the opposite way or takes all that is
left. The best of all counts; steps halve from a part of the curves, by default an eighth, to one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from precice_lb.split.problem import Choice, Curve, Curves, Problem, uses_at, uses_of
from precice_lb.split.relax import MAXIMUM_BOXES, Best, Boxes, Cuts, relax
from precice_lb.split.resources import Layout

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
#: With no more splits than this the relaxation is not worth its time.
DIRECT_SPLITS = 4096
# Times as many boxes for lists of splits, and for a quick answer.
_LISTED, _QUICK = 10, 0.1
# How close a bound that is only averaged must be.
_AVERAGED = 1e-5


def minimax_split(curves: Curves, layout: Layout, only_slowest: bool = False) -> tuple[Choice, list[Integers]]:
    """Minimise the slowest participant's seconds, then the next slowest's; prove it by what less needs."""
    choice: Choice = {}
    # Any shorter makespan needs one entry at least; none if nothing can make the slowest participant faster.
    proof: list[Integers] = []
    while len(choice) < len(curves):
        search = _Search(curves, layout, choice)
        makespan, needed = search.shortest()
        if not choice:
            proof = needed
        found = search.fitting(makespan)
        assert found is not None
        if only_slowest:
            return found, proof
        # At equal times the one whose next step costs most stays behind.
        open_names = [name for name in curves if name not in choice]
        slowest = max(
            (name for name in open_names if _seconds(curves, found, name) == makespan),
            key=lambda name: _next_step(curves[name][found[name][0]], found[name][1]),
        )
        choice = {name: found[name] for name in curves if name in choice or name == slowest}
    return choice, proof


def _seconds(curves: Curves, choice: Choice, name: str) -> float:
    version, index = choice[name]
    return float(curves[name][version].seconds[index])


def _next_step(curve: Curve, index: int) -> float:
    return float(curve.uses[index + 1, 0] - curve.uses[index, 0]) if index + 1 < len(curve.ranks) else np.inf


class _Search:
    """Shortest makespan of the participants that have nothing yet."""

    def __init__(self, curves: Curves, layout: Layout, given: Choice) -> None:
        self._curves = curves
        self._layout = layout
        self._given = given
        self._open = [name for name in curves if name not in given]

    def needs(self, makespan: float) -> list[Choice]:
        """Smallest counts with which everyone is that fast, one entry for each combination of versions that counts."""
        reaching: dict[str, list[tuple[int, int]]] = {}
        for name, own in self._curves.items():
            if name in self._given:
                reaching[name] = [self._given[name]]
                continue
            found = [(v, curve.index_reaching(makespan)) for v, curve in enumerate(own)]
            found = [(v, index) for v, index in found if index < len(own[v].ranks)]
            if len(self._layout.capacity) == 1 and found:
                found = [min(found, key=lambda at, own=own: int(own[at[0]].uses[at[1], 0]))]  # type: ignore[misc]
            reaching[name] = found
        return [dict(zip(reaching, choice, strict=True)) for choice in product(*reaching.values())]

    def _total(self, choice: Choice) -> Integers:
        return self._layout.total(uses_of(self._curves, choice))

    def fitting(self, makespan: float) -> Choice | None:
        """Find a choice that is that fast and fits, the one that takes the least cores; None where there is none."""
        fitting = [c for c in self.needs(makespan) if self._layout.fits(uses_of(self._curves, c))]
        return min(fitting, key=lambda choice: int(self._total(choice)[0])) if fitting else None

    def shortest(self) -> tuple[float, list[Integers]]:
        """Shortest makespan that fits, and what the next shorter one needs."""
        own = [self._curves[name] for name in self._open]
        # Nobody can be faster than at the end of its curve.
        low = max(min(float(curve.seconds[-1]) for curve in versions) for versions in own)
        if self.fitting(low) is not None:
            return low, []
        high = max(max(float(curve.seconds[0]) for curve in versions) for versions in own)
        while low < (middle := 0.5 * (low + high)) < high:
            found = self.fitting(middle)
            if found is not None:
                # Always a time on one of the curves.
                high = max(_seconds(self._curves, found, name) for name in self._open)
            else:
                low = middle
        return high, [self._total(choice) for choice in self.needs(low)]


def descend(
    curves: Sequence[Curve], layout: Layout, objective: Callable[[Integers], Floats], start: Integers, part: int = 8
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
        room = layout.allowance(uses_at(curves, moved))
        tried = [best + step * moves, moved]
        for taker, curve in enumerate(curves):
            with_rest = moved.copy()
            with_rest[:, taker] = curve.index_within(room[:, taker])
            tried.append(with_rest)
        splits = np.unique(np.concatenate(tried), axis=0)
        splits = splits[((splits >= 0) & (splits < sizes)).all(axis=1)]
        splits = splits[layout.fits(uses_at(curves, splits))]
        seconds = objective(splits)
        at = int(np.argmin(seconds))
        if seconds[at] < least * (1 - 1e-9):
            best, least = splits[at], float(seconds[at])
        else:
            step //= 2
    return best, least


@dataclass(frozen=True)
class Solution:
    """The best split of one set of curves."""

    # Version and index on its curve of each participant.
    choice: Choice
    # Seconds per window.
    seconds: float
    # No split has a shorter window.
    bound: float
    # Why.
    proof: str


class Solver:
    """Solves one problem for one or many sets of curves; what it learns about the window time serves all of them."""

    def __init__(self, problem: Problem, budget: int | None = None, quick: bool = False) -> None:
        self.problem = problem
        self._quick = quick
        layout, machine = problem.layout, problem.machine
        self._layout = layout if budget is None else layout.with_capacity(machine.capacity_of(budget))
        self._cuts = Cuts(problem.schedule)

    def solve(self, curves: Curves) -> Solution:
        """Find the split with the shortest window."""
        problem = self.problem
        weighted = self.weighted(curves)
        is_maximum = problem.schedule.is_maximum
        choice, needed = minimax_split(weighted, self._layout, only_slowest=not is_maximum)
        if is_maximum:
            seconds = self.seconds(curves, choice)
            budgets = [b for total in needed if (b := problem.machine.budget_for(total)) is not None]
            unit = problem.machine.unit
            proof = f"a shorter window needs {min(budgets)} {unit}" if budgets else "the slowest is as fast as it gets"
            return Solution(choice, seconds, seconds, proof)
        best = Best()
        best.add(self.seconds(curves, choice), tuple(choice.values()))
        bound, proof = self._search(curves, best)
        seconds, found = best.splits[0]
        return Solution(dict(zip(curves, found, strict=True)), seconds, bound, proof)

    def bounded(self, curves: Curves) -> Solution:
        """Find a split that is nearly as short as a bound, which is enough where many are only averaged."""
        if self.problem.schedule.is_maximum or self._count(curves) <= DIRECT_SPLITS:
            return self.solve(curves)
        choice, _ = minimax_split(self.weighted(curves), self._layout, only_slowest=True)
        relaxation = relax(curves, self._layout, self._cuts, self.seconds(curves, choice), _AVERAGED)
        start = relaxation.start(curves)
        choice = start if self._layout.fits(uses_of(curves, start)) else choice
        return Solution(choice, self.seconds(curves, choice), relaxation.bound, "by a linear relaxation")

    def several(self, curves: Curves, count: int, within: float) -> tuple[list[tuple[float, Choice]], bool]:
        """Find the best splits up to a window time, best first; and whether that is proven."""
        best = Best(count, within)
        bound, _ = self._search(curves, best)
        return [(seconds, dict(zip(curves, found, strict=True))) for seconds, found in best.splits], bound >= best.limit

    def seconds(self, curves: Curves, choice: Choice) -> float:
        """Seconds per window of a choice."""
        return float(self._cuts.seconds(np.array([curves[n][v].seconds[i] for n, (v, i) in choice.items()])))

    def weighted(self, curves: Curves) -> dict[str, tuple[Curve, ...]]:
        """Weigh the seconds as the window time does if nobody else costs anything."""
        return {
            name: tuple(c if weight == 1 else replace(c, seconds=c.seconds * weight) for c in curves[name])
            for name, weight in self.problem.schedule.weights.items()
        }

    def leftover(self, curves: Curves, choice: Choice) -> Choice:
        """Give out what a split leaves over: to the slowest that gets faster by it, then the next."""
        if self.problem.schedule.is_maximum:
            return choice
        chosen = {name: (curves[name][v].take(slice(i, None)),) for name, (v, i) in choice.items()}
        more, _ = minimax_split(self.weighted(chosen), self._layout)
        return {name: (v, i + more[name][1]) for name, (v, i) in choice.items()}

    def _count(self, curves: Curves) -> int:
        """Count the splits to compare, of all versions: the participant with the most counts gets what is left."""
        sizes = product(*([len(curve.ranks) for curve in own] for own in curves.values()))
        return sum(math.prod(each) // max(each) for each in sizes)

    def _search(self, curves: Curves, best: Best) -> tuple[float, str]:
        """Find the best splits; give the seconds that no other split is below, and why."""
        kept = {name: [np.arange(len(c.ranks)) for c in own] for name, own in curves.items()}
        combinations = list(product(*(range(len(own)) for own in curves.values())))
        relaxation = None
        if self._count(curves) > DIRECT_SPLITS:
            scale = best.splits[0][0] if best.splits else best.within
            relaxation = relax(curves, self._layout, self._cuts, scale)
            self._improve(curves, relaxation.start(curves), best)
            kept = relaxation.useful(curves, best.limit)
        useful = {name: [c.take(k) for c, k in zip(own, kept[name], strict=True)] for name, own in curves.items()}
        found = Best(best.count, best.limit)
        boxes, bound = 0, np.inf
        for versions in combinations:
            own = [useful[name][v] for name, v in zip(curves, versions, strict=True)]
            if all(len(curve.ranks) for curve in own):
                multipliers = relaxation.multipliers if relaxation else None
                share = _LISTED if best.count > 1 else _QUICK if self._quick else 1
                left = int(MAXIMUM_BOXES * share) - boxes
                more, reached = Boxes(versions, own, self._layout, self._cuts, found, multipliers).search(left)
                boxes, bound = boxes + more, min(bound, reached)
        for seconds, split in found.splits:
            best.add(seconds, tuple((v, int(kept[n][v][i])) for n, (v, i) in zip(curves, split, strict=True)))
        if bound >= found.limit:
            bound = best.splits[0][0] if best.count == 1 else bound
            before = "a linear relaxation and " if relaxation else ""
            return bound, f"{before}{boxes} boxes of splits that were bounded leave no shorter one"
        by = "what was bounded"
        if relaxation:
            bound, by = max(bound, relaxation.bound), "a linear relaxation"
        if best.count == 1:
            bound = min(bound, best.splits[0][0])
        return bound, f"no split is below {bound:.6g} s by {by}"

    def _improve(self, curves: Curves, start: Choice, best: Best) -> None:
        """Descend from the splits known, and from another one if it fits."""
        starts = [dict(zip(curves, split, strict=True)) for _, split in best.splits[:1]]
        if self._layout.fits(uses_of(curves, start)):
            starts.append(start)
        for choice in starts:
            own = [curves[name][v] for name, (v, _) in choice.items()]

            def objective(splits: Integers, own: Sequence[Curve] = own) -> Floats:
                return self._cuts.seconds(np.stack([c.seconds[splits[:, i]] for i, c in enumerate(own)], axis=1))

            indices = np.array([i for _, i in choice.values()])
            found, seconds = descend(own, self._layout, objective, indices)
            best.add(seconds, tuple((v, int(i)) for (v, _), i in zip(choice.values(), found, strict=True)))
