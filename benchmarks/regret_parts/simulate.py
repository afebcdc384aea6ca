"""Many pairs, in several processes, gathered by family."""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from dataclasses import dataclass

from threadpoolctl import threadpool_limits

from regret_parts.contest import Contest, Outcome
from regret_parts.families import FAMILIES, Family
from regret_parts.unseen import UNSEEN

__all__ = ["SETS", "Result", "simulate"]

#: Sets of families: those that the oracle knows, and others.
SETS: dict[str, tuple[Family, ...]] = {"known": FAMILIES, "unseen": UNSEEN}

#: Pairs at a time for a process.
CHUNK = 5


@dataclass(frozen=True)
class Result:
    """Outcomes of a simulation.

    Attributes
    ----------
    points, noise, budgets, seed, contestants
        As asked for.
    outcomes
        One per pair, by family.
    """

    points: int
    noise: float
    budgets: tuple[int, ...]
    seed: int
    contestants: tuple[str, ...]
    outcomes: dict[str, list[Outcome]]


def simulate(
    families: Sequence[Family],
    contestants: tuple[str, ...],
    *,
    pairs: int,
    points: int,
    noise: float,
    budgets: tuple[int, ...] = (32, 128, 512),
    seed: int = 1,
    jobs: int = 1,
    extrap: str | None = None,
) -> Result:
    """Let contestants decide for pairs of every family.

    Parameters
    ----------
    families
        Both solvers of a pair are of the same one.
    contestants, budgets, seed, extrap
        As of `Contest`. The same seed gives the same pairs and readings whatever else is asked for.
    pairs
        Of each family.
    points, noise
        As of `regret_parts.readings.read`.
    jobs
        Processes.
    """
    tasks = [
        (family, points, noise, range(start, min(start + CHUNK, pairs)))
        for family in families
        for start in range(0, pairs, CHUNK)
    ]
    arguments = (contestants, budgets, seed, extrap)
    if jobs == 1:
        _start(*arguments)
        done = [_run(task) for task in tasks]
        _running.pop().close()
    else:
        with multiprocessing.get_context("spawn").Pool(jobs, _start, arguments) as pool:
            done = pool.map(_run, tasks, chunksize=1)
    outcomes: dict[str, list[Outcome]] = {family.name: [] for family in families}
    for (family, *_), part in zip(tasks, done, strict=True):
        outcomes[family.name] += part
    return Result(points, noise, budgets, seed, contestants, outcomes)


# Of each process.
_running: list[Contest] = []


def _start(contestants: tuple[str, ...], budgets: tuple[int, ...], seed: int, extrap: str | None) -> None:
    # Processes of one thread each: threads of the linear algebra would only get in each other's way.
    threadpool_limits(1)
    _running[:] = [Contest(contestants, budgets, seed, extrap)]


def _run(task: tuple[Family, int, float, range]) -> list[Outcome]:
    family, points, noise, indices = task
    return [_running[0].run(family, points, noise, index) for index in indices]
