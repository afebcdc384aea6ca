"""All sections of a report, in their order."""

from __future__ import annotations

from collections.abc import Callable

from precice_lb.report.attempt import attempted
from precice_lb.report.blocks import Page, Paragraph, Section
from precice_lb.report.page.decision import comparison_section, recommendation_section
from precice_lb.report.page.evidence import Evidence, provenance
from precice_lb.report.page.follow_up import (
    launch_section,
    next_section,
    partners_section,
    provenance_section,
    quality_section,
)
from precice_lb.report.page.measured import imbalance_section, iterations_section, window_section
from precice_lb.report.page.predicted import budget_section, landscape_section, scaling_section
from precice_lb.report.text import ranks_text, visible
from precice_lb.report.view import parameters_text

__all__ = ["build_page"]

_SECTIONS = (
    recommendation_section,
    comparison_section,
    window_section,
    scaling_section,
    landscape_section,
    budget_section,
    iterations_section,
    imbalance_section,
    partners_section,
    quality_section,
    next_section,
    launch_section,
    provenance_section,
)


def build_page(evidence: Evidence) -> Page:
    """Make all sections of a report."""
    recommendation = evidence.recommendation
    split = ranks_text({evidence.names[who]: count for who, count in recommendation.split.items()})
    case = f", {parameters_text(recommendation.parameters)}" if recommendation.parameters else ""
    sections = tuple(_section(make, evidence) for make in _SECTIONS)
    values = {"recommendation": recommendation.to_dict(), "provenance": dict(provenance(evidence))}
    if evidence.truth is not None:
        values["emulation"] = evidence.truth.to_dict()
    return Page(
        title=f"Recommended split: {split}",
        subtitle=f"{visible(recommendation.schedule)}, {recommendation.total_ranks} {recommendation.unit}{case}",
        sections=sections,
        values=values,
    )


def _section(make: Callable[[Evidence], Section], evidence: Evidence) -> Section:
    name = make.__name__.removesuffix("_section")
    section = attempted(f"the report's section {name!r}", lambda: make(evidence))
    text = "This section could not be made; the command that wrote the report says why."
    return section or Section(name, name.capitalize(), (Paragraph(text, "missing"),))
