"""What recorded runs did: a typical window, ranks out of balance, and what `check` found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.check import check_runs
from precice_lb.report.blocks import Block, Chart, Paragraph, Table, or_dash, percent, seconds_unit, short_names
from precice_lb.report.charts import GREY, Panel, colour_of, marker_of, one_panel, whole_ticks
from precice_lb.report.summary_view import run_blocks
from precice_lb.text import plural, visible

if TYPE_CHECKING:
    from precice_lb.check import CheckResult, FindingGroup
    from precice_lb.dataset import CoupledRun
    from precice_lb.report.page import Evidence

Array = NDArray[np.float64]

# Ranks that differ by more than this share are worth a word.
_WORTH_A_WORD = 0.2
# Windows of a chart at most; more are averaged in groups.
_MOST_POINTS = 400


def split_of(run: CoupledRun, names: Iterable[str]) -> str:
    """Write what participants of a run ran on: ``24 + 8 ranks``, or ``24 + 1 x 8 threads``."""
    layouts = [run.participants[who].layout for who in names]
    return " + ".join(map(str, layouts)) + ("" if any(layout.threads > 1 for layout in layouts) else " ranks")


def window_section(evidence: Evidence) -> Iterator[Block]:
    """Say what a typical window consists of, and where ranks of a participant differ."""
    run, summary, split = evidence.shown_run, evidence.shown_summary, evidence.recommendation.split
    text = (
        f"Measured in run {visible(run.name)} on {split_of(run, split)}, the recorded split nearest to the recommended"
    )
    yield Paragraph(f"{text} one; the median of its {plural(len(evidence.repeats), 'run')}.")
    yield from (
        Paragraph(
            f"Ranks of {evidence.names[part.participant]} differ by {percent(part.imbalance, 0)} of the busiest: more "
            "ranks do not help there as long as its mesh is not partitioned more evenly.",
            "warning",
        )
        for part in summary.participants
        if part.imbalance > _WORTH_A_WORD
    )
    yield from run_blocks(summary, evidence.names)


def quality_section(evidence: Evidence) -> Iterator[Block]:
    """Say whether the recorded runs are fit to learn from."""
    run = evidence.shown_run
    yield from finding_blocks(check_runs(evidence.runs))
    if values := {who: part.compute_seconds for who, part in run.participants.items() if part.compute_measured}:
        yield _course_chart(run, values, evidence.labels)


def _course_chart(run: CoupledRun, values: Mapping[str, Array], names: Mapping[str, str]) -> Chart:
    """Draw compute times over the windows of a run, where warm-up, drift and outliers are to be seen."""
    unit = seconds_unit([float(np.nanmedian(seconds)) for seconds in values.values()])

    def draw(panel: Panel) -> None:
        for index, (who, part) in enumerate(run.participants.items()):
            if who in values:
                look = {"color": colour_of(index), "marker": marker_of(index), "markersize": 3}
                panel.line(_thinned(part.windows), _thinned(values[who]) * unit.per_second, names[who], **look)
        panel.axes.axvspan(0.5, run.warmup_windows + 0.5, color=GREY, alpha=0.15, linewidth=0)
        panel.shade("warm-up, left out", GREY)
        panel.label("Compute time in every window", "time window (number)", f"compute time per window ({unit.symbol})")
        panel.axes.set_ylim(bottom=0)
        whole_ticks(panel.axes.xaxis, 7)

    caption = f"Compute time of each participant in the windows of run {visible(run.name)}."
    return Chart("windows", caption, one_panel(draw, 2.7))


def _thinned(values: NDArray[Any]) -> Array:
    step = max(-(-len(values) // _MOST_POINTS), 1)
    return np.asarray(values[: len(values) // step * step].reshape(-1, step).mean(axis=1))


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
    return [_finding(group) for group in result.groups]


def _finding(group: FindingGroup) -> Paragraph:
    count = f" ({1 + len(group.others)} times)" if group.others else ""
    also = f" Also {group.also}." if group.others else ""
    text = f"{group.worst.where}: {group.worst.text}. Remedy: {group.worst.remedy}.{also}"
    return Paragraph(text, "warning", f"{group.worst.kind}{count}")
