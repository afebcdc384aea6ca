"""Pictures of partner ranks: the matrix of pairs, and how many partners ranks have."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from precice_lb.report.blocks import Chart
from precice_lb.report.style import Panel, colour_of, one_panel
from precice_lb.report.text import short_names, visible

if TYPE_CHECKING:
    from precice_lb.partners import LinkPartners

# Cells of a side of the matrix.
_CELLS = 400


def link_charts(found: LinkPartners, stem: str) -> list[Chart]:
    """Draw one received mesh: which ranks are connected and how much they exchange, and partners per rank."""
    provider, receiver = found.link.provider, found.link.receiver
    return [
        Chart(
            f"{stem}-pairs",
            f"Each cell is a pair of ranks of {visible(provider)} and {visible(receiver)}: grey pairs only open a "
            "connection, coloured ones exchange data.",
            one_panel(partial(_matrix, found=found), 3.8),
        ),
        Chart(
            f"{stem}-counts",
            "How many ranks have how many partners: a long tail to the right means ranks that talk to everyone.",
            one_panel(partial(_histogram, found=found), 2.8),
        ),
    ]


def _names(found: LinkPartners) -> list[str]:
    return list(short_names((found.link.provider, found.link.receiver), 16).values())


def _how(found: LinkPartners) -> str:
    """Name what `LinkPartners.connected` counts."""
    return " in level 1" if found.link.two_level or found.one_level is None else " in one level"


def _binned(
    pairs: NDArray[np.int64], shape: tuple[int, int], weights: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    edges = [np.linspace(0, count, min(count, _CELLS) + 1) for count in shape]
    image, _, _ = np.histogram2d(pairs[:, 0], pairs[:, 1], bins=edges, weights=weights)
    return np.asarray(image.T)


def _matrix(panel: Panel, found: LinkPartners) -> None:
    """Draw which pairs of ranks are connected, and how much they exchange."""
    axes, names = panel.axes, _names(found)
    extent = (-0.5, found.ranks[0] - 0.5, found.ranks[1] - 0.5, -0.5)
    connected = _binned(found.connected, found.ranks) > 0
    shade = np.where(connected, 0.82, 1.0)
    axes.imshow(shade, extent=extent, cmap="gray", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    panel.name(Patch(color="#D1D1D1"), f"connected{_how(found)}")
    if found.level_2 is not None and found.vertices is not None and len(found.level_2):
        image = _binned(found.level_2, found.ranks, found.vertices.astype(float))
        shown = np.ma.masked_equal(image, 0)
        norm = LogNorm(max(float(shown.min()), 1), max(float(shown.max()), 10))
        drawn = axes.imshow(shown, extent=extent, cmap="viridis_r", norm=norm, aspect="auto", interpolation="nearest")
        axes.figure.colorbar(drawn, ax=axes, label="vertices exchanged (count)", shrink=0.85)
        panel.name(Patch(color="#2A788E"), "exchanges data (level 2)")
    axes.grid(False)
    title = f"Pairs of ranks over mesh {short_names([found.link.mesh], 20)[found.link.mesh]}"
    panel.label(title, f"rank of {names[0]}, the provider", f"rank of {names[1]}, the receiver")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True))


def _histogram(panel: Panel, found: LinkPartners) -> None:
    """Draw how many partners the ranks of both sides have."""
    axes, names = panel.axes, _names(found)
    sides = [found.partners(side, found.connected) for side in (0, 1)]
    most = max(int(each.max()) for each in sides)
    step = max(-(-(most + 1) // 40), 1)
    edges = np.arange(0, most + step + 1, step)
    for side, partners in enumerate(sides):
        share = np.histogram(partners, edges)[0] / len(partners) * 100
        colour = colour_of(side)
        axes.stairs(share, edges - 0.5, fill=True, color=colour, alpha=0.35)
        axes.stairs(share, edges - 0.5, color=colour, linewidth=1.4)
        axes.axvline(float(partners.mean()), color=colour, linestyle="--", linewidth=1.2)
        panel.name(Patch(color=colour), f"{names[side]}: mean {partners.mean():.1f}, at most {partners.max()}")
    xlabel = f"partners of a rank{_how(found)} (count)"
    panel.label("Partners per rank (dashed: mean)", xlabel, "share of the participant's ranks (%)")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylim(bottom=0)
