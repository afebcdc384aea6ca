"""First guesses of time windows in words and as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from precice_lb.dataset.records import Predictor
from precice_lb.guess.config import carriers, is_patched, notes, obstacles
from precice_lb.names import visible
from precice_lb.plural import plural
from precice_lb.report.blocks import Block, Paragraph, Table
from precice_lb.report.text import or_dash, seconds_unit

if TYPE_CHECKING:
    from precice_lb.case import Configuration
    from precice_lb.guess.config import Route


def guess_label(mode: str) -> str:
    """Name the first guess that was asked for."""
    return f"first guess ({visible(mode)})" if mode else "first guess"


def guess_text(predictors: Sequence[Predictor]) -> str:
    """Say how many windows began with a guess of each predictor, their mean iterations, and what guessing took."""
    first, *others = predictors
    words = f"{visible(first.name)} in {plural(first.windows, 'window')}, {first.iterations:.3g} iterations"
    parts = [words, *(f"{visible(each.name)} in {each.windows}, {each.iterations:.3g}" for each in others)]
    cost = sum(each.windows * each.cost_seconds for each in predictors)
    wall = sum(each.windows * each.window_seconds for each in predictors)
    return "; ".join([*parts, f"cost {or_dash(100 * cost / wall, '.2g', ' %')} of the window"])


def guess_table(mode: str, predictors: Sequence[Predictor]) -> Table:
    """Lay the same out as a table, with the errors of the guesses."""
    unit = seconds_unit([each.cost_seconds for each in predictors])
    rows = [
        (
            visible(each.name),
            str(each.windows),
            f"{each.iterations:.2f}",
            unit.number(each.cost_seconds),
            or_dash(100 * each.cost_seconds / each.window_seconds, ".2g", " %"),
            or_dash(each.error, ".3g"),
        )
        for each in predictors
    ]
    header = ("predictor", "windows", "iterations per window", f"cost ({unit.symbol})", "of the window", "error")
    title = f"{guess_label(mode).capitalize()}: error of the guess over that of the last value (median)"
    return Table(title, header, tuple(rows), (0,))


def guess_blocks(configuration: Configuration) -> list[Block]:
    """Tabulate what would be predicted, or is where the configuration is patched; then obstacles and notes."""
    header = ("data", "coupling", "from", "written on", "to", "read on", "first guess")
    rows = tuple(_row(way) for way in carriers(configuration))
    patched = is_patched(configuration)
    title = f"{configuration.path}: data that {'have' if patched else 'would get'} fields of predictions"
    found, known = obstacles(configuration), notes(configuration)
    return [
        *([Table(title, header, rows, tuple(range(len(header))))] if rows else []),
        *(Paragraph(line, "warning", "note") for line in known),
        *(Paragraph(line, "warning", "in the way") for line in found),
        *([] if found else [Paragraph(f"nothing stands in the way{'; it is patched' if patched else ''}")]),
    ]


def _row(way: Route) -> tuple[str, ...]:
    what = "predicted" if way.shifted else "none: says that it takes part"
    exchange = way.exchange
    coupling = f"{way.scheme.kind}, line {way.scheme.line}"
    return exchange.data, coupling, exchange.source, way.write_mesh, exchange.target, way.read_mesh, what
