"""What ranks of a participant spend on what they hold, and what balance inside it would gain."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import DataError
from precice_lb.inside.balance import Balance, balance_of
from precice_lb.inside.cost import seconds_by_feature
from precice_lb.inside.loads import FeatureCosts, RankLoad, loads_of_runs
from precice_lb.names import visible
from precice_lb.plural import plural
from precice_lb.report.blocks import Block, Chart, Paragraph
from precice_lb.report.inside import costs_table
from precice_lb.report.style import GREY, Panel, colour_of, one_panel
from precice_lb.report.text import percent, seconds_unit

if TYPE_CHECKING:
    from precice_lb.report.page.evidence import Evidence

Floats = NDArray[np.float64]


def inside_blocks(evidence: Evidence) -> Iterator[Block]:
    """Show what the time of participants goes to that said what their ranks hold, rank by rank."""
    for number, name in enumerate(evidence.names):
        if any(run.participants[name].rank_counts for run in evidence.runs if name in run.participants):
            yield from _blocks_of(evidence, name, f"inside-{number + 1}")


def _blocks_of(evidence: Evidence, name: str, chart: str) -> Iterator[Block]:
    shown = evidence.names[name]
    try:
        balance = balance_of(loads_of_runs(evidence.runs, name), name)
    except DataError as error:
        yield Paragraph(str(error), "missing")
        return
    yield costs_table(balance)
    costs = balance.costs
    if costs.problem:
        yield Paragraph(f"{shown}: {costs.problem}", "warning")
        return
    load = _shown(evidence, balance)
    parts = _parts(load, costs)
    seconds = parts.sum(axis=1)
    if len(seconds) < 2:
        return
    yield _chart(chart, evidence.labels[name], load, costs, parts)
    unit = seconds_unit([float(seconds.max())])
    yield Paragraph(
        f"By these costs ({balance.basis}), the slowest of {plural(len(seconds), 'rank')} of {shown} takes "
        f"{unit.text(float(seconds.max()))} per time window in run {visible(load.run)}, and would take "
        f"{unit.text(float(seconds.mean()))} in perfect balance, {percent(1 - seconds.mean() / seconds.max(), 0)} less."
        f" It is rank {int(np.argmax(seconds))}, which spends most on {_most(costs, parts[np.argmax(seconds)])}. "
        "precice-lb inside partitions the mesh by these costs, and precice-lb recommend, of the samples.csv that it "
        "writes, says how many ranks the participant needs then."
    )


def _shown(evidence: Evidence, balance: Balance) -> RankLoad:
    """Choose the run that the report shows, or one on more ranks where that is on one."""
    run = evidence.shown_run
    load = next((each for each in balance.loads if run and each.run == run.name), balance.loads[-1])
    return load if len(load.counts) > 1 else max(balance.loads, key=lambda each: len(each.counts))


def _parts(load: RankLoad, costs: FeatureCosts) -> Floats:
    """Seconds of each rank by feature, and at last those of no feature, shape (ranks, features + 1)."""
    own = seconds_by_feature(costs, load)
    return np.column_stack([own, np.full(len(own), costs.constant)])


def _most(costs: FeatureCosts, seconds: Floats) -> str:
    names = [*(visible(name) for name in costs.features), "what belongs to no feature"]
    return names[int(np.argmax(seconds))]


def _chart(stem: str, name: str, load: RankLoad, costs: FeatureCosts, parts: Floats) -> Chart:
    """Draw the ranks side by side, the busiest first, each with what its time goes to."""
    order = np.argsort(-parts.sum(axis=1), kind="stable")
    unit = seconds_unit([float(parts.sum(axis=1).max())])
    shown = [*(visible(feature) for feature in costs.features), "belongs to no feature"]
    used = [place for place in range(len(shown)) if parts[:, place].any()]
    place = np.arange(len(order))

    def draw(panel: Panel) -> None:
        below = np.zeros(len(order))
        for colour, feature in enumerate(used):
            heights = parts[order, feature] * unit.per_second
            look = GREY if feature == len(shown) - 1 else colour_of(colour)
            width = 1.0 if len(order) > 60 else 0.8
            panel.name(panel.axes.bar(place, heights, width, below, color=look, linewidth=0), shown[feature])
            below += heights
        style = {"color": "black", "marker": ".", "linestyle": "none", "markersize": 4}
        if np.isfinite(load.seconds).any():
            panel.line(place, load.seconds[order] * unit.per_second, "measured", **style)
        level = panel.axes.axhline(float(below.mean()), color="black", linestyle="--", linewidth=1)
        panel.name(level, "perfect balance")
        panel.label(f"Busy time inside {name}", "ranks, the busiest first", f"busy time per window ({unit.symbol})")
        panel.axes.set_ylim(bottom=0)
        panel.axes.set_xticks(
            place if len(order) <= 16 else [], [str(rank) for rank in order] if len(order) <= 16 else []
        )

    return Chart(stem, f"What each rank of {name} is busy with, by the fitted costs.", one_panel(draw, 2.6))
