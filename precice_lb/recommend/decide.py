"""From measurements to a decision: one fitted model for each participant, and the split that is best over its draws."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.dataset import Measurements
from precice_lb.models.posterior import BayesRegressor, interpolated, share_noise
from precice_lb.recommend.case import Case, fit_model
from precice_lb.recommend.compare import grid_of_ranks
from precice_lb.recommend.plan import Prefer, Tradeoff, tradeoff_of
from precice_lb.recommend.posterior import Curves, ExpectedWindowTime, SplitProblem, curves_of, geometric_mean
from precice_lb.schedule import Schedule
from precice_lb.split import SplitResult
from precice_lb.split.admissible import Limits

Array = NDArray[np.float64]


@dataclasses.dataclass(frozen=True, eq=False)
class Decision:
    """What models and measured windows say."""

    models: dict[str, Any]
    problem: SplitProblem
    # The best split, and the budget that it was sought for.
    split: dict[str, int]
    budget: int
    # Optimum for the mean curves, with its proof, and by what share the split may be above the best one.
    found: SplitResult
    gap: float
    # Where asked for, with the chosen point.
    tradeoff: Tradeoff | None
    # Seconds per window, shape (curves,).
    windows: Array
    # Of the window time; NaN where unknown.
    interval: tuple[float, float]

    @property
    def window(self) -> float:
        """Expected seconds per window."""
        return float(geometric_mean(self.windows))


def decide(
    schedule: Schedule, case: Case, limits: Limits, prototype: Any,
    *, seed: int, level: float, prefer: Prefer | None, within: float | None,
) -> Decision:  # fmt: skip
    """Find the split with the least expected loss; of each participant a curve is asked as far as its counts go."""
    names = schedule.participants
    models = {name: fit_model(case, name, prototype, node_ranks(case.measurements, name, limits)) for name in names}
    if all(isinstance(model, BayesRegressor) for model in models.values()):
        share_noise([*models.values()])
    curves = {name: curves_of(models[name], [seed, at], case.columns[name]) for at, name in enumerate(names)}
    means = {name: _mean(curves[name], limits.highest[name]) for name in names}
    times, spread = ({name: pair[at] for name, pair in means.items()} for at in (0, 1))
    slowed = {name: _slowed(curve, 1.0 + limits.constraints.overhead(name)) for name, curve in curves.items()}
    measured = case.measurements
    expected = ExpectedWindowTime(schedule, slowed, measured.recorded, measured.runs, seed)
    problem = SplitProblem(times, spread, curves, expected, limits)
    tradeoff = tradeoff_of(problem) if within is not None or prefer is not None else None
    chosen = None if tradeoff is None else tradeoff.choose("time" if prefer is None else prefer)
    # Preferring time means all of the budget, whatever the few budgets on the curve are.
    budget = limits.budget if chosen is None or prefer in (None, "time", 1) else chosen.budget
    found = problem.optimum(budget)
    split = problem.improved(found.split, budget)
    windows = expected.window(split)
    # The logarithm of a window is convex in those of the times: the optimum for their means is below every split's.
    steady = geometric_mean(schedule.window_seconds(expected.own(split)))
    gap = max(steady * (1 + found.gap) / found.window_seconds - 1, 0.0)
    priced = None if tradeoff is None or chosen is None else (tradeoff, chosen)
    return Decision(models, problem, split, budget, found, gap, priced, windows, _interval(windows, level))


def _interval(windows: Array, level: float) -> tuple[float, float]:
    """Quantiles over drawn curves, with the mean, which a few curves may take out of them; NaN of a single one."""
    if len(windows) == 1:
        return float("nan"), float("nan")
    low, high = np.quantile(windows, [(1 - level) / 2, (1 + level) / 2]).tolist()
    return min(low, geometric_mean(windows)), max(high, geometric_mean(windows))


def node_ranks(measurements: Measurements, name: str, limits: Limits) -> float | None:
    """Ranks (or cores, where the split counts those) of a participant on a full node, where that is known."""
    cores = limits.constraints.cores_per_node
    if cores is None:
        return measurements.node_ranks.get(name)
    return max(cores // (limits.constraints.cores_per_rank(name)), 1)


def _mean(curve: Curves, highest: int) -> Array:
    """Mean curve at 1 … highest ranks, and the factor of a standard deviation; of many drawn ones on a grid."""
    grid = grid_of_ranks(highest)
    logs = np.log(curve(grid))
    if len(logs) == 1:
        grid = np.arange(1, highest + 1)
        logs = np.log(curve(grid))
    both = np.array([logs.mean(axis=0), logs.std(axis=0)])
    return np.asarray(np.exp(interpolated(np.arange(1.0, highest + 1), grid, both)))


def _slowed(curve: Curves, factor: float) -> Curves:
    """Give a curve with what sharing cores costs."""
    return lambda ranks: curve(ranks) * factor
