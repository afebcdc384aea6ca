"""First guesses of time windows in words and as tables: what came of them, and what a configuration would get."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from precice_lb.guess.config import carriers, is_patched, notes, obstacles
from precice_lb.names import visible
from precice_lb.plural import plural
from precice_lb.report.blocks import Block, Paragraph, Table
from precice_lb.report.text import or_dash, seconds_unit

if TYPE_CHECKING:
    from precice_lb.case import Configuration
    from precice_lb.dataset import CoupledRun
    from precice_lb.report.page import Evidence


def run_facts(run: CoupledRun) -> Iterator[tuple[str, str]]:
    """Say how many windows began with a guess of each predictor, their mean iterations, and what guessing took."""
    if run.predictors:
        first, *others = run.predictors
        words = f"{visible(first.name)} in {plural(first.windows, 'window')}, {first.iterations:.3g} iterations"
        parts = [words, *(f"{visible(other.name)} in {other.windows}, {other.iterations:.3g}" for other in others)]
        cost = sum(predictor.windows * predictor.cost_seconds for predictor in run.predictors)
        wall = sum(predictor.windows * predictor.window_seconds for predictor in run.predictors)
        yield _label(run.guess), "; ".join([*parts, f"cost {or_dash(100 * cost / wall, '.2g', ' %')} of the window"])


def _label(mode: str) -> str:
    return f"first guess ({visible(mode)})" if mode else "first guess"


def guess_section(evidence: Evidence) -> Iterator[Table]:
    """Tabulate the same of the shown run, with the errors of the guesses."""
    run = evidence.shown_run
    if not run.predictors:
        return
    unit = seconds_unit([predictor.cost_seconds for predictor in run.predictors])
    rows = [
        {
            "predictor": visible(predictor.name),
            "windows": str(predictor.windows),
            "iterations per window": f"{predictor.iterations:.2f}",
            f"cost ({unit.symbol})": unit.number(predictor.cost_seconds),
            "of the window": or_dash(100 * predictor.cost_seconds / predictor.window_seconds, ".2g", " %"),
            "error": or_dash(predictor.error, ".3g"),
        }
        for predictor in run.predictors
    ]
    yield Table.of(f"{_label(run.guess).capitalize()}: error of the guess over that of the last value (median)", rows)


page_section = ("iterations", "", guess_section)


def guess_blocks(configuration: Configuration) -> list[Block]:
    """Tabulate what would be predicted, or is where the configuration is patched; then obstacles and notes."""
    rows = [
        {
            "data": way.exchange.data,
            "coupling": f"{way.scheme.kind}, line {way.scheme.line}",
            "from": way.exchange.source,
            "written on": way.write_mesh,
            "to": way.exchange.target,
            "read on": way.read_mesh,
            "first guess": "predicted" if way.shifted else "none: says that it takes part",
        }
        for way in carriers(configuration)
    ]
    patched = is_patched(configuration)
    title = f"{configuration.path}: data that {'have' if patched else 'would get'} fields of predictions"
    in_the_way = obstacles(configuration)
    return [
        *([Table.of(title, rows, tuple(range(len(rows[0]))))] if rows else []),
        *(Paragraph(line, "warning", "note") for line in notes(configuration)),
        *(Paragraph(line, "warning", "in the way") for line in in_the_way),
        *([] if in_the_way else [Paragraph(f"nothing stands in the way{'; it is patched' if patched else ''}")]),
    ]
