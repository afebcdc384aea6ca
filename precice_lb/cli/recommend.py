"""Subcommands that learn from measurements: recommend and report."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from precice_lb.cli.app import app
from precice_lb.cli.case import Asked, Measured, read_measured, recommend_case
from precice_lb.cli.flow import (
    OUTPUT,
    Format,
    Output,
    Verbose,
    command_line,
    name_files,
    print_answer,
    print_result,
    remembered,
)
from precice_lb.exceptions import DataError, PreciceLBError
from precice_lb.text import plural, say

if TYPE_CHECKING:
    from precice_lb.report.page import Evidence


@app.command
def recommend(
    *sources: Path,
    case: Asked | None = None,
    format: Format = "table",
    output: Output = None,
    verbose: Verbose = False,
) -> None:
    """Recommend how to split ranks, cores or nodes, from recorded runs or a CSV file.

    Example: precice-lb recommend inner.csv outer.csv --ranks 336 --present Inner=168,Outer=168

    Example: precice-lb recommend stores --nodes 12 --cores-per-node 48 --set participants.Fluid.multiple=4

    Parameters
    ----------
    sources
        The directory of a campaign, directories of stores, or CSV files with the columns participant, ranks and seconds
        (compute seconds per window). A campaign brings its study's budget, machine, bounds, parameters and learner,
        where no option says otherwise, and its failed splits.
    case
        For what to recommend.
    output
        Also write recommendation.json into this directory, and which ranks will be partners, where that is known.
    """
    from precice_lb.report.render import write_recommendation

    if output is not None and output.suffix in (".json", ".csv", ".md", ".txt") and not output.exists():
        raise DataError(f"--output: expected a directory for several files, found {output}; --format json prints one")
    asked = case or Asked()
    measured = read_measured(sources, asked.warmup, runs=asked.coupling == "traces")
    recommendation = recommend_case(measured, asked)
    if format == "json":
        print_result(format, list, recommendation.to_dict)
    else:
        more = "" if verbose else "--verbose shows what it rests on and other splits; "
        advice = f"{more}precice-lb report makes a page of it, and says what to measure next"
        print_answer(recommendation, advice, verbose=verbose)
    if output is not None:
        name_files(write_recommendation(recommendation, output, sources), format)


@app.command
def report(
    *sources: Path,
    output: Annotated[Path, OUTPUT] = Path("precice-lb-report"),
    figures: Path | None = None,
    case: Asked | None = None,
) -> None:
    """Write a report: the recommended split, what it rests on, and what it gains, as one page for a browser.

    report.html needs no network and no script, prints well, and names what is missing.

    Example: precice-lb report demo --output demo-report --present Inner=8,Outer=8

    Parameters
    ----------
    sources
        The directory of a campaign or of a chain of jobs, directories of stores, or CSV files with the columns
        participant, ranks and seconds (compute seconds per window).
    output
        The directory to write it to.
    figures
        Also write every figure as SVG into this directory.
    case
        For what to recommend; by default a campaign's own budget, else what was last recommended for in the directory,
        else as many ranks as the largest run had.
    """
    from precice_lb.report.blocks import read_story
    from precice_lb.report.page import build_page, story_page
    from precice_lb.report.render import write_report

    story = read_story(sources[0]) if len(sources) == 1 else None
    try:
        evidence = _evidence(sources, case or Asked())
    except PreciceLBError as error:
        if story is None:
            raise
        page = story_page(story, str(error))
    else:
        page = build_page(dataclasses.replace(evidence, story=story))
    path, *drawn = write_report(page, output, figures)
    if drawn:
        say(f"wrote {plural(len(drawn), 'figure')} in {figures}")
    say(f"report: {path}")


def _evidence(sources: Sequence[Path], asked: Asked) -> Evidence:
    """Recommend, and gather what a report of that is made of."""
    from precice_lb.campaign.worth import TARGET_REGRET
    from precice_lb.report.page import Evidence

    measured = read_measured(sources, asked.warmup, runs=True)
    known = remembered(sources[0]) if len(sources) == 1 else {}
    known = known if known.get("unit") == "ranks" else {}
    ranks = known.get("total_ranks") or _most_ranks(measured)
    recommendation = recommend_case(measured, asked, ranks, known.get("parameters"))
    target = None if measured.asked is None else measured.asked.runs.target_regret
    launch = sources[0] / "launch"
    return Evidence(
        recommendation,
        measured.runs,
        tuple(sources),
        seed=asked.seed,
        command=command_line(),
        launch=launch if known.get("split") == recommendation.split and launch.is_dir() else None,
        target_regret=TARGET_REGRET if target is None else target,
    )


def _most_ranks(measured: Measured) -> int:
    """Ranks of the largest run; without runs, the largest numbers of ranks that were measured together."""
    totals = [sum(part.cores for part in run.participants.values()) for run in measured.runs]
    return max(totals, default=int(sum(rows[:, 0].max() for rows in measured.measurements.samples.values())))
