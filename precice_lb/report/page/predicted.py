"""The sections of what the models predict: scaling, other splits, other budgets."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from precice_lb.report import plan_view, view
from precice_lb.report.blocks import Block, Chart, DefinitionList, Paragraph
from precice_lb.report.curves import landscape_of, scaling_curves
from precice_lb.report.figure import landscape_panel, scaling_panel
from precice_lb.report.page.slices import slice_chart, triangle_chart
from precice_lb.report.plan_figure import plan_panel
from precice_lb.report.style import one_panel
from precice_lb.report.text import percent

if TYPE_CHECKING:
    from precice_lb.report.page.evidence import Evidence

__all__ = ["budget_section", "landscape_section", "scaling_section"]


def scaling_section(evidence: Evidence) -> Iterator[Block]:
    """Show each participant's time over its ranks: model, interval, measurements, recommended and present counts."""
    recommendation, names = evidence.recommendation, evidence.names
    curves = scaling_curves(recommendation)
    rows: list[tuple[Any, ...]] = []
    for who, found in curves.items():
        bounds = [[""] * len(found.ranks) if each is None else each for each in (found.low, found.high)]
        rows += [("model", who, *row) for row in zip(found.ranks, found.seconds, *bounds, strict=True)]
        rows += [("measured", who, *row, "", "") for row in recommendation.measurements.samples[who]]
    yield Chart(
        "scaling",
        "Compute time per window of each participant over its ranks, without waiting: points are measured, curves are "
        f"the models with their {percent(recommendation.level, 0)} intervals, dashed beyond the measurements; stars "
        "stand at the recommended counts.",
        one_panel(lambda panel: scaling_panel(panel, recommendation, evidence.labels, curves), 3.2),
        ("kind", "participant", "ranks", "compute_seconds", "low_seconds", "high_seconds"),
        tuple(rows),
    )
    yield view.evidence_table(recommendation, names)
    if recommendation.comparisons:
        yield view.measured_table(recommendation)
    yield DefinitionList(tuple(view.facts(recommendation, names, brief=True)))


def landscape_section(evidence: Evidence) -> Iterator[Block]:
    """Show the window time over the split: a curve, a triangle, or slices through the recommended split."""
    draw, text = {
        2: (_curve, "How much is lost by a rank more here and a rank less there? A flat valley forgives rounding."),
        3: (triangle_chart, "The third participant gets the ranks that the other two leave."),
    }.get(
        len(evidence.recommendation.split),
        (slice_chart, "Each panel moves ranks between two participants and leaves all others as recommended."),
    )
    yield from (Paragraph(text), draw(evidence))
    if evidence.recommendation.plan is not None:
        yield plan_view.near_table(evidence.recommendation)


def _curve(evidence: Evidence) -> Chart:
    recommendation = evidence.recommendation
    found = landscape_of(recommendation)
    columns = [*found.ranks.values(), *found.own.values(), found.window]
    if found.low is not None and found.high is not None:
        columns += [found.low, found.high]
    names = list(found.ranks)
    header = (*(f"ranks of {who}" for who in names), *(f"compute_seconds of {who}" for who in names), "window_seconds")
    return Chart(
        "landscape",
        "Window time and compute times if the ranks are divided otherwise; the window time is the mean over what the "
        "measurements leave possible, without the noise from window to window.",
        one_panel(lambda panel: landscape_panel(panel, recommendation, evidence.labels, found), 3.2),
        (*header, "low_seconds", "high_seconds")[: len(columns)],
        tuple(zip(*columns, strict=True)),
    )


def budget_section(evidence: Evidence) -> Iterator[Block]:
    """Show window time against core-hours over all budgets."""
    recommendation = evidence.recommendation
    plan = recommendation.plan
    if plan is None:
        text = "Other budgets were not looked at: precice-lb report does, and in Python recommend(…, within=0.05)."
        yield Paragraph(text, "missing")
        return
    rows = tuple(
        (p.budget, p.cores, *p.split.values(), p.window_seconds, 1000 * p.core_hours, p.efficiency)
        for p in plan.tradeoff.points
    )
    header = (
        recommendation.unit if recommendation.unit != "cores" else "budget in cores",
        "cores",
        *(f"ranks of {who}" for who in recommendation.split),
        "window_seconds",
        "core_hours_per_1000_windows",
        "efficiency",
    )
    beside = "The best window time of each budget, beside what perfect scaling of the cheapest would give."
    cost = "The same splits against what they cost: to the left is cheaper, further down is faster."
    for name, text in (("budget", beside), ("cost", cost)):
        draw = partial(plan_panel, recommendation=recommendation, hours=name == "cost")
        yield Chart(name, text, one_panel(draw, 3.0), header, rows)
    yield plan_view.tradeoff_table(recommendation)
