"""The splits next to the best one: people round to nodes."""

from __future__ import annotations

from collections.abc import Mapping

from precice_lb.exceptions import ModelError
from precice_lb.schedule import Schedule
from precice_lb.split.constraints import Constraints
from precice_lb.split.optimize import result_of
from precice_lb.split.problem import Problem, Times, problem_of
from precice_lb.split.result import SplitResult
from precice_lb.split.sampled import solve_samples
from precice_lb.split.solve import Solver

__all__ = ["near_optimal_splits"]

# With samples so many times the splits asked for are compared, from those best for the mean times.
_MORE = 20


def near_optimal_splits(
    times: Mapping[str, Times | Mapping[str, Times]],
    budget: int,
    *,
    schedule: Schedule,
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
    times, budget, schedule, minimum_ranks, maximum_ranks, constraints
        As for `optimize_split`.
    within
        By what share the window may be longer than the best one: 0.05 is 5 %.
    count
        Number of splits to give at most.

    Returns
    -------
    list of SplitResult
        Of each, `gap` is the share by which its window is longer than the best one's (plus what is not proven of
        that). With samples of the times the list is of the best splits known, not proven complete.

    Raises
    ------
    InfeasibleError, ModelError
        As `optimize_split`; if `within` or `count` are out of range.
    """
    if not within >= 0 or count < 1:
        raise ModelError(f"expected within of at least 0 and a count of at least 1, found {within!r} and {count!r}")
    problem = problem_of(times, budget, schedule, minimum_ranks, maximum_ranks, constraints)
    solver, curves = Solver(problem), problem.curves()
    best = solver.solve(curves)
    if problem.samples > 1:
        return _sampled(problem, solver, within, count)
    found, complete = solver.several(curves, count, best.seconds * (1 + within) * (1 + 1e-12))
    proof = "all better ones are listed" if complete else "better ones may be missing"
    return [
        result_of(
            problem,
            {name: (curves[name][v].version, int(curves[name][v].ranks[i])) for name, (v, i) in choice.items()},
            seconds,
            max(seconds / best.bound - 1.0, 0.0),
            proof,
        )
        for seconds, choice in found
    ]


def _sampled(problem: Problem, solver: Solver, within: float, count: int) -> list[SplitResult]:
    best = solve_samples(problem)
    curves = problem.curves()
    limit = solver.solve(curves).seconds * (1 + 2 * within) + 1e-300
    near, _ = solver.several(curves, _MORE * count, limit)
    splits = [best.split]
    for _, choice in near:
        split = {n: (curves[n][v].version, int(curves[n][v].ranks[i])) for n, (v, i) in choice.items()}
        splits += [split] if split not in splits else []
    entries = [(problem.window_seconds(split), split) for split in splits]
    entries.sort(key=lambda entry: entry[0])
    least = entries[0][0]
    return [
        result_of(problem, split, seconds, seconds / least - 1.0, "of the splits that were compared")
        for seconds, split in entries[:count]
        if seconds <= least * (1 + within) * (1 + 1e-12)
    ]
