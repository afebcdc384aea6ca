"""The course of a chain of jobs as a figure: matplotlib is loaded for a page, not for a view in the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from precice_lb.report.blocks import Chart
from precice_lb.report.style import GREY, Panel, colour_of, stacked
from precice_lb.report.text import seconds_unit, short_names

if TYPE_CHECKING:
    from precice_lb.chain.document import ChainDocument


# How the kinds of decisions are marked; segments that stayed as they were are not.
_KINDS = {
    "start": ("s", "first split"),
    "learn": ("D", "run for what it teaches"),
    "move": ("^", "moved, since it pays"),
    "undo": ("v", "undone"),
}
# Ranks are written beside their steps up to so many different splits in a row.
_WRITTEN = 6


def chain_chart(chain: ChainDocument) -> Chart:
    """Draw the window time of each segment with its kind, compute seconds, and ranks below; of one segment or more."""
    return Chart(
        "chain",
        "Window time of each segment (black) and the compute time of every participant in a window of its own; marks "
        f"say why a segment has its split, dotted lines where it changed. Below, the {chain.unit} of each participant.",
        stacked([partial(_seconds, chain=chain), partial(_ranks, chain=chain)], (2.4, 1.5)),
    )


def _seconds(panel: Panel, chain: ChainDocument) -> None:
    segments, names = chain.segments, short_names(chain.participants, 16)
    unit = seconds_unit([each.window_seconds for each in segments])
    windows = [each.window_seconds * unit.per_second for each in segments]
    _steps(panel, chain, windows, "window time", color="black", linewidth=2.0, zorder=3)
    for index, name in enumerate(chain.participants):
        seconds = [each.seconds[name] * unit.per_second for each in segments]
        _steps(
            panel, chain, seconds, f"{names[name]}: compute time, {chain.unit}", color=colour_of(index), linewidth=1.2
        )
    for kind, (marker, text) in _KINDS.items():
        marked = [place for place, each in enumerate(segments) if each.kind == kind]
        style: dict[str, Any] = {"color": "#F0E442", "markeredgecolor": "black", "marker": marker, "linestyle": "none"}
        if marked:
            size = 7 if len(segments) <= 20 else 4.5
            middle = [segments[place].start_window + segments[place].windows / 2 for place in marked]
            panel.axes.plot(middle, [windows[place] for place in marked], markersize=size, zorder=5, **style)
            panel.name(Line2D([], [], markersize=7, **style), text)
    _borders(panel, chain)
    panel.label("Course of the chain", "", f"time per window ({unit.symbol})")
    panel.axes.set_ylim(0, 1.08 * panel.axes.get_ylim()[1])


def _ranks(panel: Panel, chain: ChainDocument) -> None:
    names = short_names(chain.participants, 16)
    changes = _changes(chain)
    most = max(count for each in chain.segments for count in each.split.values())
    for index, name in enumerate(chain.participants):
        colour = colour_of(index)
        ranks = [float(each.split[name]) for each in chain.segments]
        _steps(panel, chain, ranks, f"{names[name]}: compute time, {chain.unit}", color=colour, linewidth=1.6)
        for place in [0, *changes] if len(changes) < _WRITTEN else []:
            others = [count for other, count in chain.segments[place].split.items() if other != name]
            # Where lines are close to each other, the table has the numbers.
            if all(abs(count - ranks[place]) > 0.15 * most for count in others):
                at = (chain.segments[place].start_window, ranks[place])
                style: dict[str, Any] = {
                    "textcoords": "offset points",
                    "color": colour,
                    "fontsize": 8,
                    "parse_math": False,
                }
                panel.axes.annotate(f"{ranks[place]:g}", at, (2, 2), **style)
    _borders(panel, chain)
    panel.label("", "time windows of the chain (count)", f"{chain.unit} (count)")
    axes = panel.axes
    axes.set_ylim(0, 1.2 * most)
    axes.set_xlim(0, max(chain.windows_done, 1))
    axes.yaxis.set_major_locator(MaxNLocator(nbins=4, integer=True))
    axes.xaxis.set_major_locator(MaxNLocator(nbins=7, integer=True))


def _steps(panel: Panel, chain: ChainDocument, values: Sequence[float], text: str, **style: Any) -> None:
    """Draw a value of each segment over its windows."""
    edges = [each.start_window for each in chain.segments] + [chain.windows_done]
    panel.line(np.repeat(edges, 2)[1:-1], np.repeat(values, 2), text, **style)


def _borders(panel: Panel, chain: ChainDocument) -> None:
    """Draw a dotted line wherever the split changes."""
    for place in _changes(chain):
        panel.axes.axvline(chain.segments[place].start_window, color=GREY, linewidth=0.7, linestyle=":", zorder=1)


def _changes(chain: ChainDocument) -> list[int]:
    """Places of segments with another split than the one before."""
    pairs = zip(chain.segments, chain.segments[1:], strict=False)
    return [place for place, (before, after) in enumerate(pairs, start=1) if before.split != after.split]
