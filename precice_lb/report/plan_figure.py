"""The figure of a plan: window time over the budget, and against core-hours."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from precice_lb.report.style import GREY, MARKS, Panel, colour_of, plain_log_ticks, two_panels
from precice_lb.report.text import seconds_unit
from precice_lb.report.view import label

if TYPE_CHECKING:
    from precice_lb.recommend import Recommendation

__all__ = ["draw_plan", "plan_panel"]


def draw_plan(recommendation: Recommendation) -> Figure:
    """Draw window time over cores beside perfect scaling, and window time against core-hours."""
    draw = partial(plan_panel, recommendation=recommendation)
    return two_panels(partial(draw, hours=False), partial(draw, hours=True), 4.8)


def plan_panel(panel: Panel, recommendation: Recommendation, *, hours: bool) -> None:
    """Draw window time over cores or, with ``hours``, over core-hours."""
    plan = recommendation.plan
    assert plan is not None
    points, knee, chosen = plan.tradeoff.points, plan.tradeoff.knee, plan.chosen
    unit = seconds_unit([recommendation.window_seconds])

    def x(point: Any) -> float:
        return 1000 * point.core_hours if hours else float(point.cores)

    def y(point: Any) -> float:
        return float(point.window_seconds) * unit.per_second

    axes, colour = panel.axes, colour_of(0)
    xs, ys = np.array([x(p) for p in points]), np.array([y(p) for p in points])
    measured = np.array([_is_measured(recommendation, point.split) for point in points])
    axes.plot(xs, ys, color=colour, linestyle=(0, (4, 2)), linewidth=1.2, marker="o", markersize=3)
    axes.plot(xs, np.where(measured, ys, np.nan), color=colour, linewidth=2)
    panel.name(Line2D([], [], color=colour, linewidth=2, marker="o", markersize=3), "best split of each budget")
    panel.name(Line2D([], [], color=colour, linestyle=(0, (4, 2)), linewidth=1.2), "beyond the measurements")
    if not hours:
        text = "perfect scaling from the cheapest"
        panel.line(xs, ys[0] * xs[0] / xs, text, color=GREY, linestyle=":", linewidth=1.2)
    marks = [("knee", x(knee), y(knee), "v"), ("recommended", x(chosen), y(chosen), "*")]
    for kind, other in recommendation.alternatives.items():
        if recommendation.unit == "ranks":
            taken = sum(other.split.values())
        elif sum(other.split.values()) == recommendation.used["ranks"]:
            taken = recommendation.used.get("cores", recommendation.used["ranks"])
        else:
            continue
        at = 1000 * other.window_seconds * taken / 3600 if hours else taken
        marks.append((label(kind), at, other.window_seconds * unit.per_second, MARKS[kind]))
    for text, at, seconds, marker in marks:
        panel.mark(text, at, seconds, marker)
    every_x, every_y = [*xs, *(at for _, at, _, _ in marks)], [*ys, *(seconds for _, _, seconds, _ in marks)]
    axes.set(xscale="log", yscale="log")
    axes.set_xlim(min(every_x) / 1.1, max(every_x) * 1.1)
    axes.set_ylim(min(every_y) / 1.15, max(every_y) * 1.15)
    title = "Time against cost" if hours else "Window time over the budget"
    xlabel = "core-hours per 1000 windows" if hours else "cores (count)"
    panel.label(title, xlabel, f"window time ({unit.symbol})")
    plain_log_ticks(axes, whole=not hours)


def _is_measured(recommendation: Recommendation, split: dict[str, int]) -> bool:
    samples = recommendation.measurements.samples
    return all(samples[who][:, 0].min() <= count <= samples[who][:, 0].max() for who, count in split.items())
