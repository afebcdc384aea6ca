"""What campaigns lose after each of their runs, on random or simulated solvers and on published curves."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from regret_parts.curves import draw_curve_pair, load_curves
from regret_parts.families import FAMILIES
from simulated_parts.curves import draw_pair
from simulated_parts.curves import load_curves as load_simulated
from threadpoolctl import threadpool_limits

from campaign_parts.cases import LEAST, draw_case
from precice_lb.campaign import CalibrationDesign
from precice_lb.split import Machine

__all__ = ["SETS", "course_text", "courses"]

Array = NDArray[np.float64]

NAMES = ("A", "B")
# Of the simulated solvers, whose ranks are given out in blocks of so many.
BLOCK = 4
# Relative, of readings; that of random solvers is of 5 %.
NOISE, NOISE_OF_RANDOM = 0.03, 0.05


@dataclass(frozen=True)
class Pair:
    """Two solvers with known truth: of so many blocks of ranks, either may have as many as ``bounds`` say."""

    solvers: Sequence[Callable[[Array], Array]]
    blocks: int
    bounds: tuple[int, int]
    noise: float
    #: Standard normal deviates, shape (2, runs).
    draws: Array
    block: int = 1
    machine: Machine | None = None


def _random(budget: int, seed: int, index: int) -> Pair:
    family = FAMILIES[index % len(FAMILIES)]
    case = draw_case(family, 2, budget, (NOISE_OF_RANDOM,), seed, index // len(FAMILIES))
    return Pair(case.solvers, budget, (LEAST, budget - LEAST), NOISE_OF_RANDOM, case.draws)


def _simulated(budget: int, seed: int, index: int) -> Pair:
    pair = draw_pair(load_simulated(), budget // BLOCK, BLOCK, seed, index, NOISE, 5)
    machine = Machine(cores_per_node=pair.cores_per_node, multiple=BLOCK)
    bounds = 1, budget // BLOCK - 1
    return Pair(pair.solvers, budget // BLOCK, bounds, NOISE, _draws(seed, index, budget), BLOCK, machine)


def _published(_: int, seed: int, index: int) -> Pair:
    """Curves over the whole range of ranks that both span, which is the budget too."""
    pair = draw_curve_pair(load_curves(), seed, index, NOISE)
    budget = int(pair.start * pair.span)
    return Pair(pair.solvers, budget, pair.bounds(budget, free=True), NOISE, _draws(seed, index, budget))


def _draws(*seed: int) -> Array:
    return np.random.default_rng([*seed, 7]).standard_normal((2, 64))


#: By name; published pairs have budgets of their own.
SETS: dict[str, Callable[[int, int, int], Pair]] = {
    "seen": _random,
    "simulated": _simulated,
    "published": _published,
}


def courses(name: str, budget: int, *, cases: int, runs: int, stops: bool, seed: int, jobs: int) -> list[Array]:
    """Let `CalibrationDesign` make campaigns.

    Parameters
    ----------
    name, budget
        The set, and the ranks in all.
    cases
        How many.
    runs
        Of a campaign, at most.
    stops
        Whether a campaign ends where another run is not worth it.
    seed
        The same seed gives the same cases and random numbers.
    jobs
        Processes.

    Returns
    -------
    list of array of shape (runs, 3)
        After each run: regret of the recommended split, of the best one that ran, and core-hours spent, in those of
        a run at the best split with the whole budget.
    """
    tasks = [(name, budget, runs, stops, seed, index) for index in range(cases)]
    with multiprocessing.get_context("spawn").Pool(jobs, threadpool_limits, (1,)) as pool:
        return [each for each in pool.starmap(_course, tasks, chunksize=2) if len(each)]


def _course(name: str, budget: int, runs: int, stops: bool, seed: int, index: int) -> Array:
    pair = SETS[name](budget, seed, index)
    (low, high), blocks = pair.bounds, pair.blocks
    if blocks < 2 * low + 2:
        return np.empty((0, 3))
    seconds = [np.asarray(solver(np.arange(low, high + 1.0))) for solver in pair.solvers]
    first, second = map(np.minimum.accumulate, seconds)
    ranks = np.arange(low, min(high, blocks - low) + 1)
    best = float(np.maximum(first[ranks - low], second[np.minimum(blocks - ranks, high) - low]).min())

    def true(split: dict[str, int]) -> list[float]:
        return [float(of[split[name] // pair.block - low]) for of, name in zip(seconds, NAMES, strict=True)]

    words: dict[str, Any] = {} if stops else {"target_regret": -1.0}
    most = dict.fromkeys(NAMES, high * pair.block)
    design = CalibrationDesign(
        NAMES, blocks * pair.block, minimum=low * pair.block, maximum=most, machine=pair.machine,
        maximum_runs=runs, **words,
    )  # fmt: skip
    rows: list[tuple[float, float, float]] = []
    measured, spent = np.inf, 0.0
    while (split := design.ask()) is not None:
        window = max(true(split))
        errors = 1 + pair.noise * pair.draws[:, design.runs]
        design.tell(split, dict(zip(NAMES, (np.array(true(split)) * errors).tolist(), strict=True)))
        measured = min(measured, window / best - 1)
        spent += window * sum(split.values()) / (best * blocks * pair.block)
        rows.append((max(true(design.recommendation().split)) / best - 1, measured, spent))
    return np.array(rows)


def course_text(name: str, budget: int, found: Sequence[Array], after: Sequence[int]) -> str:
    """Give the figures as a table to read; a campaign that has ended counts with its last run."""
    place = name if name == "published" else f"{name}, P = {budget}"
    lines = [f"{place}: {len(found)} campaigns of {np.mean([len(each) for each in found]):.1f} runs"]
    for runs in after:
        rows = np.array([each[min(runs, len(each)) - 1] for each in found])
        regret, error = 100 * rows.mean(axis=0), 100 * rows.std(axis=0) / np.sqrt(len(rows))
        lines.append(
            f"  after {runs} runs: {regret[0]:.2f} ± {error[0]:.2f} %; best one measured {regret[1]:.2f} "
            f"± {error[1]:.2f} %; core-hours {rows[:, 2].mean():.1f}"
        )
    return "\n".join(lines)
