"""More than one split: those near the best one, other budgets, another coupling scheme, and what measuring cost."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from precice_lb.exceptions import InfeasibleError, ModelError
from precice_lb.recommend.machine import Room
from precice_lb.recommend.outlook import Outlook
from precice_lb.recommend.task import LOOKED_AT, Task
from precice_lb.schedule import Schedule
from precice_lb.split import Constraints, TradeoffCurve, TradeoffPoint, near_optimal_splits, tradeoff_curve

if TYPE_CHECKING:
    from precice_lb.recommend.result import Alternative

__all__ = [
    "Instead",
    "Near",
    "Payback",
    "Plan",
    "instead_of",
    "near_splits",
    "paid_back",
    "plan_dict",
    "tradeoff_of",
    "with_recommended",
]

Prefer = Literal["time", "cost"] | float

Tradeoff = tuple[TradeoffCurve, TradeoffPoint]

# Splits that are listed.
LISTED = 10
# Without multiples or whole nodes, splits are listed in steps of about so many parts of the budget.
PARTS = 64
# Budgets of the curve.
POINTS = 48


@dataclasses.dataclass(frozen=True)
class Near:
    """A split that is nearly as good as the best one.

    Attributes
    ----------
    split : dict of str to int
        Ranks by participant.
    window_seconds : float
        Mean seconds per window over the drawn curves.
    longer : float
        By what share the window is longer than with the recommended split.
    used : dict of str to int
        Ranks, cores and nodes that it occupies.
    """

    split: dict[str, int]
    window_seconds: float
    longer: float
    used: dict[str, int]


@dataclasses.dataclass(frozen=True)
class Instead:
    """What another coupling scheme would give.

    Attributes
    ----------
    schedule : str
        The coupling, in words.
    split : dict of str to int
        Its best split.
    window_seconds : float
        Mean seconds per window over the drawn curves, with as many coupling iterations as now.
    gain : float
        The present scheme's window time over this one, minus 1.
    """

    schedule: str
    split: dict[str, int]
    window_seconds: float
    gain: float


@dataclasses.dataclass(frozen=True)
class Payback:
    """After how many time windows measuring has paid for itself.

    Attributes
    ----------
    core_hours : float
        What measuring took.
    windows : dict of str to float
        Time windows by the split that would be used otherwise (``present``, ``equal``, …); infinite where the
        recommended one does not take fewer core-hours.
    """

    core_hours: float
    windows: dict[str, float]


@dataclasses.dataclass(frozen=True, eq=False)
class Plan:
    """More than one split to choose from.

    Attributes
    ----------
    near : tuple of Near
        Splits whose window is at most a share ``within`` longer than the recommended one's, best first.
    within : float
        That share.
    step : int
        Ranks in the list are multiples of this, as people round them.
    tradeoff : TradeoffCurve
        Window time against core-hours over budgets up to the whole one, without budgets that are beaten in both.
        Windows are means over the drawn curves; efficiency is the least core-hours per window over a point's.
    chosen : TradeoffPoint
        The point of it that is recommended.
    prefer : {"time", "cost"} or float
        What decided which.
    """

    near: tuple[Near, ...]
    within: float
    step: int
    tradeoff: TradeoffCurve
    chosen: TradeoffPoint
    prefer: Prefer


def near_splits(task: Task, budget: int, best: Mapping[str, int], within: float) -> tuple[tuple[Near, ...], int]:
    """List splits whose window is at most a share longer than the best one's.

    Returns
    -------
    near : tuple of Near
        Best first.
    step : int
        Ranks are multiples of this: single ranks more or less are no other split to people.

    Raises
    ------
    ModelError
        A share that is none.
    """
    if not 0 <= within <= 1:
        raise ModelError(f"expected splits within 0 to 100 % of the best one, found {100 * within:g} %")
    constraints = task.constraints or Constraints()
    is_free = constraints.multiples == 1 and not (constraints.allowed or constraints.fixed or constraints.whole_nodes)
    step = 1 << max(Room(constraints, budget).cores // PARTS, 1).bit_length() - 1 if is_free else 1
    found = None
    while found is None:
        given = dataclasses.replace(constraints, multiples=step) if step > 1 else task.constraints
        try:
            found = near_optimal_splits(
                task.times, budget, schedule=task.outlook.schedule, within=2 * within + 0.02, count=LOOKED_AT,
                minimum_ranks=task.first, maximum_ranks=task.last, constraints=given,
            )  # fmt: skip
        except InfeasibleError:
            if step == 1:
                raise
            step //= 2
    least, *seconds = task.expected([best, *(each.split for each in found)])
    near = [
        Near(dict(each.split), float(value), float(value / least) - 1, dict(each.used))
        for value, each in zip(seconds, found, strict=True)
        if value <= least * (1 + within)
    ]
    return tuple(sorted(near, key=lambda each: each.window_seconds)[:LISTED]), step


def tradeoff_of(task: Task) -> TradeoffCurve:
    """Optimise for budgets up to the whole one, for the mean curves, and give means over the drawn ones."""
    curve = tradeoff_curve(
        task.times, task.budget, schedule=task.outlook.schedule,
        minimum_ranks=task.first, maximum_ranks=task.last, constraints=task.constraints,
    )  # fmt: skip
    at = np.unique(np.geomspace(1, len(curve.points), min(POINTS, len(curve.points))).round().astype(int)) - 1
    picked = [curve.points[index] for index in at]
    seconds = task.expected([each.split for each in picked]).tolist()
    return _front([_at(point, value) for point, value in zip(picked, seconds, strict=True)])


def with_recommended(curve: TradeoffCurve, chosen: TradeoffPoint, task: Task, split: Mapping[str, int]) -> Tradeoff:
    """Let the recommended split stand for its budget, which is the best known for the drawn curves.

    Returns
    -------
    curve : TradeoffCurve
    chosen : TradeoffPoint
        The recommended split on it.
    """
    used = task.used(split)
    point = dataclasses.replace(chosen, split=dict(split), cores=_cores(used), budget=used.get("nodes", _cores(used)))
    point = _at(point, float(task.expected([split])[0]))
    rest = [each for each in curve.points if each is not chosen]
    front = _front(sorted([*rest, point], key=lambda each: each.cores))
    same = [each for each in front.points if each.split == point.split]
    return front, same[0] if same else point


def _at(point: TradeoffPoint, seconds: float) -> TradeoffPoint:
    return dataclasses.replace(point, window_seconds=seconds, core_hours=seconds * point.cores / 3600.0)


def _front(points: list[TradeoffPoint]) -> TradeoffCurve:
    """Keep the points that no other one beats in time and in core-hours; efficiency is over the cheapest."""
    kept: list[TradeoffPoint] = []
    for point in sorted(points, key=lambda each: (each.window_seconds, each.core_hours)):
        if not kept or point.core_hours < kept[-1].core_hours:
            kept.append(point)
    cheapest = kept[-1].core_hours
    return TradeoffCurve(
        tuple(dataclasses.replace(point, efficiency=cheapest / point.core_hours) for point in reversed(kept))
    )


def instead_of(task: Task, schedule: Schedule, split: Mapping[str, int]) -> Instead:
    """Find the best split of another coupling, and its window time beside that of a split of this one."""
    found = task.optimum(schedule=schedule)
    outlook = Outlook(schedule, task.curves)
    best = found.split
    if task.constraints is None and outlook.is_uncertain:
        best = outlook.improve(best, task.budget, task.first, task.last)
    # Steady windows on both sides: what was recorded under one scheme says nothing of the noise under the other.
    seconds = float(outlook.window(best).mean())
    present = task.outlook.expected_windows(np.array([[split[name] for name in task.outlook.names]]))
    return Instead(schedule.description, best, seconds, float(present[0]) / seconds - 1)


def paid_back(
    core_hours: float, task: Task, used: Mapping[str, int], seconds: float, others: Mapping[str, Alternative]
) -> Payback | None:
    """Count the time windows after which measuring has paid for itself; None where its cost is not known.

    Parameters
    ----------
    core_hours : float
        What measuring took; NaN where unknown.
    task : Task
        Says what other splits occupy.
    used, seconds : mapping, float
        What the recommended split occupies, and its seconds per window.
    others : mapping of str to Alternative
        The splits that would be used otherwise.

    Raises
    ------
    ModelError
        Negative core-hours.
    """
    if math.isnan(core_hours):
        return None
    if not 0 <= core_hours < math.inf:
        raise ModelError(f"expected core-hours that measuring took of at least 0, found {core_hours!r}")
    windows = {}
    for kind, other in others.items():
        cores = task.used(other.split)
        saved = (_cores(cores) * other.window_seconds - _cores(used) * seconds) / 3600.0
        # A core-second in a year is rounding.
        worth = saved > 1e-12 * _cores(used) * seconds
        windows[kind] = float(math.ceil(core_hours / saved - 1e-9)) if worth else math.inf
    return Payback(core_hours, windows)


def _cores(used: Mapping[str, int]) -> int:
    return used.get("cores", used["ranks"])


def plan_dict(plan: Plan) -> dict[str, Any]:
    """Give a plan as plain JSON types."""
    curve = plan.tradeoff
    return {
        "within": plan.within,
        "step": plan.step,
        "near": [dataclasses.asdict(each) for each in plan.near],
        "prefer": plan.prefer,
        "chosen": dataclasses.asdict(plan.chosen),
        "knee": dataclasses.asdict(curve.knee),
        "tradeoff": [dataclasses.asdict(point) for point in curve.points],
    }
