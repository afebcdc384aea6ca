"""The subcommand that writes a report for people who were not there."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from precice_lb.cli.app import app
from precice_lb.cli.campaign import campaign_of, told_by_study
from precice_lb.cli.case import Case, recommend_case
from precice_lb.cli.flow import command_line, name_report
from precice_lb.cli.machine import Machine
from precice_lb.cli.options import required

if TYPE_CHECKING:
    from precice_lb.dataset import CoupledRun, Measurements
    from precice_lb.recommend.failed import FailedSplit

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
    campaign = campaign_of(required(sources, "source"))
    failed: tuple[FailedSplit, ...] = ()
    target = TARGET_REGRET
    if campaign is None:
        runs, measurements = _read(sources, given.warmup)
    else:
        result, settings = campaign
        failed = result.failed_splits
        runs, measurements = result.coupled_runs(given.warmup), result.measurements(given.warmup)
        ranks, given = told_by_study(settings, ranks, machine, given, measurements)
        if settings is not None and settings.target_regret is not None:
            target = settings.target_regret
    known = _remembered(sources)
    if ranks is None and (machine is None or (machine.cores is None and machine.nodes is None)):
        ranks = known.get("total_ranks") or _most_ranks(runs, measurements)
    if given.parameter is None and known.get("parameters"):
        given = dataclasses.replace(given, parameter=[json.dumps(known["parameters"])])
    recommendation, schedule = recommend_case(measurements, ranks, machine, given, failed=failed)
    launch = sources[0] / "launch"
    evidence = Evidence(
        recommendation,
        schedule,
        runs,
        tuple(sources),
        seed=given.seed,
        command=command_line(),
        launch=launch if known.get("split") == recommendation.split and launch.is_dir() else None,
        target_regret=target,
    )
    name_report(write_report(build_page(evidence), output))


def _read(sources: Sequence[Path], warmup: int | None) -> tuple[list[CoupledRun], Measurements]:
    """Read runs once, and tables where there are any."""
    from precice_lb.dataset import load_runs, measurements_from_runs
    from precice_lb.ingest.profiling import enrich
    from precice_lb.recommend import load_sources

    stores = [path for path in sources if path.is_dir() or path.suffix in (".h5", ".spool")]
    if len(stores) < len(sources):
        # Whatever is not there is refused here, too.
        measurements = load_sources(sources, warmup=warmup)
        return (load_runs(stores, warmup=warmup, complete=enrich) if stores else []), measurements
    runs = load_runs(stores, warmup=warmup, complete=enrich)
    return runs, measurements_from_runs(runs)


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
