"""How our figures look: palette, markers, a legend below the axes, and plain numbers on logarithmic axes.

They are drawn with matplotlib's objects alone (no pyplot, no global figure), in a palette that colour-blind readers can
tell apart (Okabe and Ito), with a marker of its own per participant. Only drawing loads matplotlib.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
GREY = "#5A5A5A"
HATCHED: dict[str, Any] = {"facecolor": "none", "edgecolor": GREY, "hatch": "////", "linewidth": 0.6}
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


def marker_of(index: int) -> str:
    """Its marker: pairs of both repeat after 42."""
    return _MARKERS[index % len(_MARKERS)]


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

    def shade(self, text: str, colour: str) -> None:
        """Say in the legend what is shaded."""
        self.area(text, color=colour, alpha=0.25, linewidth=0)

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
    """Make a figure of one panel, narrow enough for a telephone, of what the function gets beside it."""
    return stacked([draw], [height], *of)


def stacked(draw: Sequence[Callable[..., None]], heights: Sequence[float], *of: Any) -> Figure:
    """Make a figure of panels one below the other, as wide as one, with a common axis and a legend below them all."""
    from matplotlib.figure import Figure

    with _drawing():
        figure = Figure(figsize=(_WIDTH, sum(heights)), layout="constrained")
        grid = figure.subplots(len(draw), 1, sharex=True, height_ratios=heights, squeeze=False).ravel()
        panels = [Panel(axes) for axes in grid]
        for panel, draw_panel in zip(panels, draw, strict=True):
            draw_panel(panel, *of)
        for panel in panels[:-1]:
            panel.axes.set_xlabel("")
        entries = {text: handle for panel in panels for text, handle in panel.entries.items()}
        figure.set_figheight(sum(heights) + 0.19 * len(entries))
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
