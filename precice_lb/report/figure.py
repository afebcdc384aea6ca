"""The figure of a recommendation: scaling curves with their evidence, and the window time over the split."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from precice_lb.plural import plural
from precice_lb.report.curves import Landscape, ScalingCurve, landscape_of, scaling_curves
from precice_lb.report.style import GREY, HATCHED, MARKS, Bars, Panel, colour_of, marker_of, plain_log_ticks, two_panels
from precice_lb.report.text import seconds_unit, short_names
from precice_lb.report.view import label

if TYPE_CHECKING:
    from precice_lb.recommend import Recommendation

__all__ = ["draw_recommendation", "landscape_panel", "scaling_panel", "window_panel"]


def draw_recommendation(recommendation: Recommendation) -> Figure:
    """Draw scaling curves with the evidence, beside the window time over the split of two, or compute and wait time."""
    names, curves = short_names(recommendation.split, 16), scaling_curves(recommendation)

    def right(panel: Panel) -> None:
        if len(names) == 2:
            landscape_panel(panel, recommendation, names, landscape_of(recommendation))
        else:
            window_panel(panel, recommendation, names)

    return two_panels(lambda panel: scaling_panel(panel, recommendation, names, curves), right, 5.2)


def scaling_panel(
    panel: Panel, recommendation: Recommendation, names: Mapping[str, str], curves: Mapping[str, ScalingCurve]
) -> None:
    """Draw compute time over ranks: models with intervals, measurements, the recommended counts and those in use."""
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
        spread = np.asarray(recommendation.measurements.spread.get(who, np.full(len(measured), np.nan)), dtype=float)
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
        panel.name(line, f"{names[who]}: {plural(chosen, 'rank')}")
    axes.set(xscale="log", yscale="log")
    ylabel = f"compute time per window ({unit.symbol})"
    panel.label("Scaling of each participant", "ranks of the participant (count)", ylabel)
    axes.set_xlim(min(c.ranks[0] for c in curves.values()) / 1.15, max(c.ranks[-1] for c in curves.values()) * 1.15)
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


def landscape_panel(panel: Panel, recommendation: Recommendation, names: Mapping[str, str], found: Landscape) -> None:
    """Draw the window time over the split of all ranks between two participants."""
    first, second = recommendation.split
    total = sum(recommendation.split.values())
    ranks, own, window = found.ranks[first], found.own, found.window
    unit = seconds_unit([recommendation.window_seconds])
    axes = panel.axes
    panel.line(ranks, window * unit.per_second, "window time", color="black", linewidth=2, zorder=3)
    for index, who in enumerate(own):
        seconds = own[who] * unit.per_second
        panel.line(ranks, seconds, f"compute time of {names[who]}", color=colour_of(index), linewidth=1.2)
    if found.low is not None and found.high is not None:
        low, high = found.low * unit.per_second, found.high * unit.per_second
        axes.fill_between(ranks, low, high, color="black", alpha=0.14, linewidth=0)
        panel.name_area("black", f"{100 * recommendation.level:.0f} % interval of the window time")
    # A split of more ranks, where not all were worth giving out, has no place on this axis.
    others = {k: other for k, other in recommendation.alternatives.items() if sum(other.split.values()) == total}
    panel.mark("recommended", recommendation.split[first], recommendation.window_seconds * unit.per_second)
    for kind, other in others.items():
        panel.mark(label(kind), other.split[first], other.window_seconds * unit.per_second, MARKS[kind])
    # Towards the edges times grow without bound: show what lies within a few times the optimum, and every mark.
    reach = max([recommendation.window_seconds, *(other.window_seconds for other in others.values())])
    ceiling = max(3.0 * recommendation.window_seconds, 1.15 * reach)
    shown = ranks[window <= ceiling]
    axes.set_xlim(max(shown.min() - 0.02 * total, 0.5), min(shown.max() + 0.02 * total, total - 0.5))
    inside = (ranks >= axes.get_xlim()[0]) & (ranks <= axes.get_xlim()[1])
    floor = min(float(times[inside].min()) for times in own.values())
    axes.set_yscale("log")
    axes.set_ylim(
        unit.per_second * max(floor / 1.1, recommendation.window_seconds / 6), unit.per_second * ceiling * 1.05
    )
    xlabel = f"ranks of {names[first]} (count)\nthe rest of {total} to {names[second]}"
    panel.label(f"Window time over the split of {total} ranks", xlabel, f"time per window ({unit.symbol})")
    plain_log_ticks(axes, x=False)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def window_panel(panel: Panel, recommendation: Recommendation, names: Mapping[str, str]) -> None:
    """Draw compute time and wait of each participant at the recommended split; arguments as of `scaling_panel`."""
    unit = seconds_unit([recommendation.window_seconds])
    own = {who: recommendation.compute_seconds[who] * unit.per_second for who in names}
    lines = [
        (names[who], [(own[who], {"color": colour_of(index)}), (recommendation.waits[who] * unit.per_second, HATCHED)])
        for index, who in enumerate(names)
    ]
    panel.bars([Bars("", lines, recommendation.window_seconds * unit.per_second)])
    panel.label("One window at the recommended split", f"time per window ({unit.symbol})", "participant")
    panel.name(Patch(color=GREY), "compute time (predicted)")
    panel.name(Patch(**HATCHED), "wait (predicted)")
    panel.name(Line2D([], [], color="black", linewidth=2), "window time")
