"""The window time over the split of two participants, as a curve."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from precice_lb.recommend.case import rows_at
from precice_lb.recommend.posterior import NEVER, geometric_mean
from precice_lb.report.blocks import Chart
from precice_lb.report.style import MARKS, Panel, colour_of, one_panel, plain_log_ticks
from precice_lb.report.text import seconds_unit, short_names
from precice_lb.report.view import label, ranks_word

if TYPE_CHECKING:
    from precice_lb.recommend import Recommendation

Array = NDArray[np.float64]

# Ranks at which a curve is drawn.
GRID_POINTS = 200


def figure_names(recommendation: Recommendation) -> dict[str, str]:
    """How to write participants' names in figures, where there is little room."""
    return short_names(recommendation.split, 16)


def interval(recommendation: Recommendation, who: str, ranks: Array) -> tuple[Array, Array] | None:
    """Give their interval, where the model has one."""
    model = recommendation.models[who]
    if not hasattr(model, "predict_interval"):
        return None
    low, high = model.predict_interval(rows_at(ranks, recommendation.modelled[who]), recommendation.level)
    if not np.isfinite([low, high]).all():
        return None
    return np.maximum(low, 0.0), np.asarray(high, dtype=float)


@dataclass(frozen=True, eq=False)
class Landscape:
    """Window time over the split of all ranks between two participants."""

    # Of each participant, shape (k,).
    ranks: dict[str, Array]
    # Compute seconds per window that the models predict, shape (k,).
    own: dict[str, Array]
    # Seconds per window, expected over the drawn curves where the learner draws some, shape (k,).
    window: Array
    # Its interval, where known, shape (k,).
    low: Array | None
    high: Array | None


def landscape_of(recommendation: Recommendation) -> Landscape:
    """Evaluate all ways to divide the recommended ranks of two participants, by the curves that were decided on."""
    expected = recommendation.expected
    first, second = recommendation.split
    total = sum(recommendation.split.values())
    ranks = np.unique(np.linspace(1, total - 1, GRID_POINTS).round())
    ranks = np.union1d(ranks, [float(recommendation.split[first])])
    counts = {first: ranks, second: total - ranks}
    splits = np.column_stack([counts[who] for who in expected.names]).astype(np.int64)
    windows = expected.windows(splits, replay=False)
    usable = (windows < NEVER).all(axis=0)
    ranks, windows = ranks[usable], windows[:, usable]
    grids = {first: ranks, second: total - ranks}
    own = {who: recommendation.predicted(who, grid) for who, grid in grids.items()}
    if len(windows) == 1:
        return Landscape(grids, own, windows[0], None, None)
    edge = (1.0 - recommendation.level) / 2.0
    low, high = np.quantile(windows, [edge, 1.0 - edge], axis=0)
    return Landscape(grids, own, geometric_mean(windows), low, high)


def landscape_chart(recommendation: Recommendation) -> Chart:
    """Draw the window time over the split of two participants."""
    found = landscape_of(recommendation)
    return Chart(
        "landscape",
        "Window time and compute times if the ranks are divided otherwise; the window time is what is expected of what "
        "the measurements leave possible, without the noise from window to window.",
        one_panel(partial(_landscape, recommendation=recommendation, found=found), 3.2),
    )


def _landscape(panel: Panel, recommendation: Recommendation, found: Landscape) -> None:
    names = figure_names(recommendation)
    first, second = recommendation.split
    total, word = sum(recommendation.split.values()), ranks_word(recommendation)
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
    xlabel = f"{word} of {names[first]} (count)\nthe rest of {total} to {names[second]}"
    panel.label(f"Window time over the split of {total} {word}", xlabel, f"time per window ({unit.symbol})")
    plain_log_ticks(axes, x=False)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
