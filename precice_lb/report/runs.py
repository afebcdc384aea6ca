"""What recorded runs did: a typical window, coupling iterations, ranks out of balance, and what `check` found."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.case.coupling import roles_of
from precice_lb.check import check_runs
from precice_lb.report.blocks import (
    Block,
    Chart,
    Missing,
    Paragraph,
    Table,
    or_dash,
    percent,
    seconds_unit,
    short_names,
)
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
from precice_lb.text import plural, visible

if TYPE_CHECKING:
    from precice_lb.check import CheckResult, Finding
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
# Where else the same was found.
_MOST_NAMED = 8


def split_of(run: CoupledRun, names: Iterable[str]) -> str:
    """Write what participants of a run ran on: ``24 + 8 ranks``, or ``24 + 1 x 8 threads``."""
    layouts = [run.participants[who].layout for who in names]
    return " + ".join(map(str, layouts)) + ("" if any(layout.threads > 1 for layout in layouts) else " ranks")


def window_section(evidence: Evidence) -> Iterator[Block]:
    """Show what a typical window consists of, per participant, for its slowest and its fastest rank."""
    run, summary, split = evidence.shown_run, evidence.shown_summary, evidence.recommendation.split
    where = "the recorded split that is nearest to the recommended one"
    if all(run.participants[who].cores == count for who, count in split.items()):
        where = "the recommended split"
    if len(evidence.repeats) > 1:
        where += f"; of its {len(evidence.repeats)} runs that with the median window"
    yield Paragraph(f"Measured in run {visible(run.name)} on {split_of(run, split)}, {where}.")
    known = [
        part for part in summary.participants if part.quantities["solve"].measured and np.isfinite(part.busy).any()
    ]
    if known:
        yield _timeline_chart(known, evidence.labels, roles_of(run.configuration).second)
    yield from run_blocks(summary, evidence.names)


def _timeline_chart(shown: Sequence[ParticipantSummary], names: Mapping[str, str], second: Collection[str]) -> Chart:
    """Draw a typical window: what the slowest and the fastest rank of each participant do, one after the other."""
    unit, groups, used = seconds_unit([part.window_seconds for part in shown]), [], set()
    for part in shown:
        ranks = {"slowest rank": int(np.nanargmax(part.busy)), "fastest rank": int(np.nanargmin(part.busy))}
        if np.isfinite(part.busy).sum() == 1:
            ranks = {"rank": ranks["slowest rank"]}
        # Who computes second waits first.
        order = sorted(_PARTS, key="partner_wait".__ne__) if part.participant in second else list(_PARTS)
        bars = []
        for word, rank in ranks.items():
            seconds = {name: float(part.rank_seconds[name][rank]) for name in order}
            used |= {name for name, value in seconds.items() if math.isfinite(value)}
            shapes = [(value * unit.per_second, _PARTS[name]) for name, value in seconds.items() if value > 0]
            bars.append((f"{word} {rank}", shapes))
        groups.append(Bars(f"{names[part.participant]}, {part.layout.words}", bars))

    def draw(panel: Panel) -> None:
        panel.bars(groups, weight="bold")
        panel.label("A typical window", f"time in the window ({unit.symbol})", "ranks")
        for name, shape in _PARTS.items():
            if name in used:
                panel.area(QUANTITIES[name], **shape)

    windows = max(part.windows for part in shown)
    return Chart(
        "window",
        f"Mean over {plural(windows, 'window')}, all coupling iterations together. Solve is the solver's own; the "
        "rest is inside advance.",
        one_panel(draw, 0.85 + 0.24 * sum(1.15 + len(group.bars) for group in groups)),
    )


def iterations_section(evidence: Evidence) -> Iterator[Block]:
    """Show the coupling iterations of each window."""
    run = evidence.shown_run
    if all(part.iterations.max(initial=0) <= 1 for part in run.participants.values()):
        yield Paragraph("The coupling is explicit: every time window takes one iteration.")
        return
    means = (
        f"{evidence.names[who]} {float(np.mean(part.iterations[run.steady(who)])):.2f}"
        for who, part in run.participants.items()
        if run.steady(who).any()
    )
    yield Paragraph(f"Mean iterations per time window after warm-up in run {visible(run.name)}: {', '.join(means)}.")
    title = "Coupling iterations per time window"
    caption = "Coupling iterations that each time window took until it converged, or until the limit was reached."
    values = {who: part.iterations for who, part in run.participants.items()}
    yield _course_chart("iterations", title, "coupling iterations (count)", caption, run, values, evidence.labels)


def quality_section(evidence: Evidence) -> Iterator[Block]:
    """Say whether the recorded runs are fit to learn from."""
    run, checked = evidence.shown_run, check_runs(evidence.runs)
    yield from finding_blocks(checked)
    if values := {who: part.compute_seconds for who, part in run.participants.items() if part.compute_measured}:
        unit = seconds_unit([float(np.nanmedian(seconds)) for seconds in values.values()])
        title, ylabel = "Compute time in every window", f"compute time per window ({unit.symbol})"
        caption = (
            f"Compute time of each participant in the windows of run {visible(run.name)}: what is even can be learned "
            "from."
        )
        values = {who: seconds * unit.per_second for who, seconds in values.items()}
        yield _course_chart("windows", title, ylabel, caption, run, values, evidence.labels)
    yield from health_blocks(checked)


def _course_chart(
    name: str,
    title: str,
    ylabel: str,
    caption: str,
    run: CoupledRun,
    values: Mapping[str, NDArray[Any]],
    names: Mapping[str, str],
) -> Chart:
    """Draw a value of each participant over the windows of a run; warm-up, drift and outliers are to be seen there."""

    def draw(panel: Panel) -> None:
        for index, (who, part) in enumerate(run.participants.items()):
            if who in values:
                # Who iterates together has the same line: the later ones are drawn thinner.
                width = 1.0 + 0.8 * (len(values) - 1 - index)
                look = {"color": colour_of(index), "marker": marker_of(index), "markersize": 3, "linewidth": width}
                panel.line(_thinned(part.windows), _thinned(values[who]), names[who], **look)
        panel.axes.axvspan(0.5, run.warmup_windows + 0.5, color=GREY, alpha=0.15, linewidth=0)
        panel.shade("warm-up, left out", GREY)
        panel.label(title, "time window (number)", ylabel)
        panel.axes.set_ylim(bottom=0)
        whole_ticks(panel.axes.xaxis, 7)

    return Chart(name, caption, one_panel(draw, 2.7))


def _thinned(values: NDArray[Any]) -> Array:
    step = max(-(-len(values) // _MOST_POINTS), 1)
    return np.asarray(values[: len(values) // step * step].reshape(-1, step).mean(axis=1))


def imbalance_section(evidence: Evidence) -> Iterator[Block]:
    """Show which ranks of a participant work longer than others."""
    several = [
        part
        for part in evidence.shown_summary.participants
        if part.ranks > 1 and np.isfinite(part.rank_seconds["solve"]).any()
    ]
    if not several:
        raise Missing("no participant of the shown run has times of more than one rank")
    yield _imbalance_chart(several, evidence.labels)
    worst = max(several, key=lambda part: np.nan_to_num(part.imbalance, nan=-1.0))
    if worst.imbalance > _WORTH_A_WORD:
        text = (
            f"Ranks of {evidence.names[worst.participant]} differ by {percent(worst.imbalance, 0)} of the "
            "busiest: more ranks do not help there as long as its mesh is not partitioned more evenly."
        )
        yield Paragraph(text, "warning")


def _imbalance_chart(shown: Sequence[ParticipantSummary], names: Mapping[str, str]) -> Chart:
    """Draw a strip of ranks for each participant, coloured by how long each is busy."""
    shares = [part.busy / np.nanmax(part.busy) * 100 for part in shown]
    look = {"interpolation": "nearest", "cmap": "viridis_r", "vmin": min(95.0, *map(np.nanmin, shares)), "vmax": 100}
    with new_figure(WIDTH, 0.68 * len(shown) + 0.95) as figure:
        grid = figure.subplots(len(shown), 1, squeeze=False).ravel()
        for axes, part, share in zip(grid, shown, shares, strict=True):
            drawn = axes.imshow(share[None], aspect="auto", extent=(-0.5, len(share) - 0.5, 0, 1), **look)
            axes.set_title(names[part.participant], loc="left", fontsize=9, parse_math=False)
            axes.set_yticks([])
            axes.grid(visible=False)
            whole_ticks(axes.xaxis, 6)
        axes.set_xlabel("rank (number)")
        figure.supylabel("participants", fontsize="medium")
        label = "busy time, of the participant's busiest rank (%)"
        figure.colorbar(drawn, ax=list(grid), orientation="horizontal", label=label, aspect=40, fraction=0.06)
    caption = (
        "Busy time (solve, mapping and overhead) of every rank: the darkest ranks are those that the others wait for; "
        "of blank ones it is not known."
    )
    return Chart("imbalance", caption, figure)


def check_blocks(result: CheckResult) -> list[Block]:
    """Say all that `check` found: numbers of every participant, and each finding with its remedy."""
    return [*health_blocks(result), *finding_blocks(result)]


def health_blocks(result: CheckResult) -> list[Block]:
    """Tabulate what the windows of each run say of its participants."""
    runs = short_names({health.run for health in result.healths}, 40)
    names = short_names({health.participant for health in result.healths}, 40)
    unit = seconds_unit(health.seconds for health in result.healths)
    rows = [
        {
            "run": runs[health.run],
            "participant": names[health.participant],
            "ranks": health.ranks_text,
            "windows": str(health.windows),
            "warm-up": f"{health.warmup_found} ({health.warmup_left_out} left out)",
            f"median compute ({unit.symbol})": unit.number(health.seconds),
            "iterations": or_dash(health.iterations, ".2f"),
            "drift": health.drift_text,
            "outliers": str(health.outliers),
            "spread": percent(health.deviation),
            "error": percent(health.error),
        }
        for health in result.healths
    ]
    text = (
        "median compute: per time window, the median per coupling iteration after warm-up times the mean iterations; "
        "spread: of one window, error: of that median (standard deviations)"
    )
    blocks: list[Block] = [Table.of("Recorded runs: what their windows say of them", rows, (0, 1)), Paragraph(text)]
    if negligible := [f"{health.participant} in {health.run}" for health in result.healths if health.negligible]:
        blocks.append(Paragraph(f"not judged, with less than 1 % of the window: {', '.join(negligible)}"))
    return blocks


def finding_blocks(result: CheckResult) -> list[Block]:
    """Say each finding with its remedy, the same of several runs once."""
    if not result.findings:
        return [Paragraph("nothing found that speaks against these runs")]
    return [_finding(*group) for group in result.groups]


def _finding(worst: Finding, *others: Finding) -> Paragraph:
    count = f" ({1 + len(others)} times)" if others else ""
    more = f" and {len(others) - _MOST_NAMED} more" if len(others) > _MOST_NAMED else ""
    also = f" Also {'; '.join(other.where for other in others[:_MOST_NAMED])}{more}." if others else ""
    return Paragraph(f"{worst.where}: {worst.text}. Remedy: {worst.remedy}.{also}", "warning", f"{worst.kind}{count}")
