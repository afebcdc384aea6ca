"""The sections of what the models predict: scaling, other splits, other budgets."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from precice_lb.report import plan_view, view
from precice_lb.report.blocks import Block, Chart, DefinitionList, Paragraph, Section
from precice_lb.report.curves import landscape_of, scaling_curve
from precice_lb.report.figure import landscape_panel, scaling_panel
from precice_lb.report.page.slices import slice_chart, triangle_chart
from precice_lb.report.plan_figure import plan_panel
from precice_lb.report.style import one_panel
from precice_lb.report.text import percent

if TYPE_CHECKING:
    from precice_lb.report.page.evidence import Evidence

__all__ = ["budget_section", "landscape_section", "scaling_section"]


def scaling_section(evidence: Evidence) -> Section:
    """Show each participant's time over its ranks: model, interval, measurements, recommended and present counts."""
    recommendation, names = evidence.recommendation, evidence.names
    samples = recommendation.measurements.samples
    rows = []
    for who in recommendation.split:
        found = scaling_curve(recommendation, who)
        for index, (ranks, seconds) in enumerate(zip(found.ranks, found.seconds, strict=True)):
            low = "" if found.low is None else found.low[index]
            high = "" if found.high is None else found.high[index]
            rows.append(("model", who, ranks, seconds, low, high))
        rows += [("measured", who, ranks, seconds, "", "") for ranks, seconds in samples[who]]
    chart = Chart(
        "scaling",
        "Compute time per window of each participant over its ranks, without waiting: points are measured, curves are "
        f"the models with their {percent(recommendation.level, 0)} intervals, dashed beyond the measurements; stars "
        "stand at the recommended counts.",
        one_panel(lambda axes: scaling_panel(axes, recommendation, evidence.labels), 3.2),
        ("kind", "participant", "ranks", "compute_seconds", "low_seconds", "high_seconds"),
        tuple(rows),
    )
    blocks: list[Block] = [chart, view.evidence_table(recommendation, names)]
    if recommendation.comparisons:
        blocks.append(view.measured_table(recommendation))
    blocks.append(DefinitionList(tuple(view.facts(recommendation, names, brief=True))))
    return Section("scaling", "Scaling curves", tuple(blocks))


def landscape_section(evidence: Evidence) -> Section:
    """Show the window time over the split: a curve, a triangle, or slices through the recommended split."""
    count = len(evidence.recommendation.split)
    if count == 2:
        chart = _curve(evidence)
        text = "How much is lost by a rank more here and a rank less there? A flat valley forgives rounding."
    elif count == 3:
        chart = triangle_chart(evidence)
        text = "The third participant gets the ranks that the other two leave."
    else:
        chart = slice_chart(evidence)
        text = "Each panel moves ranks between two participants and leaves all others as recommended."
    blocks: list[Block] = [Paragraph(text), chart]
    if evidence.recommendation.plan is not None:
        blocks.append(plan_view.near_table(evidence.recommendation))
    return Section("landscape", "Window time over the split", tuple(blocks))


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
        one_panel(lambda axes: landscape_panel(axes, recommendation, evidence.labels), 3.2),
        (*header, "low_seconds", "high_seconds")[: len(columns)],
        tuple(zip(*columns, strict=True)),
    )


def budget_section(evidence: Evidence) -> Section:
    """Show window time against core-hours over all budgets."""
    recommendation = evidence.recommendation
    plan = recommendation.plan
    title = "Time against core-hours"
    if plan is None:
        text = "Other budgets were not looked at: precice-lb report does, and in Python recommend(…, within=0.05)."
        return Section("budget", title, (Paragraph(text, "missing"),))
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
    panels = {
        "budget": (
            False,
            "The best window time of each budget, beside what perfect scaling of the cheapest would give.",
        ),
        "cost": (True, "The same splits against what they cost: to the left is cheaper, further down is faster."),
    }
    charts = [
        Chart(name, text, one_panel(partial(plan_panel, recommendation=recommendation, hours=hours), 3.0), header, rows)
        for name, (hours, text) in panels.items()
    ]
    return Section("budget", title, (*charts, plan_view.tradeoff_table(recommendation)))
