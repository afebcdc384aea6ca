"""The sections for those who go on: data quality, partner ranks, further runs, the launch, and where all comes from."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from precice_lb.exceptions import PreciceLBError
from precice_lb.report import partners, view
from precice_lb.report.blocks import Block, Chart, CodeBlock, DefinitionList, Paragraph, Section, Table
from precice_lb.report.check_view import finding_blocks, health_blocks
from precice_lb.report.page.evidence import provenance
from precice_lb.report.page.measured import NO_RUNS
from precice_lb.report.page.measured_charts import windows_chart
from precice_lb.report.page.next_runs import next_runs
from precice_lb.report.partners_figure import histogram_panel, matrix_panel
from precice_lb.report.partners_files import partners_of_split
from precice_lb.report.style import one_panel
from precice_lb.report.text import percent, ranks_text, short_names, visible

if TYPE_CHECKING:
    from precice_lb.partners import LinkPartners
    from precice_lb.report.page.evidence import Evidence

__all__ = ["launch_section", "next_section", "partners_section", "provenance_section", "quality_section"]

# Received meshes whose matrix is drawn, and pairs of ranks that go into the data.
_DRAWN, _MOST_PAIRS = 4, 20_000


def partners_section(evidence: Evidence) -> Section:
    """Show which ranks talk to each other at the recommended split, where a run kept its meshes."""
    title = "Partner ranks"
    try:
        report = partners_of_split(evidence.sources, evidence.recommendation.split)
    except PreciceLBError as error:
        return Section("partners", title, (Paragraph(f"Not reported: {error}.", "missing"),))
    if report is None:
        text = (
            "No run among the sources kept its meshes: record one with PRECICE_LB_MESHES=coordinates to see which "
            "ranks will talk to each other. Compiled solvers leave none in stores: add <export:csv> to their "
            "participants, and name that directory to precice-lb partners."
        )
        return Section("partners", title, (Paragraph(text, "missing"),))
    blocks: list[Block] = []
    for number, found in enumerate(report.links[:_DRAWN], start=1):
        blocks += _link_charts(found, number)
    blocks += partners.partners_blocks(report)
    return Section("partners", title, tuple(blocks))


def _link_charts(found: LinkPartners, number: int) -> list[Chart]:
    pairs = [(int(one), int(other), "connected", "") for one, other in found.connected]
    if found.level_2 is not None and found.vertices is not None:
        exchanged = zip(found.level_2, found.vertices, strict=True)
        pairs = [(int(one), int(other), "exchanges data", str(count)) for (one, other), count in exchanged]
    provider, receiver = found.link.provider, found.link.receiver
    counts = [
        (who, rank, int(count))
        for side, who in enumerate((provider, receiver))
        for rank, count in enumerate(found.partners(side, found.connected))
    ]
    return [
        Chart(
            f"partners-{number}-pairs",
            f"Each cell is a pair of ranks of {visible(provider)} and {visible(receiver)}: grey pairs only open a "
            "connection, coloured ones exchange data.",
            one_panel(lambda axes: matrix_panel(axes, found), 3.8),
            ("provider rank", "receiver rank", "what", "vertices"),
            tuple(pairs[:_MOST_PAIRS]),
        ),
        Chart(
            f"partners-{number}-counts",
            "How many ranks have how many partners: a long tail to the right means ranks that talk to everyone.",
            one_panel(lambda axes: histogram_panel(axes, found), 2.8),
            ("participant", "rank", "partners"),
            tuple(counts),
        ),
    ]


def quality_section(evidence: Evidence) -> Section:
    """Say whether the recorded runs are fit to learn from."""
    title = "Data quality"
    checked, run = evidence.checked, evidence.shown_run
    if checked is None or run is None:
        text = f"Warm-up, drift and outliers are not known. {NO_RUNS}"
        return Section("quality", title, (Paragraph(text, "missing"),))
    blocks = finding_blocks(checked)
    if any(part.compute_measured for part in run.participants.values()):
        blocks.append(windows_chart(run, evidence.labels))
    runs = short_names(dict.fromkeys(health.run for health in checked.healths), 40)
    return Section("quality", title, (*blocks, *health_blocks(checked, runs, evidence.names)))


def next_section(evidence: Evidence) -> Section:
    """Say whether another run is worth it, and which."""
    recommendation = evidence.recommendation
    prospects = next_runs(recommendation, evidence.target_regret)
    regret = percent(prospects.regret, 2)
    if not prospects.is_worth_it:
        text = (
            f"Another run is not worth it: the recommended split is expected to be {regret} slower than the best one, "
            f"less than the {percent(prospects.target_regret)} below which calibration stops."
        )
    elif prospects.runs:
        best = ranks_text({evidence.names[who]: count for who, count in prospects.runs[0].split.items()})
        text = (
            f"The recommended split is expected to be {regret} slower than the best one, as far as the measurements "
            f"tell. Measure {best} next: it removes most of that per core-hour."
        )
    else:
        text = (
            f"The recommended split is expected to be {regret} slower than the best one, and no single run would "
            "change the decision; repeat runs near it to learn how much they differ."
        )
    if prospects.judge != recommendation.learner:
        text += f" That is judged by curves of {prospects.judge}, as {recommendation.learner} draws none."
    blocks: list[Block] = [Paragraph(text)]
    if prospects.runs:
        rows = tuple(
            (view.split_text(run.split), percent(run.regret, 2), f"{run.core_seconds / 3.6:.3g}")
            for run in prospects.runs
        )
        header = ("ranks as above", "expected regret after it", "core-h/1000 windows")
        blocks.append(Table("Runs that would tell most", header, rows, (False, True, True)))
    return Section("next", "What to measure next", tuple(blocks))


def launch_section(evidence: Evidence) -> Section:
    """Say how to start the recommended split."""
    split, names = evidence.recommendation.split, evidence.names
    option = ",".join(f"{who}={count}" for who, count in split.items())
    blocks: list[Block] = []
    scripts = [] if evidence.launch is None else [evidence.launch / name for name in ("run.sh", "job.sbatch")]
    found = [path for path in scripts if path.is_file()]
    if found:
        blocks.append(
            Paragraph(
                f"{visible(str(evidence.launch))} holds the split ready to use: "
                "run.sh for this machine or an allocation, job.sbatch for Slurm."
            )
        )
        blocks += [CodeBlock(path.name, _lines(path.read_text(encoding="utf-8", errors="replace"))) for path in found]
        return Section("launch", "How to launch", tuple(blocks))
    commands = {}
    if evidence.shown_run is not None:
        commands = {who: str(part.metadata.get("command", "")) for who, part in evidence.shown_run.participants.items()}
    lines = [
        f"mpiexec -n {count} {visible(commands.get(who) or f'<solver of {names[who]}>')} &"
        for who, count in split.items()
    ]
    text = (
        "Start every participant in its directory with its ranks, as below. For pinned cores, job scripts and other "
        f"launchers describe the case in a study file: precice-lb scripts study.toml --split {visible(option)}."
    )
    return Section(
        "launch",
        "How to launch",
        (Paragraph(text), CodeBlock("each participant with its ranks", "\n".join([*lines, "wait"]))),
    )


def _lines(text: str) -> str:
    return "\n".join(visible(line) for line in re.split(r"\r\n|\r|\n", text.expandtabs(4))).rstrip("\n")


def provenance_section(evidence: Evidence) -> Section:
    """Say with what and from what the report was made."""
    text = "The command below makes this report again from the same sources."
    return Section("provenance", "Provenance", (Paragraph(text), DefinitionList(tuple(provenance(evidence)))))
