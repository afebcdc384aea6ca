"""Charts of the window time over the split: a curve, a triangle, or slices through the recommended split."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from precice_lb.report.blocks import Chart
from precice_lb.report.style import MARKS, Panel, colour_of, one_panel, panels, plain_log_ticks
from precice_lb.report.text import seconds_unit, short_names
from precice_lb.report.view import label, ranks_word

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from precice_lb.recommend import Recommendation

__all__ = ["GRID_POINTS", "Landscape", "figure_names", "interval", "landscape_chart", "landscape_of", "predicted"]

Array = NDArray[np.float64]

# Cells of the triangle's side, points of a slice, panels; what is slower than so many times the best is not told apart.
_CELLS, _POINTS, _PANELS, _SHOWN = 48, 49, 15, 4.0
# Of marks on a map, whose colours are those of the map on a dark page too: nearly black, so that it is not exchanged.
_EDGE = "#010101"
# Ranks at which a curve is drawn.
GRID_POINTS = 200


def figure_names(recommendation: Recommendation) -> dict[str, str]:
    """How to write participants' names in figures, where there is little room."""
    return short_names(recommendation.split, 16)


def predicted(model: Any, ranks: Array) -> Array:
    """Compute seconds of a model, shape (k,)."""
    return np.asarray(model.predict(ranks[:, np.newaxis]), dtype=float)


def interval(recommendation: Recommendation, who: str, ranks: Array) -> tuple[Array, Array] | None:
    """Give their interval, where the model has one."""
    model = recommendation.models[who]
    if not hasattr(model, "predict_interval"):
        return None
    low, high = model.predict_interval(ranks[:, np.newaxis], recommendation.level)
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
    # Seconds per window, mean over the drawn curves where the learner draws some, shape (k,).
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
    windows = expected.steady_windows(np.column_stack([counts[who] for who in expected.names]).astype(np.int64))
    usable = np.isfinite(windows).all(axis=0)
    ranks, windows = ranks[usable], windows[:, usable]
    grids = {first: ranks, second: total - ranks}
    own = {who: predicted(recommendation.models[who], grid) for who, grid in grids.items()}
    if len(windows) > 1:
        edge = (1.0 - recommendation.level) / 2.0
        low, high = np.quantile(windows, [edge, 1.0 - edge], axis=0)
        return Landscape(grids, own, windows.mean(axis=0), low, high)
    intervals = {who: interval(recommendation, who, grid) for who, grid in grids.items()}
    known = {who: pair for who, pair in intervals.items() if pair is not None}
    if len(known) < len(grids):
        return Landscape(grids, own, windows[0], None, None)
    # The window time never falls when a cost rises, so all low and all high bounds hold it between them.
    low, high = (
        np.asarray(expected.schedule.window_seconds({w: pair[side] for w, pair in known.items()})) for side in (0, 1)
    )
    return Landscape(grids, own, windows[0], low, high)


def landscape_chart(recommendation: Recommendation) -> Chart:
    """Draw the window time over the split: a curve, a triangle, or slices through the recommended split."""
    if len(recommendation.split) > 2:
        return (_triangle if len(recommendation.split) == 3 else _slices)(recommendation)
    found = landscape_of(recommendation)
    columns = [*found.ranks.values(), *found.own.values(), found.window]
    if found.low is not None and found.high is not None:
        columns += [found.low, found.high]
    names, word = list(found.ranks), ranks_word(recommendation)
    header = (*(f"{word} of {who}" for who in names), *(f"compute_seconds of {who}" for who in names), "window_seconds")
    return Chart(
        "landscape",
        "Window time and compute times if the ranks are divided otherwise; the window time is the mean over what the "
        "measurements leave possible, without the noise from window to window.",
        one_panel(partial(_landscape, recommendation=recommendation, found=found), 3.2),
        (*header, "low_seconds", "high_seconds")[: len(columns)],
        tuple(zip(*columns, strict=True)),
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


def _expected(recommendation: Recommendation, counts: NDArray[np.int64]) -> Array:
    """Mean seconds per window of splits, shape (k,), for ranks of shape (k, participants); NaN without a value."""
    return np.asarray(recommendation.expected.steady_windows(counts).mean(axis=0), dtype=float)


def _triangle(recommendation: Recommendation) -> Chart:
    """Draw the window time over the ranks of two participants; the third gets the rest."""
    labels = figure_names(recommendation)
    names, word = list(recommendation.split), ranks_word(recommendation)
    total = sum(recommendation.split.values())
    axis = np.linspace(1, total - 2, min(_CELLS, total - 2)).round()
    # With the recommended split among them: it has a value, whatever the models say elsewhere.
    axis = np.union1d(axis, [recommendation.split[name] for name in names[:2]]).astype(np.int64)
    first, second = (grid.ravel() for grid in np.meshgrid(axis, axis))
    inside = first + second < total
    counts = np.column_stack([first, second, total - first - second])[inside]
    order = [names.index(who) for who in recommendation.expected.names]
    seconds = np.full(len(first), np.nan)
    seconds[inside] = _expected(recommendation, counts[:, order])
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
        xlabel = f"{word} of {labels[names[0]]} (count)\nthe rest of {total} to {labels[names[2]]}"
        panel.label(f"Window time over the split of {total} {word}", xlabel, f"{word} of {labels[names[1]]} (count)")
        for which in (axes.xaxis, axes.yaxis):
            which.set_major_locator(MaxNLocator(nbins=6, integer=True))

    return Chart(
        "landscape",
        "Window time of all ways to divide the ranks between three participants, on a logarithmic scale; dark is slow. "
        f"Beyond {_SHOWN:g} times the best it is not told apart.",
        one_panel(draw, 4.6),
        (*(f"{word} of {who}" for who in names), "window_seconds"),
        tuple(zip(*counts.T, seconds[inside], strict=True)),
    )


def _slices(recommendation: Recommendation) -> Chart:
    """Draw the window time when ranks move between two participants, for each pair."""
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
    order = recommendation.expected.names
    found: dict[tuple[str, str], tuple[Array, Array]] = {}
    for one, other in pairs:
        both = split[one] + split[other]
        ranks = np.union1d(np.unique(np.linspace(1, both - 1, _POINTS).round().astype(np.int64)), [split[one]])
        counts = np.array([[split[who]] * len(ranks) for who in order]).T
        counts[:, order.index(one)], counts[:, order.index(other)] = ranks, both - ranks
        found[one, other] = ranks.astype(float), _expected(recommendation, counts)

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
        xlabel=f"{ranks_word(recommendation)} of the participant named first (count)",
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
