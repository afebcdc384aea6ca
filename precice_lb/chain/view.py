"""A chain of jobs for people: what its segments took, how they were split, and why."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from precice_lb.report.blocks import (
    Block,
    Chart,
    DefinitionList,
    Paragraph,
    Story,
    Table,
    percent,
    seconds_unit,
    short_names,
)
from precice_lb.report.style import GREY, Panel, colour_of, stacked, whole_ticks
from precice_lb.text import plural, to_jsonable

if TYPE_CHECKING:
    from precice_lb.chain.document import ChainDocument

# How the kinds of decisions are marked; segments that stayed as they were are not.
_KINDS = {
    "start": ("s", "first split"),
    "learn": ("D", "run for what it teaches"),
    "move": ("^", "moved, since it pays"),
    "undo": ("v", "undone"),
}
# Ranks are written beside their steps up to so many different splits in a row.
_WRITTEN = 6
_NAME_WIDTH = 24
# Segments that the view of a running one has above it.
_LATEST = 5


def read_story(directory: Path) -> Story | None:
    """Read what the chain of jobs in a directory has done, if there is one."""
    # What reads it takes a while to load, for which a first view of any run does not wait.
    if not (directory / "chain.json").exists():
        return None
    from precice_lb.chain.document import read_chain

    chain = read_chain(directory)
    return None if chain is None else story_of(chain)


def story_of(chain: ChainDocument) -> Story:
    """Give what a page, a summary and who watches show of a chain."""
    return Story(
        name="chain",
        title="Job chain",
        line=chain_line(chain),
        study=chain.study,
        is_over=chain.is_over,
        values=to_jsonable(chain),
        section=lambda: chain_section(chain),
        blocks=lambda: chain_blocks(chain),
        progress=lambda: chain_progress(chain),
    )


def chain_line(chain: ChainDocument) -> str:
    """Say in one line where a chain is."""
    if chain.is_over:
        return f"Job chain {'at its end' if chain.problem is None else 'stopped'}: {_how_far(chain)}"
    where = f"from window {chain.windows_done + 1} of {chain.total_windows} on"
    return f"Job chain: segment {len(chain.segments) + 1}, {where}"


def chain_blocks(chain: ChainDocument) -> list[Block]:
    """Say what a chain did: its segments in a table, what all of it took, and what comes next."""
    blocks: list[Block] = [Paragraph(f"{_how_far(chain)}{_gain(chain)}.", "lead")]
    if chain.segments:
        rows = ((str(entry.segment), entry.kind, entry.decision) for entry in chain.segments)
        decisions = Table("Decisions", ("no.", "decision", "why this split"), tuple(rows), text=(0, 1, 2))
        blocks += [segment_table(chain), decisions, DefinitionList(tuple(_totals(chain)))]
    if chain.next is not None:
        blocks.append(Paragraph(f"Next, {_decided(chain)}"))
    elif not chain.segments:
        blocks.append(Paragraph("No segment has come to its end yet.", "missing"))
    return [*blocks, *_stopped(chain)]


def chain_section(chain: ChainDocument) -> Iterator[Block]:
    """Show the same in a report, with its course as a figure."""
    lead, *others = chain_blocks(chain)
    yield lead
    if chain.segments:
        yield chain_chart(chain)
    yield from others


def chain_progress(chain: ChainDocument) -> list[Block]:
    """Say above the view of a running segment which one it is, what came before, and why it has its split."""
    blocks: list[Block] = [Paragraph(chain_line(chain), "lead")]
    if chain.segments:
        blocks.append(segment_table(chain, _LATEST))
    if chain.next is not None or chain.segments:
        blocks.append(Paragraph(f"S{_decided(chain)[1:]}"))
    return [*blocks, *_stopped(chain)]


def _how_far(chain: ChainDocument) -> str:
    segments = plural(len(chain.segments), "segment")
    return f"{segments}, {chain.windows_done} of {plural(chain.total_windows, 'window')}"


def _decided(chain: ChainDocument) -> str:
    """Say why the next segment, or else the last, has its split."""
    decided, number = chain.next or chain.segments[-1], len(chain.segments) + (chain.next is not None)
    names = short_names(chain.participants, _NAME_WIDTH)
    split = " + ".join(f"{names[name]} {count}" for name, count in decided.split.items())
    return f"segment {number} at {split} {chain.unit} ({decided.kind}): {decided.decision}"


def _stopped(chain: ChainDocument) -> list[Block]:
    return [] if chain.problem is None else [Paragraph(f"The chain has stopped: {chain.problem}", "warning")]


def _gain(chain: ChainDocument) -> str:
    """Set the window time of the last segment beside that of the first."""
    if len(chain.segments) < 2:
        return ""
    first, last = chain.segments[0].window_seconds, chain.segments[-1].window_seconds
    if not (math.isfinite(last) and first > 0):
        return ""
    unit, gain = seconds_unit([first, last]), 1.0 - last / first
    beside = "as long" if abs(gain) < 5e-4 else f"{percent(abs(gain))} {'less' if gain > 0 else 'more'}"
    return f"; a window took {unit.text(first)} in the first segment and {unit.text(last)} in the last, {beside}"


def segment_table(chain: ChainDocument, latest: int = 0) -> Table:
    """Tabulate the segments, or the latest: splits, windows, their seconds, waiting, and what the border took."""
    segments, names = chain.segments[-latest:], chain.participants
    unit = seconds_unit([entry.window_seconds for entry in segments])
    border = seconds_unit([entry.border_seconds for entry in segments], 3)
    rows = [
        {
            "no.": str(entry.segment),
            chain.unit: " + ".join(str(entry.split[name]) for name in names),
            "windows": f"{entry.start_window + 1}–{entry.start_window + entry.windows}",
            f"window ({unit.symbol})": unit.number(entry.window_seconds),
            "waiting (%)": " + ".join(percent(entry.wait_share[name], 0).removesuffix(" %") for name in names),
            f"border ({border.symbol})": border.number(entry.border_seconds),
        }
        for entry in segments
    ]
    shown = " + ".join(short_names(names, _NAME_WIDTH).values())
    return Table.of(f"Segments, with {chain.unit} and waiting of {shown}", rows)


def _totals(chain: ChainDocument) -> Iterator[tuple[str, str]]:
    """Say what windows and borders took in all, and how often the split was changed."""
    windows = _known(entry.windows * entry.window_seconds for entry in chain.segments)
    borders = _known(entry.border_seconds for entry in chain.segments)
    share = f" ({percent(borders / (windows + borders))} of all)" if windows + borders > 0 else ""
    yield "time in windows", seconds_unit([windows]).text(windows)
    yield "time at borders", f"{seconds_unit([borders]).text(borders)}{share}"
    undone = sum(entry.kind == "undo" for entry in chain.segments)
    yield "changes of the split", f"{len(_changes(chain))}{f', {undone} of them undone' if undone else ''}"
    yield "study", chain.study


def _known(seconds: Iterable[float]) -> float:
    return sum(value for value in seconds if math.isfinite(value))


def _changes(chain: ChainDocument) -> list[int]:
    """Places of segments with another split than the one before."""
    pairs = zip(chain.segments, chain.segments[1:], strict=False)
    return [place for place, (before, after) in enumerate(pairs, start=1) if before.split != after.split]


def chain_chart(chain: ChainDocument) -> Chart:
    """Draw the window time of each segment with its kind, compute seconds, and ranks below; of one segment or more."""
    return Chart(
        "chain",
        "Window time of each segment (black) and the compute time of every participant in a window of its own; marks "
        f"say why a segment has its split, dotted lines where it changed. Below, the {chain.unit} of each participant.",
        stacked([_seconds, _ranks], (2.4, 1.5), chain),
    )


def _labels(chain: ChainDocument) -> dict[str, str]:
    names = short_names(chain.participants, 16)
    return {name: f"{label}: compute time, {chain.unit}" for name, label in names.items()}


def _seconds(panel: Panel, chain: ChainDocument) -> None:
    segments = chain.segments
    unit = seconds_unit([entry.window_seconds for entry in segments])
    windows = [entry.window_seconds * unit.per_second for entry in segments]
    _steps(panel, chain, windows, "window time", color="black", linewidth=2.0, zorder=3)
    for index, (name, label) in enumerate(_labels(chain).items()):
        seconds = [entry.seconds[name] * unit.per_second for entry in segments]
        _steps(panel, chain, seconds, label, color=colour_of(index), linewidth=1.2)
    for kind, (marker, text) in _KINDS.items():
        if marked := [place for place, entry in enumerate(segments) if entry.kind == kind]:
            middle = [segments[place].start_window + segments[place].windows / 2 for place in marked]
            size = 7 if len(segments) <= 20 else 4.5
            panel.mark(text, middle, [windows[place] for place in marked], marker, size)
    _borders(panel, chain)
    panel.label("Course of the chain", "", f"time per window ({unit.symbol})")
    panel.axes.set_ylim(0, 1.08 * panel.axes.get_ylim()[1])


def _ranks(panel: Panel, chain: ChainDocument) -> None:
    changes, axes = _changes(chain), panel.axes
    most = max(count for entry in chain.segments for count in entry.split.values())
    for index, (name, label) in enumerate(_labels(chain).items()):
        colour = colour_of(index)
        ranks = [float(entry.split[name]) for entry in chain.segments]
        _steps(panel, chain, ranks, label, color=colour, linewidth=1.6)
        for place in [0, *changes] if len(changes) < _WRITTEN else []:
            others = [count for other, count in chain.segments[place].split.items() if other != name]
            # Where lines are close to each other, the table has the numbers.
            if all(abs(count - ranks[place]) > 0.15 * most for count in others):
                corner = (chain.segments[place].start_window, ranks[place])
                look: dict[str, Any] = {"textcoords": "offset points", "color": colour, "fontsize": 8}
                axes.annotate(f"{ranks[place]:g}", corner, (2, 2), parse_math=False, **look)
    _borders(panel, chain)
    panel.label("", "time windows of the chain (count)", f"{chain.unit} (count)")
    axes.set_ylim(0, 1.2 * most)
    axes.set_xlim(0, max(chain.windows_done, 1))
    whole_ticks(axes.yaxis, 4)
    whole_ticks(axes.xaxis, 7)


def _steps(panel: Panel, chain: ChainDocument, values: Sequence[float], text: str, **style: Any) -> None:
    """Draw a value of each segment over its windows."""
    edges = [entry.start_window for entry in chain.segments] + [chain.windows_done]
    panel.line(np.repeat(edges, 2)[1:-1], np.repeat(values, 2), text, **style)


def _borders(panel: Panel, chain: ChainDocument) -> None:
    """Draw a dotted line wherever the split changes."""
    for place in _changes(chain):
        panel.axes.axvline(chain.segments[place].start_window, color=GREY, linewidth=0.7, linestyle=":", zorder=1)
