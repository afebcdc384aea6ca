"""The doors of this package: from times and a budget to the best split, those next to it, and time against cost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from precice_lb.case.machine import Constraints
from precice_lb.exceptions import ModelError
from precice_lb.schedule.schedule import Coupling
from precice_lb.split.problem import Choice, Curve, Problem, Times, costs_at, parts_of, ranks_of, uses_at
from precice_lb.split.solve import Solver


@dataclass(frozen=True)
class SplitResult:
    """The best split and why it is.

    Attributes
    ----------
    split
        Ranks by participant. Their sum may be below the budget: ranks that make nobody faster stay unused.
    window_seconds
        Steady seconds per time window with it.
    waits
        Seconds per window that each participant waits.
    compute_seconds
        Seconds per window that each participant works.
    critical_cycle
        Participants whose work sets the window time.
    gap
        Proven upper bound of (window_seconds − best)/best; 0 says that no split is better.
    proof
        What proves it: ``"bisection"``, ``"programme"`` (all sums of times were compared), ``"boxes"`` (a search of all
        splits) or ``"relaxation"`` (a linear relaxation, with a gap).
    versions
        The chosen version of each participant that has several.
    used
        What the split occupies: ``ranks``, ``cores`` (as charged: those of whole nodes where the budget counts nodes),
        and ``nodes`` where they matter.
    """

    split: dict[str, int]
    window_seconds: float
    waits: dict[str, float]
    compute_seconds: dict[str, float]
    critical_cycle: tuple[str, ...]
    gap: float
    proof: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    used: dict[str, int] = field(default_factory=dict)


def optimize_split(
    times: Mapping[str, Times | Mapping[str, Times]],
    budget: int,
    *,
    coupling: Coupling = "parallel",
    constraints: Constraints | None = None,
) -> SplitResult:
    """Find the split with the shortest time window, exactly.

    If the coupling makes the window time a maximum over the participants, by bisection on it (any number of
    participants and ranks). Otherwise by branch and bound over the counts that a linear relaxation leaves (sums,
    mixtures of sums and maxima, any composition of schemes); where these have too many boxes to bound the gap is above
    0. Ranks left over make the slowest participant
    faster that can still get faster, then the next.

    Parameters
    ----------
    times
        Compute seconds per window of each participant: an array whose entry p - 1 belongs to p ranks, which then bounds
        the ranks by its length, or a function from an array of rank counts to an array of seconds; times need not fall.
        A participant that may run as one of several versions (CPU or GPU) has a mapping from version to times.
    budget
        Ranks to give out in all, or cores or nodes where the constraints say so.
    coupling : {"parallel", "serial"}, path of a ``precice-config.xml``, or Schedule
        How the participants wait for each other.
    constraints
        Everything that machine and users demand, such as ``Constraints(minimum=2, maximum={"Solid": 8})``.

    Returns
    -------
    SplitResult
        The split, with gap 0 where no other one is better.

    Raises
    ------
    InfeasibleError
        If no split satisfies budget and constraints: with those that clash, or the smallest budget that would do; if
        fewer times are known than the bounds ask for.
    ModelError
        If times are not finite or not positive.
    ConfigurationError, ScheduleError
        If the coupling cannot be read, or has no schedule.
    """
    solved = []
    for problem in parts_of(times, budget, coupling, constraints):
        solver, curves = Solver(problem), problem.curves()
        solution = solver.solve(curves)
        choice = solver.leftover(curves, solution.choice)
        slowest_first = sorted(costs_at(solver.weighted(curves), np.array([choice]))[0].tolist(), reverse=True)
        solved.append((solver.seconds(curves, choice), slowest_first, solution, problem, ranks_of(curves, choice)))
    seconds, _, solution, problem, ranks = min(solved, key=lambda entry: entry[:2])
    bound = min(entry[2].bound for entry in solved)
    # Less is rounding.
    gap = seconds / bound - 1.0 if seconds > bound * (1 + 1e-12) else 0.0
    return _result(problem, ranks, seconds, gap, solution.proof)


def _result(problem: Problem, split: Sequence[int], seconds: float, gap: float, proof: str) -> SplitResult:
    """Say everything about a split, counts as ranks."""
    machine, names = problem.machine, list(problem.options)
    counts = dict(zip(names, split, strict=True))
    places = {name: option.ranks.searchsorted(counts[name]) for name, option in problem.options.items()}
    costs = {name: float(option.seconds[0, places[name]]) for name, option in problem.options.items()}
    return SplitResult(
        split=counts,
        window_seconds=seconds,
        waits={name: float(wait) for name, wait in problem.schedule.waits(costs).items()},
        compute_seconds=costs,
        critical_cycle=problem.schedule.critical_cycle(costs),
        gap=gap,
        proof=proof,
        versions=problem.versions,
        used={
            "ranks": sum(
                machine.layouts(name, problem.versions.get(name, "")).of(counts[name]).ranks for name in names
            ),
            **machine.used(np.sum([option.uses[places[name]] for name, option in problem.options.items()], axis=0)),
        },
    )


def near_optimal_splits(
    times: Mapping[str, Times | Mapping[str, Times]],
    budget: int,
    *,
    coupling: Coupling = "parallel",
    within: float = 0.05,
    count: int = 10,
    constraints: Constraints | None = None,
) -> list[SplitResult]:
    """List the best splits whose window time is within a share of the best one's, best first.

    Counts at which a participant is no faster than with fewer are left out. Among a hundred thousand ranks the best
    splits differ by single ranks: ask for multiples or whole nodes in the constraints.

    Parameters
    ----------
    times, budget, coupling, constraints
        As for `optimize_split`.
    within
        By what share the window may be longer than the best one: 0.05 is 5 %.
    count
        Number of splits to give at most.

    Returns
    -------
    list of SplitResult
        Of each, `gap` is the share by which its window is longer than the best one's (plus what is not proven of
        that).

    Raises
    ------
    InfeasibleError, ModelError
        As `optimize_split`; if `within` or `count` are out of range.
    """
    if not within >= 0 or count < 1:
        raise ModelError(f"expected within of at least 0 and a count of at least 1, found {within!r} and {count!r}")
    problems = parts_of(times, budget, coupling, constraints=constraints)
    solvers = [(problem, Solver(problem), problem.curves()) for problem in problems]
    best = [solver.solve(curves) for _, solver, curves in solvers]
    least, bound = min(solution.seconds for solution in best), min(solution.bound for solution in best)
    near: list[tuple[float, list[int], Problem]] = []
    proof = "boxes"
    for problem, solver, curves in solvers:
        splits, is_complete = solver.several(curves, count, least * (1 + within) * (1 + 1e-12))
        near += [(seconds, ranks_of(curves, choice), problem) for seconds, choice in splits]
        proof = proof if is_complete else "relaxation"
    return [
        _result(problem, ranks, seconds, max(seconds / bound - 1.0, 0.0), proof)
        for seconds, ranks, problem in sorted(near, key=lambda entry: entry[0])[:count]
    ]


#: Budgets that are solved for one by one.
BUDGETS = 64
# Up to this budget all of them are looked at once, where the slowest participant sets the window time.
_SWEPT = 4096
# How far below the line a knee is at least: whole ranks make smaller dents.
_KNEE = 0.02


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
    def knee(self) -> TradeoffPoint | None:
        """Where more cores begin to pay less: the point farthest below the line from the cheapest to the last one.

        On logarithmic axes, where perfect scaling is a straight line (V. Satopää et al., Finding a "Kneedle" in a
        haystack, 2011, for a curve that is known exactly). None where none is 2 % below.
        """
        cheapest = min(range(len(self.points)), key=lambda i: self.points[i].core_hours)
        points = self.points[cheapest:]
        cores = np.log([point.cores for point in points])
        seconds = np.log([point.window_seconds for point in points])
        if len(points) < 3 or cores[-1] <= cores[0]:
            return None
        share = (cores - cores[0]) / (cores[-1] - cores[0])
        below = seconds[0] + share * (seconds[-1] - seconds[0]) - seconds
        bend = int(np.argmax(below))
        return points[bend] if below[bend] > _KNEE else None

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
        weight = weight_of_time(prefer)
        price = [weight * math.log(p.window_seconds) + (1 - weight) * math.log(p.core_hours) for p in self.points]
        return self.points[min(range(len(price)), key=lambda i: (round(price[i], 12), self.points[i].cores))]


def weight_of_time(prefer: Literal["time", "cost"] | float) -> float:
    """Weight of time against core-hours, from 0 to 1; any other preference is refused."""
    weight = {"time": 1.0, "cost": 0.0}.get(prefer, -1.0) if isinstance(prefer, str) else float(prefer)
    if not 0 <= weight <= 1:
        raise ModelError(f'expected a preference of "time", "cost" or a number from 0 to 1, found {prefer!r}')
    return weight


def tradeoff_curve(
    times: Mapping[str, Times | Mapping[str, Times]],
    budget: int,
    *,
    coupling: Coupling = "parallel",
    constraints: Constraints | None = None,
) -> TradeoffCurve:
    """Optimise for every budget up to a largest one.

    For all of them where the slowest participant sets the window time and there are at most 4096, and wherever there
    are at most 64; else for 64 of them in equal ratios.

    Parameters
    ----------
    times, coupling, constraints
        As for `optimize_split`.
    budget
        The largest budget.

    Returns
    -------
    TradeoffCurve

    Raises
    ------
    InfeasibleError, ModelError
        As `optimize_split`.
    """
    problems = parts_of(times, budget, coupling, constraints=constraints)
    machine = problems[0].machine
    needed = [machine.budget_for(problem.least) or 0 for problem in problems]
    if problems[0].schedule.is_maximum and len(machine.capacity) == 1 and budget <= _SWEPT:
        swept = [point for problem in problems for point in _sweep(problem)]
        return TradeoffCurve(_fastest(sorted(swept, key=lambda point: (point.cores, point.window_seconds))))
    rungs = np.unique(np.geomspace(min(needed), budget, BUDGETS).round().astype(int))
    if budget - min(needed) < BUDGETS:
        rungs = np.arange(min(needed), budget + 1)
    points = []
    for rung in rungs.tolist():
        solutions = []
        for problem in (problem for problem, least in zip(problems, needed, strict=True) if least <= rung):
            curves = problem.curves()
            solutions.append((Solver(problem, rung, quick=True).solve(curves), problem, curves))
        solution, problem, curves = min(solutions, key=lambda entry: entry[0].seconds)
        gap = solution.seconds / min(other.bound for other, _, _ in solutions) - 1.0
        points.append(_point(problem, curves, solution.choice, solution.seconds, max(gap, 0.0)))
    return TradeoffCurve(_fastest(points))


def _sweep(problem: Problem) -> list[TradeoffPoint]:
    """Find the smallest counts for every makespan that the curves know and the machine allows."""
    curves, solver = problem.curves(), Solver(problem)
    weighted = solver.weighted(curves)
    spans = np.unique(np.concatenate([curve.seconds for curve in weighted]))
    spans = spans[spans >= max(curve.seconds[-1] for curve in weighted)]
    indices = np.stack([np.searchsorted(-curve.seconds, -spans) for curve in weighted], axis=1)
    totals = problem.machine.total(uses_at(curves, indices))[:, 0]
    # Of makespans that need the same the shortest; the longest first.
    fits = np.flatnonzero(totals <= problem.machine.capacity[0])
    _, first = np.unique(totals[fits], return_index=True)
    choices = [tuple(indices[index].tolist()) for index in fits[first]]
    return [_point(problem, curves, choice, solver.seconds(curves, choice)) for choice in choices]


def _fastest(every: Sequence[TradeoffPoint]) -> tuple[TradeoffPoint, ...]:
    """Leave out points that are no faster than a cheaper one."""
    points: list[TradeoffPoint] = []
    for point in every:
        while points and points[-1].cores >= point.cores and points[-1].window_seconds >= point.window_seconds:
            points.pop()
        if not points or points[-1].window_seconds > point.window_seconds * (1 + 1e-12):
            points.append(point)
    cheapest = min(point.core_hours for point in points)
    return tuple(replace(point, efficiency=cheapest / point.core_hours) for point in points)


def _point(
    problem: Problem, curves: Sequence[Curve], choice: Choice, seconds: float, gap: float = 0.0
) -> TradeoffPoint:
    total = problem.machine.total(uses_at(curves, choice))
    cores = problem.machine.cores(total)
    return TradeoffPoint(
        budget=problem.machine.budget_for(total) or 0,
        split=dict(zip(problem.options, ranks_of(curves, choice), strict=True)),
        versions=problem.versions,
        cores=cores,
        window_seconds=seconds,
        core_hours=seconds * cores / 3600.0,
        efficiency=1.0,
        gap=gap,
    )
