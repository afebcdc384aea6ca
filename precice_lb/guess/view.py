"""First guesses of time windows: what came of them in words, and what a configuration would get as a table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from precice_lb.guess.config import carriers, is_patched, obstacles
from precice_lb.report.blocks import Block, Paragraph, Table, or_dash
from precice_lb.text import plural, visible

if TYPE_CHECKING:
    from precice_lb.case import Configuration
    from precice_lb.dataset import CoupledRun


def run_facts(run: CoupledRun) -> Iterator[tuple[str, str]]:
    """Say how many windows began with a guess of each predictor, their mean iterations, and what guessing took."""
    if run.predictors:
        first, *others = run.predictors
        words = f"{visible(first.name)} in {plural(first.windows, 'window')}, {first.iterations:.3g} iterations"
        parts = [words, *(f"{visible(other.name)} in {other.windows}, {other.iterations:.3g}" for other in others)]
        cost = sum(predictor.windows * predictor.cost_seconds for predictor in run.predictors)
        wall = sum(predictor.windows * predictor.window_seconds for predictor in run.predictors)
        label = f"first guess ({visible(run.guess)})" if run.guess else "first guess"
        yield label, "; ".join([*parts, f"cost {or_dash(100 * cost / wall, '.2g', ' %')} of the window"])


def guess_blocks(configuration: Configuration) -> list[Block]:
    """Tabulate what would be predicted, or is where the configuration is patched; then obstacles."""
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
        *(Paragraph(line, "warning", "in the way") for line in in_the_way),
        *([] if in_the_way else [Paragraph(f"nothing stands in the way{'; it is patched' if patched else ''}")]),
    ]
