"""The sections of what recorded runs did: a typical window, coupling iterations, and ranks that are out of balance."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from precice_lb.dataset.coupling import roles_of
from precice_lb.report.blocks import Block, Paragraph, Section
from precice_lb.report.page.measured_charts import imbalance_chart, iterations_chart, timeline_chart
from precice_lb.report.summary_text import run_blocks
from precice_lb.report.text import visible

if TYPE_CHECKING:
    from precice_lb.report.page.evidence import Evidence
    from precice_lb.report.summary import RunSummary

__all__ = ["NO_RUNS", "imbalance_section", "iterations_section", "window_section"]

# Ranks that differ by more than this share are worth a word.
_WORTH_A_WORD = 0.2
NO_RUNS = (
    "No recorded run is among the sources: record one with precice-lb run, or import preCICE's profiling files with "
    "precice-lb import, and give its stores as a source."
)


def window_section(evidence: Evidence) -> Section:
    """Show what a typical window consists of, per participant, for its slowest and its fastest rank."""
    run, summary = evidence.shown_run, evidence.shown_summary
    title = "A typical window"
    if run is None or summary is None:
        return Section("window", title, (Paragraph(NO_RUNS, "missing"),))
    blocks: list[Block] = []
    split = " + ".join(str(run.participants[who].ranks) for who in evidence.recommendation.split)
    at_it = all(run.participants[who].ranks == count for who, count in evidence.recommendation.split.items())
    where = "the recommended split" if at_it else "the recorded split that is nearest to the recommended one"
    where += f"; of its {evidence.repeats} runs that with the median window" if evidence.repeats > 1 else ""
    blocks.append(Paragraph(f"Measured in run {visible(run.name)} on {split} ranks, {where}."))
    known = [each for each in summary.participants if each.quantities["solve"].measured]
    if known:
        seconds = roles_of(run.configuration).second or frozenset()
        blocks.append(timeline_chart(summary, known, evidence.labels, seconds))
    else:
        text = "Times of ranks were not measured; the table below says why and what to set."
        blocks.append(Paragraph(text, "missing"))
    blocks += run_blocks(summary, _names(evidence, summary))
    return Section("window", title, tuple(blocks))


def _names(evidence: Evidence, run: RunSummary) -> dict[str, str]:
    return {each.participant: visible(each.participant) for each in run.participants} | evidence.names


def iterations_section(evidence: Evidence) -> Section:
    """Show the coupling iterations of each window."""
    run = evidence.shown_run
    title = "Coupling iterations"
    if run is None:
        return Section("iterations", title, (Paragraph(NO_RUNS, "missing"),))
    most = max((int(part.iterations.max(initial=0)) for part in run.participants.values()), default=0)
    if most <= 1:
        text = "The coupling is explicit: every time window takes one iteration."
        return Section("iterations", title, (Paragraph(text),))
    means = (
        f"{evidence.names.get(who, visible(who))} {float(np.mean(part.iterations[run.steady(who)])):.2f}"
        for who, part in run.participants.items()
        if run.steady(who).any()
    )
    text = f"Mean iterations per time window after warm-up in run {visible(run.name)}: {', '.join(means)}."
    return Section("iterations", title, (Paragraph(text), iterations_chart(run, evidence.labels)))


def imbalance_section(evidence: Evidence) -> Section:
    """Show which ranks of a participant work longer than others."""
    summary = evidence.shown_summary
    title = "Imbalance inside participants"
    if summary is None:
        return Section("imbalance", title, (Paragraph(NO_RUNS, "missing"),))
    several = [
        each for each in summary.participants if each.ranks > 1 and np.isfinite(each.rank_seconds["solve"]).any()
    ]
    if not several:
        text = "No participant of the shown run has times of more than one rank, so that there is nothing to compare."
        return Section("imbalance", title, (Paragraph(text, "missing"),))
    worst = max(several, key=lambda each: -1.0 if math.isnan(each.imbalance) else each.imbalance)
    blocks: list[Block] = [imbalance_chart(several, evidence.labels)]
    if worst.imbalance > _WORTH_A_WORD:
        name = evidence.names.get(worst.participant, visible(worst.participant))
        text = (
            f"Ranks of {name} differ by {100 * worst.imbalance:.0f} % of the busiest: more ranks do not help there as "
            "long as its mesh is not partitioned more evenly."
        )
        blocks.append(Paragraph(text, "warning"))
    return Section("imbalance", title, tuple(blocks))
