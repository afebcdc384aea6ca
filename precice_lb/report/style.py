"""How our figures look: palette, markers, legends below the axes, and round numbers on logarithmic axes.

They are drawn with matplotlib's objects alone (no pyplot, no global figure), in a palette that colour-blind readers can
tell apart (Okabe and Ito), with a marker of its own per participant. Only drawing loads matplotlib.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend

Array = NDArray[np.float64]

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
GREY = "#5A5A5A"
GRID = "#E4E4E4"
HATCHED: dict[str, Any] = {"facecolor": "none", "edgecolor": GREY, "hatch": "////", "linewidth": 0.6}
"""How waiting for partners looks."""
_MARK: dict[str, Any] = {"color": "#F0E442", "markeredgecolor": "black", "linestyle": "none"}
"""How what is marked looks, with a marker."""
MARKS = {"equal": "D", "degrees-of-freedom": "s", "present": "^", "in-turns": "P"}
"""Markers of the splits beside the recommended one."""
# Of a figure of one panel, in inches: about a telephone's screen, so that its letters can be read there.
WIDTH = 4.2
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
    from matplotlib import style

    with style.context(_STYLE), warnings.catch_warnings():
        # A name in a script that the font lacks is no reason to complain: the SVG keeps it as text.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


@contextmanager
def new_figure(width: float, height: float) -> Iterator[Figure]:
    """Make a figure on an Agg canvas, in inches, to be drawn into; then lay it out once and for all.

    The layout would depend on the resolution of whatever renders it first.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with drawing():
        figure = Figure(figsize=(width, height), dpi=150, layout="constrained")
        FigureCanvasAgg(figure)
        yield figure
        if (engine := figure.get_layout_engine()) is not None:
            engine.execute(figure)
        figure.set_layout_engine("none")


def figure_svg(figure: Figure) -> bytes:
    """Render a figure, the same bytes every time for the same figure."""
    buffer = io.BytesIO()
    with drawing():
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": "precice-lb"})
    return buffer.getvalue()


def colour_of(index: int) -> str:
    """Colour of the participant at a position; it repeats after six."""
    return COLOURS[index % len(COLOURS)]


def marker_of(index: int) -> str:
    """Its marker: pairs of both repeat after 42."""
    return _MARKERS[index % len(_MARKERS)]


class Bars(NamedTuple):
    """Horizontal bars below a heading, each with its tick's label and stacked parts: lengths and how they look."""

    heading: str
    bars: Sequence[tuple[str, Sequence[tuple[float, dict[str, Any]]]]]
    # Where a black line ends them.
    end: float | None = None


class Panel:
    """An axes with the entries of its legend."""

    def __init__(self, axes: Axes) -> None:
        self.axes = axes
        self._entries: list[tuple[Any, str]] = []

    def name(self, handle: Any, text: str) -> None:
        """Say in the legend what something is."""
        self._entries.append((handle, text))

    def key(self, text: str, **style: Any) -> None:
        """Say in the legend what a line or a marker is."""
        from matplotlib.lines import Line2D

        self.name(Line2D([], [], **style), text)

    def area(self, text: str, **shape: Any) -> None:
        """Say in the legend what is filled."""
        from matplotlib.patches import Patch

        self.name(Patch(**shape), text)

    def take(self, other: Panel) -> None:
        """Name in this legend what another panel names, but once, and before its own."""
        mine = {text for _, text in self._entries}
        self._entries = [*(entry for entry in other._entries if entry[1] not in mine), *self._entries]

    def shade(self, text: str, colour: str) -> None:
        """Say in the legend what is shaded."""
        self.area(text, color=colour, alpha=0.25, linewidth=0)

    def line(self, x: ArrayLike, y: ArrayLike, text: str, **style: Any) -> None:
        """Draw a line and name it."""
        (line,) = self.axes.plot(x, y, **style)
        self.name(line, text)

    def mark(self, text: str, x: ArrayLike, y: ArrayLike, marker: str = "*", size: float = 7) -> None:
        """Mark places, the recommended split's by a star, and name the mark."""
        star = marker == "*"
        self.axes.plot(x, y, marker=marker, markersize=15 if star else size, zorder=6 if star else 5, **_MARK)
        self.key(text, marker=marker, markersize=11 if star else 7, **_MARK)

    def bars(self, groups: Iterable[Bars], **heading: Any) -> None:
        """Draw groups of horizontal bars below each other."""
        axes, place, longest, ticks = self.axes, 0.0, 0.0, []
        for group in groups:
            if group.heading:
                place += 1.1
                where = axes.get_yaxis_transform()
                axes.text(0.008, place - 0.06, group.heading, transform=where, va="bottom", parse_math=False, **heading)
            top = place
            for label, parts in group.bars:
                begin = 0.0
                for length, shape in parts:
                    axes.barh(place + 0.45, length, 0.8, left=begin, **shape)
                    begin += length
                longest = max(longest, begin, group.end or 0.0)
                ticks.append((place + 0.45, label))
                place += 1.0
            if group.end is not None:
                axes.plot([group.end] * 2, [top, place], color="black", linewidth=2)
        axes.set_ylim(place + 0.2, 0.0)
        axes.set_xlim(0.0, 1.04 * longest)
        axes.set_yticks(
            [height for height, label in ticks if label], [label for _, label in ticks if label], parse_math=False
        )
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        axes.grid(axis="y", visible=False)

    def label(self, title: str, xlabel: str, ylabel: str) -> None:
        """Set title and labels, in which no name is read as a formula."""
        self.axes.set_title(title, loc="left", parse_math=False)
        self.axes.set_xlabel(xlabel, parse_math=False)
        self.axes.set_ylabel(ylabel, parse_math=False)

    def legend(self) -> Legend:
        """Put a legend below the axes and its label."""
        from matplotlib.transforms import ScaledTranslation

        axes, figure = self.axes, self.axes.get_figure(root=True)
        assert figure is not None
        below = -(38.0 + 12.0 * axes.get_xlabel().count("\n")) / 72.0
        legend = axes.legend(
            [handle for handle, _ in self._entries],
            [str(index) for index in range(len(self._entries))],
            loc="upper left",
            bbox_to_anchor=(0.0, 0.0),
            bbox_transform=axes.transAxes + ScaledTranslation(0.0, below, figure.dpi_scale_trans),
            borderaxespad=0.0,
        )
        # Labels are set afterwards: one that begins with "_" would be left out.
        for text, (_, label) in zip(legend.get_texts(), self._entries, strict=True):
            text.set_parse_math(False)
            text.set_text(label)
        return legend


def one_panel(draw: Callable[..., None], height: float, *of: Any) -> Figure:
    """Make a figure of one panel, narrow enough for a telephone, of what the function gets beside it."""
    return stacked([draw], [height], *of)


def stacked(draw: Sequence[Callable[..., None]], heights: Sequence[float], *of: Any) -> Figure:
    """Make a figure of panels one below the other, as wide as one, with a common axis and the last one's legend."""
    with new_figure(WIDTH, sum(heights)) as figure:
        grid = figure.subplots(len(draw), 1, sharex=True, height_ratios=heights, squeeze=False).ravel()
        drawn = [Panel(axes) for axes in grid]
        for panel, draw_panel in zip(drawn, draw, strict=True):
            draw_panel(panel, *of)
        for panel in drawn[:-1]:
            panel.axes.set_xlabel("")
            drawn[-1].take(panel)
        figure.set_figheight(sum(heights) + drawn[-1].legend().get_window_extent().height / figure.dpi)
    return figure


def whole_ticks(axis: Axis, most: int = 10) -> None:
    """Label an axis with whole numbers, so many at most."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(nbins=most, integer=True))


def plain_log_ticks(axes: Axes, x: bool = True, whole: bool = True) -> None:
    """Label logarithmic axes with plain round numbers, also when they span less than a decade."""
    for axis, limits in [(axes.yaxis, axes.get_ylim())] + ([(axes.xaxis, axes.get_xlim())] if x else []):
        ticks = _round_numbers(*limits, whole=whole and axis is axes.xaxis)
        axis.set_ticks(ticks, [f"{tick:g}" for tick in ticks])
        axis.set_ticks([], minor=True)


def _round_numbers(low: float, high: float, *, whole: bool) -> list[float]:
    decades = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    best: list[float] = []
    for digits in (
        (1,),
        (1, 3),
        (1, 2, 5),
        (1, 1.5, 2, 3, 5, 7),
        (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8),
        tuple(np.arange(2, 20) / 2),
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
