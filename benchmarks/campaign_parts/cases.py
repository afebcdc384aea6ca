"""Coupled solvers with known truth, and runs of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from regret_parts.families import Family, Solver
from regret_parts.readings import draw_pair

from precice_lb.schedule import Schedule
from precice_lb.split import Constraints, optimize_split

__all__ = ["LEAST", "Case", "draw_case"]

Array = NDArray[np.float64]

#: Ranks that a solver gets at least.
LEAST = 2
# Runs of a campaign at most.
DICE = 64


@dataclass(frozen=True)
class Case:
    """Solvers, a budget, and the common random numbers of the runs.

    Attributes
    ----------
    solvers
        The truth.
    budget
        Ranks in all.
    noise
        Of each solver, relative standard deviation.
    draws
        Standard normal deviates, shape (solvers, runs): the same for whoever makes the k-th run.
    """

    solvers: tuple[Solver, ...]
    budget: int
    noise: tuple[float, ...]
    draws: Array
    names: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple("ABCDEFGH"[: len(self.solvers)]))

    def window(self, split: dict[str, int]) -> float:
        """Give the true seconds per window: the slowest solver's."""
        return max(self._true(split).values())

    def run(self, split: dict[str, int], number: int) -> dict[str, float]:
        """Seconds per window of each solver as the run of this number, from 0, reads them."""
        errors = self.noise * self.draws[:, number]
        return {name: s * (1 + e) for (name, s), e in zip(self._true(split).items(), errors, strict=True)}

    def cost(self, split: dict[str, int]) -> float:
        """Core-hours of a run at a split, in those of a run at the best one."""
        return self.window(split) * sum(split.values()) / (self.best * self.budget)

    def regret(self, split: dict[str, int]) -> float:
        """Give the true window time of a split over that of the best one, minus 1."""
        return self.window(split) / self.best - 1

    @cached_property
    def best(self) -> float:
        """Least window time of any split of the budget, or less."""
        ranks = np.arange(1, self.budget + 1, dtype=np.float64)
        times = {name: solver(ranks) for name, solver in zip(self.names, self.solvers, strict=True)}
        schedule = Schedule.parallel(self.names)
        return optimize_split(
            times, self.budget, coupling=schedule, constraints=Constraints(minimum=LEAST)
        ).window_seconds

    def _true(self, split: dict[str, int]) -> dict[str, float]:
        each = zip(self.names, self.solvers, strict=True)
        return {name: float(solver(np.array([float(split[name])]))[0]) for name, solver in each}


def draw_case(family: Family, participants: int, budget: int, noise: tuple[float, ...], seed: int, index: int) -> Case:
    """Draw solvers of one family; two are the pair of the regret benchmark with this seed and index."""
    rng = np.random.default_rng([seed, family.number, index, participants, budget])
    if participants == 2:
        solvers = draw_pair(family, seed, index).solvers
    else:
        first = 10 ** rng.uniform(2, 3)
        works = [first, *(first * 8 ** rng.uniform(-1, 1, participants - 1))]
        solvers = tuple(Solver(family, rng.random(family.dimensions), float(work)) for work in works)
    # One noise for all, or one for each, in turn.
    each = tuple(noise[which % len(noise)] for which in range(participants))
    return Case(solvers, budget, each, rng.standard_normal((participants, DICE)))
