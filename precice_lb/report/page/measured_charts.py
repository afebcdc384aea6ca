"""Charts of recorded runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from precice_lb.plural import plural
from precice_lb.report.blocks import Chart
from precice_lb.report.style import COLOURS, GREY, legend_below, look, one_panel, strips
from precice_lb.report.summary import ParticipantSummary, RunSummary
from precice_lb.report.summary_text import LABELS
from precice_lb.report.text import seconds_unit, visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from precice_lb.dataset import CoupledRun

__all__ = ["imbalance_chart", "iterations_chart", "timeline_chart", "windows_chart"]

Array = NDArray[np.float64]

_PARTS: dict[str, dict[str, Any]] = {
    "solve": {"color": COLOURS[0]},
    "mapping": {"color": COLOURS[2]},
    "overhead": {"color": COLOURS[4]},
    "own_rank_wait": {"facecolor": "none", "edgecolor": COLOURS[3], "hatch": "\\\\\\\\", "linewidth": 0.6},
    "partner_wait": {"facecolor": "none", "edgecolor": GREY, "hatch": "////", "linewidth": 0.6},
}
# Windows of a chart at most; more are averaged in groups.
_MOST_POINTS = 400


def _busy(each: ParticipantSummary) -> Array:
    """Solve, mapping and overhead of each rank, seconds per window; NaN where the solve was not measured."""
    parts = each.rank_seconds
    return np.asarray(parts["solve"] + np.nan_to_num(parts["mapping"]) + np.nan_to_num(parts["overhead"]))


def timeline_chart(
    run: RunSummary, shown: Sequence[ParticipantSummary], names: Mapping[str, str], second: Collection[str]
) -> Chart:
    """Draw a typical window: what the slowest and the fastest rank of each participant do, one after the other."""
    unit = seconds_unit([each.window_seconds for each in shown])
    bars: list[tuple[ParticipantSummary, list[tuple[str, int]]]] = []
    for each in shown:
        busy = _busy(each)
        told = np.isfinite(busy)
        told[list(each.silent_ranks)] = False
        busy = np.where(told, busy, np.nan)
        if not told.any():
            continue
        most, least = int(np.nanargmax(busy)), int(np.nanargmin(busy))
        ranks = [("slowest rank", most), ("fastest rank", least)] if told.sum() > 1 else [("rank", most)]
        bars.append((each, ranks))
    rows = [
        (each.participant, word, rank, part, float(each.rank_seconds[part][rank]))
        for each, ranks in bars
        for word, rank in ranks
        for part in _order(each.participant, second)
        if np.isfinite(each.rank_seconds[part][rank])
    ]

    def draw(axes: Axes) -> None:
        place, ticks, labels = 0.0, [], []
        for each, ranks in bars:
            name = names.get(each.participant, visible(each.participant)[:16])
            count = plural(each.ranks, "rank")
            place += 1.15
            axes.text(
                0.008, place - 0.1, f"{name}, {count}", transform=axes.get_yaxis_transform(), va="bottom",
                weight="bold", parse_math=False,
            )  # fmt: skip
            for word, rank in ranks:
                begin = 0.0
                for part in _order(each.participant, second):
                    seconds = float(each.rank_seconds[part][rank])
                    if not np.isfinite(seconds) or seconds <= 0:
                        continue
                    axes.barh(place + 0.45, seconds * unit.per_second, 0.8, left=begin, **_PARTS[part])
                    begin += seconds * unit.per_second
                ticks.append(place + 0.45)
                labels.append(f"{word} {rank}")
                place += 1.0
        axes.set_ylim(place + 0.2, 0.0)
        axes.set_xlim(left=0.0)
        axes.set_yticks(ticks, labels)
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        axes.grid(axis="y", visible=False)
        axes.set_xlabel(f"time in the window ({unit.symbol})")
        axes.set_ylabel("ranks")
        axes.set_title("A typical window", loc="left")
        used = {part for _, _, _, part, _ in rows}
        legend_below(axes, [(Patch(**look), LABELS[part]) for part, look in _PARTS.items() if part in used])

    lines = sum(1.15 + len(ranks) for _, ranks in bars)
    windows = max(each.windows for each in shown)
    return Chart(
        "window",
        f"Mean over {plural(windows, 'window')}, all coupling iterations together. Solve is the solver's own; the "
        "rest is inside advance.",
        one_panel(draw, 0.85 + 0.24 * lines),
        ("participant", "which", "rank", "part", "seconds"),
        tuple(rows),
    )


def _order(participant: str, second: Collection[str]) -> Sequence[str]:
    parts = list(_PARTS)
    return [parts[-1], *parts[:-1]] if participant in second else parts


def iterations_chart(run: CoupledRun, names: Mapping[str, str]) -> Chart:
    """Draw the coupling iterations of each time window."""
    rows = tuple(
        (who, int(window), float(count))
        for who, part in run.participants.items()
        for window, count in zip(part.windows, part.iterations, strict=True)
    )

    def draw(axes: Axes) -> None:
        entries: list[tuple[Any, str]] = []
        for index, (who, part) in enumerate(run.participants.items()):
            colour, _ = look(index)
            # Who iterates together has the same line: the later ones are drawn thinner.
            width = 1.2 + 1.2 * (len(run.participants) - 1 - index)
            axes.step(part.windows, part.iterations, where="mid", color=colour, linewidth=width)
            entries.append((Line2D([], [], color=colour, linewidth=width), names.get(who, visible(who)[:16])))
        axes.axvspan(0.5, run.warmup_windows + 0.5, color=GREY, alpha=0.15, linewidth=0)
        entries.append((Patch(color=GREY, alpha=0.25, linewidth=0), "warm-up, left out"))
        axes.set_xlabel("time window (number)")
        axes.set_ylabel("coupling iterations (count)")
        axes.set_ylim(bottom=0)
        axes.set_title("Coupling iterations per time window", loc="left")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(MaxNLocator(nbins=7, integer=True))
        legend_below(axes, entries)

    caption = "Coupling iterations that each time window took until it converged, or until the limit was reached."
    return Chart("iterations", caption, one_panel(draw, 2.6), ("participant", "window", "iterations"), rows)


def imbalance_chart(shown: Sequence[ParticipantSummary], names: Mapping[str, str]) -> Chart:
    """Draw a strip of ranks for each participant, coloured by how long each is busy."""
    busy = [_busy(each) for each in shown]
    share = [values / np.nanmax(values) * 100 for values in busy]
    norm = Normalize(min(float(np.nanmin(each)) for each in share), 100.0)
    if norm.vmin is None or norm.vmin > 95.0:
        norm = Normalize(95.0, 100.0)

    def strip(axes: Axes, index: int) -> None:
        each = shown[index]
        axes.imshow(
            share[index][None], aspect="auto", interpolation="nearest", cmap="viridis_r", norm=norm,
            extent=(-0.5, each.ranks - 0.5, 0, 1),
        )  # fmt: skip
        axes.set_title(
            names.get(each.participant, visible(each.participant)[:16]), loc="left", fontsize=9, parse_math=False
        )
        axes.set_yticks([])
        axes.grid(visible=False)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))

    figure = strips(
        [partial(strip, index=index) for index in range(len(shown))],
        ScalarMappable(norm, "viridis_r"),
        xlabel="rank (number)",
        ylabel="participants",
        bar="busy time, of the participant's busiest rank (%)",
    )
    rows = tuple(
        (each.participant, rank, float(value), float(part))
        for each, values, parts in zip(shown, busy, share, strict=True)
        for rank, (value, part) in enumerate(zip(values, parts, strict=True))
    )
    return Chart(
        "imbalance",
        "Busy time (solve, mapping and overhead) of every rank: the darkest ranks are those that the others wait for.",
        figure,
        ("participant", "rank", "busy_seconds", "percent_of_busiest"),
        rows,
    )


def windows_chart(run: CoupledRun, names: Mapping[str, str]) -> Chart:
    """Draw compute seconds over the windows of a run: warm-up, drift and outliers are to be seen there."""
    unit = seconds_unit(
        [float(np.nanmedian(part.compute_seconds)) for part in run.participants.values() if part.compute_measured]
    )
    series = {
        who: (part.windows, part.compute_seconds) for who, part in run.participants.items() if part.compute_measured
    }

    def draw(axes: Axes) -> None:
        entries: list[tuple[Any, str]] = []
        for index, (who, part) in enumerate(run.participants.items()):
            if who not in series:
                continue
            colour, marker = look(index)
            windows, seconds = _thinned(part.windows, part.compute_seconds)
            axes.plot(windows, seconds * unit.per_second, color=colour, marker=marker, markersize=3, linewidth=1)
            entries.append(
                (Line2D([], [], color=colour, marker=marker, markersize=4), names.get(who, visible(who)[:16]))
            )
        axes.axvspan(0.5, run.warmup_windows + 0.5, color=GREY, alpha=0.15, linewidth=0)
        entries.append((Patch(color=GREY, alpha=0.25, linewidth=0), "warm-up, left out"))
        axes.set_xlabel("time window (number)")
        axes.set_ylabel(f"compute time per window ({unit.symbol})")
        axes.set_ylim(bottom=0)
        axes.set_title("Compute time in every window", loc="left")
        axes.xaxis.set_major_locator(MaxNLocator(nbins=7, integer=True))
        legend_below(axes, entries)

    rows = tuple(
        (who, int(window), float(seconds))
        for who, (windows, values) in series.items()
        for window, seconds in zip(windows, values, strict=True)
    )
    caption = (
        f"Compute time of each participant in the windows of run {visible(run.name)}: what is even can be learned from."
    )
    return Chart("windows", caption, one_panel(draw, 2.7), ("participant", "window", "compute_seconds"), rows)


def _thinned(windows: NDArray[np.int64], seconds: Array) -> tuple[Array, Array]:
    step = -(-len(windows) // _MOST_POINTS)
    if step <= 1:
        return windows.astype(float), seconds
    whole = len(windows) // step * step
    return windows[:whole].reshape(-1, step).mean(axis=1), seconds[:whole].reshape(-1, step).mean(axis=1)
