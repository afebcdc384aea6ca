"""Everything that is said of a recommendation, as one list of blocks: terminal and page render it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from precice_lb.plural import plural
from precice_lb.report import view
from precice_lb.report.blocks import Block, DefinitionList, Paragraph, Table
from precice_lb.report.text import percent, seconds_unit
from precice_lb.report.versions import versions_tables

if TYPE_CHECKING:
    from precice_lb.recommend import Recommendation

# Rows of the table of budgets.
_ROWS = 9
# Warnings that a screen shows.
_WARNINGS = 3


def opening(recommendation: Recommendation, names: Mapping[str, str]) -> list[Block]:
    """Say in two sentences what to do and how sure that is, then what speaks against it."""
    blocks = _answer(recommendation, names)
    return [*blocks, *(Paragraph(warning, "warning") for warning in recommendation.warnings)]


def _answer(recommendation: Recommendation, names: Mapping[str, str]) -> list[Block]:
    return [Paragraph(view.answer(recommendation, names), "lead"), Paragraph(view.gain(recommendation, names))]


def screen_blocks(
    recommendation: Recommendation,
    names: Mapping[str, str],
    *,
    advice: str = "",
    verbose: bool = False,
) -> list[Block]:
    """Say what fits on a screen, the answer last, and what to do next; ``verbose`` puts all else before it."""
    texts = list(recommendation.warnings)
    if recommendation.failed_splits:
        texts.append(f"{plural(len(recommendation.failed_splits), 'split')} failed, and so not recommended")
    if len(texts) > _WARNINGS and not verbose:
        texts[_WARNINGS:] = [f"{len(texts) - _WARNINGS} more, with --verbose or in the report"]
    blocks = [*details(recommendation, names), Paragraph("")] if verbose else []
    blocks += [Paragraph(text, "missing", "warning") for text in texts]
    return [*blocks, *_answer(recommendation, names), *([Paragraph(advice)] if advice else [])]


def details(recommendation: Recommendation, names: Mapping[str, str]) -> list[Block]:
    """Tabulate what a recommendation rests on and what else would be possible."""
    blocks: list[Block] = [view.split_table(recommendation, names), *versions_tables(recommendation, names)]
    if recommendation.alternatives:
        blocks.append(view.comparison_table(recommendation))
    if recommendation.plan is not None:
        blocks += [*near_tables(recommendation), tradeoff_table(recommendation)]
    if recommendation.comparisons:
        blocks.append(view.measured_table(recommendation))
    blocks += view.failed_tables(recommendation, names)
    blocks.append(view.evidence_table(recommendation, names))
    pairs = [*view.facts(recommendation, names), *plan_facts(recommendation)]
    sources = ", ".join(recommendation.measurements.sources)
    return [*blocks, DefinitionList((*pairs, *([("measurements from", sources)] if sources else [])))]


def near_tables(recommendation: Recommendation) -> list[Table]:
    """Tabulate the splits that are nearly as good, for people who round."""
    plan = recommendation.plan
    if plan is None:
        return []
    unit = seconds_unit([recommendation.window_seconds])
    extra = [each for each in ("cores", "nodes") if _shows(recommendation, each)]
    rows = [
        (view.split_text(each.split, recommendation.layouts),
         *(str(each.used.get(key, "")) for key in extra), unit.number(each.window_seconds), percent(each.longer))
        for each in plan.near
    ]  # fmt: skip
    title = f"Best splits within {percent(plan.within, 0)} of the recommended one"
    if plan.step > 1:
        title += f", in steps of {plan.step} {view.ranks_word(recommendation)}"
    if not rows:
        title += ": none other"
    header = (view.as_above(recommendation), *extra, f"window ({unit.symbol})", "longer")
    return [Table(title, header, tuple(rows))]


def tradeoff_table(recommendation: Recommendation) -> Table:
    """Tabulate window time and core-hours over budgets, with the knee and what is recommended."""
    plan = recommendation.plan
    assert plan is not None
    points, knee = plan.tradeoff.points, plan.tradeoff.knee
    if plan.chosen not in points:
        points = tuple(sorted((*points, plan.chosen), key=lambda each: (each.cores, -each.window_seconds)))
    unit = seconds_unit([recommendation.window_seconds])
    at = set(np.unique(np.linspace(0, len(points) - 1, min(_ROWS, len(points))).round().astype(int)).tolist())
    at |= {index for index, point in enumerate(points) if point in (knee, plan.chosen)}
    rows = []
    for index in sorted(at):
        point = points[index]
        marks = [text for text, which in (("knee", knee), ("recommended", plan.chosen)) if point == which]
        rows.append(
            (str(point.budget), view.split_text(point.split, recommendation.layouts), unit.number(point.window_seconds),
             f"{1000 * point.core_hours:.4g}", percent(point.efficiency, 0), ", ".join(marks))
        )  # fmt: skip
    what = recommendation.counted
    header = (what, view.as_above(recommendation), f"window ({unit.symbol})", "core-h/1000 windows", "efficiency", "")
    return Table("Time against cost", header, tuple(rows), (1, 5))


def plan_facts(recommendation: Recommendation) -> Iterator[tuple[str, str]]:
    """List what sets the window time, how sure the optimum is, and where more cores begin to pay less."""
    if recommendation.critical:
        yield "critical", recommendation.critical
    if recommendation.proof and not math.isnan(recommendation.gap):
        text = f"at most {percent(recommendation.gap)} above the least possible mean window time"
        if recommendation.gap < 5e-4:
            text = "no split has a shorter mean window time"
        yield "optimum", f"{text} ({recommendation.proof})"
    if recommendation.plan is not None:
        curve, unit = recommendation.plan.tradeoff, recommendation.counted
        text = f"beyond {curve.knee.budget} {unit} more of them begin to pay less"
        if curve.knee == curve.points[-1]:
            text = f"none up to {curve.knee.budget} {unit}"
        yield "knee", text


def _shows(recommendation: Recommendation, key: str) -> bool:
    return key in recommendation.used and (key == "nodes" or recommendation.unit != "ranks")
