"""The sections that say what to do: the recommendation, and what it is better than."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.patches import Patch

from precice_lb.plural import plural
from precice_lb.report import plan_view, view
from precice_lb.report.blocks import Block, Chart, DefinitionList, Paragraph
from precice_lb.report.recommendation import opening
from precice_lb.report.style import HATCHED, Bars, Panel, colour_of, one_panel
from precice_lb.report.text import listed, percent, seconds_unit

if TYPE_CHECKING:
    from precice_lb.report.page.evidence import Evidence

__all__ = ["comparison_section", "recommendation_section"]


def recommendation_section(evidence: Evidence) -> Iterator[Block]:
    """Say in two sentences what to do and how sure that is, with the numbers that matter most."""
    recommendation, names = evidence.recommendation, evidence.names
    lead, reason, *rest = opening(recommendation, names, evidence.truth)
    yield from (lead, reason, DefinitionList(tuple(_tiles(evidence)), tiles=True), *rest)
    yield view.split_table(recommendation, names)
    yield from view.failed_tables(recommendation, names)
    yield DefinitionList(tuple(plan_view.plan_facts(recommendation, names)))


def _tiles(evidence: Evidence) -> list[tuple[str, str]]:
    recommendation = evidence.recommendation
    unit = seconds_unit([recommendation.window_seconds])
    tiles = [(evidence.names[who], plural(count, "rank")) for who, count in recommendation.split.items()]
    # The split of many participants stands in the table.
    tiles = tiles if len(tiles) <= 3 else [("ranks", view.split_text(recommendation.split))]
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
    yield _chart(evidence)
    yield view.comparison_table(recommendation)
    if evidence.truth is not None:
        yield view.truth_table(evidence.truth)
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


def _chart(evidence: Evidence) -> Chart:
    recommendation, expected = evidence.recommendation, evidence.recommendation.expected
    splits = {"recommended": (recommendation.split, recommendation.window_seconds)}
    splits |= {kind: (other.split, other.window_seconds) for kind, other in recommendation.alternatives.items()}
    rows = []
    for kind, (split, window) in splits.items():
        # Where the recommended split is the best measured one, its compute seconds were measured too.
        own = recommendation.compute_seconds if kind == "recommended" else expected.mean_seconds(split)
        for who, count in split.items():
            per_window = own[who] * expected.schedule.windows[who]
            rows.append((view.label(kind), who, count, per_window, max(window - per_window, 0.0), window))
    unit = seconds_unit([max(row[5] for row in rows)])

    def parts(row: tuple[Any, ...], colour: str) -> tuple[str, list[tuple[float, dict[str, Any]]]]:
        return "", [(row[3] * unit.per_second, {"color": colour}), (row[4] * unit.per_second, HATCHED)]

    def draw(panel: Panel) -> None:
        colours = {who: colour_of(index) for index, who in enumerate(recommendation.split)}
        panel.bars(
            Bars(
                _cut(f"{view.label(kind)}: {view.split_text(split)}"),
                [parts(row, colours[row[1]]) for row in rows if row[0] == view.label(kind)],
                window * unit.per_second,
            )
            for kind, (split, window) in splits.items()
        )
        panel.label("One window under each split", f"time per window ({unit.symbol})", "splits")
        for who, name in evidence.labels.items():
            panel.name(Patch(color=colours[who]), f"compute time of {name}")
        panel.name(Patch(**HATCHED), "waiting")

    lines = sum(len(split) for split, _ in splits.values())
    figure = one_panel(draw, 0.9 + 0.17 * lines + 0.26 * len(splits))
    return Chart(
        "comparison",
        "Predicted compute time of every participant and, hatched, the rest of the window, in which it waits; the "
        "black line ends the window.",
        figure,
        ("split", "participant", "ranks", "compute_seconds", "waiting_seconds", "window_seconds"),
        tuple(rows),
    )


def _cut(text: str, width: int = 52) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"
