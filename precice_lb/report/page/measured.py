"""The sections of what recorded runs did: a typical window, coupling iterations, and ranks that are out of balance."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from precice_lb.dataset.runs import roles_of
from precice_lb.names import visible
from precice_lb.plural import plural
from precice_lb.report.blocks import Block, Chart, Paragraph
from precice_lb.report.guess import guess_table
from precice_lb.report.page.evidence import split_of
from precice_lb.report.page.inside import inside_blocks
from precice_lb.report.style import COLOURS, GREY, HATCHED, Bars, Panel, colour_of, marker_of, one_panel, strips
from precice_lb.report.summary import ParticipantSummary, RunSummary
from precice_lb.report.summary_text import LABELS, run_blocks
from precice_lb.report.text import seconds_unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from precice_lb.dataset import CoupledRun
    from precice_lb.report.page.evidence import Evidence

Array = NDArray[np.float64]

_PARTS: dict[str, dict[str, Any]] = {
    "solve": {"color": COLOURS[0]},
    "mapping": {"color": COLOURS[2]},
    "overhead": {"color": COLOURS[4]},
    "own_rank_wait": {"facecolor": "none", "edgecolor": COLOURS[3], "hatch": "\\\\\\\\", "linewidth": 0.6},
    "partner_wait": HATCHED,
}
# Ranks that differ by more than this share are worth a word.
_WORTH_A_WORD = 0.2
_TEXT = (
    "No recorded run is among the sources: record one with precice-lb run, or import preCICE's profiling files with "
    "precice-lb import, and give its stores as a source."
)
NO_RUNS = Paragraph(_TEXT, "missing")
"""What stands in place of all that recorded runs would say."""
# Windows of a chart at most; more are averaged in groups.
_MOST_POINTS = 400


def _busy(each: ParticipantSummary) -> Array:
    """Solve, mapping and overhead of each rank, seconds per window; NaN where the solve was not measured."""
    parts = each.rank_seconds
    return np.asarray(parts["solve"] + np.nan_to_num(parts["mapping"]) + np.nan_to_num(parts["overhead"]))


def _timeline_chart(
    run: RunSummary, shown: Sequence[ParticipantSummary], names: Mapping[str, str], second: Collection[str]
) -> Chart:
    """Draw a typical window: what the slowest and the fastest rank of each participant do, one after the other."""
    unit = seconds_unit([each.window_seconds for each in shown])
    shown_ranks: list[tuple[ParticipantSummary, list[tuple[str, int]]]] = []
    for each in shown:
        busy = _busy(each)
        told = np.isfinite(busy)
        told[list(each.silent_ranks)] = False
        busy = np.where(told, busy, np.nan)
        if not told.any():
            continue
        most, least = int(np.nanargmax(busy)), int(np.nanargmin(busy))
        ranks = [("slowest rank", most), ("fastest rank", least)] if told.sum() > 1 else [("rank", most)]
        shown_ranks.append((each, ranks))
    found = {
        (each.participant, rank, part): float(each.rank_seconds[part][rank])
        for each, ranks in shown_ranks
        for _, rank in ranks
        for part in _PARTS
        if np.isfinite(each.rank_seconds[part][rank])
    }
    used = {part for _, _, part in found}
    seconds = {key: value * unit.per_second for key, value in found.items() if value > 0}
    groups = [
        Bars(
            f"{names.get(each.participant, visible(each.participant)[:16])}, {each.layout.words}",
            [
                (
                    f"{word} {rank}",
                    [
                        (seconds[each.participant, rank, part], _PARTS[part])
                        for part in _order(each.participant, second)
                        if (each.participant, rank, part) in seconds
                    ],
                )
                for word, rank in ranks
            ],
        )
        for each, ranks in shown_ranks
    ]

    def draw(panel: Panel) -> None:
        panel.bars(groups, weight="bold")
        panel.label("A typical window", f"time in the window ({unit.symbol})", "ranks")
        for part, shape in _PARTS.items():
            if part in used:
                panel.name(Patch(**shape), LABELS[part])

    lines = sum(1.15 + len(ranks) for _, ranks in shown_ranks)
    windows = max(each.windows for each in shown)
    return Chart(
        "window",
        f"Mean over {plural(windows, 'window')}, all coupling iterations together. Solve is the solver's own; the "
        "rest is inside advance.",
        one_panel(draw, 0.85 + 0.24 * lines),
    )


def _order(participant: str, second: Collection[str]) -> Sequence[str]:
    parts = list(_PARTS)
    return [parts[-1], *parts[:-1]] if participant in second else parts


def _iterations_chart(run: CoupledRun, names: Mapping[str, str]) -> Chart:
    """Draw the coupling iterations of each time window."""

    def draw(panel: Panel) -> None:
        for index, (who, part) in enumerate(run.participants.items()):
            # Who iterates together has the same line: the later ones are drawn thinner.
            width = 1.2 + 1.2 * (len(run.participants) - 1 - index)
            style = {"drawstyle": "steps-mid", "color": colour_of(index), "linewidth": width}
            panel.line(part.windows, part.iterations, names.get(who, visible(who)[:16]), **style)
        _over_windows(panel, run, "Coupling iterations per time window", "coupling iterations (count)")
        panel.axes.yaxis.set_major_locator(MaxNLocator(nbins=7, integer=True))

    caption = "Coupling iterations that each time window took until it converged, or until the limit was reached."
    return Chart("iterations", caption, one_panel(draw, 2.6))


def _over_windows(panel: Panel, run: CoupledRun, title: str, ylabel: str) -> None:
    """Finish a panel over the windows of a run: warm-up, limits and labels."""
    panel.axes.axvspan(0.5, run.warmup_windows + 0.5, color=GREY, alpha=0.15, linewidth=0)
    panel.name_area(GREY, "warm-up, left out")
    panel.label(title, "time window (number)", ylabel)
    panel.axes.set_ylim(bottom=0)
    panel.axes.xaxis.set_major_locator(MaxNLocator(nbins=7, integer=True))


def _imbalance_chart(shown: Sequence[ParticipantSummary], names: Mapping[str, str]) -> Chart:
    """Draw a strip of ranks for each participant, coloured by how long each is busy."""
    share = [busy / np.nanmax(busy) * 100 for busy in map(_busy, shown)]
    norm = Normalize(min(float(np.nanmin(each)) for each in share), 100.0)
    if norm.vmin is None or norm.vmin > 95.0:
        norm = Normalize(95.0, 100.0)

    def strip(axes: Axes, index: int) -> None:
        each = shown[index]
        axes.imshow(
            share[index][None], aspect="auto", interpolation="nearest", cmap="viridis_r", norm=norm,
            extent=(-0.5, each.ranks - 0.5, 0, 1),
        )  # fmt: skip
        name = names.get(each.participant, visible(each.participant)[:16])
        axes.set_title(name, loc="left", fontsize=9, parse_math=False)
        axes.set_yticks([])
        axes.grid(visible=False)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))

    figure = strips(
        [partial(strip, index=index) for index in range(len(shown))],
        ScalarMappable(norm, "viridis_r"),
        xlabel="rank (number)",
        ylabel="participants",
        bar="busy time, of the participant's busiest rank (%)",
    )
    return Chart(
        "imbalance",
        "Busy time (solve, mapping and overhead) of every rank: the darkest ranks are those that the others wait for.",
        figure,
    )


def windows_chart(run: CoupledRun, names: Mapping[str, str]) -> Chart:
    """Draw compute seconds over the windows of a run: warm-up, drift and outliers are to be seen there."""
    series = {
        who: (part.windows, part.compute_seconds) for who, part in run.participants.items() if part.compute_measured
    }
    unit = seconds_unit([float(np.nanmedian(seconds)) for _, seconds in series.values()])
    looks = {who: (colour_of(index), marker_of(index)) for index, who in enumerate(run.participants)}

    def draw(panel: Panel) -> None:
        for who, (windows, seconds) in series.items():
            x, y = _thinned(windows, seconds)
            colour, marker = looks[who]
            style = {"color": colour, "marker": marker, "markersize": 3, "linewidth": 1}
            panel.line(x, y * unit.per_second, names.get(who, visible(who)[:16]), **style)
        _over_windows(panel, run, "Compute time in every window", f"compute time per window ({unit.symbol})")

    caption = (
        f"Compute time of each participant in the windows of run {visible(run.name)}: what is even can be learned from."
    )
    return Chart("windows", caption, one_panel(draw, 2.7))


def _thinned(windows: NDArray[np.int64], seconds: Array) -> tuple[Array, Array]:
    step = -(-len(windows) // _MOST_POINTS)
    if step <= 1:
        return windows.astype(float), seconds
    whole = len(windows) // step * step
    return windows[:whole].reshape(-1, step).mean(axis=1), seconds[:whole].reshape(-1, step).mean(axis=1)


def window_section(evidence: Evidence) -> Iterator[Block]:
    """Show what a typical window consists of, per participant, for its slowest and its fastest rank."""
    run, summary = evidence.shown_run, evidence.shown_summary
    if run is None or summary is None:
        yield NO_RUNS
        return
    split = split_of(run, evidence.recommendation.split)
    at_it = all(run.participants[who].cores == count for who, count in evidence.recommendation.split.items())
    where = "the recommended split" if at_it else "the recorded split that is nearest to the recommended one"
    where += f"; of its {evidence.repeats} runs that with the median window" if evidence.repeats > 1 else ""
    yield Paragraph(f"Measured in run {visible(run.name)} on {split}, {where}.")
    known = [each for each in summary.participants if each.quantities["solve"].measured]
    if known:
        seconds = roles_of(run.configuration).second or frozenset()
        yield _timeline_chart(summary, known, evidence.labels, seconds)
    else:
        yield Paragraph("Times of ranks were not measured; the table below says why and what to set.", "missing")
    names = {each.participant: visible(each.participant) for each in summary.participants} | evidence.names
    yield from run_blocks(summary, names)


def iterations_section(evidence: Evidence) -> Iterator[Block]:
    """Show the coupling iterations of each window."""
    run = evidence.shown_run
    if run is None:
        yield NO_RUNS
        return
    most = max((int(part.iterations.max(initial=0)) for part in run.participants.values()), default=0)
    if most <= 1:
        yield Paragraph("The coupling is explicit: every time window takes one iteration.")
        return
    means = (
        f"{evidence.names.get(who, visible(who))} {float(np.mean(part.iterations[run.steady(who)])):.2f}"
        for who, part in run.participants.items()
        if run.steady(who).any()
    )
    yield Paragraph(f"Mean iterations per time window after warm-up in run {visible(run.name)}: {', '.join(means)}.")
    if run.predictors:
        yield guess_table(run.guess, run.predictors)
    yield _iterations_chart(run, evidence.labels)


def imbalance_section(evidence: Evidence) -> Iterator[Block]:
    """Show which ranks of a participant work longer than others."""
    summary = evidence.shown_summary
    if summary is None:
        yield NO_RUNS
        return
    several = [
        each for each in summary.participants if each.ranks > 1 and np.isfinite(each.rank_seconds["solve"]).any()
    ]
    if not several:
        text = "No participant of the shown run has times of more than one rank, so that there is nothing to compare."
        yield Paragraph(text, "missing")
        return
    worst = max(several, key=lambda each: -1.0 if math.isnan(each.imbalance) else each.imbalance)
    yield _imbalance_chart(several, evidence.labels)
    if worst.imbalance > _WORTH_A_WORD:
        name = evidence.names.get(worst.participant, visible(worst.participant))
        text = (
            f"Ranks of {name} differ by {100 * worst.imbalance:.0f} % of the busiest: more ranks do not help there as "
            "long as its mesh is not partitioned more evenly."
        )
        yield Paragraph(text, "warning")
    yield from inside_blocks(evidence)
