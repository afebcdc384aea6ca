"""What recorded runs did: a typical window, coupling iterations, ranks out of balance, and what `check` found."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.case.coupling import roles_of
from precice_lb.check import check_runs
from precice_lb.names import visible
from precice_lb.plural import plural
from precice_lb.report.blocks import Block, Chart, Missing, Paragraph, Table
from precice_lb.report.guess import guess_table
from precice_lb.report.inside import inside_section
from precice_lb.report.style import (
    COLOURS,
    GREY,
    HATCHED,
    WIDTH,
    Bars,
    Panel,
    colour_of,
    marker_of,
    new_figure,
    one_panel,
    whole_ticks,
)
from precice_lb.report.summary import QUANTITIES, ParticipantSummary
from precice_lb.report.summary_view import run_blocks
from precice_lb.report.text import or_dash, percent, seconds_unit, short_names

if TYPE_CHECKING:
    from precice_lb.check import CheckResult, FindingGroup
    from precice_lb.dataset import CoupledRun
    from precice_lb.report.page import Evidence

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
# Windows of a chart at most; more are averaged in groups.
_MOST_POINTS = 400


def split_of(run: CoupledRun, names: Iterable[str]) -> str:
    """Write what participants of a run ran on: ``24 + 8 ranks``, or ``24 + 1 x 8 threads``."""
    layouts = [run.participants[who].layout for who in names]
    return " + ".join(map(str, layouts)) + ("" if any(each.threads > 1 for each in layouts) else " ranks")


def window_section(evidence: Evidence) -> Iterator[Block]:
    """Show what a typical window consists of, per participant, for its slowest and its fastest rank."""
    run, summary = evidence.shown_run, evidence.shown_summary
    split = split_of(run, evidence.recommendation.split)
    at_it = all(run.participants[who].cores == count for who, count in evidence.recommendation.split.items())
    where = "the recommended split" if at_it else "the recorded split that is nearest to the recommended one"
    where += f"; of its {len(evidence.repeats)} runs that with the median window" if len(evidence.repeats) > 1 else ""
    yield Paragraph(f"Measured in run {visible(run.name)} on {split}, {where}.")
    known = [each for each in summary.participants if each.quantities["solve"].measured]
    if known:
        yield _timeline_chart(known, evidence.labels, roles_of(run.configuration).second)
    else:
        yield Paragraph("Times of ranks were not measured; the table below says why and what to set.", "missing")
    yield from run_blocks(summary, evidence.names)


def _timeline_chart(shown: Sequence[ParticipantSummary], names: Mapping[str, str], second: Collection[str]) -> Chart:
    """Draw a typical window: what the slowest and the fastest rank of each participant do, one after the other."""
    unit, groups, used = seconds_unit([each.window_seconds for each in shown]), [], set()
    for each in shown:
        if not (told := np.isfinite(each.busy).sum()):
            continue
        most, least = int(np.nanargmax(each.busy)), int(np.nanargmin(each.busy))
        # Who computes second waits first.
        parts = sorted(_PARTS, key="partner_wait".__ne__) if each.participant in second else list(_PARTS)
        bars = []
        for word, rank in {"slowest rank": most, "fastest rank": least}.items() if told > 1 else [("rank", most)]:
            seconds = {part: float(each.rank_seconds[part][rank]) for part in parts}
            used |= {part for part, value in seconds.items() if math.isfinite(value)}
            shapes = [(value * unit.per_second, _PARTS[part]) for part, value in seconds.items() if value > 0]
            bars.append((f"{word} {rank}", shapes))
        groups.append(Bars(f"{names[each.participant]}, {each.layout.words}", bars))

    def draw(panel: Panel) -> None:
        panel.bars(groups, weight="bold")
        panel.label("A typical window", f"time in the window ({unit.symbol})", "ranks")
        for part, shape in _PARTS.items():
            if part in used:
                panel.area(QUANTITIES[part], **shape)

    windows = max(each.windows for each in shown)
    return Chart(
        "window",
        f"Mean over {plural(windows, 'window')}, all coupling iterations together. Solve is the solver's own; the "
        "rest is inside advance.",
        one_panel(draw, 0.85 + 0.24 * sum(1.15 + len(group.bars) for group in groups)),
    )


def iterations_section(evidence: Evidence) -> Iterator[Block]:
    """Show the coupling iterations of each window."""
    run = evidence.shown_run
    most = max((int(part.iterations.max(initial=0)) for part in run.participants.values()), default=0)
    if most <= 1:
        yield Paragraph("The coupling is explicit: every time window takes one iteration.")
        return
    means = (
        f"{evidence.names[who]} {float(np.mean(part.iterations[run.steady(who)])):.2f}"
        for who, part in run.participants.items()
        if run.steady(who).any()
    )
    yield Paragraph(f"Mean iterations per time window after warm-up in run {visible(run.name)}: {', '.join(means)}.")
    if run.predictors:
        yield guess_table(run.guess, run.predictors)
    yield _iterations_chart(run, evidence.labels)


def _iterations_chart(run: CoupledRun, names: Mapping[str, str]) -> Chart:
    """Draw the coupling iterations of each time window."""

    def draw(panel: Panel) -> None:
        for index, (who, part) in enumerate(run.participants.items()):
            # Who iterates together has the same line: the later ones are drawn thinner.
            width = 1.2 + 1.2 * (len(run.participants) - 1 - index)
            style = {"drawstyle": "steps-mid", "color": colour_of(index), "linewidth": width}
            panel.line(part.windows, part.iterations, names[who], **style)
        _over_windows(panel, run, "Coupling iterations per time window", "coupling iterations (count)")
        whole_ticks(panel.axes.yaxis, 7)

    caption = "Coupling iterations that each time window took until it converged, or until the limit was reached."
    return Chart("iterations", caption, one_panel(draw, 2.6))


def _over_windows(panel: Panel, run: CoupledRun, title: str, ylabel: str) -> None:
    """Finish a panel over the windows of a run: warm-up, limits and labels."""
    panel.axes.axvspan(0.5, run.warmup_windows + 0.5, color=GREY, alpha=0.15, linewidth=0)
    panel.shade("warm-up, left out", GREY)
    panel.label(title, "time window (number)", ylabel)
    panel.axes.set_ylim(bottom=0)
    whole_ticks(panel.axes.xaxis, 7)


def imbalance_section(evidence: Evidence) -> Iterator[Block]:
    """Show which ranks of a participant work longer than others."""
    several = [
        each
        for each in evidence.shown_summary.participants
        if each.ranks > 1 and np.isfinite(each.rank_seconds["solve"]).any()
    ]
    if not several:
        raise Missing(
            "No participant of the shown run has times of more than one rank, so there is nothing to compare."
        )
    yield _imbalance_chart(several, evidence.labels)
    worst = max(several, key=lambda each: -1.0 if math.isnan(each.imbalance) else each.imbalance)
    if worst.imbalance > _WORTH_A_WORD:
        text = (
            f"Ranks of {evidence.names[worst.participant]} differ by {percent(worst.imbalance, 0)} of the "
            "busiest: more ranks do not help there as long as its mesh is not partitioned more evenly."
        )
        yield Paragraph(text, "warning")
    yield from inside_section(evidence)


def _imbalance_chart(shown: Sequence[ParticipantSummary], names: Mapping[str, str]) -> Chart:
    """Draw a strip of ranks for each participant, coloured by how long each is busy."""
    shares = [each.busy / np.nanmax(each.busy) * 100 for each in shown]
    look = {"interpolation": "nearest", "cmap": "viridis_r", "vmin": min(95.0, *map(np.nanmin, shares)), "vmax": 100}
    with new_figure(WIDTH, 0.68 * len(shown) + 0.95) as figure:
        grid = figure.subplots(len(shown), 1, squeeze=False).ravel()
        for axes, each, share in zip(grid, shown, shares, strict=True):
            drawn = axes.imshow(share[None], aspect="auto", extent=(-0.5, len(share) - 0.5, 0, 1), **look)
            axes.set_title(names[each.participant], loc="left", fontsize=9, parse_math=False)
            axes.set_yticks([])
            axes.grid(visible=False)
            whole_ticks(axes.xaxis, 6)
        axes.set_xlabel("rank (number)")
        figure.supylabel("participants", fontsize="medium")
        label = "busy time, of the participant's busiest rank (%)"
        figure.colorbar(drawn, ax=list(grid), orientation="horizontal", label=label, aspect=40, fraction=0.06)
    caption = (
        "Busy time (solve, mapping and overhead) of every rank: the darkest ranks are those that the others wait for"
    )
    if any(np.isnan(share).any() for share in shares):
        caption += "; of blank ones it is not known: they receive no data, and their waiting looks like solve"
    return Chart("imbalance", f"{caption}.", figure)


def quality_section(evidence: Evidence) -> Iterator[Block]:
    """Say whether the recorded runs are fit to learn from."""
    run, checked = evidence.shown_run, check_runs(evidence.runs)
    yield from finding_blocks(checked)
    if any(part.compute_measured for part in run.participants.values()):
        yield windows_chart(run, evidence.labels)
    yield from health_blocks(checked)


def windows_chart(run: CoupledRun, names: Mapping[str, str]) -> Chart:
    """Draw compute seconds over the windows of a run: warm-up, drift and outliers are to be seen there."""
    known = {who: part for who, part in run.participants.items() if part.compute_measured}
    unit = seconds_unit([float(np.nanmedian(part.compute_seconds)) for part in known.values()])

    def draw(panel: Panel) -> None:
        for index, who in enumerate(run.participants):
            if who in known:
                x, y = _thinned(known[who].windows), _thinned(known[who].compute_seconds) * unit.per_second
                style = {"color": colour_of(index), "marker": marker_of(index), "markersize": 3, "linewidth": 1}
                panel.line(x, y, names[who], **style)
        _over_windows(panel, run, "Compute time in every window", f"compute time per window ({unit.symbol})")

    caption = (
        f"Compute time of each participant in the windows of run {visible(run.name)}: what is even can be learned from."
    )
    return Chart("windows", caption, one_panel(draw, 2.7))


def _thinned(values: NDArray[Any]) -> Array:
    step = max(-(-len(values) // _MOST_POINTS), 1)
    return np.asarray(values[: len(values) // step * step].reshape(-1, step).mean(axis=1))


def check_blocks(result: CheckResult) -> list[Block]:
    """Say all that `check` found: numbers of every participant, and each finding with its remedy."""
    return [*health_blocks(result), *finding_blocks(result)]


def health_blocks(result: CheckResult) -> list[Block]:
    """Tabulate what the windows of each run say of its participants."""
    runs, names = (short_names({getattr(each, key) for each in result.healths}, 40) for key in ("run", "participant"))
    unit = seconds_unit(each.seconds for each in result.healths if math.isfinite(each.seconds))
    rows = [
        {
            "run": runs[each.run],
            "participant": names[each.participant],
            "ranks": each.ranks_text,
            "windows": str(each.windows),
            "warm-up": f"{each.warmup_found} ({each.warmup_left_out} left out)",
            f"median compute ({unit.symbol})": unit.number(each.seconds),
            "iterations": or_dash(each.iterations, ".2f"),
            "drift": each.drift_text,
            "outliers": str(each.outliers),
            "spread": percent(each.deviation),
            "error": percent(each.error),
        }
        for each in result.healths
    ]
    text = (
        "median compute: per time window, the median per coupling iteration after warm-up times the mean iterations; "
        "spread: of one window, error: of that median (standard deviations)"
    )
    blocks: list[Block] = [Table.of("Recorded runs: what their windows say of them", rows, (0, 1)), Paragraph(text)]
    judged = {each.participant for each in result.healths if not each.negligible}
    negligible = dict.fromkeys(
        f"{each.participant} in {each.run}" if each.participant in judged else each.participant
        for each in result.healths
        if each.negligible
    )
    if negligible:
        blocks.append(Paragraph(f"not judged, with less than 1 % of the window: {', '.join(negligible)}"))
    return blocks


def finding_blocks(result: CheckResult) -> list[Block]:
    """Say each finding with its remedy, the same of several runs once."""
    if not result.findings:
        left_out = f"{plural(result.warmup, 'window')} of warm-up {'is' if result.warmup == 1 else 'are'} left out"
        return [Paragraph(f"nothing found that speaks against these runs; {left_out}")]
    return [_finding(group) for group in result.groups]


def _finding(group: FindingGroup) -> Paragraph:
    worst, others = group.worst, group.others
    same = all(each.size == worst.size for each in others)
    count = f" ({1 + len(others)} times{'' if same else ', this is the worst'})" if others else ""
    also = f" Also {group.also}." if others else ""
    text = f"{worst.where}: {worst.text}. Remedy: {worst.remedy}.{also}"
    return Paragraph(text, "warning", f"{worst.kind}{count}")
