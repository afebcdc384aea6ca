"""The report as a page: what was recommended and why, for someone who was not there.

`build_page` makes sections out of `Evidence`, and `write_report` renders them as one self-contained HTML file, with
every figure as SVG.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from precice_lb.names import visible
from precice_lb.report.blocks import Block, Chart, CodeBlock, DefinitionList, Page, Paragraph, Section, Table
from precice_lb.report.chain_view import chain_title
from precice_lb.report.documents import HTML_NAME, attempted, write_report
from precice_lb.report.page.chain import CHAIN_TITLE, chain_page, chain_section
from precice_lb.report.page.decision import (
    budget_section,
    comparison_section,
    landscape_section,
    recommendation_section,
    scaling_section,
)
from precice_lb.report.page.evidence import Evidence
from precice_lb.report.page.follow_up import (
    launch_section,
    next_section,
    next_text,
    partners_section,
    provenance_section,
    quality_section,
)
from precice_lb.report.page.measured import imbalance_section, iterations_section, window_section
from precice_lb.report.text import ranks_text
from precice_lb.report.versions import versioned
from precice_lb.report.view import parameters_text

__all__ = [
    "HTML_NAME",
    "Block",
    "Chart",
    "CodeBlock",
    "DefinitionList",
    "Evidence",
    "Page",
    "Paragraph",
    "Section",
    "Table",
    "build_page",
    "chain_page",
    "next_text",
    "write_report",
]

# By name, which is its anchor: the title, and what says it.
_SECTIONS: dict[str, tuple[str, Callable[[Evidence], Iterable[Block]]]] = {
    "recommendation": ("Recommendation", recommendation_section),
    "comparison": ("Beside other splits", comparison_section),
    "window": ("A typical window", window_section),
    "scaling": ("Scaling curves", scaling_section),
    "landscape": ("Window time over the split", landscape_section),
    "budget": ("Time against core-hours", budget_section),
    "iterations": ("Coupling iterations", iterations_section),
    "imbalance": ("Imbalance inside participants", imbalance_section),
    "partners": ("Partner ranks", partners_section),
    "quality": ("Data quality", quality_section),
    "next": ("What to measure next", next_section),
    "launch": ("How to launch", launch_section),
    "provenance": ("Provenance", provenance_section),
}


def build_page(evidence: Evidence) -> Page:
    """Make all sections of a report."""
    recommendation = evidence.recommendation
    split = ranks_text(recommendation.split, versioned(evidence.names, recommendation.versions), recommendation.layouts)
    case = f", {parameters_text(recommendation.parameters)}" if recommendation.parameters else ""
    sections = [_section(name, *each, evidence) for name, each in _SECTIONS.items()]
    title = f"Recommended split: {split}"
    if evidence.chain is not None:
        # What it did comes first: its own decisions know what a change costs, and a recommendation does not.
        chain = evidence.chain
        sections.insert(0, _section("chain", CHAIN_TITLE, lambda _: chain_section(chain), evidence))
        title = chain_title(chain)
    return Page(
        title=title,
        subtitle=f"{visible(recommendation.schedule)}, {recommendation.total_ranks} {recommendation.counted}{case}",
        sections=tuple(sections),
    )


def _section(name: str, title: str, make: Callable[[Evidence], Iterable[Block]], evidence: Evidence) -> Section:
    blocks = attempted(f"the report's section {name!r}", lambda: tuple(make(evidence)))
    text = "This section could not be made; the command that wrote the report says why."
    return Section(name, title, blocks or (Paragraph(text, "missing"),))
