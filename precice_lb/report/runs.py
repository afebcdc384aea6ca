"""What recorded runs did: a typical window, ranks out of balance, and what `check` found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from precice_lb.check import check_runs
from precice_lb.report.blocks import Block, Missing, Paragraph, Table, or_dash, percent, seconds_unit, short_names
from precice_lb.report.summary import summarise
from precice_lb.report.summary_view import run_blocks
from precice_lb.text import plural, visible

if TYPE_CHECKING:
    from precice_lb.check import CheckResult, Finding
    from precice_lb.dataset import CoupledRun
    from precice_lb.report.page import Evidence

NO_RUNS = (
    "no recorded run is among the sources: record one with precice-lb run, or import preCICE's profiling files with "
    "precice-lb import, and give its stores as a source"
)
# A load balance of ranks below this is worth a word.
_WORTH_A_WORD = 0.9
# Where else the same was found.
_MOST_NAMED = 8


def split_of(run: CoupledRun, names: Iterable[str]) -> str:
    """Write what participants of a run ran on: ``24 + 8 ranks``, or ``24 + 1 x 8 threads``."""
    layouts = [run.participants[who].layout for who in names]
    return " + ".join(map(str, layouts)) + ("" if any(layout.threads > 1 for layout in layouts) else " ranks")


def window_section(evidence: Evidence) -> Iterator[Block]:
    """Say what a typical window consists of, and where ranks of a participant differ."""
    run, split = evidence.shown_run, evidence.recommendation.split
    (summary,) = summarise([run])
    text = (
        f"Measured in run {visible(run.name)} on {split_of(run, split)}, the recorded split nearest to the recommended"
    )
    yield Paragraph(f"{text} one; the median of its {plural(len(evidence.repeats), 'run')}.")
    yield from (
        Paragraph(
            f"Ranks of {evidence.names[part.participant]} have a load balance of {percent(part.load_balance, 0)}: more "
            "ranks do not help there as long as its mesh is not partitioned more evenly.",
            "warning",
        )
        for part in summary.participants
        if part.load_balance < _WORTH_A_WORD
    )
    yield from run_blocks(summary, evidence.names)


def quality_section(evidence: Evidence) -> Iterator[Block]:
    """Say whether the recorded runs are fit to learn from."""
    if not evidence.repeats:
        raise Missing(NO_RUNS)
    yield from finding_blocks(check_runs(evidence.runs))


def check_blocks(result: CheckResult) -> list[Block]:
    """Say all that `check` found: numbers of every participant, and each finding with its remedy."""
    return [*health_blocks(result), *finding_blocks(result)]


def health_blocks(result: CheckResult) -> list[Block]:
    """Tabulate what the windows of each run say of its participants."""
    runs = short_names({health.run for health in result.healths}, 40)
    names = short_names({health.participant for health in result.healths}, 40)
    unit = seconds_unit(health.seconds for health in result.healths)
    rows = [
        {
            "run": runs[health.run],
            "participant": names[health.participant],
            "ranks": health.ranks_text,
            "windows": str(health.windows),
            "warm-up": f"{health.warmup_found} ({health.warmup_left_out} left out)",
            f"median compute ({unit.symbol})": unit.number(health.seconds),
            "iterations": or_dash(health.iterations, ".2f"),
            "drift": health.drift_text,
            "outliers": str(health.outliers),
            "spread": percent(health.deviation),
            "error": percent(health.error),
        }
        for health in result.healths
    ]
    text = (
        "median compute: per time window, the median per coupling iteration after warm-up times the mean iterations; "
        "spread: of one window, error: of that median (standard deviations)"
    )
    blocks: list[Block] = [Table.of("Recorded runs: what their windows say of them", rows, (0, 1)), Paragraph(text)]
    if negligible := [f"{health.participant} in {health.run}" for health in result.healths if health.negligible]:
        blocks.append(Paragraph(f"not judged, with less than 1 % of the window: {', '.join(negligible)}"))
    return blocks


def finding_blocks(result: CheckResult) -> list[Block]:
    """Say each finding with its remedy, the same of several runs once."""
    if not result.findings:
        return [Paragraph("nothing found that speaks against these runs")]
    return [_finding(*group) for group in result.groups]


def _finding(worst: Finding, *others: Finding) -> Paragraph:
    count = f" ({1 + len(others)} times)" if others else ""
    more = f" and {len(others) - _MOST_NAMED} more" if len(others) > _MOST_NAMED else ""
    also = f" Also {'; '.join(other.where for other in others[:_MOST_NAMED])}{more}." if others else ""
    return Paragraph(f"{worst.where}: {worst.text}. Remedy: {worst.remedy}.{also}", "warning", f"{worst.kind}{count}")
