"""Campaigns on many cases, in several processes."""

from __future__ import annotations

import contextlib
import multiprocessing
import time
from dataclasses import dataclass, replace

import numpy as np
from regret_parts.families import FAMILIES
from threadpoolctl import threadpool_limits

from campaign_parts.cases import LEAST, Case, draw_case
from precice_lb.campaign import CalibrationDesign
from precice_lb.exceptions import InfeasibleError
from precice_lb.recommend.limits import in_proportion
from precice_lb.split import Constraints
from precice_lb.split.admissible import limits_of

__all__ = ["CONTESTANTS", "Campaign", "Result", "simulate"]

CONTESTANTS = ("adaptive", "fixed", "equal cost")
# Ratio of most to least in the first splits of the fixed design.
SPREAD = 3.0
# A campaign of equal cost makes so many runs at most.
MOST_RUNS = 24


@dataclass(frozen=True)
class Campaign:
    """What came of one campaign: true and stated regret, core-hours, runs, CPU seconds of the choices."""

    regret: float
    stated: float
    cost: float
    runs: int
    seconds: float


@dataclass(frozen=True)
class Result:
    """Campaigns of one number of participants and one budget; by contestant and case, in the same order."""

    participants: int
    budget: int
    noise: tuple[float, ...]
    seed: int
    families: tuple[str, ...]
    campaigns: dict[str, list[Campaign]]


def simulate(
    participants: int,
    budget: int,
    *,
    cases: int,
    noise: tuple[float, ...],
    runs: int,
    equal_cost: bool,
    seed: int,
    jobs: int,
) -> Result:
    """Let contestants make campaigns on the same cases.

    Parameters
    ----------
    participants, budget
        Solvers of a case, and ranks in all.
    cases
        Of each family.
    noise
        Relative standard deviation, of all solvers or of each in turn.
    runs
        Of the adaptive and of the fixed campaign.
    equal_cost
        Whether there is one with the core-hours of the fixed one too.
    seed
        The same seed gives the same cases and random numbers.
    jobs
        Processes.
    """
    tasks = [
        (family, participants, budget, noise, runs, equal_cost, seed, index)
        for index in range(cases)
        for family in range(len(FAMILIES))
    ]
    if jobs == 1:
        done = [_run(task) for task in tasks]
    else:
        with multiprocessing.get_context("spawn").Pool(jobs, threadpool_limits, (1,)) as pool:
            done = pool.map(_run, tasks, chunksize=2)
    names = CONTESTANTS if equal_cost else CONTESTANTS[:2]
    campaigns = {name: [each[name] for each in done] for name in names}
    return Result(participants, budget, noise, seed, tuple(FAMILIES[task[0]].name for task in tasks), campaigns)


def _run(task: tuple[int, int, int, tuple[float, ...], int, bool, int, int]) -> dict[str, Campaign]:
    family, participants, budget, noise, runs, equal_cost, seed, index = task
    case = draw_case(FAMILIES[family], participants, budget, noise, seed, index)
    found = {"adaptive": _adaptive(case, runs, float("inf")), "fixed": _fixed(case, runs)}
    if equal_cost:
        found["equal cost"] = _adaptive(case, MOST_RUNS, found["fixed"].cost)
    return found


def _design(case: Case) -> CalibrationDesign:
    return CalibrationDesign(case.names, case.budget, minimum=LEAST, maximum_runs=MOST_RUNS, target_regret=-1.0)


def _adaptive(case: Case, runs: int, core_hours: float) -> Campaign:
    """Ask and tell; a run that exceeds the core-hours is not made any more."""
    design = _design(case)
    start = time.process_time()
    cost = 0.0
    while design.runs < runs and (split := design.ask()) is not None:
        if cost + case.cost(split) > core_hours:
            break
        cost += case.cost(split)
        design.tell(split, case.run(split, design.runs))
    return _judged(case, design, cost, start)


def _fixed(case: Case, runs: int) -> Campaign:
    design = _design(case)
    start = time.process_time()
    splits = fixed_splits(case, runs)
    for number, split in enumerate(splits):
        design.tell(split, case.run(split, number))
    return _judged(case, design, sum(map(case.cost, splits)), start)


def fixed_splits(case: Case, runs: int) -> list[dict[str, int]]:
    """Give the fixed design: the five splits of two solvers, else splits spread by `spread_splits`."""
    if len(case.names) == 2 and runs == 5:
        first = [case.budget * part // 16 for part in (1, 4, 8, 12, 15)]
        return [{"A": p, "B": case.budget - p} for p in first]
    return spread_splits(case, runs)


def spread_splits(case: Case, count: int) -> list[dict[str, int]]:
    """Give the even split, then those whose shares are in geometric progression, with the most for each in turn.

    Then again with the square of the ratio, and so on. Fewer than ``count`` only where no more exist.
    """
    low, high = (dict.fromkeys(case.names, ranks) for ranks in (LEAST, case.budget))
    limits = limits_of(tuple(case.names), case.budget, Constraints(minimum=low, maximum=high))
    shape = np.linspace(-0.5, 0.5, len(case.names))
    splits: list[dict[str, int]] = []
    for number in range(count):
        weights = SPREAD ** (np.roll(shape, number) * -(-number // len(shape)))
        free = replace(limits.constraints, excluded=tuple(splits))
        with contextlib.suppress(InfeasibleError):
            splits.append(in_proportion(limits, dict(zip(case.names, weights.tolist(), strict=True)), free)[1])
    return splits


def _judged(case: Case, design: CalibrationDesign, cost: float, start: float) -> Campaign:
    split = design.recommendation().split
    stated = design.expected_regret
    return Campaign(case.regret(split), stated, cost, design.runs, time.process_time() - start)
