"""The figure of a recommendation: scaling curves with their evidence, and the window time over the split.

Drawn with matplotlib's objects alone (no pyplot, no global figure), in a palette that colour-blind readers can tell
apart (Okabe and Ito), with a marker of its own per participant. Importing this module loads matplotlib.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from precice_lb.recommend.outlook import curves_of
from precice_lb.report.style import GREY, drawing, legend_below, look, plain_log_ticks
from precice_lb.report.text import seconds_unit, short_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from precice_lb.recommend import Recommendation
    from precice_lb.schedule import Schedule

__all__ = ["draw_recommendation", "figure_bytes"]

_GRID_POINTS = 200


def draw_recommendation(recommendation: Recommendation, schedule: Schedule | None = None) -> Figure:
    """Draw both scaling curves with the evidence, beside what they mean for the window.

    Parameters
    ----------
    recommendation
        The recommendation to show.
    schedule
        The coupling it was made for. With it and two participants the second panel is the window time over the
        split; otherwise it is own and waiting time per participant.

    Returns
    -------
    matplotlib.figure.Figure
        Two panels on an Agg canvas; all times in one unit, named in the labels.
    """
    with drawing():
        figure = Figure(figsize=(10.5, 5.2), dpi=150, layout="constrained")
        FigureCanvasAgg(figure)
        left, right = figure.subplots(1, 2)
        names = short_names(recommendation.split, 16)
        _draw_scaling(left, recommendation, names)
        if schedule is not None and len(names) == 2:
            _draw_landscape(right, recommendation, names, schedule)
        else:
            _draw_window(right, recommendation, names)
        # Laid out once and for all: the layout depends on the resolution of whatever draws first.
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
    return figure


def figure_bytes(figure: Figure, kind: str) -> bytes:
    """Render a figure, the same bytes every time for the same figure.

    Parameters
    ----------
    figure
        The figure.
    kind
        ``"svg"`` or ``"png"``.

    Returns
    -------
    bytes
        The file's contents, without a date in it.
    """
    metadata = {"Date": None, "Creator": "precice-lb"} if kind == "svg" else {"Software": "precice-lb"}
    buffer = io.BytesIO()
    with drawing():
        figure.savefig(buffer, format=kind, metadata=metadata)
    return buffer.getvalue()


def _predict(model: Any, ranks: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(model.predict(ranks[:, np.newaxis]), dtype=float)


def _own_times(recommendation: Recommendation, grids: dict[str, NDArray[np.float64]]) -> dict[str, NDArray[np.float64]]:
    return {who: _predict(recommendation.models[who], grid) for who, grid in grids.items()}


def _draw_scaling(axes: Axes, recommendation: Recommendation, names: dict[str, str]) -> None:
    samples = recommendation.measurements.samples
    unit = seconds_unit(float(value) for rows in samples.values() for value in rows[:, 1])
    low_rank, high_rank = np.inf, 0.0
    for index, (who, chosen) in enumerate(recommendation.split.items()):
        colour, marker = look(index)
        model = recommendation.models[who]
        measured = np.asarray(samples[who], dtype=float)
        here = recommendation.measured_here(who)
        first, last = float(measured[:, 0].min()), float(measured[:, 0].max())
        start, stop = min(first, chosen), max(last, chosen)
        low_rank, high_rank = min(low_rank, start), max(high_rank, stop)
        ranks = np.unique(np.concatenate([np.geomspace(start, stop, _GRID_POINTS), [first, last]]))
        curve = _predict(model, ranks) * unit.per_second
        interval = _interval(recommendation, who, ranks)
        if interval is not None:
            low, high = (edge * unit.per_second for edge in interval)
            axes.fill_between(ranks, low, high, color=colour, alpha=0.18, linewidth=0)
        axes.plot(ranks, curve, color=colour, linestyle=(0, (4, 2)), linewidth=1.2)
        inside = (ranks >= first) & (ranks <= last)
        axes.plot(ranks[inside], curve[inside], color=colour, linewidth=1.8)
        spread = np.asarray(recommendation.measurements.spread.get(who, np.full(len(measured), np.nan)), dtype=float)
        axes.errorbar(
            measured[here, 0], measured[here, 1] * unit.per_second, yerr=spread[here] * unit.per_second,
            fmt=marker, color=colour, markersize=5, markeredgecolor="white", markeredgewidth=0.6, elinewidth=1,
        )  # fmt: skip
        axes.plot(
            measured[~here, 0], measured[~here, 1] * unit.per_second, linestyle="none", marker=marker, markersize=3.5,
            color=colour, alpha=0.45, markerfacecolor="none",
        )  # fmt: skip
        point = float(_predict(model, np.array([float(chosen)]))[0]) * unit.per_second
        axes.axvline(chosen, color=colour, linewidth=0.9, linestyle=":")
        axes.plot([chosen], [point], marker="*", markersize=14, color=colour, markeredgecolor="black", zorder=5)
    axes.set(xscale="log", yscale="log", xlabel="ranks of the participant (count)")
    axes.set_ylabel(f"own time per window ({unit.symbol})")
    axes.set_title("Scaling of each participant", loc="left")
    axes.set_xlim(low_rank / 1.15, high_rank * 1.15)
    plain_log_ticks(axes)
    entries: list[tuple[Any, str]] = [
        (
            Line2D([], [], color=look(i)[0], marker=look(i)[1], linewidth=1.8),
            f"{name}: {count} rank{'s' * (count != 1)}",
        )
        for i, (name, count) in enumerate(zip(names.values(), recommendation.split.values(), strict=True))
    ]
    entries += [
        (Line2D([], [], color=GREY, marker="o", linestyle="none"), "measured"),
        *_elsewhere(recommendation),
        (Line2D([], [], color=GREY, linestyle=(0, (4, 2))), "model beyond the measurements"),
        (Patch(color=GREY, alpha=0.25, linewidth=0), f"{100 * recommendation.level:.0f} % interval of the model"),
        (Line2D([], [], color=GREY, marker="*", markersize=11, markeredgecolor="black", linestyle=":"), "recommended"),
    ]
    legend_below(axes, entries)


def _elsewhere(recommendation: Recommendation) -> list[tuple[Any, str]]:
    """Legend of measurements at other values of the parameters, where there are any."""
    if all(recommendation.measured_here(who).all() for who in recommendation.split):
        return []
    mark = Line2D([], [], color=GREY, marker="o", markersize=3.5, markerfacecolor="none", alpha=0.6, linestyle="none")
    return [(mark, "measured for other parameters")]


def _draw_landscape(axes: Axes, recommendation: Recommendation, names: dict[str, str], schedule: Schedule) -> None:
    first, second = recommendation.split
    total = sum(recommendation.split.values())
    ranks = np.unique(np.linspace(1, total - 1, _GRID_POINTS).round())
    ranks = np.union1d(ranks, [float(recommendation.split[first])])
    # A model may have no value, or none above zero, far from what was measured.
    usable = [
        np.isfinite(t) & (t > 0) for t in _own_times(recommendation, {first: ranks, second: total - ranks}).values()
    ]
    ranks = ranks[usable[0] & usable[1]]
    grids = {first: ranks, second: total - ranks}
    own = _own_times(recommendation, grids)
    window, band = _windows(recommendation, grids, schedule)
    unit = seconds_unit([recommendation.window_seconds])
    for index, who in enumerate(grids):
        axes.plot(ranks, own[who] * unit.per_second, color=look(index)[0], linewidth=1.2)
    axes.plot(ranks, window * unit.per_second, color="black", linewidth=2)
    if band is not None:
        axes.fill_between(
            ranks, band[0] * unit.per_second, band[1] * unit.per_second, color="black", alpha=0.14, linewidth=0
        )
    entries: list[tuple[Any, str]] = [(Line2D([], [], color="black", linewidth=2), "window time")]
    entries += [(Line2D([], [], color=look(i)[0]), f"own time of {name}") for i, name in enumerate(names.values())]
    if band is not None:
        label = f"{100 * recommendation.level:.0f} % interval of the window time"
        entries.append((Patch(color="black", alpha=0.2, linewidth=0), label))
    marks = [("recommended", recommendation.split, recommendation.window_seconds, "*", 15)]
    marks += [
        (f"{kind} split", other.split, other.window_seconds, marker, 7)
        for (kind, other), marker in zip(recommendation.alternatives.items(), ("D", "s", "^", "v"), strict=False)
        # A split of more ranks, where not all were worth giving out, has no place on this axis.
        if sum(other.split.values()) == total
    ]
    for label, split, seconds, marker, size in marks:
        shape: dict[str, Any] = {"marker": marker, "markersize": size, "color": "#F0E442", "markeredgecolor": "black"}
        axes.plot([split[first]], [seconds * unit.per_second], zorder=6 if marker == "*" else 5, **shape)
        shape["markersize"] = min(size, 11)
        entries.append(
            (Line2D([], [], linestyle="none", **shape), label.replace("degrees-of-freedom", "DoF-proportional"))
        )
    # Towards the edges times grow without bound: show what lies within a few times the optimum, and every mark.
    reach = 1.15 * max(seconds for _, _, seconds, _, _ in marks)
    ceiling = max(3.0 * recommendation.window_seconds, reach)
    shown = ranks[window <= ceiling]
    axes.set_xlim(max(shown.min() - 0.02 * total, 0.5), min(shown.max() + 0.02 * total, total - 0.5))
    inside = (ranks >= axes.get_xlim()[0]) & (ranks <= axes.get_xlim()[1])
    floor = min(float(times[inside].min()) for times in own.values())
    axes.set_yscale("log")
    axes.set_ylim(
        unit.per_second * max(floor / 1.1, recommendation.window_seconds / 6), unit.per_second * ceiling * 1.05
    )
    axes.set_xlabel(f"ranks of {names[first]} (count)\nthe rest of {total} to {names[second]}", parse_math=False)
    axes.set_ylabel(f"time per window ({unit.symbol})")
    axes.set_title(f"Window time over the split of {total} ranks", loc="left")
    plain_log_ticks(axes, x=False)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    legend_below(axes, entries)


def _windows(
    recommendation: Recommendation, grids: dict[str, NDArray[np.float64]], schedule: Schedule
) -> tuple[NDArray[np.float64], tuple[NDArray[np.float64], NDArray[np.float64]] | None]:
    """Mean window times over the drawn curves, as the split was chosen by them, and their interval where known."""
    drawn = {
        who: curves_of(recommendation.models[who], [0, index])(grid.astype(np.int64))
        for index, (who, grid) in enumerate(grids.items())
    }
    windows = np.asarray(schedule.window_seconds(drawn), dtype=float)
    if len(windows) > 1:
        edge = (1.0 - recommendation.level) / 2.0
        low, high = np.quantile(windows, [edge, 1.0 - edge], axis=0)
        return windows.mean(axis=0), (low, high)
    intervals = {who: _interval(recommendation, who, grid) for who, grid in grids.items()}
    known = {who: pair for who, pair in intervals.items() if pair is not None}
    if len(known) < len(grids):
        return windows[0], None
    # The window time never falls when a cost rises, so all low and all high bounds hold it between them.
    low, high = (np.asarray(schedule.window_seconds({w: pair[side] for w, pair in known.items()})) for side in (0, 1))
    return windows[0], (low, high)


def _interval(
    recommendation: Recommendation, who: str, ranks: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    model = recommendation.models[who]
    if not hasattr(model, "predict_interval"):
        return None
    low, high = model.predict_interval(ranks[:, np.newaxis], recommendation.level)
    if not np.isfinite([low, high]).all():
        return None
    return np.maximum(low, 0.0), np.asarray(high, dtype=float)


def _draw_window(axes: Axes, recommendation: Recommendation, names: dict[str, str]) -> None:
    unit = seconds_unit([recommendation.window_seconds])
    rows = np.arange(len(names))
    own = np.array([recommendation.own_seconds[who] for who in names]) * unit.per_second
    waits = np.array([recommendation.waits[who] for who in names]) * unit.per_second
    colours = [look(index)[0] for index in range(len(names))]
    axes.barh(rows, own, color=colours, height=0.6)
    axes.barh(rows, waits, left=own, color="white", edgecolor=GREY, hatch="////", height=0.6, linewidth=0.8)
    axes.axvline(recommendation.window_seconds * unit.per_second, color="black", linewidth=1.6)
    axes.set_yticks(rows, list(names.values()), parse_math=False)
    axes.invert_yaxis()
    axes.set_xlim(0.0, 1.04 * float((own + waits).max()))
    axes.set_xlabel(f"time per window ({unit.symbol})")
    axes.set_ylabel("participant")
    axes.set_title("One window at the recommended split", loc="left")
    legend_below(
        axes,
        [
            (Patch(color=GREY), "own time (predicted)"),
            (Patch(facecolor="white", edgecolor=GREY, hatch="////"), "wait (predicted)"),
            (Line2D([], [], color="black", linewidth=1.6), "window time"),
        ],
    )
