"""The splits next to the best one: people round to nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from precice_lb.exceptions import ModelError
from precice_lb.schedule import Schedule
from precice_lb.schedule.named import Coupling
from precice_lb.split.constraints import Constraints
from precice_lb.split.excluded import without_excluded
from precice_lb.split.optimize import result_of
from precice_lb.split.problem import Curves, Problem, Times, problem_of, split_of
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
        that). With samples of the times the list is of the best splits known, not proven complete.

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
    if problem.samples > 1:
        return _sampled(problem, parts, least, within, count)
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


def _sampled(
    problem: Problem, parts: Sequence[tuple[Solver, Curves]], shortest: float, within: float, count: int
) -> list[SplitResult]:
    splits = []
    for solver, curves in parts:
        near, _ = solver.several(curves, _MORE * count, shortest * (1 + 2 * within) + 1e-300)
        for split in (solve_samples(solver.problem)[0], *(split_of(curves, choice) for _, choice in near)):
            splits += [split] if split not in splits else []
    entries = [(problem.window_seconds(split), split) for split in splits]
    entries.sort(key=lambda entry: entry[0])
    least = entries[0][0]
    return [
        result_of(problem, split, seconds, seconds / least - 1.0, "of the splits that were compared")
        for seconds, split in entries[:count]
        if seconds <= least * (1 + within) * (1 + 1e-12)
    ]
