"""The look of our figures: palette, markers, legends below the axes, and round numbers on logarithmic axes."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import style
from matplotlib.ticker import FixedLocator, NullFormatter, NullLocator, StrMethodFormatter

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.legend import Legend

__all__ = ["GREY", "drawing", "legend_below", "look", "plain_log_ticks"]

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
GREY = "#5A5A5A"
_STYLE: list[Any] = [
    "default",
    {
        "font.size": 9,
        "axes.titlesize": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": "#E4E4E4",
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


def look(index: int) -> tuple[str, str]:
    """Colour and marker of the participant at a position; the colours repeat after six, pairs after 42."""
    return _COLOURS[index % len(_COLOURS)], _MARKERS[index % len(_MARKERS)]


def legend_below(axes: Axes, entries: Sequence[tuple[Any, str]]) -> Legend:
    """Put a legend of two columns below an axes.

    Parameters
    ----------
    axes
        The axes.
    entries
        (handle, label) pairs. Labels are plain text whatever they contain.
    """
    # Labels are set afterwards: one that begins with "_" would be left out.
    legend = axes.legend(
        [handle for handle, _ in entries],
        [str(index) for index in range(len(entries))],
        loc="upper left",
        bbox_to_anchor=(0.0, -0.19),
        ncols=2,
        borderaxespad=0.0,
    )
    for text, (_, label) in zip(legend.get_texts(), entries, strict=True):
        text.set_parse_math(False)
        text.set_text(label)
    return legend


def plain_log_ticks(axes: Axes, x: bool = True, whole: bool = True) -> None:
    """Label logarithmic axes with plain round numbers, also when they span less than a decade.

    Parameters
    ----------
    axes
        The axes, its limits already set.
    x
        Whether the horizontal axis is logarithmic too.
    whole
        Whether its ticks are whole numbers.
    """
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
