"""The figure of a plan: window time over the budget, and against core-hours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from precice_lb.report.style import GREY, legend_below, look, new_figure, plain_log_ticks
from precice_lb.report.text import seconds_unit
from precice_lb.report.view import label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from precice_lb.recommend import Recommendation

__all__ = ["draw_plan", "plan_panel"]


def draw_plan(recommendation: Recommendation) -> Figure:
    """Draw window time over cores beside perfect scaling, and window time against core-hours."""
    with new_figure(10.5, 4.8) as figure:
        left, right = figure.subplots(1, 2)
        plan_panel(left, recommendation, hours=False)
        plan_panel(right, recommendation, hours=True)
    return figure


def plan_panel(axes: Axes, recommendation: Recommendation, *, hours: bool) -> None:
    """Draw window time over cores or, with ``hours``, over core-hours."""
    plan = recommendation.plan
    assert plan is not None
    points, knee, chosen = plan.tradeoff.points, plan.tradeoff.knee, plan.chosen
    unit = seconds_unit([recommendation.window_seconds])

    def x(point: Any) -> float:
        return 1000 * point.core_hours if hours else float(point.cores)

    def y(point: Any) -> float:
        return float(point.window_seconds) * unit.per_second

    colour = look(0)[0]
    xs, ys = np.array([x(p) for p in points]), np.array([y(p) for p in points])
    measured = np.array([_is_measured(recommendation, point.split) for point in points])
    axes.plot(xs, ys, color=colour, linestyle=(0, (4, 2)), linewidth=1.2, marker="o", markersize=3)
    axes.plot(xs, np.where(measured, ys, np.nan), color=colour, linewidth=2)
    entries: list[tuple[Any, str]] = [
        (Line2D([], [], color=colour, linewidth=2, marker="o", markersize=3), "best split of each budget"),
        (Line2D([], [], color=colour, linestyle=(0, (4, 2)), linewidth=1.2), "beyond the measurements"),
    ]
    if not hours:
        axes.plot(xs, ys[0] * xs[0] / xs, color=GREY, linestyle=":", linewidth=1.2)
        entries.append((Line2D([], [], color=GREY, linestyle=":"), "perfect scaling from the cheapest"))
    marks: list[tuple[str, float, float, str, float]] = [
        ("knee", x(knee), y(knee), "D", 8), ("recommended", x(chosen), y(chosen), "*", 15),
    ]  # fmt: skip
    cores = recommendation.used.get("cores", recommendation.used["ranks"])
    for (kind, other), marker in zip(recommendation.alternatives.items(), ("s", "^", "v"), strict=False):
        if recommendation.unit == "ranks":
            taken = sum(other.split.values())
        elif sum(other.split.values()) == recommendation.used["ranks"]:
            taken = cores
        else:
            continue
        at = 1000 * other.window_seconds * taken / 3600 if hours else taken
        marks.append((label(kind), at, other.window_seconds * unit.per_second, marker, 7))
    for text, at, seconds, marker, size in marks:
        shape: dict[str, Any] = {"marker": marker, "markersize": size, "color": "#F0E442", "markeredgecolor": "black"}
        axes.plot([at], [seconds], zorder=6 if marker == "*" else 5, **shape)
        shape["markersize"] = min(size, 11)
        entries.append((Line2D([], [], linestyle="none", **shape), text))
    every_x, every_y = [*xs, *(mark[1] for mark in marks)], [*ys, *(mark[2] for mark in marks)]
    axes.set(xscale="log", yscale="log")
    axes.set_xlim(min(every_x) / 1.1, max(every_x) * 1.1)
    axes.set_ylim(min(every_y) / 1.15, max(every_y) * 1.15)
    axes.set_ylabel(f"window time ({unit.symbol})")
    axes.set_xlabel("core-hours per 1000 windows" if hours else "cores (count)")
    axes.set_title("Time against cost" if hours else "Window time over the budget", loc="left")
    plain_log_ticks(axes, whole=not hours)
    legend_below(axes, entries)


def _is_measured(recommendation: Recommendation, split: dict[str, int]) -> bool:
    samples = recommendation.measurements.samples
    return all(samples[who][:, 0].min() <= count <= samples[who][:, 0].max() for who, count in split.items())
