"""The sections for those who go on: data quality, partner ranks, further runs, the launch, and where all comes from."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

from precice_lb.exceptions import PreciceLBError
from precice_lb.layout import Layouts
from precice_lb.names import visible
from precice_lb.report import partners, view
from precice_lb.report.blocks import Block, CodeBlock, DefinitionList, Paragraph, Table
from precice_lb.report.check_view import finding_blocks, health_blocks
from precice_lb.report.page.evidence import provenance
from precice_lb.report.page.measured import NO_RUNS, windows_chart
from precice_lb.report.partners import link_charts, partners_of_split
from precice_lb.report.text import percent, ranks_text, short_names

if TYPE_CHECKING:
    from precice_lb.recommend import Recommendation
    from precice_lb.report.page.evidence import Evidence

# Received meshes whose partners are drawn.
_DRAWN = 4


def partners_section(evidence: Evidence) -> Iterator[Block]:
    """Show which ranks talk to each other at the recommended split, where a run kept its meshes."""
    try:
        report = partners_of_split(evidence.sources, evidence.recommendation.ranks)
    except PreciceLBError as error:
        yield Paragraph(f"Not reported: {error}.", "missing")
        return
    if report is None:
        text = (
            "No run among the sources kept its meshes: record one with PRECICE_LB_MESHES=coordinates to see which "
            "ranks will talk to each other. Compiled solvers leave none in stores: add <export:csv> to their "
            "participants, and name that directory to precice-lb partners."
        )
        yield Paragraph(text, "missing")
        return
    for number, found in enumerate(report.links[:_DRAWN], start=1):
        yield from link_charts(found, f"partners-{number}")
    yield from partners.partners_blocks(report)


def quality_section(evidence: Evidence) -> Iterator[Block]:
    """Say whether the recorded runs are fit to learn from."""
    checked, run = evidence.checked, evidence.shown_run
    if checked is None or run is None:
        yield Paragraph(f"Warm-up, drift and outliers are not known. {NO_RUNS.text}", "missing")
        return
    yield from finding_blocks(checked)
    if any(part.compute_measured for part in run.participants.values()):
        yield windows_chart(run, evidence.labels)
    runs = short_names(dict.fromkeys(health.run for health in checked.healths), 40)
    yield from health_blocks(checked, runs, evidence.names)


def next_text(evidence: Evidence) -> str:
    """Say whether another run is worth it, and which; empty where that is not known."""
    prospects = evidence.prospects
    if math.isnan(prospects.regret):
        return ""
    regret = percent(prospects.regret, 2)
    stops = f"the {percent(prospects.target_regret)} below which calibration stops"
    if not prospects.is_worth_it:
        why = f"less than {stops}"
        if prospects.regret > prospects.target_regret:
            why = "and no other run is expected to change that: the answer is stable"
        text = (
            f"Another run is not worth it: the recommended split is expected to be {regret} slower than the best one, "
            f"{why}."
        )
    elif prospects.runs:
        best = ranks_text(prospects.runs[0].split, evidence.names, evidence.recommendation.layouts)
        text = (
            f"The recommended split is expected to be {regret} slower than the best one, more than {stops}, "
            f"as far as the measurements tell. Measure {best} next: it removes most of that per core-hour."
        )
    else:
        text = (
            f"The recommended split is expected to be {regret} slower than the best one, more than {stops}, "
            "and no single run would change the decision; repeat runs near it to learn how much they differ."
        )
    return text


def next_section(evidence: Evidence) -> Iterator[Block]:
    """Say whether another run is worth it, and which."""
    prospects = evidence.prospects
    if not (text := next_text(evidence)):
        text = (
            f"What another run is worth is not known: {prospects.learner} draws no curves. "
            "Recommend with another learner, such as bayes, to learn which run would tell most."
        )
        yield Paragraph(text, "missing")
        return
    yield Paragraph(text)
    if prospects.runs:
        rows = tuple(
            (
                view.split_text(run.split, evidence.recommendation.layouts),
                percent(run.regret, 2),
                f"{run.core_seconds / 3.6:.3g}",
            )
            for run in prospects.runs
        )
        header = (view.as_above(evidence.recommendation), "expected regret after it", "core-h/1000 windows")
        yield Table("Runs that would tell most", header, rows)


def launch_section(evidence: Evidence) -> Iterator[Block]:
    """Say how to start the recommended split."""
    split, names = evidence.recommendation.split, evidence.names
    option = ",".join(f"{who}={_option(evidence.recommendation, who, count)}" for who, count in split.items())
    scripts = [] if evidence.launch is None else [evidence.launch / name for name in ("run.sh", "job.sbatch")]
    found = [path for path in scripts if path.is_file()]
    if found:
        yield Paragraph(
            f"{visible(str(evidence.launch))} holds the split ready to use: "
            "run.sh for this machine or an allocation, job.sbatch for Slurm."
        )
        for path in found:
            yield CodeBlock(path.name, _lines(path.read_text(encoding="utf-8", errors="replace")))
        return
    commands = {}
    if evidence.shown_run is not None:
        commands = {who: str(part.metadata.get("command", "")) for who, part in evidence.shown_run.participants.items()}
    unknown = {who: shlex.quote(f"<solver of {names[who]}>") for who in split}
    lines = [
        f"{_start(evidence.recommendation, who, count)} {visible(commands.get(who) or unknown[who])} &"
        for who, count in split.items()
    ]
    yield Paragraph(
        "Start every participant in its directory with its ranks, as below. For pinned cores, job scripts and other "
        "launchers describe the case in a study file: precice-lb launch --study study.toml --split "
        f"{shlex.quote(visible(option))}."
    )
    yield CodeBlock("each participant with its ranks", "\n".join([*lines, "wait"]))


def _option(recommendation: Recommendation, who: str, count: int) -> str:
    layout = recommendation.layouts.get(who, Layouts()).of(count)
    return str(count) if who not in recommendation.layouts else f"{layout.ranks}x{layout.threads}"


def _start(recommendation: Recommendation, who: str, count: int) -> str:
    layout = recommendation.layouts.get(who, Layouts()).of(count)
    threads = f"OMP_NUM_THREADS={layout.threads} " if who in recommendation.layouts else ""
    return f"{threads}mpiexec -n {layout.ranks}"


def _lines(text: str) -> str:
    return "\n".join(visible(line) for line in re.split(r"\r\n|\r|\n", text.expandtabs(4))).rstrip("\n")


def provenance_section(evidence: Evidence) -> Iterator[Block]:
    """Say with what and from what the report was made."""
    yield Paragraph("The command below makes this report again from the same sources.")
    yield DefinitionList(tuple(provenance(evidence)))
