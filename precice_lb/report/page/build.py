"""All sections of a report, in their order."""

from __future__ import annotations

from precice_lb.report.page.blocks import Page, Section
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
    """Make all sections of a report.

    Parameters
    ----------
    evidence
        What it is made of.

    Returns
    -------
    Page
        A section whose data are missing says so, and what to set.

    Raises
    ------
    PreciceLBError
        When the models cannot be evaluated.
    """
    recommendation = evidence.recommendation
    split = ranks_text({evidence.names[who]: count for who, count in recommendation.split.items()})
    case = f", {parameters_text(recommendation.parameters)}" if recommendation.parameters else ""
    sections: tuple[Section, ...] = tuple(make(evidence) for make in _SECTIONS)
    values = {"recommendation": recommendation.to_dict(), "provenance": dict(provenance(evidence))}
    if evidence.truth is not None:
        values["emulation"] = evidence.truth.to_dict()
    return Page(
        title=f"Recommended split: {split}",
        subtitle=f"{visible(recommendation.schedule)}, {recommendation.total_ranks} {recommendation.unit}{case}",
        sections=sections,
        values=values,
    )
