"""The figure of a recommendation: scaling curves with their evidence, and the window time over the split.

Drawn with matplotlib's objects alone (no pyplot, no global figure), in a palette that colour-blind readers can tell
apart (Okabe and Ito), with a marker of its own per participant. Importing this module loads matplotlib.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from precice_lb.plural import plural
from precice_lb.report.curves import landscape_of, scaling_curve
from precice_lb.report.style import GREY, drawing, legend_below, look, new_figure, plain_log_ticks
from precice_lb.report.text import seconds_unit, short_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from precice_lb.recommend import Recommendation

__all__ = ["draw_recommendation", "figure_bytes", "landscape_panel", "scaling_panel", "window_panel"]


def draw_recommendation(recommendation: Recommendation) -> Figure:
    """Draw scaling curves with the evidence, beside the window time over the split of two, or own and waiting time."""
    with new_figure(10.5, 5.2) as figure:
        left, right = figure.subplots(1, 2)
        names = short_names(recommendation.split, 16)
        scaling_panel(left, recommendation, names)
        if len(names) == 2:
            landscape_panel(right, recommendation, names)
        else:
            window_panel(right, recommendation, names)
    return figure


def figure_bytes(figure: Figure, kind: str) -> bytes:
    """Render a figure, the same bytes every time for the same figure."""
    metadata = {"Date": None, "Creator": "precice-lb"} if kind == "svg" else {"Software": "precice-lb"}
    buffer = io.BytesIO()
    with drawing():
        figure.savefig(buffer, format=kind, metadata=metadata)
    return buffer.getvalue()


def scaling_panel(axes: Axes, recommendation: Recommendation, names: Mapping[str, str]) -> None:
    """Draw compute time over ranks: models with intervals, measurements, the recommended counts and those in use."""
    samples = recommendation.measurements.samples
    unit = seconds_unit(float(value) for rows in samples.values() for value in rows[:, 1])
    present = recommendation.alternatives.get("present")
    low_rank, high_rank = np.inf, 0.0
    for index, (who, chosen) in enumerate(recommendation.split.items()):
        colour, marker = look(index)
        measured = np.asarray(samples[who], dtype=float)
        here = recommendation.measured_here(who)
        found = scaling_curve(recommendation, who)
        ranks, curve = found.ranks, found.seconds * unit.per_second
        low_rank, high_rank = min(low_rank, ranks[0]), max(high_rank, ranks[-1])
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
            used = present.split[who]
            at = curve[np.searchsorted(ranks, used)]
            axes.plot([used], [at], marker="o", markersize=10, color=colour, markerfacecolor="none", zorder=5)
    axes.set(xscale="log", yscale="log", xlabel="ranks of the participant (count)")
    axes.set_ylabel(f"compute time per window ({unit.symbol})")
    axes.set_title("Scaling of each participant", loc="left")
    axes.set_xlim(low_rank / 1.15, high_rank * 1.15)
    plain_log_ticks(axes)
    entries: list[tuple[Any, str]] = [
        (
            Line2D([], [], color=look(i)[0], marker=look(i)[1], linewidth=1.8),
            f"{name}: {plural(count, 'rank')}",
        )
        for i, (name, count) in enumerate(zip(names.values(), recommendation.split.values(), strict=True))
    ]
    entries += [
        (Line2D([], [], color=GREY, marker="o", linestyle="none"), "measured"),
        *_elsewhere(recommendation),
        (Line2D([], [], color=GREY, linestyle=(0, (4, 2))), "model beyond the measurements"),
        (Patch(color=GREY, alpha=0.25, linewidth=0), f"{100 * recommendation.level:.0f} % interval of the model"),
        (Line2D([], [], color=GREY, marker="*", markersize=11, markeredgecolor="black", linestyle=":"), "recommended"),
    ]
    if present is not None:
        mark = Line2D([], [], color=GREY, marker="o", markersize=9, markerfacecolor="none", linestyle="none")
        entries.append((mark, "in use at present"))
    legend_below(axes, entries)


def _elsewhere(recommendation: Recommendation) -> list[tuple[Any, str]]:
    """Legend of measurements at other values of the parameters, where there are any."""
    if all(recommendation.measured_here(who).all() for who in recommendation.split):
        return []
    mark = Line2D([], [], color=GREY, marker="o", markersize=3.5, markerfacecolor="none", alpha=0.6, linestyle="none")
    return [(mark, "measured for other parameters")]


def landscape_panel(axes: Axes, recommendation: Recommendation, names: Mapping[str, str]) -> None:
    """Draw the window time over the split of all ranks between two participants."""
    first, second = recommendation.split
    total = sum(recommendation.split.values())
    found = landscape_of(recommendation)
    ranks, own, window = found.ranks[first], found.own, found.window
    unit = seconds_unit([recommendation.window_seconds])
    for index, who in enumerate(own):
        axes.plot(ranks, own[who] * unit.per_second, color=look(index)[0], linewidth=1.2)
    axes.plot(ranks, window * unit.per_second, color="black", linewidth=2)
    entries: list[tuple[Any, str]] = [(Line2D([], [], color="black", linewidth=2), "window time")]
    entries += [(Line2D([], [], color=look(i)[0]), f"compute time of {name}") for i, name in enumerate(names.values())]
    if found.low is not None and found.high is not None:
        low, high = found.low * unit.per_second, found.high * unit.per_second
        axes.fill_between(ranks, low, high, color="black", alpha=0.14, linewidth=0)
        label = f"{100 * recommendation.level:.0f} % interval of the window time"
        entries.append((Patch(color="black", alpha=0.2, linewidth=0), label))
    marks = [("recommended", recommendation.split, recommendation.window_seconds, "*", 15)]
    marks += [
        (f"{kind} split", other.split, other.window_seconds, marker, 7)
        for (kind, other), marker in zip(recommendation.alternatives.items(), ("D", "s", "^", "v"), strict=False)
        # A split of more ranks, where not all were worth giving out, has no place on this axis.
        if sum(other.split.values()) == total
    ]
    for label, split, seconds, marker, size in marks:
        shape: dict[str, Any] = {"marker": marker, "markersize": size, "color": "#F0E442", "markeredgecolor": "black"}
        axes.plot([split[first]], [seconds * unit.per_second], zorder=6 if marker == "*" else 5, **shape)
        shape["markersize"] = min(size, 11)
        entries.append(
            (Line2D([], [], linestyle="none", **shape), label.replace("degrees-of-freedom", "DoF-proportional"))
        )
    # Towards the edges times grow without bound: show what lies within a few times the optimum, and every mark.
    reach = 1.15 * max(seconds for _, _, seconds, _, _ in marks)
    ceiling = max(3.0 * recommendation.window_seconds, reach)
    shown = ranks[window <= ceiling]
    axes.set_xlim(max(shown.min() - 0.02 * total, 0.5), min(shown.max() + 0.02 * total, total - 0.5))
    inside = (ranks >= axes.get_xlim()[0]) & (ranks <= axes.get_xlim()[1])
    floor = min(float(times[inside].min()) for times in own.values())
    axes.set_yscale("log")
    axes.set_ylim(
        unit.per_second * max(floor / 1.1, recommendation.window_seconds / 6), unit.per_second * ceiling * 1.05
    )
    axes.set_xlabel(f"ranks of {names[first]} (count)\nthe rest of {total} to {names[second]}", parse_math=False)
    axes.set_ylabel(f"time per window ({unit.symbol})")
    axes.set_title(f"Window time over the split of {total} ranks", loc="left")
    plain_log_ticks(axes, x=False)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    legend_below(axes, entries)


def window_panel(axes: Axes, recommendation: Recommendation, names: Mapping[str, str]) -> None:
    """Draw compute time and wait of each participant at the recommended split; arguments as of `scaling_panel`."""
    unit = seconds_unit([recommendation.window_seconds])
    rows = np.arange(len(names))
    own = np.array([recommendation.compute_seconds[who] for who in names]) * unit.per_second
    waits = np.array([recommendation.waits[who] for who in names]) * unit.per_second
    colours = [look(index)[0] for index in range(len(names))]
    axes.barh(rows, own, color=colours, height=0.6)
    axes.barh(rows, waits, left=own, color="white", edgecolor=GREY, hatch="////", height=0.6, linewidth=0.8)
    axes.axvline(recommendation.window_seconds * unit.per_second, color="black", linewidth=1.6)
    axes.set_yticks(rows, list(names.values()), parse_math=False)
    axes.invert_yaxis()
    axes.set_xlim(0.0, 1.04 * float((own + waits).max()))
    axes.set_xlabel(f"time per window ({unit.symbol})")
    axes.set_ylabel("participant")
    axes.set_title("One window at the recommended split", loc="left")
    legend_below(
        axes,
        [
            (Patch(color=GREY), "compute time (predicted)"),
            (Patch(facecolor="white", edgecolor=GREY, hatch="////"), "wait (predicted)"),
            (Line2D([], [], color="black", linewidth=1.6), "window time"),
        ],
    )
