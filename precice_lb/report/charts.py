"""Charts of a recommendation, for the page and as files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import NDArray

from precice_lb.layout import count_text
from precice_lb.report.blocks import Chart
from precice_lb.report.landscape import GRID_POINTS, figure_names, interval, landscape_chart
from precice_lb.report.style import GREY, HATCHED, MARKS, Bars, Panel, colour_of, marker_of, one_panel, plain_log_ticks
from precice_lb.report.text import percent, seconds_unit
from precice_lb.report.versions import other_versions, versioned
from precice_lb.report.view import label, ranks_word, split_text

if TYPE_CHECKING:
    from precice_lb.recommend import Recommendation

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ScalingCurve:
    """Compute seconds per window of a participant over its ranks."""

    # From the fewest to the most ranks that were measured, are recommended, or in use, shape (k,).
    ranks: Array
    seconds: Array
    # Interval of the seconds, where the learner has one, shape (k,).
    low: Array | None
    high: Array | None
    # Fewest and most ranks that were measured.
    measured: tuple[float, float]


def scaling_curves(recommendation: Recommendation) -> dict[str, ScalingCurve]:
    """Evaluate the model of each participant over its ranks."""
    present = recommendation.alternatives.get("present")
    curves = {}
    for who, chosen in recommendation.split.items():
        counts = np.asarray(recommendation.measurements.samples[who], dtype=float)[:, 0]
        first, last = float(counts.min()), float(counts.max())
        shown = [first, last, float(chosen), *([float(present.split[who])] if present is not None else [])]
        ranks = np.unique(np.concatenate([np.geomspace(min(shown), max(shown), GRID_POINTS), shown]))
        low, high = interval(recommendation, who, ranks) or (None, None)
        curves[who] = ScalingCurve(ranks, recommendation.predicted(who, ranks), low, high, (first, last))
    return curves


def scaling_chart(recommendation: Recommendation) -> Chart:
    """Draw each participant's time over its ranks: model, interval, measurements, recommended and present counts."""
    curves = scaling_curves(recommendation)
    others = {(who, version): found for who, version, found in other_versions(recommendation)}
    beside = {key: scaling_curves(found)[key[0]] for key, found in others.items()}
    return Chart(
        "scaling",
        "Compute time per window of each participant over its ranks, without waiting: points are measured, curves are "
        f"the models with their {percent(recommendation.level, 0)} intervals, dashed beyond the measurements; stars "
        "stand at the recommended counts.",
        one_panel(partial(_scaling, recommendation=recommendation, curves=curves, beside=beside), 3.2),
    )


def _scaling(
    panel: Panel,
    recommendation: Recommendation,
    curves: Mapping[str, ScalingCurve],
    beside: Mapping[tuple[str, str], ScalingCurve],
) -> None:
    names = versioned(figure_names(recommendation), recommendation.versions)
    samples = recommendation.measurements.samples
    unit = seconds_unit(float(value) for rows in samples.values() for value in rows[:, 1])
    present = recommendation.alternatives.get("present")
    axes, elsewhere = panel.axes, False
    for index, (who, chosen) in enumerate(recommendation.split.items()):
        colour, marker, found = colour_of(index), marker_of(index), curves[who]
        measured, here = np.asarray(samples[who], dtype=float), recommendation.measured_here(who)
        elsewhere |= not here.all()
        ranks, curve = found.ranks, found.seconds * unit.per_second
        if found.low is not None and found.high is not None:
            low, high = found.low * unit.per_second, found.high * unit.per_second
            axes.fill_between(ranks, low, high, color=colour, alpha=0.18, linewidth=0)
        axes.plot(ranks, curve, color=colour, linestyle=(0, (4, 2)), linewidth=1.2)
        inside = (ranks >= found.measured[0]) & (ranks <= found.measured[1])
        axes.plot(ranks[inside], curve[inside], color=colour, linewidth=1.8)
        spread = recommendation.measurements.errors(who)
        axes.errorbar(
            measured[here, 0], measured[here, 1] * unit.per_second, yerr=spread[here] * unit.per_second,
            fmt=marker, color=colour, markersize=5, markeredgecolor="white", markeredgewidth=0.6, elinewidth=1,
        )  # fmt: skip
        axes.plot(
            measured[~here, 0], measured[~here, 1] * unit.per_second, linestyle="none", marker=marker, markersize=3.5,
            color=colour, alpha=0.45, markerfacecolor="none",
        )  # fmt: skip
        axes.axvline(chosen, color=colour, linewidth=0.9, linestyle=":")
        at = curve[np.searchsorted(ranks, chosen)]
        axes.plot([chosen], [at], marker="*", markersize=14, color=colour, markeredgecolor="black", zorder=5)
        if present is not None:
            at = curve[np.searchsorted(ranks, present.split[who])]
            axes.plot([present.split[who]], [at], marker="o", markersize=10, color=colour, markerfacecolor="none")
        line = Line2D([], [], color=colour, marker=marker, linewidth=1.8)
        panel.name(line, f"{names[who]}: {count_text(who, chosen, recommendation.layouts)}")
    for (who, version), found in beside.items():
        colour = colour_of(list(recommendation.split).index(who))
        axes.plot(found.ranks, found.seconds * unit.per_second, color=colour, linestyle="-.", linewidth=1.0)
        line = Line2D([], [], color=colour, linestyle="-.", linewidth=1.0)
        panel.name(line, f"{versioned(figure_names(recommendation), {who: version})[who]}, not recommended")
    axes.set(xscale="log", yscale="log")
    ylabel = f"compute time per window ({unit.symbol})"
    panel.label("Scaling of each participant", f"{ranks_word(recommendation)} of the participant (count)", ylabel)
    every = [*curves.values(), *beside.values()]
    axes.set_xlim(min(c.ranks[0] for c in every) / 1.15, max(c.ranks[-1] for c in every) * 1.15)
    plain_log_ticks(axes)
    points: dict[str, Any] = {"color": GREY, "marker": "o", "linestyle": "none"}
    panel.name(Line2D([], [], **points), "measured")
    if elsewhere:
        hollow = Line2D([], [], markersize=3.5, markerfacecolor="none", alpha=0.6, **points)
        panel.name(hollow, "measured for other parameters")
    panel.name(Line2D([], [], color=GREY, linestyle=(0, (4, 2))), "model beyond the measurements")
    panel.name_area(GREY, f"{100 * recommendation.level:.0f} % interval of the model")
    star = Line2D([], [], color=GREY, marker="*", markersize=11, markeredgecolor="black", linestyle=":")
    panel.name(star, "recommended")
    if present is not None:
        panel.name(Line2D([], [], markersize=9, markerfacecolor="none", **points), "in use at present")


def comparison_chart(recommendation: Recommendation) -> Chart:
    """Draw compute time and waiting of every participant under the recommended split and those beside it."""
    expected = recommendation.expected
    splits = {"recommended": (recommendation.split, recommendation.window_seconds)}
    splits |= {kind: (other.split, other.window_seconds) for kind, other in recommendation.alternatives.items()}
    rows = []
    for kind, (split, window) in splits.items():
        own = recommendation.compute_seconds if kind == "recommended" else expected.mean_seconds(split)
        for who, count in split.items():
            per_window = own[who] * expected.schedule.windows[who]
            rows.append((label(kind), who, count, per_window, max(window - per_window, 0.0), window))
    unit = seconds_unit([max(row[5] for row in rows)])

    def parts(row: tuple[Any, ...], colour: str) -> tuple[str, list[tuple[float, dict[str, Any]]]]:
        return "", [(row[3] * unit.per_second, {"color": colour}), (row[4] * unit.per_second, HATCHED)]

    def draw(panel: Panel) -> None:
        colours = {who: colour_of(index) for index, who in enumerate(recommendation.split)}
        panel.bars(
            Bars(
                _cut(f"{label(kind)}: {split_text(split, recommendation.layouts)}"),
                [parts(row, colours[row[1]]) for row in rows if row[0] == label(kind)],
                window * unit.per_second,
            )
            for kind, (split, window) in splits.items()
        )
        panel.label("One window under each split", f"time per window ({unit.symbol})", "splits")
        for who, name in figure_names(recommendation).items():
            panel.name(Patch(color=colours[who]), f"compute time of {name}")
        panel.name(Patch(**HATCHED), "waiting")

    lines = sum(len(split) for split, _ in splits.values())
    figure = one_panel(draw, 0.9 + 0.17 * lines + 0.26 * len(splits))
    return Chart(
        "comparison",
        "Predicted compute time of every participant and, hatched, the rest of the window, in which it waits; the "
        "black line ends the window.",
        figure,
    )


def _cut(text: str, width: int = 52) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


def plan_chart(recommendation: Recommendation, *, hours: bool) -> Chart:
    """Draw window time over cores or, with ``hours``, over core-hours, for the best split of every budget."""
    assert recommendation.plan is not None
    text = "The best window time of each budget, beside what perfect scaling of the cheapest would give."
    if hours:
        text = "The same splits against what they cost: to the left is cheaper, further down is faster."
    figure = one_panel(partial(_plan, recommendation=recommendation, hours=hours), 3.0)
    return Chart("cost" if hours else "budget", text, figure)


def _plan(panel: Panel, recommendation: Recommendation, hours: bool) -> None:
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
        if kind == "in-turns":
            taken = max(other.split.values())
        elif recommendation.unit == "ranks":
            taken = sum(other.split.values())
        elif sum(other.split.values()) == sum(recommendation.split.values()):
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


CHARTS: dict[str, Callable[[Recommendation], Chart]] = {
    "scaling": scaling_chart,
    "comparison": comparison_chart,
    "landscape": landscape_chart,
    "budget": partial(plan_chart, hours=False),
    "cost": partial(plan_chart, hours=True),
}
"""By name; the landscape needs two participants, the last two a plan."""
