"""The doors of this package: from times and a budget to the best split, and to those next to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from precice_lb.case.machine import Constraints
from precice_lb.exceptions import ModelError
from precice_lb.schedule import Schedule
from precice_lb.schedule.schedule import Coupling
from precice_lb.split.problem import Problem, Split, Times, problem_of, split_of, without_excluded
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
    bound
        What proves it, in words.
    versions
        The chosen version of each participant that has several.
    used
        What the split occupies: ``ranks``, ``cores`` (as charged: those of whole nodes where the budget counts nodes),
        and ``nodes`` and ``gpus`` where they matter.
    limits
        Scalability limits: ranks from which on a participant gets no faster by any more that the budget admits, where
        there is such a number.
    """

    split: dict[str, int]
    window_seconds: float
    waits: dict[str, float]
    compute_seconds: dict[str, float]
    critical_cycle: tuple[str, ...]
    gap: float
    bound: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    used: dict[str, int] = field(default_factory=dict)
    limits: dict[str, int] = field(default_factory=dict)


def optimize_split(
    times: Mapping[str, Times | Mapping[str, Times]],
    budget: int,
    *,
    coupling: Coupling = "parallel",
    schedule: Schedule | None = None,
    minimum_ranks: int | Mapping[str, int] = 1,
    maximum_ranks: Mapping[str, int] | None = None,
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
    schedule
        Earlier name of ``coupling``.
    minimum_ranks
        Ranks that a participant gets at least, one number for all or one for each.
    maximum_ranks
        Ranks that a participant gets at most.
    constraints
        Everything else that machine and users demand.

    Returns
    -------
    SplitResult
        The split, with gap 0 where no other one is better.

    Raises
    ------
    InfeasibleError
        If no split satisfies budget and constraints: with those that clash, or the smallest budget that would do.
    ModelError
        If times are missing, not finite or not positive.
    ConfigurationError, ScheduleError
        If the coupling cannot be read, or has no schedule.
    """
    problem = problem_of(times, budget, schedule or coupling, minimum_ranks, maximum_ranks, constraints)
    parts = without_excluded(problem)
    solved = [_solved(part) for part in parts]
    split, seconds, _, proof = min(solved, key=lambda each: each[1])
    bound = min(each[2] for each in solved)
    if len(parts) > 1:
        proof += f"; {len(parts)} sets of splits, without those excluded, were solved one by one"
    # Less is rounding.
    gap = seconds / bound - 1.0 if seconds > bound * (1 + 1e-12) else 0.0
    return result_of(problem, split, seconds, gap, proof)


def _solved(problem: Problem) -> tuple[Split, float, float, str]:
    """Give the best split, its seconds, what no split is below, and why."""
    solver, curves = Solver(problem), problem.curves()
    solution = solver.solve(curves)
    choice = solver.leftover(curves, solution.choice)
    return split_of(curves, choice), solver.seconds(curves, choice), solution.bound, solution.proof


def result_of(problem: Problem, split: Split, seconds: float, gap: float, proof: str) -> SplitResult:
    """Say everything about a split."""
    schedule, chosen = problem.schedule, problem.at(split)
    own = {name: float(o.seconds[0, at]) for name, (o, at) in chosen.items()}
    fastest = {name: int(np.argmin(o.seconds[0])) for name, (o, _) in chosen.items()}
    total = problem.layout.total(np.stack([o.uses[at] for o, at in chosen.values()]))
    layouts = {name: problem.constraints.of("layouts", name, version) for name, (version, _) in split.items()}
    ranks = sum(count if layouts[n] is None else layouts[n].of(count).ranks for n, (_, count) in split.items())
    used = {"ranks": ranks, **problem.machine.used(total)}
    return SplitResult(
        split={name: ranks for name, (_, ranks) in split.items()},
        window_seconds=seconds,
        waits={name: float(wait) for name, wait in schedule.waits(own).items()},
        compute_seconds=own,
        critical_cycle=schedule.critical_cycle(own),
        gap=gap,
        bound=proof,
        versions={name: version for name, (version, _) in split.items() if version},
        used=used,
        limits={n: int(o.ranks[fastest[n]]) for n, (o, _) in chosen.items() if fastest[n] + 1 < len(o.ranks)},
    )


def near_optimal_splits(
    times: Mapping[str, Times | Mapping[str, Times]],
    budget: int,
    *,
    coupling: Coupling = "parallel",
    schedule: Schedule | None = None,
    within: float = 0.05,
    count: int = 10,
    minimum_ranks: int | Mapping[str, int] = 1,
    maximum_ranks: Mapping[str, int] | None = None,
    constraints: Constraints | None = None,
) -> list[SplitResult]:
    """List the best splits whose window time is within a share of the best one's, best first.

    Counts at which a participant is no faster than with fewer are left out. Among a hundred thousand ranks the best
    splits differ by single ranks: ask for multiples or whole nodes in the constraints.

    Parameters
    ----------
    times, budget, coupling, schedule, minimum_ranks, maximum_ranks, constraints
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
    problem = problem_of(times, budget, schedule or coupling, minimum_ranks, maximum_ranks, constraints)
    parts = [(Solver(part), part.curves()) for part in without_excluded(problem)]
    best = [solver.solve(curves) for solver, curves in parts]
    least, bound = min(each.seconds for each in best), min(each.bound for each in best)
    listed = [solver.several(curves, count, least * (1 + within) * (1 + 1e-12)) for solver, curves in parts]
    proof = "all better ones are listed" if all(complete for _, complete in listed) else "better ones may be missing"
    found = [
        (seconds, split_of(curves, choice))
        for (_, curves), (near, _) in zip(parts, listed, strict=True)
        for seconds, choice in near
    ]
    return [
        result_of(problem, split, seconds, max(seconds / bound - 1.0, 0.0), proof)
        for seconds, split in sorted(found, key=lambda each: each[0])[:count]
    ]
