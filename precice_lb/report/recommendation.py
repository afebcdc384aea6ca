"""Everything that is said of a recommendation, as one list of blocks: terminal, Markdown and the report render it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from precice_lb.report import plan_view, view
from precice_lb.report.blocks import Block, DefinitionList, Paragraph, Picture

if TYPE_CHECKING:
    from precice_lb.recommend import Recommendation
    from precice_lb.report.truth import Truth

__all__ = ["opening", "recommendation_blocks"]


def opening(recommendation: Recommendation, names: Mapping[str, str], truth: Truth | None = None) -> list[Block]:
    """Say in two sentences what to do and how sure that is, then what speaks against it."""
    first, second = view.statement(recommendation, names)
    blocks: list[Block] = [Paragraph(first, "lead"), Paragraph(second)]
    if truth is not None:
        blocks.append(Paragraph(view.truth_statement(truth)))
    return [*blocks, *(Paragraph(warning, "warning") for warning in recommendation.warnings)]


def recommendation_blocks(
    recommendation: Recommendation,
    names: Mapping[str, str],
    *,
    truth: Truth | None = None,
    evidence: bool = True,
    brief: bool = True,
    pictures: Mapping[str, str] | None = None,
) -> list[Block]:
    """Say all of a recommendation: ``evidence`` lists every measurement, ``brief`` counts terms of long formulas.

    ``pictures`` are captions by the names of figures that lie beside the text.
    """
    blocks = opening(recommendation, names, truth)
    blocks += [Picture(file, caption) for file, caption in (pictures or {}).items()]
    blocks.append(view.split_table(recommendation, names))
    if recommendation.alternatives:
        blocks.append(view.comparison_table(recommendation))
    blocks += plan_view.plan_tables(recommendation)
    if recommendation.comparisons:
        blocks.append(view.measured_table(recommendation))
    blocks += view.failed_tables(recommendation, names)
    if truth is not None:
        blocks.append(view.truth_table(truth))
    if evidence:
        blocks.append(view.evidence_table(recommendation, names))
    pairs = [*view.facts(recommendation, names, brief=brief), *plan_view.plan_facts(recommendation, names)]
    sources = ", ".join(recommendation.measurements.sources)
    return [*blocks, DefinitionList((*pairs, *([("measurements from", sources)] if sources else [])))]
