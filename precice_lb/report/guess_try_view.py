"""Runs with several first guesses side by side, as blocks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from precice_lb.calibrate.processes import NOTICEABLE
from precice_lb.layout import Layouts, counted_text
from precice_lb.plural import plural
from precice_lb.report.blocks import Block, DefinitionList, Paragraph, Table
from precice_lb.report.text import listed, seconds_unit

if TYPE_CHECKING:
    from precice_lb.calibrate.guess_compare import Change, GuessComparison

__all__ = ["comparison_blocks"]


def comparison_blocks(
    comparison: GuessComparison, split: Mapping[str, int], layouts: Mapping[str, Layouts] | None = None
) -> list[Block]:
    """Tabulate the runs, say why some failed, and what the margins mean."""
    ended = {run.predictor: run.seconds[comparison.steady(run)].mean() for run in comparison.runs if run.error is None}
    unit = seconds_unit(map(float, ended.values()))
    rows = []
    for run in comparison.runs:
        if run.error is not None:
            rows.append((run.predictor, "failed", *["–"] * 5))
            continue
        compared = run is not comparison.runs[0]
        rows.append(
            (
                run.predictor,
                f"{run.iterations[comparison.steady(run)].mean():.2f}",
                f"{run.iterations.sum():.0f}",
                _change(comparison.iterations(run)) if compared else "–",
                unit.number(float(ended[run.predictor])),
                _change(comparison.seconds(run)) if compared else "–",
                "–" if run.not_converged is None else str(run.not_converged),
            )
        )
    # A screen of 80 columns shows all of it.
    header = ("guess", "iterations", "total", "change (%)", f"window ({unit.symbol})", "change (%)", "unconverged")
    warmup = plural(comparison.warmup_windows, "warm-up window")
    title = f"The same time windows with each first guess, {counted_text(split, layouts)}: means after {warmup}"
    meaning = (
        "change: against none, of the same windows; ±: how far that may be from the mean over many more of them, but "
        "for a chance of 5 % that one of these is further (Student's t, from means of blocks of neighbouring windows). "
        "It knows how windows differ, not what the machine did meanwhile: the runs came one after another. What hold, "
        "which iterates as none does, changes in seconds counts as noise, too. total and unconverged: of all windows, "
        "warm-up included."
    )
    failures = tuple((f"{run.predictor} failed", run.error) for run in comparison.runs if run.error is not None)
    loaded = [run.predictor for run in comparison.runs if (run.other_load or 0.0) >= NOTICEABLE]
    busy = f"other programs kept cores busy during the runs with {listed(loaded)}, whose seconds may show that"
    return [
        Table(title, header, tuple(rows)),
        *([DefinitionList(failures)] if failures else []),
        Paragraph(meaning),
        *([Paragraph(busy, "warning")] if loaded else []),
    ]


def _change(change: Change | None) -> str:
    """Write a change in per cent without the sign, which stands in the head."""
    return "–" if change is None else str(change).replace(" %", "")
