"""First guesses of time windows: what came of them in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from precice_lb.report.blocks import or_dash
from precice_lb.text import plural, visible

if TYPE_CHECKING:
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
