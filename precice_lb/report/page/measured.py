"""The sections of what recorded runs did: a typical window, coupling iterations, and ranks that are out of balance."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from precice_lb.dataset.coupling import roles_of
from precice_lb.report.blocks import Block, Paragraph
from precice_lb.report.page.measured_charts import imbalance_chart, iterations_chart, timeline_chart
from precice_lb.report.summary_text import run_blocks
from precice_lb.report.text import visible

if TYPE_CHECKING:
    from precice_lb.report.page.evidence import Evidence

__all__ = ["NO_RUNS", "imbalance_section", "iterations_section", "window_section"]

# Ranks that differ by more than this share are worth a word.
_WORTH_A_WORD = 0.2
_TEXT = (
    "No recorded run is among the sources: record one with precice-lb run, or import preCICE's profiling files with "
    "precice-lb import, and give its stores as a source."
)
NO_RUNS = Paragraph(_TEXT, "missing")
"""What stands in place of all that recorded runs would say."""


def window_section(evidence: Evidence) -> Iterator[Block]:
    """Show what a typical window consists of, per participant, for its slowest and its fastest rank."""
    run, summary = evidence.shown_run, evidence.shown_summary
    if run is None or summary is None:
        yield NO_RUNS
        return
    split = " + ".join(str(run.participants[who].ranks) for who in evidence.recommendation.split)
    at_it = all(run.participants[who].ranks == count for who, count in evidence.recommendation.split.items())
    where = "the recommended split" if at_it else "the recorded split that is nearest to the recommended one"
    where += f"; of its {evidence.repeats} runs that with the median window" if evidence.repeats > 1 else ""
    yield Paragraph(f"Measured in run {visible(run.name)} on {split} ranks, {where}.")
    known = [each for each in summary.participants if each.quantities["solve"].measured]
    if known:
        seconds = roles_of(run.configuration).second or frozenset()
        yield timeline_chart(summary, known, evidence.labels, seconds)
    else:
        yield Paragraph("Times of ranks were not measured; the table below says why and what to set.", "missing")
    names = {each.participant: visible(each.participant) for each in summary.participants} | evidence.names
    yield from run_blocks(summary, names)


def iterations_section(evidence: Evidence) -> Iterator[Block]:
    """Show the coupling iterations of each window."""
    run = evidence.shown_run
    if run is None:
        yield NO_RUNS
        return
    most = max((int(part.iterations.max(initial=0)) for part in run.participants.values()), default=0)
    if most <= 1:
        yield Paragraph("The coupling is explicit: every time window takes one iteration.")
        return
    means = (
        f"{evidence.names.get(who, visible(who))} {float(np.mean(part.iterations[run.steady(who)])):.2f}"
        for who, part in run.participants.items()
        if run.steady(who).any()
    )
    yield Paragraph(f"Mean iterations per time window after warm-up in run {visible(run.name)}: {', '.join(means)}.")
    yield iterations_chart(run, evidence.labels)


def imbalance_section(evidence: Evidence) -> Iterator[Block]:
    """Show which ranks of a participant work longer than others."""
    summary = evidence.shown_summary
    if summary is None:
        yield NO_RUNS
        return
    several = [
        each for each in summary.participants if each.ranks > 1 and np.isfinite(each.rank_seconds["solve"]).any()
    ]
    if not several:
        text = "No participant of the shown run has times of more than one rank, so that there is nothing to compare."
        yield Paragraph(text, "missing")
        return
    worst = max(several, key=lambda each: -1.0 if math.isnan(each.imbalance) else each.imbalance)
    yield imbalance_chart(several, evidence.labels)
    if worst.imbalance > _WORTH_A_WORD:
        name = evidence.names.get(worst.participant, visible(worst.participant))
        text = (
            f"Ranks of {name} differ by {100 * worst.imbalance:.0f} % of the busiest: more ranks do not help there as "
            "long as its mesh is not partitioned more evenly."
        )
        yield Paragraph(text, "warning")
