"""From fitted models to a decision: the split with the least expected window time, and what it should give."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import ModelError
from precice_lb.models import valid_range
from precice_lb.recommend.bounds import require_room
from precice_lb.recommend.compare import window_interval
from precice_lb.recommend.outlook import Curves, Outlook, curves_of
from precice_lb.recommend.plan import Tradeoff, tradeoff_of
from precice_lb.recommend.records import Prefer
from precice_lb.recommend.tables import Table, grid_of_ranks
from precice_lb.recommend.task import Task
from precice_lb.schedule import Schedule
from precice_lb.split import Constraints, SplitResult

__all__ = ["Decision", "Question", "decide"]

Array = NDArray[np.float64]


@dataclasses.dataclass(frozen=True, eq=False)
class Question:
    """What is to be decided, apart from the models."""

    schedule: Schedule
    # Ranks and seconds of this case by participant, shape (n, 2).
    samples: dict[str, Array]
    # As of `Outlook`.
    recorded: tuple[Mapping[str, Array], ...]
    # In the unit of the constraints.
    budget: int
    # Of the machine.
    constraints: Constraints | None
    # Bounds, and up to which ranks a curve has to be known.
    lowest: dict[str, int]
    highest: dict[str, int]
    reach: dict[str, int]
    # Of all that is drawn.
    seed: int
    level: float
    # As of `precice_lb.recommend.recommend`.
    prefer: Prefer | None
    within: float | None
    verify: bool


@dataclasses.dataclass(frozen=True, eq=False)
class Decision:
    """What the models say."""

    models: dict[str, Any]
    # What was decided by.
    task: Task
    # Drawn curves.
    tables: dict[str, Table | None]
    # Range in which each model can be believed.
    believed: dict[str, tuple[int, int]]
    # The best one.
    split: dict[str, int]
    # The budget that it was sought for.
    target: int
    # Optimum for the mean curves, with its proof.
    found: SplitResult
    # Where asked for, with the chosen point.
    tradeoff: Tradeoff | None
    # Compute seconds of each participant, shape (curves,).
    own: dict[str, Array]
    # Seconds per window, shape (curves,).
    windows: Array
    # Of the window time; NaN where unknown.
    interval: tuple[float, float]

    @property
    def window(self) -> float:
        """Mean seconds per window."""
        return float(self.windows.mean())

    @property
    def is_sound(self) -> bool:
        """Whether the mean lies within its own interval; a few wild curves may take it out."""
        low, high = self.interval
        return not (self.window < low * (1 - 1e-9) or self.window > high * (1 + 1e-9))


def decide(question: Question, models: dict[str, Any]) -> Decision:
    """Find the split with the least expected window time."""
    names, seed = question.schedule.participants, question.seed
    constraints, budget = question.constraints, question.budget
    curves = {name: curves_of(models[name], [seed, index]) for index, name in enumerate(names)}
    tables = {name: _table(models[name], curves[name], question.reach[name]) for name in names}
    times = {name: _times(models[name], tables[name], question.reach[name]) for name in names}
    believed = {name: _believed(name, models[name], times[name], question.samples[name]) for name in names}
    first = {name: max(question.lowest[name], believed[name][0]) for name in names}
    last = {name: min(question.highest[name], believed[name][1]) for name in names}
    require_room(first, last, question.lowest, budget if constraints is None else sum(first.values()))
    outlook = Outlook(question.schedule, _slowed(curves, constraints), question.recorded, seed)
    task = Task(times, budget, curves, outlook, first, last, constraints)
    tradeoff = tradeoff_of(task) if question.within is not None or question.prefer is not None else None
    chosen = tradeoff.choose("time" if question.prefer is None else question.prefer) if tradeoff else None
    # Preferring time means all of the budget, whatever the few budgets on the curve are.
    target = budget if chosen is None or question.prefer in (None, "time", 1) else chosen.budget
    found = task.optimum(budget=target, verify=question.verify)
    split = task.improved(found.split, target)
    own = outlook.own(split)
    windows = outlook.seconds(own)
    interval = window_interval(models, task, split, windows, question.level)
    priced = None if tradeoff is None or chosen is None else (tradeoff, chosen)
    return Decision(models, task, tables, believed, split, target, found, priced, own, windows, interval)


def _table(model: Any, curves: Curves, highest: int) -> Table | None:
    """Curves of a learner that draws, on a grid: it is too much to draw them at each of 100,000 ranks."""
    if not hasattr(model, "draw"):
        return None
    grid = grid_of_ranks(highest)
    return Table(grid, curves(grid))


def _times(model: Any, table: Table | None, highest: int) -> Array:
    if table is not None and _everywhere(model):
        return table.mean(highest)
    ranks = np.arange(1, highest + 1, dtype=np.float64)
    return np.asarray(model.predict(ranks[:, None]), dtype=np.float64).reshape(highest)


def _believed(name: str, model: Any, times: Array, rows: Array) -> tuple[int, int]:
    if getattr(model, "measured_only", False):
        return int(rows[:, 0].min()), int(rows[:, 0].max())
    if _everywhere(model):
        return 1, len(times)
    try:
        return valid_range(times, rows[:, 0])
    except ModelError as error:
        raise ModelError(f"model of {name}: {error}") from error


def _everywhere(model: Any) -> bool:
    return bool(getattr(model, "always_valid", False))


def _slowed(curves: Mapping[str, Curves], constraints: Constraints | None) -> dict[str, Curves]:
    """Curves with what sharing cores costs."""
    if constraints is None or not constraints.shared:
        return dict(curves)

    def slower(curve: Curves, factor: float) -> Curves:
        return lambda ranks: curve(ranks) * factor

    return {name: slower(curve, 1.0 + constraints.overhead(name)) for name, curve in curves.items()}
