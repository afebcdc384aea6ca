"""Many pairs, in several processes, gathered by family."""

from __future__ import annotations

import multiprocessing
from collections import ChainMap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from regret_parts.archive import Archive
from regret_parts.contest import Contest
from regret_parts.decide import Score
from regret_parts.families import FAMILIES, Family
from regret_parts.unseen import UNSEEN

__all__ = ["SETS", "Outcome", "Result", "simulate"]

# Of one pair, by contestant.
Outcome = dict[str, Score]
# Pairs of a family for some contestants, and what turns such tasks into outcomes, in their order.
Task = tuple[Family, int, float, tuple[str, ...], range]
Work = Callable[[list[Task]], list[Outcome]]

#: Sets of families: those that the oracle knows, and others.
SETS: dict[str, tuple[Family, ...]] = {"known": FAMILIES, "unseen": UNSEEN}

#: Pairs at a time for a process, and between two writings of an archive.
CHUNK, WRITTEN = 5, 100


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
    archive: Archive | None = None,
    block: int = 1,
) -> Result:
    """Let contestants decide for pairs of every family.

    Parameters
    ----------
    families
        Both solvers of a pair are of the same one.
    contestants, budgets, seed, extrap, block
        As of `Contest`. The same seed gives the same pairs and readings whatever else is asked for.
    pairs
        Of each family.
    points, noise
        As of `regret_parts.readings.read`.
    jobs
        Processes.
    archive
        What is there is not computed again, what is computed is added to it.
    """
    arguments = (contestants, budgets, seed, extrap, block)
    groups = [contestants] if archive is None else [(name,) for name in contestants]
    outcomes = {}
    with _processes(jobs, arguments) as work:
        for family in families:
            parts = []
            for names in groups:
                tasks = partial(_tasks, family, points, noise, names)
                path = (
                    None
                    if archive is None
                    else archive.path(names[0], family.name, points, noise, budgets, seed, block)
                )
                parts.append(_outcomes(work, tasks, pairs, archive, path, names))
            outcomes[family.name] = [dict(ChainMap(*scores)) for scores in zip(*parts, strict=True)]
    return Result(points, noise, budgets, seed, contestants, outcomes)


def _outcomes(
    work: Work,
    tasks: Callable[[int, int], list[Task]],
    pairs: int,
    archive: Archive | None,
    path: Path | None,
    names: tuple[str, ...],
) -> list[Outcome]:
    """Outcomes of some contestants; as many at a time as are written together."""
    if archive is None or path is None:
        return work(tasks(0, pairs))
    (name,) = names
    known = archive.load(path)
    while len(known) < pairs:
        known += [outcome[name] for outcome in work(tasks(len(known), min(len(known) + WRITTEN, pairs)))]
        archive.save(path, known)
    return [{name: score} for score in known[:pairs]]


def _tasks(family: Family, points: int, noise: float, names: tuple[str, ...], begin: int, end: int) -> list[Task]:
    return [(family, points, noise, names, range(start, min(start + CHUNK, end))) for start in range(begin, end, CHUNK)]


@contextmanager
def _processes(jobs: int, arguments: tuple[Any, ...]) -> Iterator[Work]:
    if jobs == 1:
        _start(*arguments)
        yield lambda tasks: [outcome for task in tasks for outcome in _run(task)]
        return
    with multiprocessing.get_context("spawn").Pool(jobs, _start, arguments) as pool:
        yield lambda tasks: [outcome for part in pool.map(_run, tasks, chunksize=1) for outcome in part]


# Of each process.
_running: list[Contest] = []


def _start(contestants: tuple[str, ...], budgets: tuple[int, ...], seed: int, extrap: str | None, block: int) -> None:
    # Processes of one thread each: threads of the linear algebra would only get in each other's way.
    threadpool_limits(1)
    _running[:] = [Contest(contestants, budgets, seed, extrap, block)]


def _run(task: Task) -> list[Outcome]:
    family, points, noise, names, indices = task
    return [_running[0].run(family, points, noise, index, names) for index in indices]
