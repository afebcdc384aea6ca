"""Figures of fitted learners: curves, intervals and points, one slice per value of each parameter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import NDArray

from precice_lb.exceptions import PreciceLBError
from precice_lb.report.fit import ParticipantFit
from precice_lb.report.style import GREY, colour_of, new_figure, plain_log_ticks
from precice_lb.report.text import SecondsUnit, seconds_unit, visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["MOST_LEARNERS", "draw_fit"]

Array = NDArray[np.float64]

#: More curves in one panel cannot be told apart; the best are shown.
MOST_LEARNERS = 4
# Panels of a figure, and their columns; values of a parameter between the first and the last are picked evenly.
_MOST_SLICES, _COLUMNS = 6, 3
_GRID_POINTS = 160
# How far beyond the measurements curves go: there is where learners differ.
_BEYOND = 2.0


def draw_fit(fit: ParticipantFit, level: float = 0.8) -> Figure:
    """Draw the curves of a participant's best learners with intervals and measurements."""
    slices = _slices(fit)
    columns = min(len(slices), _COLUMNS)
    lines = -(-len(slices) // columns)
    unit = seconds_unit(fit.seconds)
    with new_figure(max(4.1 * columns, 6.4), 3.3 * lines + 1.2) as figure:
        axes = np.atleast_1d(figure.subplots(lines, columns, squeeze=False)).ravel()
        for panel, values in zip(axes, slices, strict=False):
            _draw_slice(panel, fit, values, unit, level)
        for panel in axes[len(slices) :]:
            panel.set_visible(False)
        # Plain text whatever a participant is called.
        figure.suptitle(f"{visible(fit.participant)}: measurements and models", x=0.01, ha="left", parse_math=False)
        _legend(figure, fit, level)
    return figure


def _slices(fit: ParticipantFit) -> list[Array]:
    """Values of the parameters, shape (d - 1,), of the panels: as measured, evenly picked, with the ends."""
    values = np.unique(fit.rows[:, 1:], axis=0)
    if len(values) > _MOST_SLICES:
        values = values[np.linspace(0, len(values) - 1, _MOST_SLICES).round().astype(int)]
    return list(values)


def _draw_slice(axes: Axes, fit: ParticipantFit, values: Array, unit: SecondsUnit, level: float) -> None:
    here = (fit.rows[:, 1:] == values).all(axis=1)
    measured = fit.rows[here, 0]
    ranks = np.geomspace(max(measured.min() / _BEYOND, 1.0), measured.max() * _BEYOND, _GRID_POINTS)
    ranks = np.unique(np.concatenate([ranks.round(), measured]))
    points = np.column_stack([ranks, np.tile(values, (len(ranks), 1))])
    low, high = fit.seconds[here].min(), fit.seconds[here].max()
    for index, each in enumerate(_shown(fit)):
        colour = colour_of(index)
        curve = np.asarray(each.model.predict(points), dtype=np.float64)
        curve = np.where(np.isfinite(curve) & (curve > 0), curve, np.nan)
        bounds = _interval(each.model, points, level)
        if bounds is not None:
            axes.fill_between(
                ranks, bounds[0] * unit.per_second, bounds[1] * unit.per_second,
                color=colour, alpha=0.16, linewidth=0,
            )  # fmt: skip
        axes.plot(ranks, curve * unit.per_second, color=colour, linestyle=_line(index), linewidth=1.6)
        known = curve[np.isfinite(curve)]
        if known.size:
            low, high = min(low, known.min()), max(high, known.max())
    for rows, face in ((here & ~fit.tested, "black"), (here & fit.tested, "white")):
        axes.errorbar(
            fit.rows[rows, 0], fit.seconds[rows] * unit.per_second, yerr=fit.spread[rows] * unit.per_second,
            fmt="o", color="black", markerfacecolor=face, markersize=4, elinewidth=0.9, zorder=4,
        )  # fmt: skip
    axes.set(xscale="log", yscale="log")
    axes.set_xlim(ranks[0] / 1.1, ranks[-1] * 1.1)
    # A curve that dives to zero must not squeeze everything else.
    low, high = max(low, fit.seconds[here].min() / 8), min(high, fit.seconds[here].max() * 8)
    axes.set_ylim(low / 1.25 * unit.per_second, high * 1.25 * unit.per_second)
    plain_log_ticks(axes)
    case = ", ".join(f"{visible(k)} = {v:g}" for k, v in zip(fit.columns[1:], values, strict=True))
    axes.set_title(case, loc="left", parse_math=False)
    axes.set(xlabel="ranks (count)", ylabel=f"compute time per window ({unit.symbol})")


def _shown(fit: ParticipantFit) -> Sequence[Any]:
    return [each for each in fit.fits if each.model is not None][:MOST_LEARNERS]


def _line(index: int) -> Any:
    return ("solid", (0, (5, 2)), (0, (1, 1.5)), (0, (5, 1.5, 1, 1.5)))[index % 4]


def _interval(model: Any, points: Array, level: float) -> tuple[Array, Array] | None:
    if not hasattr(model, "predict_interval"):
        return None
    try:
        low, high = model.predict_interval(points, level)
    except PreciceLBError:
        return None
    low, high = np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
    known = np.isfinite(low) & np.isfinite(high) & (high > 0)
    # A logarithmic axis has no zero.
    return np.where(known, np.maximum(low, 1e-12), np.nan), np.where(known, high, np.nan)


def _legend(figure: Figure, fit: ParticipantFit, level: float) -> None:
    entries: list[tuple[Any, str]] = [
        (Line2D([], [], color=colour_of(i), linestyle=_line(i), linewidth=1.6), each.learner)
        for i, each in enumerate(_shown(fit))
    ]
    entries.append((Patch(color=GREY, alpha=0.25, linewidth=0), f"{100 * level:.0f} % interval"))
    entries.append((Line2D([], [], color="black", marker="o", linestyle="none", markersize=4), "measured"))
    if fit.tested.any():
        mark = Line2D([], [], color="black", marker="o", linestyle="none", markersize=4, markerfacecolor="white")
        entries.append((mark, "measured, kept for the test"))
    figure.legend(*zip(*entries, strict=True), loc="outside lower left", ncols=4)
