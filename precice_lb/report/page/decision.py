"""The sections that say what to do: the recommendation, what it is better than, and what it rests on."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from precice_lb.calibrate.design import STABLE_REGRET, TARGET_REGRET
from precice_lb.calibrate.worth import PosteriorSplits
from precice_lb.layout import count_text
from precice_lb.report import view
from precice_lb.report.blocks import Block, DefinitionList, Paragraph
from precice_lb.report.charts import CHARTS
from precice_lb.report.recommendation import near_tables, opening, plan_facts, tradeoff_table
from precice_lb.report.text import listed, percent, seconds_unit
from precice_lb.report.versions import versioned, versions_tables

if TYPE_CHECKING:
    from precice_lb.recommend import Recommendation
    from precice_lb.report.page.evidence import Evidence


def recommendation_section(evidence: Evidence) -> Iterator[Block]:
    """Say in two sentences what to do and how sure that is, with the numbers and the figure that matter most."""
    recommendation, names = evidence.recommendation, evidence.names
    lead, reason, *rest = opening(recommendation, names)
    # The figure stands beside what follows, so that a first screen has both.
    yield from (lead, CHARTS["comparison"](recommendation), reason, DefinitionList(tuple(_tiles(evidence)), tiles=True))
    yield from rest
    yield view.split_table(recommendation, names)
    yield from versions_tables(recommendation, names)
    yield from view.failed_tables(recommendation, names)
    yield DefinitionList(tuple(plan_facts(recommendation)))


def _tiles(evidence: Evidence) -> list[tuple[str, str]]:
    recommendation = evidence.recommendation
    unit = seconds_unit([recommendation.window_seconds])
    names = versioned(evidence.names, recommendation.versions)
    tiles = [
        (names[who], count_text(who, count, recommendation.layouts)) for who, count in recommendation.split.items()
    ]
    # The split of many participants stands in the table.
    tiles = (
        tiles
        if len(tiles) <= 3
        else [(view.ranks_word(recommendation), view.split_text(recommendation.split, recommendation.layouts))]
    )
    low, high = recommendation.interval
    tiles.append(("window time", unit.text(recommendation.window_seconds)))
    if np.isfinite([low, high]).all():
        tiles.append((f"{percent(recommendation.level, 0)} interval", f"{unit.number(low)}–{unit.text(high)}"))
    for kind in ("present", "equal"):
        other = recommendation.alternatives.get(kind)
        if other is not None:
            tiles.append((f"faster than the {view.label(kind, other)}", percent(other.gain)))
            break
    tiles.append(("load imbalance", percent(recommendation.imbalance)))
    return tiles


def comparison_section(evidence: Evidence) -> Iterator[Block]:
    """Set the split beside the present, the equal and the DoF-proportional one."""
    recommendation = evidence.recommendation
    yield Paragraph(
        "A window lasts until the slowest participant is done and its partners have its data; who is done earlier "
        "waits. A better split turns waiting into work."
    )
    yield view.comparison_table(recommendation)
    option = ",".join(f"{label}=…" for label in evidence.labels.values())
    told = {
        "present": f"the split in use (--present {option})",
        "degrees-of-freedom": "the degrees of freedom (participants.….degrees_of_freedom of the study, or --set)",
    }
    unknowns = recommendation.measurements.degrees_of_freedom
    known = {"degrees-of-freedom"} if all(unknowns.get(who, 0.0) > 0 for who in evidence.names) else set()
    missing = [text for kind, text in told.items() if kind not in {*recommendation.alternatives, *known}]
    if missing:
        yield Paragraph(f"Not compared, as it was not told: {listed(missing)}.", "missing")


def scaling_section(evidence: Evidence) -> Iterator[Block]:
    """Show each participant's time over its ranks: model, interval, measurements, recommended and present counts."""
    recommendation, names = evidence.recommendation, evidence.names
    yield CHARTS["scaling"](recommendation)
    yield view.evidence_table(recommendation, names)
    if recommendation.comparisons:
        yield view.measured_table(recommendation)
    yield DefinitionList(tuple(view.facts(recommendation, names)))


def landscape_section(evidence: Evidence) -> Iterator[Block]:
    """Show the window time over the split: a curve for two participants, and the splits near the recommended one."""
    recommendation = evidence.recommendation
    charts = [CHARTS["landscape"](recommendation)] if len(recommendation.split) == 2 else []
    near = near_tables(recommendation)
    if charts or near:
        yield Paragraph("How much is lost by a rank more here and a rank less there? A flat valley forgives rounding.")
        yield from charts
        yield from near
    else:
        text = "where a model predicts it, by precice-lb report and in Python by recommend(…, within=0.05)."
        yield Paragraph(f"Splits near the recommended one are listed {text}", "missing")


def budget_section(evidence: Evidence) -> Iterator[Block]:
    """Show window time against core-hours over all budgets."""
    recommendation = evidence.recommendation
    if recommendation.plan is None:
        text = "Other budgets were not looked at: precice-lb report does, and in Python recommend(…, within=0.05)."
        yield Paragraph(text, "missing")
        return
    yield from (CHARTS["budget"](recommendation), CHARTS["cost"](recommendation))
    yield tradeoff_table(recommendation)


# Of the splits that are judged so many are listed.
_LISTED = 5


@dataclass(frozen=True)
class NextRun:
    """A split that may be measured."""

    # Ranks by participant.
    split: dict[str, int]
    # Expected regret of the recommended split after it was measured.
    regret: float
    # What a window of it costs.
    core_seconds: float


@dataclass(frozen=True)
class Prospects:
    """What further runs are worth."""

    # Expected regret now: window time of the recommended split over that of the best one, minus 1; NaN where a learner
    # draws no curves.
    regret: float
    # Those that save most per core-second, best first; none where calibration would stop.
    runs: tuple[NextRun, ...]
    # Below this expected regret calibration stops.
    target_regret: float = TARGET_REGRET
    # A learner that draws no curves, so that nothing is known.
    learner: str = ""
    # The most that one of the runs is expected to lower the regret by.
    saved: float = math.inf

    @property
    def is_worth_it(self) -> bool:
        """Whether calibration would go on."""
        return self.regret > self.target_regret and self.saved >= STABLE_REGRET


def next_runs(recommendation: Recommendation, target_regret: float = TARGET_REGRET) -> Prospects:
    """Judge further runs by the regret that they are expected to remove, as calibration does.

    The curves are those that the recommendation was decided on.
    """
    if not recommendation.expected.is_uncertain:
        return Prospects(math.nan, (), target_regret, recommendation.learner)
    posterior = PosteriorSplits(recommendation)
    rows, saved = posterior.worth()
    regret, cost = posterior.expected_regret, posterior.core_seconds(rows)
    found = Prospects(regret, (), target_regret, saved=float(saved.max()))
    if not found.is_worth_it:
        return found
    runs = [
        NextRun(dict(zip(posterior.names, posterior.splits[row].tolist(), strict=True)), max(regret - gain, 0.0), price)
        for row, gain, price in zip(rows, saved.tolist(), cost.tolist(), strict=True)
        if gain > 0
    ]
    return replace(found, runs=tuple(runs[:_LISTED]))
