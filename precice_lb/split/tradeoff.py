"""Time against cost: what every budget up to a largest one gives."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from precice_lb.case.machine import Constraints
from precice_lb.exceptions import InfeasibleError, ModelError
from precice_lb.schedule import Schedule
from precice_lb.schedule.schedule import Coupling
from precice_lb.split.problem import Choice, Curves, Problem, Times, problem_of, split_of, uses_of, without_excluded
from precice_lb.split.solve import Solver

#: Budgets that are solved for, unless others are asked for.
BUDGETS = 64
# Up to this budget all of them are looked at once, where the slowest participant sets the window time.
_SWEPT = 4096
# How far below the line a knee is at least: whole ranks make smaller dents.
_KNEE = 0.02
# A choice, and what is not proven of it.
_Gapped = tuple[Choice, float]
_Choices = tuple[Problem, Curves, list[_Gapped]]


@dataclass(frozen=True)
class TradeoffPoint:
    """The best split of one budget.

    Attributes
    ----------
    budget
        What it takes, in the unit of the constraints.
    split, versions
        Ranks, and where there are several the version, of each participant.
    cores
        Cores that are charged.
    window_seconds
        Seconds per time window.
    core_hours
        Core-hours per time window.
    efficiency
        Parallel efficiency: core-hours of the cheapest point over these.
    gap
        Proven upper bound of the share by which the window is longer than the best one of the budget.
    """

    budget: int
    split: dict[str, int]
    versions: dict[str, str]
    cores: int
    window_seconds: float
    core_hours: float
    efficiency: float
    gap: float = 0.0


@dataclass(frozen=True)
class TradeoffCurve:
    """Window time against core-hours.

    Attributes
    ----------
    points
        Rising budgets, each with a shorter window than all before it.
    """

    points: tuple[TradeoffPoint, ...]

    @property
    def knee(self) -> TradeoffPoint:
        """Where more cores begin to pay less: the point farthest below the line from the cheapest to the last one.

        On logarithmic axes, where perfect scaling is a straight line (V. Satopää et al., Finding a "Kneedle" in a
        haystack, 2011, for a curve that is known exactly). The last point where none is 2 % below: there is no knee.
        """
        cheapest = min(range(len(self.points)), key=lambda i: self.points[i].core_hours)
        points = self.points[cheapest:]
        cores = np.log([point.cores for point in points])
        seconds = np.log([point.window_seconds for point in points])
        if len(points) < 3 or cores[-1] <= cores[0]:
            return points[-1]
        share = (cores - cores[0]) / (cores[-1] - cores[0])
        below = seconds[0] + share * (seconds[-1] - seconds[0]) - seconds
        at = int(np.argmax(below))
        return points[at] if below[at] > _KNEE else points[-1]

    def choose(self, prefer: Literal["time", "cost"] | float) -> TradeoffPoint:
        """Choose the point of least seconds ^ w times core-hours ^ (1 - w).

        Parameters
        ----------
        prefer
            The weight w of time, from 0 to 1; ``"time"`` is 1, ``"cost"`` is 0. At 0.5 one percent of time is worth one
            percent of core-hours. Among equals the one with fewer cores.

        Returns
        -------
        TradeoffPoint

        Raises
        ------
        ModelError
            For any other preference.
        """
        weight = {"time": 1.0, "cost": 0.0}.get(prefer, -1.0) if isinstance(prefer, str) else float(prefer)
        if not 0 <= weight <= 1:
            raise ModelError(f'expected a preference of "time", "cost" or a number from 0 to 1, found {prefer!r}')
        price = [weight * math.log(p.window_seconds) + (1 - weight) * math.log(p.core_hours) for p in self.points]
        return self.points[min(range(len(price)), key=lambda i: (round(price[i], 12), self.points[i].cores))]


def tradeoff_curve(
    times: Mapping[str, Times | Mapping[str, Times]],
    budget: int,
    *,
    coupling: Coupling = "parallel",
    schedule: Schedule | None = None,
    budgets: Sequence[int] | None = None,
    minimum_ranks: int | Mapping[str, int] = 1,
    maximum_ranks: Mapping[str, int] | None = None,
    constraints: Constraints | None = None,
) -> TradeoffCurve:
    """Optimise for every budget up to a largest one.

    Parameters
    ----------
    times, coupling, schedule, minimum_ranks, maximum_ranks, constraints
        As for `optimize_split`.
    budget
        The largest budget.
    budgets
        Those to look at. Without it all of them where the slowest participant sets the window time and there are at
        most 4096, and wherever there are at most 64; else 64 of them in equal ratios.

    Returns
    -------
    TradeoffCurve

    Raises
    ------
    InfeasibleError, ModelError
        As `optimize_split`.
    """
    problem = problem_of(times, budget, schedule or coupling, minimum_ranks, maximum_ranks, constraints)
    parts = without_excluded(problem)
    smallest = min(part.smallest_budget for part in parts)
    if budgets is not None:
        wrong = [b for b in budgets if not smallest <= b <= budget]
        if wrong or not len(budgets):
            raise InfeasibleError(f"expected budgets from {smallest} to {budget}, found {wrong or 'none'}")
    return TradeoffCurve(_points([_choices(part, budget, budgets) for part in parts]))


def _choices(problem: Problem, budget: int, budgets: Sequence[int] | None) -> _Choices:
    """Solve for every budget that suffices."""
    curves, smallest = problem.curves(), problem.smallest_budget
    choices: list[_Gapped]
    if budgets is not None:
        choices = _one_by_one(problem, curves, sorted({each for each in budgets if each >= smallest}))
    elif problem.schedule.is_maximum and len(problem.machine.capacity) == 1 and budget <= _SWEPT:
        choices = _sweep(problem, curves)
    else:
        ladder = np.unique(np.geomspace(smallest, budget, min(BUDGETS, budget - smallest + 1)).round().astype(int))
        ladder = np.arange(smallest, budget + 1) if budget - smallest < BUDGETS else ladder
        choices = _one_by_one(problem, curves, ladder.tolist())
    return problem, curves, choices


def _one_by_one(problem: Problem, curves: Curves, budgets: Sequence[int]) -> list[_Gapped]:
    found = [Solver(problem, budget, quick=True).solve(curves) for budget in budgets]
    return [(one.choice, max(one.seconds / one.bound - 1.0, 0.0)) for one in found]


def _sweep(problem: Problem, curves: Curves) -> list[_Gapped]:
    """Find the smallest counts for every makespan that the curves know and the machine allows."""
    weighted = Solver(problem).weighted(curves)
    spans = np.unique(np.concatenate([curve.seconds for own in weighted.values() for curve in own]))
    least = max(min(curve.seconds[-1] for curve in own) for own in weighted.values())
    spans = spans[spans >= least]
    columns, picks = [], []
    for own in weighted.values():
        reached = np.stack([np.searchsorted(-curve.seconds, -spans) for curve in own])
        uses = np.full(reached.shape, np.iinfo(np.int64).max)
        for v, curve in enumerate(own):
            known = reached[v] < len(curve.ranks)
            uses[v, known] = curve.uses[reached[v, known], 0]
        pick = np.argmin(uses, axis=0)
        picks.append((pick, np.take_along_axis(reached, pick[None], axis=0)[0]))
        columns.append(uses.min(axis=0))
    totals = problem.layout.total(np.stack(columns, axis=1)[..., None])
    # Of makespans that need the same the shortest; the longest first.
    fits = np.flatnonzero(totals[:, 0] <= problem.layout.capacity[0])
    _, first = np.unique(totals[fits, 0], return_index=True)
    return [
        ({name: (int(pick[at]), int(index[at])) for name, (pick, index) in zip(curves, picks, strict=True)}, 0.0)
        for at in fits[first]
    ]


def _points(found: Sequence[_Choices]) -> tuple[TradeoffPoint, ...]:
    """Make points of the choices, those that are no faster than a cheaper one left out."""
    every = [_point(problem, curves, *each) for problem, curves, choices in found for each in choices]
    if len(found) > 1:
        every.sort(key=lambda point: (point.cores, point.window_seconds))
    points: list[TradeoffPoint] = []
    for point in every:
        while points and points[-1].cores >= point.cores and points[-1].window_seconds >= point.window_seconds:
            points.pop()
        if points and points[-1].window_seconds <= point.window_seconds * (1 + 1e-12):
            continue
        points.append(point)
    cheapest = min(point.core_hours for point in points)
    return tuple(replace(point, efficiency=cheapest / point.core_hours) for point in points)


def _point(problem: Problem, curves: Curves, choice: Choice, gap: float) -> TradeoffPoint:
    split = split_of(curves, choice)
    seconds, total = problem.window_seconds(split), problem.layout.total(uses_of(curves, choice))
    cores = problem.machine.cores(total)
    return TradeoffPoint(
        budget=problem.machine.budget_for(total) or 0,
        split={name: ranks for name, (_, ranks) in split.items()},
        versions={name: version for name, (version, _) in split.items() if version},
        cores=cores,
        window_seconds=seconds,
        core_hours=seconds * cores / 3600.0,
        efficiency=1.0,
        gap=gap,
    )
