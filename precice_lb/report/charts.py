"""How figures look, and the charts of a recommendation."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from precice_lb.layout import count_text
from precice_lb.recommend.posterior import NEVER, geometric_mean
from precice_lb.recommend.sources import rows_at
from precice_lb.report.blocks import Chart, percent, seconds_unit, short_names
from precice_lb.report.recommendation import label, ranks_word, split_text, unit_of, versioned

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

    from precice_lb.recommend import Recommendation

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
HATCHED: dict[str, Any] = {"facecolor": "none", "edgecolor": "#5A5A5A", "hatch": "////", "linewidth": 0.6}
"""How waiting for partners looks."""
MARKS = {"equal": "D", "degrees-of-freedom": "s", "present": "^", "in-turns": "P"}
"""Markers of the splits beside the recommended one."""
# Of a figure, in inches: about a telephone's screen, so that its letters can be read there.
_WIDTH = 4.2
_STYLE: list[Any] = [
    "default",
    {
        "font.size": 9,
        "axes.titlesize": 10,
        "axes.titlelocation": "left",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": "#E4E4E4",
        "legend.frameon": False,
        # The page's own shows through, which may be dark.
        "figure.facecolor": "none",
        "axes.facecolor": "none",
        # A name is no formula.
        "text.parse_math": False,
        "svg.fonttype": "none",
        # Without a fixed salt every run would write other element names.
        "svg.hashsalt": "precice-lb",
    },
]


@contextmanager
def _drawing() -> Iterator[None]:
    """Use our style, whatever the user's own settings of matplotlib are."""
    from matplotlib import style

    with style.context(_STYLE), warnings.catch_warnings():
        # A name in a script that the font lacks is no reason to complain: the SVG keeps it as text.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def figure_svg(figure: Figure) -> bytes:
    """Render a figure, the same bytes every time for the same figure."""
    buffer = io.BytesIO()
    with _drawing():
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": "precice-lb"})
    return buffer.getvalue()


def colour_of(index: int) -> str:
    """Colour of the participant at a position; it repeats after six."""
    return _COLOURS[index % len(_COLOURS)]


class Panel:
    """An axes with the entries of its legend, which it gets from whoever draws."""

    def __init__(self, axes: Axes) -> None:
        self.axes = axes
        self.entries: dict[str, Any] = {}

    def name(self, handle: Any, text: str) -> None:
        """Say in the legend what something is."""
        self.entries.setdefault(text, handle)

    def key(self, text: str, **style: Any) -> None:
        """Say in the legend what a line or a marker is."""
        from matplotlib.lines import Line2D

        self.name(Line2D([], [], **style), text)

    def area(self, text: str, **shape: Any) -> None:
        """Say in the legend what is filled."""
        from matplotlib.patches import Patch

        self.name(Patch(**shape), text)

    def line(self, x: ArrayLike, y: ArrayLike, text: str, **style: Any) -> None:
        """Draw a line and name it."""
        self.name(self.axes.plot(x, y, **style)[0], text)

    def mark(self, text: str, x: ArrayLike, y: ArrayLike, marker: str = "*", size: float = 7) -> None:
        """Mark places, the recommended split's by a star, and name the mark."""
        look: dict[str, Any] = {"color": "#F0E442", "markeredgecolor": "black", "linestyle": "none", "marker": marker}
        self.axes.plot(x, y, markersize=15 if marker == "*" else size, zorder=5 + (marker == "*"), **look)
        self.key(text, markersize=11 if marker == "*" else 7, **look)

    def label(self, title: str, xlabel: str, ylabel: str) -> None:
        """Set title and labels."""
        self.axes.set(title=title, xlabel=xlabel, ylabel=ylabel)


def one_panel(draw: Callable[..., None], height: float, *of: Any) -> Figure:
    """Make a figure of one panel with a legend below it, narrow enough for a telephone, of what the function gets."""
    from matplotlib.figure import Figure

    with _drawing():
        figure = Figure(figsize=(_WIDTH, height), layout="constrained")
        panel = Panel(figure.subplots())
        draw(panel, *of)
        entries = panel.entries
        figure.set_figheight(height + 0.19 * len(entries))
        legend = figure.legend(list(entries.values()), [*map(str, range(len(entries)))], loc="outside lower left")
        # Labels are set afterwards: one that begins with "_" would be left out.
        for label, text in zip(legend.get_texts(), entries, strict=True):
            label.set_text(text)
    return figure


def whole_ticks(axis: Axis, most: int = 10) -> None:
    """Label an axis with whole numbers, so many at most."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(nbins=most, integer=True))


def plain_log_ticks(axes: Axes, x: bool = True) -> None:
    """Label logarithmic axes with plain round numbers, also when they span less than a decade."""
    from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

    for axis, (low, high) in [(axes.yaxis, axes.get_ylim()), *([(axes.xaxis, axes.get_xlim())] if x else [])]:
        axis.set_major_locator(LogLocator(subs=(1, 2, 3, 5) if high < 100 * low else (1,)))
        axis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axis.set_minor_locator(NullLocator())


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
        # Pairs of colour and marker repeat after 42.
        marker = _MARKERS[index % len(_MARKERS)]
        look: dict[str, Any] = {"color": colour_of(index), "marker": marker, "markersize": 5}
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
    """Draw the window time over the split of the two participants that there are."""
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
        interval = f"{percent(recommendation.level, 0)} interval of the window time"
        panel.area(interval, color="black", alpha=0.25, linewidth=0)
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
