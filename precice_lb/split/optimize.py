"""The door of this room: from times and a budget to the best split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from precice_lb.exceptions import ModelError
from precice_lb.schedule import Schedule
from precice_lb.split.brute import MAXIMUM_SPLITS, best_of_all, count_splits
from precice_lb.split.constraints import Constraints
from precice_lb.split.excluded import without_excluded
from precice_lb.split.problem import Options, Problem, Times, problem_of
from precice_lb.split.result import SplitResult
from precice_lb.split.sampled import solve_samples
from precice_lb.split.solve import Solver

__all__ = ["optimize_split"]


def optimize_split(
    times: Mapping[str, Times | Mapping[str, Times]],
    budget: int,
    *,
    schedule: Schedule,
    minimum_ranks: int | Mapping[str, int] = 1,
    maximum_ranks: Mapping[str, int] | None = None,
    constraints: Constraints | None = None,
    verify: bool = False,
) -> SplitResult:
    """Find the split with the shortest time window, exactly.

    If the schedule makes the window time a maximum over the participants, by bisection on it (any number of
    participants and ranks). Otherwise by branch and bound over the counts that a linear relaxation leaves (sums,
    mixtures of sums and maxima, any composition of schemes); where these have too many boxes to bound the gap is above
    0. Ranks left over make the slowest participant
    faster that can still get faster, then the next.

    Parameters
    ----------
    times
        Compute seconds per window of each participant: an array whose entry p - 1 belongs to p ranks, which then bounds
        the ranks by its length, or a function from an array of rank counts to an array of seconds; times need not fall.
        A leading axis holds samples, as many for all who have them: then the mean window time over the samples counts.
        A participant that may run as one of several versions (CPU or GPU) has a mapping from version to times.
    budget
        Ranks to give out in all, or cores or nodes where the constraints say so.
    schedule
        How the coupling turns compute seconds into the window time.
    minimum_ranks
        Ranks that a participant gets at least, one number for all or one for each.
    maximum_ranks
        Ranks that a participant gets at most.
    constraints
        Everything else that machine and users demand.
    verify
        Compare with all splits where there are at most a few millions.

    Returns
    -------
    SplitResult
        The split, with gap 0 where no other one is better.

    Raises
    ------
    InfeasibleError
        If no split satisfies budget and constraints: with those that clash, or the smallest budget that would do.
    ModelError
        If times are missing, not finite or not positive; if `verify` finds a better split, which is a defect.
    """
    problem = problem_of(times, budget, schedule, minimum_ranks, maximum_ranks, constraints)
    parts = without_excluded(problem)
    solved = [_solved(part) for part in parts]
    split, seconds, _, proof = min(solved, key=lambda each: each[1])
    bound = min(each[2] for each in solved)
    if len(parts) > 1:
        proof += f"; {len(parts)} sets of splits, without those excluded, were solved one by one"
    # Less is rounding.
    gap = seconds / bound - 1.0 if seconds > bound * (1 + 1e-12) else 0.0
    return result_of(problem, split, seconds, gap, proof, _verified(parts, seconds, gap) if verify else "")


def _solved(problem: Problem) -> tuple[dict[str, tuple[str, int]], float, float, str]:
    """Give the best split, its seconds, what no split is below, and why."""
    if problem.samples > 1:
        found = solve_samples(problem)
        return found.split, found.seconds, found.bound, found.proof
    solver, curves = Solver(problem), problem.curves()
    solution = solver.solve(curves)
    choice = solver.leftover(curves, solution.choice)
    split = {name: (curves[name][v].version, int(curves[name][v].ranks[i])) for name, (v, i) in choice.items()}
    return split, solver.seconds(curves, choice), solution.bound, solution.proof


def result_of(
    problem: Problem, split: Mapping[str, tuple[str, int]], seconds: float, gap: float, proof: str, verified: str = ""
) -> SplitResult:
    """Say everything about a split, given as version and ranks of each participant."""
    schedule = problem.schedule
    chosen = {name: _option(problem, name, version) for name, (version, _) in split.items()}
    at = {name: int(np.searchsorted(o.ranks, split[name][1])) for name, o in chosen.items()}
    samples = {name: o.seconds[:, at[name]] for name, o in chosen.items()}
    own = {name: float(values.mean()) for name, values in samples.items()}
    total = problem.layout.total(np.stack([o.uses[at[name]] for name, o in chosen.items()]))
    used = {"ranks": sum(ranks for _, ranks in split.values()), "cores": problem.machine.cores(total)}
    if problem.machine.unit == "nodes":
        used["nodes"] = problem.machine.budget_for(total) or 0
    if problem.machine.has_gpus:
        used["gpus"] = int(total[1])
    return SplitResult(
        split={name: ranks for name, (_, ranks) in split.items()},
        window_seconds=seconds,
        waits={name: float(wait.mean()) for name, wait in schedule.waits(samples).items()},
        compute_seconds=own,
        critical_cycle=schedule.critical_cycle(own),
        gap=gap,
        bound=proof,
        versions={name: version for name, (version, _) in split.items() if version},
        used=used,
        limits=_limits(chosen),
        verified=verified,
    )


def _limits(chosen: Mapping[str, Options]) -> dict[str, int]:
    last = {name: int(np.argmin(option.seconds.mean(axis=0))) for name, option in chosen.items()}
    return {name: int(o.ranks[last[name]]) for name, o in chosen.items() if last[name] + 1 < len(o.ranks)}


def _option(problem: Problem, name: str, version: str) -> Options:
    return next(o for o in problem.options[name] if o.version == version)


def _verified(parts: Sequence[Problem], seconds: float, gap: float) -> str:
    count = sum(map(count_splits, parts))
    if count * parts[0].samples > MAXIMUM_SPLITS:
        return f"not compared with all splits: {count:.3g} are too many"
    every = [best_of_all(part) for part in parts]
    best, split, _ = min(every, key=lambda each: each[0])
    compared = sum(each[2] for each in every)
    if seconds > best * (1 + gap) * (1 + 1e-9):
        found = ", ".join(f"{name} {ranks}" for name, (_, ranks) in split.items())
        raise ModelError(
            f"expected no split below {seconds!r} s, found {best!r} s at {found}; please report this defect"
        )
    return f"none of {compared} splits is shorter"
