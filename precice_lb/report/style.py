"""The look of our figures: palette, markers, legends below the axes, and round numbers on logarithmic axes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import style
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullFormatter, NullLocator, StrMethodFormatter
from matplotlib.transforms import ScaledTranslation

from precice_lb.report.text import cells

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.legend import Legend

__all__ = [
    "COLOURS",
    "GREY",
    "GRID",
    "drawing",
    "legend_below",
    "look",
    "new_figure",
    "one_panel",
    "panels",
    "plain_log_ticks",
    "strips",
]

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
GREY = "#5A5A5A"
GRID = "#E4E4E4"
# Of a figure of one panel, in inches: about a telephone's screen, so that its letters can be read there.
_WIDTH = 4.2
# What ticks and the label of the vertical axis take beside a legend, in inches.
_BESIDE = 0.75
_STYLE: list[Any] = [
    "default",
    {
        "font.size": 9,
        "axes.titlesize": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": GRID,
        "grid.linewidth": 0.6,
        "legend.frameon": False,
        "legend.fontsize": 8.5,
        "svg.fonttype": "none",
        # Without a fixed salt every run would write other element names.
        "svg.hashsalt": "precice-lb",
    },
]


@contextmanager
def drawing() -> Iterator[None]:
    """Use our style, whatever the user's own settings of matplotlib are."""
    with style.context(_STYLE), warnings.catch_warnings():
        # A name in a script that the font lacks is no reason to complain: the SVG keeps it as text.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


@contextmanager
def new_figure(width: float, height: float) -> Iterator[Figure]:
    """Make a figure on an Agg canvas, in inches, to be drawn into; then lay it out once and for all.

    The layout would depend on the resolution of whatever renders it first.
    """
    with drawing():
        figure = Figure(figsize=(width, height), dpi=150, layout="constrained")
        FigureCanvasAgg(figure)
        yield figure
        figure.draw_without_rendering()
        figure.set_layout_engine("none")


def look(index: int) -> tuple[str, str]:
    """Colour and marker of the participant at a position; the colours repeat after six, pairs after 42."""
    return COLOURS[index % len(COLOURS)], _MARKERS[index % len(_MARKERS)]


def one_panel(draw: Callable[[Axes], None], height: float = 2.9) -> Figure:
    """Make a figure of one panel, narrow enough for a telephone."""
    with new_figure(_WIDTH, height) as figure:
        axes = figure.subplots()
        draw(axes)
        legend = axes.get_legend()
        if legend is not None:
            figure.set_figheight(height + legend.get_window_extent().height / figure.dpi)
    return figure


def panels(
    draw: Sequence[Callable[[Axes], None]],
    *,
    xlabel: str,
    ylabel: str,
    entries: Sequence[tuple[Any, str]],
    columns: int = 2,
    height: float = 1.35,
) -> Figure:
    """Make a figure of several small panels with common labels and one legend."""
    lines = -(-len(draw) // columns)
    below = 0.25 + 0.19 * -(-len(entries) // 2)
    with new_figure(_WIDTH, height * lines + 0.35 + below) as figure:
        grid = figure.subplots(lines, columns, squeeze=False).ravel()
        for axes, each in zip(grid, draw, strict=False):
            each(axes)
        for axes in grid[len(draw) :]:
            axes.set_visible(False)
        figure.supxlabel(xlabel, fontsize="medium")
        figure.supylabel(ylabel, fontsize="medium")
        handles, labels = zip(*entries, strict=True)
        # Above: below stands the common label.
        figure.legend(handles, labels, loc="outside upper left", ncols=2)
    return figure


def strips(
    draw: Sequence[Callable[[Axes], None]], colours: ScalarMappable, *, xlabel: str, ylabel: str, bar: str
) -> Figure:
    """Make a figure of flat panels, one below the other, with a common colour bar."""
    with new_figure(_WIDTH, 0.68 * len(draw) + 0.95) as figure:
        grid = figure.subplots(len(draw), 1, squeeze=False).ravel()
        for axes, each in zip(grid, draw, strict=True):
            each(axes)
        grid[-1].set_xlabel(xlabel)
        figure.supylabel(ylabel, fontsize="medium")
        figure.colorbar(colours, ax=list(grid), orientation="horizontal", label=bar, aspect=40, fraction=0.06)
    return figure


def legend_below(axes: Axes, entries: Sequence[tuple[Any, str]]) -> Legend:
    """Put a legend below an axes and its label: of two columns, or of one where labels are too long for two."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    below = -(38.0 + 12.0 * axes.get_xlabel().count("\n")) / 72.0
    spec = axes.get_subplotspec()
    columns = 1 if spec is None else spec.get_gridspec().ncols
    room = (figure.get_figwidth() / columns - _BESIDE) * figure.dpi
    # A script that the font lacks is drawn by another one, whose width is not known.
    known = all(cells(label) == len(label) for _, label in entries)
    for ncols in (2, 1) if known else (1,):
        # Labels are set afterwards: one that begins with "_" would be left out.
        legend = axes.legend(
            [handle for handle, _ in entries],
            [str(index) for index in range(len(entries))],
            loc="upper left",
            bbox_to_anchor=(0.0, 0.0),
            bbox_transform=axes.transAxes + ScaledTranslation(0.0, below, figure.dpi_scale_trans),
            ncols=ncols,
            borderaxespad=0.0,
        )
        for text, (_, label) in zip(legend.get_texts(), entries, strict=True):
            text.set_parse_math(False)
            text.set_text(label)
        if legend.get_window_extent().width <= room:
            break
    return legend


def plain_log_ticks(axes: Axes, x: bool = True, whole: bool = True) -> None:
    """Label logarithmic axes with plain round numbers, also when they span less than a decade."""
    for axis, limits in [(axes.yaxis, axes.get_ylim())] + ([(axes.xaxis, axes.get_xlim())] if x else []):
        axis.set_major_locator(FixedLocator(_round_numbers(*limits, whole=whole and axis is axes.xaxis)))
        axis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axis.set_minor_locator(NullLocator())
        axis.set_minor_formatter(NullFormatter())


def _round_numbers(low: float, high: float, *, whole: bool) -> list[float]:
    decades = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    best: list[float] = []
    for digits in (
        (1,),
        (1, 3),
        (1, 2, 5),
        (1, 1.5, 2, 3, 5, 7),
        (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8),
        tuple(np.arange(10, 100) / 10),
    ):
        ticks = [digit * 10.0**decade for decade in decades for digit in digits]
        inside = [float(f"{tick:.3g}") for tick in ticks if low <= tick <= high and (not whole or tick >= 1)]
        inside = [tick for tick in inside if not whole or tick == round(tick)]
        if len(inside) > 9 and best:
            break
        best = inside
        if len(best) >= 4:
            break
    return best
