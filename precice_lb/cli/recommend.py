"""The subcommand that recommends a split."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from precice_lb.cli.app import app
from precice_lb.cli.case import Case, read_measured, recommend_case
from precice_lb.cli.flow import name_files, show
from precice_lb.cli.machine import Machine

__all__ = ["recommend"]


@app.command
def recommend(
    *sources: Path,
    ranks: int | None = None,
    machine: Machine | None = None,
    case: Case | None = None,
    format: Literal["table", "json"] = "table",
    output: Path | None = None,
) -> None:
    """Recommend how to split ranks, cores or nodes, from recorded runs or a CSV file.

    Example: precice-lb recommend inner.csv outer.csv --ranks 336 --minimum-ranks Inner=2

    Example: precice-lb recommend stores --nodes 12 --cores-per-node 48 --whole-nodes --multiple Fluid=4

    Parameters
    ----------
    sources
        The directory of a campaign, directories of stores, or CSV files with the columns participant, ranks and seconds
        (compute seconds per window). A campaign brings its study's budget, machine, bounds, parameters and learner,
        where no option says otherwise, and its failed splits.
    ranks
        Total number of ranks to split; or --cores, or --nodes.
    machine
        What the machine has and demands.
    case
        For what to recommend, and by whom.
    format
        A table to read, or JSON alone on standard output.
    output
        Also write recommendation.json, recommendation.md and the figure into this directory.
    """
    given = case or Case()
    recommendation, _ = recommend_case(read_measured(sources, given.warmup), ranks, machine, given)
    show(recommendation, output, format)
    if output is not None:
        from precice_lb.report.partners import write_partners_beside

        written = write_partners_beside(sources, recommendation.split, output)
        name_files(written, format)
