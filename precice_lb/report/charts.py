"""Charts of a recommendation, for the page and as files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.layout import count_text
from precice_lb.recommend.posterior import NEVER, geometric_mean
from precice_lb.recommend.selection import rows_at
from precice_lb.report import style
from precice_lb.report.blocks import Chart
from precice_lb.report.recommendation import label, other_versions, ranks_word, split_text, versioned
from precice_lb.report.style import GREY, HATCHED, Bars, Panel, colour_of, marker_of, one_panel
from precice_lb.report.text import percent, seconds_unit, short_names

if TYPE_CHECKING:
    from precice_lb.recommend import Recommendation

Array = NDArray[np.float64]

# Ranks at which a curve is drawn.
_GRID_POINTS = 200
_DASHED: dict[str, Any] = {"linestyle": (0, (4, 2)), "linewidth": 1.2}


def _names(recommendation: Recommendation) -> dict[str, str]:
    """How to write participants' names in figures, where there is little room."""
    return short_names(recommendation.split, 16)


def _shown_ranks(recommendation: Recommendation, who: str) -> Array:
    """Ranks from the fewest to the most that were measured, are recommended, or in use."""
    shown = recommendation.measurements.samples[who][:, 0].astype(float).tolist()
    shown = [min(shown), max(shown), float(recommendation.split[who])]
    if (present := recommendation.alternatives.get("present")) is not None:
        shown.append(float(present.split[who]))
    return np.unique(np.concatenate([np.geomspace(min(shown), max(shown), _GRID_POINTS), shown]))


def scaling_chart(recommendation: Recommendation) -> Chart:
    """Draw each participant's time over its ranks: model, interval, measurements, recommended and present counts."""
    return Chart(
        "scaling",
        "Compute time per window of each participant over its ranks, without waiting: points are measured, curves are "
        f"the models with their {percent(recommendation.level, 0)} intervals, dashed beyond the measurements; stars "
        "stand at the recommended counts.",
        one_panel(_scaling, 3.2, recommendation),
    )


def _scaling(panel: Panel, recommendation: Recommendation) -> None:
    names, axes, samples = _names(recommendation), panel.axes, recommendation.measurements.samples
    drawn: list[Array] = []
    unit = seconds_unit(float(value) for rows in samples.values() for value in rows[:, 1])
    present, elsewhere = recommendation.alternatives.get("present"), False
    for index, (who, chosen) in enumerate(recommendation.split.items()):
        colour, marker, model = colour_of(index), marker_of(index), recommendation.models[who]
        measured, here = np.asarray(samples[who], dtype=float), recommendation.measured_here(who)
        counts, seconds = measured[:, 0], measured[:, 1] * unit.per_second
        elsewhere |= not here.all()
        drawn.append(ranks := _shown_ranks(recommendation, who))
        curve = recommendation.predicted(who, ranks) * unit.per_second
        if hasattr(model, "predict_interval"):
            edges = model.predict_interval(rows_at(ranks, recommendation.modelled[who]), recommendation.level)
            if np.isfinite(edges).all():
                low, high = np.maximum(edges, 0.0) * unit.per_second
                axes.fill_between(ranks, low, high, color=colour, alpha=0.18, linewidth=0)
        axes.plot(ranks, curve, color=colour, **_DASHED)
        inside = (ranks >= counts.min()) & (ranks <= counts.max())
        axes.plot(ranks[inside], curve[inside], color=colour, linewidth=1.8)
        errors = recommendation.measurements.frames[who].standard_error[here]
        axes.errorbar(
            counts[here], seconds[here], yerr=errors * unit.per_second,
            fmt=marker, color=colour, markersize=5, markeredgecolor="white", markeredgewidth=0.6, elinewidth=1,
        )  # fmt: skip
        axes.plot(
            counts[~here], seconds[~here], linestyle="none", marker=marker, markersize=3.5,
            color=colour, alpha=0.45, markerfacecolor="none",
        )  # fmt: skip
        axes.axvline(chosen, color=colour, linewidth=0.9, linestyle=":")
        at = curve[np.searchsorted(ranks, chosen)]
        axes.plot([chosen], [at], marker="*", markersize=14, color=colour, markeredgecolor="black", zorder=5)
        if present is not None:
            at = curve[np.searchsorted(ranks, present.split[who])]
            axes.plot([present.split[who]], [at], marker="o", markersize=10, color=colour, markerfacecolor="none")
        name = versioned(names, recommendation.versions)[who]
        text = f"{name}: {count_text(who, chosen, recommendation.layouts)}"
        panel.key(text, color=colour, marker=marker, linewidth=1.8)
    for who, version, other in other_versions(recommendation):
        drawn.append(ranks := _shown_ranks(other, who))
        text = f"{versioned(names, {who: version})[who]}, not recommended"
        look = {"color": colour_of([*names].index(who)), "linestyle": "-.", "linewidth": 1.0}
        panel.line(ranks, other.predicted(who, ranks) * unit.per_second, text, **look)
    axes.set(xscale="log", yscale="log")
    ylabel = f"compute time per window ({unit.symbol})"
    panel.label("Scaling of each participant", f"{ranks_word(recommendation)} of the participant (count)", ylabel)
    axes.set_xlim(min(ranks[0] for ranks in drawn) / 1.15, max(ranks[-1] for ranks in drawn) * 1.15)
    style.plain_log_ticks(axes)
    points: dict[str, Any] = {"color": GREY, "marker": "o", "linestyle": "none"}
    panel.key("measured", **points)
    if elsewhere:
        panel.key("measured for other parameters", markersize=3.5, markerfacecolor="none", alpha=0.6, **points)
    panel.key("model beyond the measurements", color=GREY, linestyle=_DASHED["linestyle"])
    panel.shade(f"{100 * recommendation.level:.0f} % interval of the model", GREY)
    panel.key("recommended", color=GREY, marker="*", markersize=11, markeredgecolor="black", linestyle=":")
    if present is not None:
        panel.key("in use at present", markersize=9, markerfacecolor="none", **points)


def comparison_chart(recommendation: Recommendation) -> Chart:
    """Draw compute time and waiting of every participant under the recommended split and those beside it."""
    expected, names = recommendation.expected, _names(recommendation)
    splits = {"recommended": (recommendation.split, recommendation.window_seconds)}
    splits |= {kind: (other.split, other.window_seconds) for kind, other in recommendation.alternatives.items()}
    unit = seconds_unit([max(window for _, window in splits.values())])
    colours = {who: colour_of(index) for index, who in enumerate(names)}

    def bars(kind: str, split: Mapping[str, int], window: float) -> Bars:
        own = recommendation.compute_seconds if kind == "recommended" else expected.mean_seconds(split)
        parts: list[tuple[str, list[tuple[float, dict[str, Any]]]]] = []
        for who in split:
            seconds = own[who] * expected.schedule.windows[who]
            waits = max(window - seconds, 0.0) * unit.per_second
            parts.append(("", [(seconds * unit.per_second, {"color": colours[who]}), (waits, HATCHED)]))
        text = f"{label(kind)}: {split_text(split, recommendation.layouts)}"
        return Bars(text if len(text) <= 52 else f"{text[:51]}…", parts, window * unit.per_second)

    def draw(panel: Panel) -> None:
        panel.bars(bars(kind, *split) for kind, split in splits.items())
        panel.label("One window under each split", f"time per window ({unit.symbol})", "splits")
        for who, name in names.items():
            panel.area(f"compute time of {name}", color=colours[who])
        panel.area("waiting", **HATCHED)

    lines = sum(len(split) for split, _ in splits.values())
    return Chart(
        "comparison",
        "Predicted compute time of every participant and, hatched, the rest of the window, in which it waits; the "
        "black line ends the window.",
        one_panel(draw, 0.9 + 0.17 * lines + 0.26 * len(splits)),
    )


def landscape_of(recommendation: Recommendation) -> tuple[Array, Array]:
    """Evaluate all ways to divide the recommended ranks of two participants, by the curves that were decided on.

    Those of the first participant, shape (k,), and seconds per window by each drawn curve, shape (n, k).
    """
    expected = recommendation.expected
    first, second = recommendation.split
    total = sum(recommendation.split.values())
    ranks = np.unique(np.linspace(1, total - 1, _GRID_POINTS).round())
    ranks = np.union1d(ranks, [float(recommendation.split[first])])
    counts = {first: ranks, second: total - ranks}
    splits = np.column_stack([counts[who] for who in expected.names]).astype(np.int64)
    windows = expected.windows(splits, replay=False)
    usable = (windows < NEVER).all(axis=0)
    return ranks[usable], windows[:, usable]


def landscape_chart(recommendation: Recommendation) -> Chart:
    """Draw the window time over the split of two participants."""
    return Chart(
        "landscape",
        "Window time and compute times if the ranks are divided otherwise; the window time is what is expected of what "
        "the measurements leave possible, without the noise from window to window.",
        one_panel(_landscape, 3.2, recommendation),
    )


def _landscape(panel: Panel, recommendation: Recommendation) -> None:
    names, axes = _names(recommendation), panel.axes
    first, second = recommendation.split
    total, word, best = sum(recommendation.split.values()), ranks_word(recommendation), recommendation.window_seconds
    unit, (ranks, windows) = seconds_unit([best]), landscape_of(recommendation)
    window = geometric_mean(windows)
    own = [recommendation.predicted(first, ranks), recommendation.predicted(second, total - ranks)]
    panel.line(ranks, window * unit.per_second, "window time", color="black", linewidth=2, zorder=3)
    for index, (name, seconds) in enumerate(zip(names.values(), own, strict=True)):
        panel.line(ranks, seconds * unit.per_second, f"compute time of {name}", color=colour_of(index), linewidth=1.2)
    if len(windows) > 1:
        edge = (1.0 - recommendation.level) / 2.0
        low, high = np.quantile(windows, [edge, 1.0 - edge], axis=0) * unit.per_second
        axes.fill_between(ranks, low, high, color="black", alpha=0.14, linewidth=0)
        panel.shade(f"{100 * recommendation.level:.0f} % interval of the window time", "black")
    # A split of more ranks, where not all were worth giving out, has no place on this axis.
    others = {k: other for k, other in recommendation.alternatives.items() if sum(other.split.values()) == total}
    panel.mark("recommended", recommendation.split[first], best * unit.per_second)
    for kind, other in others.items():
        panel.mark(label(kind), other.split[first], other.window_seconds * unit.per_second, style.MARKS[kind])
    # Towards the edges times grow without bound: show what lies within a few times the optimum, and every mark.
    ceiling = max(3.0 * best, 1.15 * max([best, *(other.window_seconds for other in others.values())]))
    shown = ranks[window <= ceiling]
    axes.set_xlim(max(shown.min() - 0.02 * total, 0.5), min(shown.max() + 0.02 * total, total - 0.5))
    inside = (ranks >= axes.get_xlim()[0]) & (ranks <= axes.get_xlim()[1])
    floor = max(min(float(times[inside].min()) for times in own) / 1.1, best / 6)
    axes.set_yscale("log")
    axes.set_ylim(floor * unit.per_second, 1.05 * ceiling * unit.per_second)
    xlabel = f"{word} of {names[first]} (count)\nthe rest of {total} to {names[second]}"
    panel.label(f"Window time over the split of {total} {word}", xlabel, f"time per window ({unit.symbol})")
    style.plain_log_ticks(axes, x=False)
    style.whole_ticks(axes.xaxis)


def plan_chart(recommendation: Recommendation, *, hours: bool) -> Chart:
    """Draw window time over cores or, with ``hours``, over core-hours, for the best split of every budget."""
    text = "The best window time of each budget, beside what perfect scaling of the cheapest would give."
    if hours:
        text = "The same splits against what they cost: to the left is cheaper, further down is faster."
    figure = one_panel(_plan, 3.0, recommendation, hours)
    return Chart("cost" if hours else "budget", text, figure)


def _plan(panel: Panel, recommendation: Recommendation, hours: bool) -> None:
    plan = recommendation.plan
    assert plan is not None
    points, axes, colour = plan.tradeoff.points, panel.axes, colour_of(0)
    unit = seconds_unit([recommendation.window_seconds])

    def at(window_seconds: float, cores: float) -> tuple[float, float]:
        return 1000 * window_seconds * cores / 3600 if hours else float(cores), window_seconds * unit.per_second

    xs, ys = np.array([at(point.window_seconds, point.cores) for point in points]).T
    measured = np.array([_is_measured(recommendation, point.split) for point in points])
    dots: dict[str, Any] = {"color": colour, "marker": "o", "markersize": 3}
    axes.plot(xs, ys, **_DASHED, **dots)
    axes.plot(xs, np.where(measured, ys, np.nan), color=colour, linewidth=2)
    panel.key("best split of each budget", linewidth=2, **dots)
    panel.key("beyond the measurements", color=colour, **_DASHED)
    if not hours:
        text = "perfect scaling from the cheapest"
        panel.line(xs, ys[0] * xs[0] / xs, text, color=GREY, linestyle=":", linewidth=1.2)
    marks = [
        (text, *at(point.window_seconds, point.cores), marker)
        for text, point, marker in (("knee", plan.tradeoff.knee, "v"), ("recommended", plan.chosen, "*"))
    ]
    for kind, other in recommendation.alternatives.items():
        if kind == "in-turns":
            taken = max(other.split.values())
        elif recommendation.unit == "ranks":
            taken = sum(other.split.values())
        elif sum(other.split.values()) == sum(recommendation.split.values()):
            taken = recommendation.used.get("cores", recommendation.used["ranks"])
        else:
            continue
        marks.append((label(kind), *at(other.window_seconds, taken), style.MARKS[kind]))
    for mark in marks:
        panel.mark(*mark)
    _, marks_x, marks_y, _ = zip(*marks, strict=True)
    axes.set(xscale="log", yscale="log")
    axes.set_xlim(min(*xs, *marks_x) / 1.1, max(*xs, *marks_x) * 1.1)
    axes.set_ylim(min(*ys, *marks_y) / 1.15, max(*ys, *marks_y) * 1.15)
    title = "Time against cost" if hours else "Window time over the budget"
    xlabel = "core-hours per 1000 windows" if hours else "cores (count)"
    panel.label(title, xlabel, f"window time ({unit.symbol})")
    style.plain_log_ticks(axes, whole=not hours)


def _is_measured(recommendation: Recommendation, split: Mapping[str, int]) -> bool:
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
