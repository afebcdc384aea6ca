"""The sections that say what to do: the recommendation, and what it is better than."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.patches import Patch

from precice_lb.plural import plural
from precice_lb.report import plan_view, view
from precice_lb.report.blocks import Block, Chart, DefinitionList, Paragraph, Section
from precice_lb.report.recommendation import opening
from precice_lb.report.style import GREY, legend_below, look, one_panel
from precice_lb.report.text import listed, percent, seconds_unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from precice_lb.report.page.evidence import Evidence

__all__ = ["comparison_section", "recommendation_section"]


def recommendation_section(evidence: Evidence) -> Section:
    """Say in two sentences what to do and how sure that is, with the numbers that matter most."""
    recommendation, names = evidence.recommendation, evidence.names
    blocks = opening(recommendation, names, evidence.truth)
    blocks.insert(2, DefinitionList(tuple(_tiles(evidence)), tiles=True))
    blocks.append(view.split_table(recommendation, names))
    blocks += view.failed_tables(recommendation, names)
    blocks.append(DefinitionList(tuple(plan_view.plan_facts(recommendation, names))))
    return Section("recommendation", "Recommendation", tuple(blocks))


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


def comparison_section(evidence: Evidence) -> Section:
    """Set the split beside the present, the equal and the DoF-proportional one."""
    recommendation = evidence.recommendation
    blocks: list[Block] = [
        Paragraph(
            "A window lasts until the slowest participant is done and its partners have its data; who is done earlier "
            "waits. A better split turns waiting into work."
        ),
        _chart(evidence),
        view.comparison_table(recommendation),
    ]
    if evidence.truth is not None:
        blocks.append(view.truth_table(evidence.truth))
    option = ",".join(f"{label}=…" for label in evidence.labels.values())
    told = {
        "present": f"the split in use (--present {option})",
        "degrees-of-freedom": f"the degrees of freedom (--degrees-of-freedom {option})",
    }
    unknowns = recommendation.measurements.degrees_of_freedom
    known = {"degrees-of-freedom"} if all(unknowns.get(who, 0.0) > 0 for who in evidence.names) else set()
    missing = [text for kind, text in told.items() if kind not in {*recommendation.alternatives, *known}]
    if missing:
        blocks.append(Paragraph(f"Not compared, as it was not told: {listed(missing)}.", "missing"))
    return Section("comparison", "Beside other splits", tuple(blocks))


def _chart(evidence: Evidence) -> Chart:
    recommendation, outlook = evidence.recommendation, evidence.recommendation.outlook
    splits = {"recommended": (recommendation.split, recommendation.window_seconds)}
    splits |= {kind: (other.split, other.window_seconds) for kind, other in recommendation.alternatives.items()}
    rows = []
    for kind, (split, window) in splits.items():
        # Where the recommended split is the best measured one, its compute seconds were measured too.
        own = recommendation.compute_seconds if kind == "recommended" else outlook.mean_seconds(split)
        for who, count in split.items():
            per_window = own[who] * outlook.schedule.windows[who]
            rows.append((view.label(kind), who, count, per_window, max(window - per_window, 0.0), window))
    unit = seconds_unit([max(row[5] for row in rows)])

    def draw(axes: Axes) -> None:
        place, height = 0.0, 0.8
        for kind, (split, window) in splits.items():
            text = f"{view.label(kind)}: {view.split_text(split)}"
            place += 1.1
            axes.text(0.008, place, _cut(text), transform=axes.get_yaxis_transform(), va="bottom", parse_math=False)
            for index, who in enumerate(split):
                own, wait = next(row[3:5] for row in rows if row[0] == view.label(kind) and row[1] == who)
                at = place + height * (index + 0.5)
                axes.barh(at, own * unit.per_second, height, color=look(index)[0])
                axes.barh(
                    at, wait * unit.per_second, height, left=own * unit.per_second, color="none", edgecolor=GREY,
                    hatch="////", linewidth=0.6,
                )  # fmt: skip
            axes.plot([window * unit.per_second] * 2, [place, place + height * len(split)], color="black", linewidth=2)
            place += height * len(split)
        axes.set_ylim(place + 0.3, 0.0)
        axes.set_xlim(left=0.0)
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        axes.grid(axis="y", visible=False)
        axes.set_xlabel(f"time per window ({unit.symbol})")
        axes.set_ylabel("splits")
        axes.set_title("One window under each split", loc="left")
        entries: list[tuple[Any, str]] = [
            (Patch(color=look(index)[0]), f"compute time of {name}")
            for index, name in enumerate(evidence.labels.values())
        ]
        entries.append((Patch(facecolor="none", edgecolor=GREY, hatch="////", linewidth=0.6), "waiting"))
        legend_below(axes, entries)

    bars = sum(len(split) for split, _ in splits.values())
    figure = one_panel(draw, 0.9 + 0.17 * bars + 0.26 * len(splits))
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
