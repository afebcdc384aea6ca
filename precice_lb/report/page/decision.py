"""The sections that say what to do: the recommendation, what it is better than, and what it rests on."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from precice_lb.calibrate.decision import NOISE, Beliefs, Curves, within_runs
from precice_lb.layout import count_text
from precice_lb.report import view
from precice_lb.report.blocks import Block, DefinitionList, Paragraph
from precice_lb.report.charts import CHARTS
from precice_lb.report.recommendation import near_tables, opening, plan_facts, tradeoff_table
from precice_lb.report.text import listed, percent, seconds_unit
from precice_lb.report.versions import versioned, versions_tables
from precice_lb.split import optimize_split

if TYPE_CHECKING:
    from precice_lb.recommend import Recommendation
    from precice_lb.recommend.limits import Limits
    from precice_lb.report.page.evidence import Evidence
    from precice_lb.schedule import Schedule
    from precice_lb.split import Constraints


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
        "degrees-of-freedom": f"the degrees of freedom (--degrees-of-freedom {option})",
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


# Splits that are listed, of those that are judged.
_LISTED = 5
# Drawn curves for which the best split that a machine allows is found.
_SOLVED = 32
# Below this expected regret `precice_lb.calibrate.CalibrationDesign` stops by default.
TARGET_REGRET = 0.002
# Nor does another run pay that is expected to lower the regret by less: the answer is stable.
STABLE_REGRET = 0.0002


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
    # Those that save most per core-second, best first.
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
    """Judge further runs by the regret that they are expected to remove.

    The curves are those that the recommendation was decided on. `precice_lb.calibrate.decision` has the method.
    With demands of a machine it looks at splits that meet them.
    """
    expected, limits = recommendation.expected, recommendation.limits
    schedule, names, seed, constraints = expected.schedule, expected.names, expected.seed, limits.constraints
    curves = dict(expected.curves)
    if not expected.is_uncertain:
        return Prospects(math.nan, (), target_regret, recommendation.learner)
    noise = {who: _noise(recommendation, who) for who in names}
    chosen = np.array([[recommendation.split[who] for who in names]], dtype=np.int64)
    if not limits.is_free:
        possible = np.unique(np.vstack([chosen, _possible(curves, limits, constraints, schedule)]), axis=0)
        lowest, highest = _columns(names, possible.min(axis=0)), _columns(names, possible.max(axis=0))
        beliefs = Beliefs(curves, noise, schedule, int(possible.sum(axis=1).max()), lowest, highest, seed, possible)
    else:
        beliefs = Beliefs(curves, noise, schedule, limits.budget, limits.lowest, limits.highest, seed)
    splits = beliefs.splits[beliefs.candidates()]
    first, saved, cost = beliefs.next_run(splits)
    best = np.argsort(-saved / cost, kind="stable")[:_LISTED]
    # Of the split that was recommended, which these curves need not find the best.
    windows = beliefs.windows(np.vstack([chosen, beliefs.splits]))
    regret = float((windows[:, 0] / windows.min(axis=1) - 1.0).mean())
    runs = (
        NextRun(_columns(names, splits[at]), max(beliefs.expected_regret - float(saved[at]), 0.0), float(cost[at]))
        for at in best
        if saved[at] > 0
    )
    return Prospects(regret, tuple(runs), target_regret, saved=float(saved[first]))


def _possible(
    curves: Mapping[str, Curves], limits: Limits, constraints: Constraints, schedule: Schedule
) -> NDArray[np.int64]:
    """Find the best split under the machine's demands for some of the drawn curves, shape (k, participants)."""
    names = schedule.participants
    counts = {who: limits.counts(who) for who in names}
    seconds = {who: np.asarray(curves[who](counts[who]), dtype=float) for who in names}
    drawn = min(len(rows) for rows in seconds.values())
    # What sharing cores costs is in the curves already.
    shared = tuple(dataclasses.replace(group, overhead=0.0) for group in constraints.shared)
    constraints = dataclasses.replace(constraints, shared=shared)
    found = [
        optimize_split(
            {who: partial(_looked_up, counts[who], seconds[who][at]) for who in names}, limits.budget,
            schedule=schedule, minimum_ranks=limits.lowest, maximum_ranks=limits.highest, constraints=constraints,
        ).split
        for at in np.unique(np.linspace(0, drawn - 1, _SOLVED).round().astype(np.intp))
    ]  # fmt: skip
    return np.array([[split[who] for who in names] for split in found], dtype=np.int64)


def _looked_up(counts: NDArray[np.int64], seconds: NDArray[np.float64], ranks: NDArray[np.int64]) -> np.ndarray:
    return np.asarray(seconds[np.searchsorted(counts, ranks)])


def _noise(recommendation: Recommendation, who: str) -> float:
    """Relative standard deviation of a run's seconds, as campaigns take it."""
    learned = getattr(recommendation.models[who], "noise_", NOISE)
    rows = np.asarray(recommendation.measurements.samples[who], dtype=float)
    return float(np.hypot(learned, within_runs(rows[:, 1], recommendation.measurements.errors(who))))


def _columns(names: tuple[str, ...], ranks: np.ndarray) -> dict[str, int]:
    return {who: int(count) for who, count in zip(names, ranks, strict=True)}
