"""Window time over the split of three and more participants."""

from __future__ import annotations

import itertools
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from precice_lb.report.blocks import Chart
from precice_lb.report.style import MARKS, Panel, one_panel, panels
from precice_lb.report.text import seconds_unit, short_names
from precice_lb.report.view import label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from precice_lb.report.page.evidence import Evidence

__all__ = ["slice_chart", "triangle_chart"]

Array = NDArray[np.float64]

# Cells of the triangle's side, points of a slice, panels; what is slower than so many times the best is not told apart.
_CELLS, _POINTS, _PANELS, _SHOWN = 48, 49, 15, 4.0
# Of marks on a map, whose colours are those of the map on a dark page too: nearly black, so that it is not exchanged.
_EDGE = "#010101"


def _expected(evidence: Evidence, counts: NDArray[np.int64]) -> Array:
    """Mean seconds per window of splits, shape (k,), for ranks of shape (k, participants); NaN without a value."""
    return np.asarray(evidence.recommendation.expected.steady_windows(counts).mean(axis=0), dtype=float)


def triangle_chart(evidence: Evidence) -> Chart:
    """Draw the window time over the ranks of two participants; the third gets the rest."""
    recommendation, labels = evidence.recommendation, evidence.labels
    names = list(recommendation.split)
    total = sum(recommendation.split.values())
    axis = np.linspace(1, total - 2, min(_CELLS, total - 2)).round()
    # With the recommended split among them: it has a value, whatever the models say elsewhere.
    axis = np.union1d(axis, [recommendation.split[name] for name in names[:2]]).astype(np.int64)
    first, second = (grid.ravel() for grid in np.meshgrid(axis, axis))
    inside = first + second < total
    counts = np.column_stack([first, second, total - first - second])[inside]
    order = [names.index(who) for who in evidence.schedule.participants]
    seconds = np.full(len(first), np.nan)
    seconds[inside] = _expected(evidence, counts[:, order])
    unit = seconds_unit([recommendation.window_seconds])
    image = (seconds * unit.per_second).reshape(len(axis), len(axis))

    def draw(panel: Panel) -> None:
        axes = panel.axes
        best = float(np.nanmin(image))
        edge = (axis[0] - 0.5, axis[-1] + 0.5)
        shown = np.ma.masked_invalid(image)
        drawn = axes.pcolormesh(
            axis, axis, shown, cmap="viridis_r", norm=LogNorm(best, best * _SHOWN), shading="nearest", rasterized=True
        )
        bar = axes.figure.colorbar(drawn, ax=axes, orientation="horizontal", extend="max", pad=0.02, aspect=30)
        bar.set_label(f"window time ({unit.symbol})")
        ticks = best * np.geomspace(1, _SHOWN, 4)
        bar.set_ticks(ticks.tolist(), labels=[f"{tick:.3g}" for tick in ticks])
        bar.minorticks_off()
        splits = {"recommended": recommendation.split, **{k: o.split for k, o in recommendation.alternatives.items()}}
        for kind, split in splits.items():
            x, y = split[names[0]], split[names[1]]
            style = {"color": "#FEFEFE", "markeredgecolor": _EDGE}
            panel.mark(label(kind), x, y, MARKS.get(kind, "*"), **style)
        axes.set(xlim=edge, ylim=edge)
        axes.grid(visible=False)
        xlabel = f"ranks of {labels[names[0]]} (count)\nthe rest of {total} to {labels[names[2]]}"
        panel.label(f"Window time over the split of {total} ranks", xlabel, f"ranks of {labels[names[1]]} (count)")
        for which in (axes.xaxis, axes.yaxis):
            which.set_major_locator(MaxNLocator(nbins=6, integer=True))

    return Chart(
        "landscape",
        "Window time of all ways to divide the ranks between three participants, on a logarithmic scale; dark is slow. "
        f"Beyond {_SHOWN:g} times the best it is not told apart.",
        one_panel(draw, 4.6),
        (*(f"ranks of {who}" for who in names), "window_seconds"),
        tuple(zip(*counts.T, seconds[inside], strict=True)),
    )


def slice_chart(evidence: Evidence) -> Chart:
    """Draw the window time when ranks move between two participants, for each pair."""
    recommendation = evidence.recommendation
    split = recommendation.split
    # Above a small panel there is little room.
    labels = short_names(split, 9)
    names = list(split)
    pairs = list(itertools.combinations(names, 2))
    if len(pairs) > _PANELS:
        # Whoever waits least sets the window time.
        slowest = min(names, key=lambda who: recommendation.waits[who])
        pairs = [pair for pair in pairs if slowest in pair][:_PANELS]
    unit = seconds_unit([recommendation.window_seconds])
    order = evidence.schedule.participants
    found: dict[tuple[str, str], tuple[Array, Array]] = {}
    for one, other in pairs:
        both = split[one] + split[other]
        ranks = np.union1d(np.unique(np.linspace(1, both - 1, _POINTS).round().astype(np.int64)), [split[one]])
        counts = np.array([[split[who]] * len(ranks) for who in order]).T
        counts[:, order.index(one)], counts[:, order.index(other)] = ranks, both - ranks
        found[one, other] = ranks.astype(float), _expected(evidence, counts)

    best = min(float(np.nanmin(seconds)) for _, seconds in found.values()) * unit.per_second
    ranks, seconds = found[pairs[0]]
    chosen = float(seconds[ranks == split[pairs[0][0]]][0]) * unit.per_second
    # Bounds may keep the recommended split far from the best one of a panel.
    ceiling = max(best * _SHOWN, 1.15 * chosen)

    def draw(axes: Axes, pair: tuple[str, str]) -> None:
        ranks, seconds = found[pair]
        axes.plot(ranks, seconds * unit.per_second, color="black", linewidth=1.6)
        axes.plot([split[pair[0]]], [chosen], marker="*", markersize=11, color="#F0E442", markeredgecolor="black")
        inside = ranks[seconds * unit.per_second <= ceiling]
        axes.set_yscale("log")
        axes.set_ylim(best / 1.1, ceiling)
        axes.set_xlim(inside.min() - 0.5, max(inside.max() + 0.5, inside.min() + 1.5))
        axes.set_yticks([best * step for step in (1, 2)], labels=[f"{best * step:.3g}" for step in (1, 2)])
        axes.minorticks_off()
        axes.xaxis.set_major_locator(MaxNLocator(nbins=3, integer=True))
        both = split[pair[0]] + split[pair[1]]
        axes.set_title(
            f"{labels[pair[0]]}\n{labels[pair[1]]}, rest of {both}", fontsize=7.5, loc="left", parse_math=False
        )

    star = Line2D([], [], marker="*", color="#F0E442", markeredgecolor="black", linestyle="none", markersize=10)
    entries = [(Line2D([], [], color="black", linewidth=1.6), "window time"), (star, "recommended")]
    figure = panels(
        [partial(draw, pair=pair) for pair in found],
        xlabel="ranks of the participant named first (count)",
        ylabel=f"window time ({unit.symbol})",
        entries=entries,
    )
    return Chart(
        "landscape",
        "Window time when ranks move between two participants; the star is the recommended split.",
        figure,
        ("participant", "ranks", "other participant", "other ranks", "window_seconds"),
        tuple(
            (one, int(count), other, int(split[one] + split[other] - count), value)
            for (one, other), (ranks, seconds) in found.items()
            for count, value in zip(ranks, seconds, strict=True)
        ),
    )
