"""Charts of a recommendation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.layout import count_text
from precice_lb.recommend.posterior import NEVER, geometric_mean
from precice_lb.recommend.sources import rows_at
from precice_lb.report import style
from precice_lb.report.blocks import Chart, percent, seconds_unit, short_names
from precice_lb.report.recommendation import label, ranks_word, split_text, unit_of, versioned
from precice_lb.report.style import GREY, HATCHED, Bars, Panel, colour_of, marker_of, one_panel

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
    shown = [*recommendation.measurements.samples[who][:, 0].astype(float).tolist(), float(recommendation.split[who])]
    if (present := recommendation.alternatives.get("present")) is not None:
        shown.append(float(present.split[who]))
    return np.union1d(np.geomspace(min(shown), max(shown), _GRID_POINTS), shown)


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
    unit = seconds_unit(float(value) for rows in samples.values() for value in rows[:, 1])
    present, elsewhere = recommendation.alternatives.get("present"), False
    shown = versioned(names, recommendation.versions)
    lowest, highest = np.inf, 0.0
    for index, (who, chosen) in enumerate(recommendation.split.items()):
        colour, marker, model = colour_of(index), marker_of(index), recommendation.models[who]
        here, ranks = recommendation.measured_here(who), _shown_ranks(recommendation, who)
        counts, seconds = samples[who][:, 0], samples[who][:, 1] * unit.per_second
        lowest, highest, elsewhere = min(lowest, ranks[0]), max(highest, ranks[-1]), elsewhere or not here.all()
        curve = recommendation.predicted(who, ranks) * unit.per_second
        if hasattr(model, "predict_interval"):
            edges = model.predict_interval(rows_at(ranks, recommendation.modelled[who]), recommendation.level)
            if np.isfinite(edges).all():
                low, high = np.maximum(edges, 0.0) * unit.per_second
                axes.fill_between(ranks, low, high, color=colour, alpha=0.18, linewidth=0)
        axes.plot(ranks, curve, color=colour, **_DASHED)
        inside = (ranks >= counts.min()) & (ranks <= counts.max())
        axes.plot(ranks[inside], curve[inside], color=colour, linewidth=1.8)
        errors = recommendation.measurements.frames[who].standard_error[here] * unit.per_second
        point: dict[str, Any] = {"fmt": marker, "color": colour}
        edge: dict[str, Any] = {"markersize": 5, "markeredgecolor": "white", "markeredgewidth": 0.6, "elinewidth": 1}
        axes.errorbar(counts[here], seconds[here], yerr=errors, **point, **edge)
        axes.errorbar(counts[~here], seconds[~here], **point, markersize=3.5, alpha=0.45, markerfacecolor="none")
        axes.axvline(chosen, color=colour, linewidth=0.9, linestyle=":")
        times = dict(zip(ranks.tolist(), curve.tolist(), strict=True))
        star: dict[str, Any] = {"marker": "*", "markersize": 14, "markeredgecolor": "black", "zorder": 5}
        axes.plot([chosen], [times[chosen]], color=colour, **star)
        if present is not None:
            ring: dict[str, Any] = {"marker": "o", "markersize": 10, "markerfacecolor": "none"}
            axes.plot([present.split[who]], [times[present.split[who]]], color=colour, **ring)
        text = f"{shown[who]}: {count_text(who, chosen, recommendation.layouts)}"
        panel.key(text, color=colour, marker=marker, linewidth=1.8)
    axes.set(xscale="log", yscale="log", xlim=(lowest / 1.15, highest * 1.15))
    ylabel = f"compute time per window ({unit.symbol})"
    panel.label("Scaling of each participant", f"{ranks_word(recommendation)} of the participant (count)", ylabel)
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
        compute = recommendation.compute_seconds if kind == "recommended" else expected.mean_seconds(split)
        parts: list[tuple[str, list[tuple[float, dict[str, Any]]]]] = []
        for who in split:
            seconds = compute[who] * expected.schedule.windows[who]
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
    unit, (ranks, windows) = unit_of(recommendation), landscape_of(recommendation)
    window = geometric_mean(windows)
    times = [recommendation.predicted(first, ranks), recommendation.predicted(second, total - ranks)]
    panel.line(ranks, window * unit.per_second, "window time", color="black", linewidth=2, zorder=3)
    for index, (name, seconds) in enumerate(zip(names.values(), times, strict=True)):
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
    left, right = max(shown.min() - 0.02 * total, 0.5), min(shown.max() + 0.02 * total, total - 0.5)
    inside = (ranks >= left) & (ranks <= right)
    floor = max(min(float(seconds[inside].min()) for seconds in times) / 1.1, best / 6)
    limits = floor * unit.per_second, 1.05 * ceiling * unit.per_second
    axes.set(yscale="log", xlim=(left, right), ylim=limits)
    xlabel = f"{word} of {names[first]} (count)\nthe rest of {total} to {names[second]}"
    panel.label(f"Window time over the split of {total} {word}", xlabel, f"time per window ({unit.symbol})")
    style.plain_log_ticks(axes, x=False)
    style.whole_ticks(axes.xaxis)


def budget_chart(recommendation: Recommendation) -> Chart:
    """Draw window time over cores for the best split of every budget, which a plan has."""
    text = "The best window time of each budget, beside what perfect scaling of the cheapest would give."
    return Chart("budget", text, one_panel(_budget, 3.0, recommendation))


def _budget(panel: Panel, recommendation: Recommendation) -> None:
    plan = recommendation.plan
    assert plan is not None
    points, axes, colour, unit = plan.tradeoff.points, panel.axes, colour_of(0), unit_of(recommendation)
    cores = np.array([float(point.cores) for point in points])
    seconds = np.array([point.window_seconds for point in points]) * unit.per_second
    measured = np.array([_is_measured(recommendation, point.split) for point in points])
    dots: dict[str, Any] = {"color": colour, "marker": "o", "markersize": 3}
    axes.plot(cores, seconds, **_DASHED, **dots)
    axes.plot(cores, np.where(measured, seconds, np.nan), color=colour, linewidth=2)
    panel.key("best split of each budget", linewidth=2, **dots)
    panel.key("beyond the measurements", color=colour, **_DASHED)
    text = "perfect scaling from the cheapest"
    panel.line(cores, seconds[0] * cores[0] / cores, text, color=GREY, linestyle=":", linewidth=1.2)
    marks = [("recommended", plan.chosen.cores, plan.chosen.window_seconds, "*")]
    if (knee := plan.knee) is not None:
        marks.append(("knee", knee.cores, knee.window_seconds, "v"))
    for kind, other in recommendation.alternatives.items():
        if kind == "in-turns" or recommendation.unit == "ranks":
            taken = max(other.split.values()) if kind == "in-turns" else sum(other.split.values())
            marks.append((label(kind), taken, other.window_seconds, style.MARKS[kind]))
    for name, taken, window, marker in marks:
        panel.mark(name, taken, window * unit.per_second, marker)
    axes.set(xscale="log", yscale="log")
    axes.margins(0.06)
    panel.label("Window time over the budget", "cores (count)", f"window time ({unit.symbol})")
    style.plain_log_ticks(axes)


def _is_measured(recommendation: Recommendation, split: Mapping[str, int]) -> bool:
    samples = recommendation.measurements.samples
    return all(samples[who][:, 0].min() <= count <= samples[who][:, 0].max() for who, count in split.items())


CHARTS: dict[str, Callable[[Recommendation], Chart]] = {
    "scaling": scaling_chart,
    "comparison": comparison_chart,
    "landscape": landscape_chart,
    "budget": budget_chart,
}
"""By name; the landscape needs two participants, the budget a plan."""
