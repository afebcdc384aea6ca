"""The subcommand that writes a report for people who were not there."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from precice_lb.cli.app import app
from precice_lb.cli.case import Case, read_measured, recommend_case
from precice_lb.cli.flow import command_line, name_report
from precice_lb.cli.machine import Machine

if TYPE_CHECKING:
    from precice_lb.dataset import CoupledRun, Measurements

__all__ = ["report"]


@app.command
def report(
    *sources: Path,
    output: Annotated[Path, Parameter(name=["--output", "-o"])] = Path("precice-lb-report"),
    ranks: int | None = None,
    machine: Machine | None = None,
    case: Case | None = None,
) -> None:
    """Write a report: the recommended split, what it rests on, and what it gains, as one page for a browser.

    report.html needs no network and no script, prints well, and says what is missing instead of leaving it out.
    report.md and report.json say the same; figures/ and data/ hold every figure as SVG and its numbers as CSV.

    Example: precice-lb report demo --output demo-report --present Inner=8,Outer=8

    Parameters
    ----------
    sources
        The directory of a campaign, directories of stores, or CSV files with the columns participant, ranks and
        seconds (compute seconds per window).
    output
        Where to write.
    ranks
        Total number of ranks to split; or --cores, or --nodes. By default a campaign's own budget, else what was last
        recommended for in the directory, else as many as the largest run had.
    machine
        What the machine has and demands.
    case
        For what to recommend, and by whom.
    """
    from precice_lb.report.page import Evidence, build_page, write_report
    from precice_lb.report.page.next_runs import TARGET_REGRET

    given = case or Case()
    found = read_measured(sources, given.warmup, runs=True)
    known = _remembered(sources)
    if ranks is None and found.settings is None and not (machine or Machine()).has_budget:
        ranks = known.get("total_ranks") or _most_ranks(found.runs, found.measurements)
    recommendation, _ = recommend_case(found, ranks, machine, given, parameters=known.get("parameters"))
    target = None if found.settings is None else found.settings.target_regret
    launch = sources[0] / "launch"
    evidence = Evidence(
        recommendation,
        found.runs,
        tuple(sources),
        seed=given.seed,
        command=command_line(),
        launch=launch if known.get("split") == recommendation.split and launch.is_dir() else None,
        target_regret=TARGET_REGRET if target is None else target,
    )
    name_report(write_report(build_page(evidence), output))


def _remembered(sources: Sequence[Path]) -> dict[str, Any]:
    """Return ranks, split and parameters of the last recommendation in a campaign's directory; empty if unknown."""
    from precice_lb.report.documents import JSON_NAME

    if len(sources) != 1:
        return {}
    try:
        found = json.loads((sources[0] / JSON_NAME).read_text(encoding="utf-8"))
        whole = {"total_ranks": int(found["total_ranks"]), "split": dict(found["split"])}
        return whole | {"parameters": dict(found["parameters"])} if found["budget_unit"] == "ranks" else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _most_ranks(runs: Sequence[CoupledRun], measurements: Measurements) -> int:
    """Ranks of the largest run; without runs, the largest numbers of ranks that were measured together."""
    totals = [sum(part.ranks for part in run.participants.values()) for run in runs]
    return max(totals, default=int(sum(rows[:, 0].max() for rows in measurements.samples.values())))
