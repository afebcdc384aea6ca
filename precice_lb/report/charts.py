"""Charts of a recommendation."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.layout import count_text
from precice_lb.recommend.posterior import NEVER, geometric_mean
from precice_lb.recommend.sources import rows_at
from precice_lb.report.blocks import Chart, percent, seconds_unit, short_names
from precice_lb.report.recommendation import label, ranks_word, split_text, unit_of, versioned
from precice_lb.report.style import (
    HATCHED,
    MARKS,
    Panel,
    colour_of,
    marker_of,
    one_panel,
    plain_log_ticks,
    whole_ticks,
)

if TYPE_CHECKING:
    from precice_lb.recommend import Recommendation

Array = NDArray[np.float64]

# Ranks at which a curve is drawn.
_GRID_POINTS = 200


def _names(recommendation: Recommendation) -> dict[str, str]:
    """How to write participants' names in figures, where there is little room."""
    return short_names(recommendation.split, 16)


def scaling_chart(recommendation: Recommendation) -> Chart:
    """Draw each participant's time over its ranks: model, interval, measurements, recommended and present counts."""
    return Chart(
        "scaling",
        "Compute time per window of each participant over its ranks, without waiting: points are measured, pale ones "
        f"for other parameters; curves are the models with their {percent(recommendation.level, 0)} intervals, dashed "
        "beyond the measurements.",
        one_panel(_scaling, 3.2, recommendation),
    )


def _scaling(panel: Panel, recommendation: Recommendation) -> None:
    names, axes = versioned(_names(recommendation), recommendation.versions), panel.axes
    unit = seconds_unit(float(value) for rows in recommendation.measurements.samples.values() for value in rows[:, 1])
    marks = {"recommended": recommendation.split}
    if (present := recommendation.alternatives.get("present")) is not None:
        marks["in use at present"] = present.split
    for index, who in enumerate(recommendation.split):
        counts, seconds = recommendation.measurements.samples[who].T
        shown = [*counts.tolist(), *(float(split[who]) for split in marks.values())]
        ranks = np.union1d(np.geomspace(min(shown), max(shown), _GRID_POINTS), shown)
        curve = recommendation.predicted(who, ranks) * unit.per_second
        look: dict[str, Any] = {"color": colour_of(index), "marker": marker_of(index), "markersize": 5}
        model = recommendation.models[who]
        if hasattr(model, "predict_interval"):
            edges = model.predict_interval(rows_at(ranks, recommendation.modelled[who]), recommendation.level)
            low, high = np.maximum(edges, 0.0) * unit.per_second
            axes.fill_between(ranks, low, high, where=np.isfinite(high), color=look["color"], alpha=0.18, linewidth=0)
        inside = (ranks >= counts.min()) & (ranks <= counts.max())
        axes.plot(ranks, curve, color=colour_of(index), linestyle="--")
        axes.plot(ranks[inside], curve[inside], color=colour_of(index), linewidth=2)
        here = recommendation.measured_here(who)
        errors = recommendation.measurements.frames[who].standard_error[here]
        axes.errorbar(counts[here], seconds[here] * unit.per_second, errors * unit.per_second, linestyle="", **look)
        axes.plot(counts[~here], seconds[~here] * unit.per_second, linestyle="", alpha=0.4, **look)
        panel.key(f"{names[who]}: {count_text(who, recommendation.split[who], recommendation.layouts)}", **look)
    for (text, split), marker in zip(marks.items(), ("*", MARKS["present"]), strict=False):
        seconds = [recommendation.predicted(who, np.array([float(count)])).item() for who, count in split.items()]
        panel.mark(text, list(split.values()), np.multiply(seconds, unit.per_second), marker)
    axes.set(xscale="log", yscale="log")
    ylabel = f"compute time per window ({unit.symbol})"
    panel.label("Scaling of each participant", f"{ranks_word(recommendation)} of the participant (count)", ylabel)
    plain_log_ticks(axes)


def comparison_chart(recommendation: Recommendation) -> Chart:
    """Draw compute time and waiting of every participant under the recommended split and those beside it."""
    expected, names = recommendation.expected, _names(recommendation)
    splits = {"recommended": (recommendation.split, recommendation.window_seconds)}
    splits |= {kind: (other.split, other.window_seconds) for kind, other in recommendation.alternatives.items()}
    unit = seconds_unit([max(window for _, window in splits.values())])

    def draw(panel: Panel) -> None:
        axes, place = panel.axes, 0.0
        for kind, (split, window) in splits.items():
            compute = recommendation.compute_seconds if kind == "recommended" else expected.mean_seconds(split)
            text = f"{label(kind)}: {split_text(split, recommendation.layouts)}"
            text = text if len(text) <= 52 else f"{text[:51]}…"
            axes.text(0.008, place + 1.04, text, transform=axes.get_yaxis_transform(), va="bottom")
            for row, who in enumerate(split, start=1):
                seconds = compute[who] * expected.schedule.windows[who]
                waits = max(window - seconds, 0.0)
                axes.barh(place + row + 0.55, seconds * unit.per_second, color=colour_of([*names].index(who)))
                axes.barh(place + row + 0.55, waits * unit.per_second, left=seconds * unit.per_second, **HATCHED)
            end, place = place + 1.1, place + len(split) + 1.1
            axes.plot([window * unit.per_second] * 2, [end, place], color="black", linewidth=2)
        longest = max(window for _, window in splits.values()) * unit.per_second
        axes.set(xlim=(0.0, 1.04 * longest), ylim=(place + 0.2, 0.0), yticks=[])
        axes.spines["left"].set_visible(False)
        panel.label("One window under each split", f"time per window ({unit.symbol})", "splits")
        for index, name in enumerate(names.values()):
            panel.area(f"compute time of {name}", color=colour_of(index))
        panel.area("waiting", **HATCHED)

    return Chart(
        "comparison",
        "Predicted compute time of every participant and, hatched, the rest of the window, in which it waits; the "
        "black line ends the window.",
        one_panel(draw, 0.9 + len(splits) * (0.26 + 0.17 * len(names))),
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
    names, axes, word = _names(recommendation), panel.axes, ranks_word(recommendation)
    first, second = recommendation.split
    total, unit = sum(recommendation.split.values()), unit_of(recommendation)
    ranks, windows = landscape_of(recommendation)
    window = geometric_mean(windows)
    panel.line(ranks, window * unit.per_second, "window time", color="black", linewidth=2, zorder=3)
    for index, (who, counts) in enumerate({first: ranks, second: total - ranks}.items()):
        seconds = recommendation.predicted(who, counts) * unit.per_second
        panel.line(ranks, seconds, f"compute time of {names[who]}", color=colour_of(index))
    if len(windows) > 1:
        edge = (1.0 - recommendation.level) / 2.0
        low, high = np.quantile(windows, [edge, 1.0 - edge], axis=0) * unit.per_second
        axes.fill_between(ranks, low, high, color="black", alpha=0.14, linewidth=0)
        panel.shade(f"{percent(recommendation.level, 0)} interval of the window time", "black")
    marks = {"recommended": (recommendation.split[first], recommendation.window_seconds, "*")}
    for kind, other in recommendation.alternatives.items():
        # A split of more ranks, where not all were worth giving out, has no place on this axis.
        if sum(other.split.values()) == total:
            marks[label(kind)] = (other.split[first], other.window_seconds, MARKS[kind])
    for text, (count, time, marker) in marks.items():
        panel.mark(text, count, time * unit.per_second, marker)
    # Towards the edges times grow without bound: show what lies within a few times the optimum, and every mark.
    best = recommendation.window_seconds
    ceiling = max(3.0 * best, *(1.15 * time for _, time, _ in marks.values()))
    near = ranks[window <= ceiling]
    axes.set(yscale="log", xlim=(near.min() - 0.02 * total, near.max() + 0.02 * total))
    axes.set_ylim(best / 6 * unit.per_second, 1.05 * ceiling * unit.per_second)
    xlabel = f"{word} of {names[first]} (count)\nthe rest of {total} to {names[second]}"
    panel.label(f"Window time over the split of {total} {word}", xlabel, f"time per window ({unit.symbol})")
    plain_log_ticks(axes, x=False)
    whole_ticks(axes.xaxis)


CHARTS: dict[str, Callable[[Recommendation], Chart]] = {
    "scaling": scaling_chart,
    "comparison": comparison_chart,
    "landscape": landscape_chart,
}
"""By name; the landscape needs two participants."""
