"""Fitted constants of the start-up model as a table and sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from precice_lb.plural import plural
from precice_lb.report.blocks import Block, DefinitionList, Table
from precice_lb.report.text import seconds_text

if TYPE_CHECKING:
    from precice_lb.partners import ConstantsFit, StartUpRun

__all__ = ["constants_blocks"]

_WHAT = {
    "latency": "s per step in which a rank waits for another one",
    "turn": "s more per step for each further rank on a core",
    "file": "s to open or rename a connection file in the exchange directory",
    "vertex": "s per vertex of a rank's own, or that the primary rank gathers",
    "copy": "s per vertex that a rank receives or is told the place of",
}


def constants_blocks(fit: ConstantsFit, runs: Sequence[StartUpRun]) -> list[Block]:
    """Say which constants were fitted, to what, and how well they explain it."""
    rows = []
    for number, run in enumerate(runs):
        seconds = [seconds_text(each[number], 3) for each in (fit.measured, fit.estimated, fit.left_out)]
        ranks = ", ".join(f"{name} {count}" for name, count in run.ranks.items())
        rows.append((str(run.directory), ranks, run.scheme, *seconds))
    header = ("run", "ranks", "initialisation", "measured", "estimated", "from the others")
    constants = []
    for name, what in _WHAT.items():
        value = getattr(fit.model, name)
        note = " (default: no run tells it)" if name not in fit.fitted else "" if value else " (not seen in these runs)"
        constants.append((name, f"{value:.3g} {what}{note}"))
    factors, others = fit.factors(fit.estimated), fit.factors(fit.left_out)
    explained = (
        f"{plural(len(runs), 'run')} within a factor of {np.median(factors):.2f} in the median, {factors.max():.2f} at "
        f"most; each from the others, {np.median(others):.2f} and {others.max():.2f}"
    )
    table = Table("Measured start-ups, and by the fitted model", header, tuple(rows), (0, 1, 2))
    return [table, DefinitionList((*constants, ("explained", explained)))]
