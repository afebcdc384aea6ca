"""From fitted models to a decision: the split with the least expected window time, and what it should give."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import ModelError
from precice_lb.models import valid_range
from precice_lb.recommend.case import Case
from precice_lb.recommend.compare import Table, grid_of_ranks, window_interval
from precice_lb.recommend.gate import Comparison, Rejection
from precice_lb.recommend.limits import Limits
from precice_lb.recommend.plan import Prefer, Tradeoff, tradeoff_of
from precice_lb.recommend.posterior import Curves, ExpectedWindowTime, SplitProblem, curves_of
from precice_lb.schedule import Schedule
from precice_lb.split import Constraints, SplitResult

__all__ = ["Decision", "Question", "decide"]

Array = NDArray[np.float64]


@dataclasses.dataclass(frozen=True, eq=False)
class Question:
    """What is to be decided, apart from the models."""

    schedule: Schedule
    case: Case
    # Ranks and seconds of this case by participant, shape (n, 2).
    samples: dict[str, Array]
    limits: Limits
    # Up to which ranks a curve has to be known.
    reach: dict[str, int]
    # Of all that is drawn.
    seed: int
    level: float
    # As of `precice_lb.recommend.recommend_split`.
    prefer: Prefer | None
    within: float | None
    verify: bool


@dataclasses.dataclass(frozen=True, eq=False)
class Decision:
    """What models say, and how it stands beside the measurements."""

    models: dict[str, Any]
    problem: SplitProblem
    # Drawn curves.
    tables: dict[str, Table | None]
    # Range of ranks in which each model is valid.
    valid: dict[str, tuple[int, int]]
    # The best split, and the budget that it was sought for.
    split: dict[str, int]
    budget: int
    # Optimum for the mean curves, with its proof, and by what share the split may be above the best one.
    found: SplitResult
    gap: float
    # Where asked for, with the chosen point.
    tradeoff: Tradeoff | None
    # Mean compute seconds of each participant and seconds per window, shape (curves,).
    own: dict[str, Array]
    windows: Array
    # Of the window time; NaN where unknown.
    interval: tuple[float, float]
    # Whether the split is the models' best one ("model"), or the best measured one in its place ("measured").
    basis: str = "model"
    # Measured splits beside what the models say; those whose window time is known without a model.
    comparisons: tuple[Comparison, ...] = ()
    known: Mapping[tuple[int, ...], Comparison] = dataclasses.field(default_factory=dict)
    # Models that are not used, and what was found.
    rejections: tuple[Rejection, ...] = ()
    warnings: tuple[str, ...] = ()

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
    schedule, limits, reach, prefer = question.schedule, question.limits, question.reach, question.prefer
    curves = {name: curves_of(models[name], [question.seed, at]) for at, name in enumerate(schedule.participants)}
    tables = {name: _table(models[name], curves[name], reach[name]) for name in curves}
    times = {name: _times(models[name], tables[name], reach[name]) for name in curves}
    valid = {name: _valid(name, models[name], times[name], question.samples[name]) for name in curves}
    recorded = question.case.measurements.recorded
    expected = ExpectedWindowTime(schedule, _slowed(curves, limits.constraints), recorded, question.seed)
    problem = SplitProblem(times, curves, expected, limits.within(valid))
    tradeoff = tradeoff_of(problem) if question.within is not None or prefer is not None else None
    chosen = tradeoff.choose("time" if prefer is None else prefer) if tradeoff else None
    # Preferring time means all of the budget, whatever the few budgets on the curve are.
    budget = limits.budget if chosen is None or prefer in (None, "time", 1) else chosen.budget
    found = problem.optimum(budget, verify=question.verify)
    split = problem.improved(found.split, budget)
    typical = expected.own(split)
    windows = expected.seconds(typical)
    interval = window_interval(models, problem, split, windows, question.level)
    steady = float(schedule.window_seconds(typical).mean())
    gap = max(steady * (1 + found.gap) / found.window_seconds - 1, 0.0)
    priced = None if tradeoff is None or chosen is None else (tradeoff, chosen)
    own = expected.mean_own(typical)
    return Decision(models, problem, tables, valid, split, budget, found, gap, priced, own, windows, interval)


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


def _valid(name: str, model: Any, times: Array, rows: Array) -> tuple[int, int]:
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
