"""A chain of jobs for people: what its segments took, how they were split, and why."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from precice_lb.chain.document import ChainDocument, read_chain
from precice_lb.plain import plain
from precice_lb.plural import plural
from precice_lb.report.blocks import Block, Chart, DefinitionList, Paragraph, Story, Table
from precice_lb.report.style import GREY, Panel, colour_of, stacked, whole_ticks
from precice_lb.report.text import percent, seconds_unit, short_names

# How the kinds of decisions are marked; segments that stayed as they were are not.
_KINDS = {
    "start": ("s", "first split"),
    "learn": ("D", "run for what it teaches"),
    "move": ("^", "moved, since it pays"),
    "undo": ("v", "undone"),
}
# Ranks are written beside their steps up to so many different splits in a row.
_WRITTEN = 6


def chain_chart(chain: ChainDocument) -> Chart:
    """Draw the window time of each segment with its kind, compute seconds, and ranks below; of one segment or more."""
    return Chart(
        "chain",
        "Window time of each segment (black) and the compute time of every participant in a window of its own; marks "
        f"say why a segment has its split, dotted lines where it changed. Below, the {chain.unit} of each participant.",
        stacked([_seconds, _ranks], (2.4, 1.5), chain),
    )


def _seconds(panel: Panel, chain: ChainDocument) -> None:
    segments, names = chain.segments, short_names(chain.participants, 16)
    unit = seconds_unit([each.window_seconds for each in segments])
    windows = [each.window_seconds * unit.per_second for each in segments]
    _steps(panel, chain, windows, "window time", color="black", linewidth=2.0, zorder=3)
    for index, name in enumerate(chain.participants):
        seconds = [each.seconds[name] * unit.per_second for each in segments]
        text = f"{names[name]}: compute time, {chain.unit}"
        _steps(panel, chain, seconds, text, color=colour_of(index), linewidth=1.2)
    for kind, (marker, text) in _KINDS.items():
        if marked := [place for place, each in enumerate(segments) if each.kind == kind]:
            size = 7 if len(segments) <= 20 else 4.5
            middle = [segments[place].start_window + segments[place].windows / 2 for place in marked]
            heights = [windows[place] for place in marked]
            panel.mark(text, middle, heights, marker, size)
    _borders(panel, chain)
    panel.label("Course of the chain", "", f"time per window ({unit.symbol})")
    panel.axes.set_ylim(0, 1.08 * panel.axes.get_ylim()[1])


def _ranks(panel: Panel, chain: ChainDocument) -> None:
    names = short_names(chain.participants, 16)
    changes = _changes(chain)
    most = max(count for each in chain.segments for count in each.split.values())
    for index, name in enumerate(chain.participants):
        colour = colour_of(index)
        ranks = [float(each.split[name]) for each in chain.segments]
        _steps(panel, chain, ranks, f"{names[name]}: compute time, {chain.unit}", color=colour, linewidth=1.6)
        for place in [0, *changes] if len(changes) < _WRITTEN else []:
            others = [count for other, count in chain.segments[place].split.items() if other != name]
            # Where lines are close to each other, the table has the numbers.
            if all(abs(count - ranks[place]) > 0.15 * most for count in others):
                at = (chain.segments[place].start_window, ranks[place])
                look: dict[str, Any] = {"textcoords": "offset points", "color": colour, "fontsize": 8}
                panel.axes.annotate(f"{ranks[place]:g}", at, (2, 2), parse_math=False, **look)
    _borders(panel, chain)
    panel.label("", "time windows of the chain (count)", f"{chain.unit} (count)")
    axes = panel.axes
    axes.set_ylim(0, 1.2 * most)
    axes.set_xlim(0, max(chain.windows_done, 1))
    whole_ticks(axes.yaxis, 4)
    whole_ticks(axes.xaxis, 7)


def _steps(panel: Panel, chain: ChainDocument, values: Sequence[float], text: str, **style: Any) -> None:
    """Draw a value of each segment over its windows."""
    edges = [each.start_window for each in chain.segments] + [chain.windows_done]
    panel.line(np.repeat(edges, 2)[1:-1], np.repeat(values, 2), text, **style)


def _borders(panel: Panel, chain: ChainDocument) -> None:
    """Draw a dotted line wherever the split changes."""
    for place in _changes(chain):
        panel.axes.axvline(chain.segments[place].start_window, color=GREY, linewidth=0.7, linestyle=":", zorder=1)


def _changes(chain: ChainDocument) -> list[int]:
    """Places of segments with another split than the one before."""
    pairs = zip(chain.segments, chain.segments[1:], strict=False)
    return [place for place, (before, after) in enumerate(pairs, start=1) if before.split != after.split]


_NAME_WIDTH = 24
# Segments that the view of a running one has above it.
_LATEST = 5


def chain_section(chain: ChainDocument) -> Iterator[Block]:
    """Show in a report how far the chain is, its course, its segments and what comes next."""
    lead, *others = chain_blocks(chain)
    yield lead
    if chain.segments:
        yield chain_chart(chain)
    yield from others


def _how_far(chain: ChainDocument) -> str:
    segments = plural(len(chain.segments), "segment")
    return f"{segments}, {chain.windows_done} of {plural(chain.total_windows, 'window')}"


def chain_blocks(chain: ChainDocument) -> list[Block]:
    """Say what a chain did: its segments in a table, what all of it took, and what comes next."""
    names = short_names(chain.participants, _NAME_WIDTH)
    blocks: list[Block] = [Paragraph(f"{_how_far(chain)}{_course(chain)}.", "lead")]
    if chain.segments:
        blocks += [segment_table(chain, names), decision_table(chain), DefinitionList(tuple(_totals(chain)))]
    if chain.next is not None:
        blocks.append(Paragraph(f"Next, {_decided(chain, names)}"))
    elif not chain.segments:
        blocks.append(Paragraph("No segment has come to its end yet.", "missing"))
    return [*blocks, *_stopped(chain)]


def _decided(chain: ChainDocument, names: Mapping[str, str]) -> str:
    """Say why the next segment, or else the last, has its split."""
    decided, number = chain.next or chain.segments[-1], len(chain.segments) + (chain.next is not None)
    split = " + ".join(f"{names[name]} {count}" for name, count in decided.split.items())
    return f"segment {number} at {split} {chain.unit} ({decided.kind}): {decided.decision}"


def _stopped(chain: ChainDocument) -> list[Block]:
    return [] if chain.problem is None else [Paragraph(f"The chain has stopped: {chain.problem}", "warning")]


def _course(chain: ChainDocument) -> str:
    """Set the window time of the last segment beside that of the first."""
    if len(chain.segments) < 2:
        return ""
    first, last = chain.segments[0].window_seconds, chain.segments[-1].window_seconds
    if not (math.isfinite(last) and first > 0):
        return ""
    unit, gain = seconds_unit([first, last]), 1.0 - last / first
    beside = "as long" if abs(gain) < 5e-4 else f"{percent(abs(gain))} {'less' if gain > 0 else 'more'}"
    return f"; a window took {unit.text(first)} in the first segment and {unit.text(last)} in the last, {beside}"


def segment_table(chain: ChainDocument, names: Mapping[str, str], latest: int = 0) -> Table:
    """Tabulate the segments, or the latest: splits, windows, their seconds, waiting, and what the border took."""
    segments = chain.segments[-latest:]
    unit = seconds_unit([each.window_seconds for each in segments])
    border = seconds_unit([each.border_seconds for each in segments], 3)
    rows = [
        {
            "no.": str(each.segment),
            chain.unit: " + ".join(str(each.split[name]) for name in chain.participants),
            "windows": f"{each.start_window + 1}–{each.start_window + each.windows}",
            f"window ({unit.symbol})": unit.number(each.window_seconds),
            "waiting (%)": " + ".join(percent(each.wait_share[n], 0).removesuffix(" %") for n in chain.participants),
            f"border ({border.symbol})": border.number(each.border_seconds),
        }
        for each in segments
    ]
    return Table.of(f"Segments, with {chain.unit} and waiting of {' + '.join(names.values())}", rows)


def decision_table(chain: ChainDocument) -> Table:
    """Tabulate why each segment has its split."""
    rows = ((str(each.segment), each.kind, each.decision) for each in chain.segments)
    return Table("Decisions", ("no.", "decision", "why this split"), tuple(rows), text=(0, 1, 2))


def _totals(chain: ChainDocument) -> Iterator[tuple[str, str]]:
    """Say what windows and borders took in all, and how often the split was changed."""
    windows = _known(each.windows * each.window_seconds for each in chain.segments)
    borders = _known(each.border_seconds for each in chain.segments)
    share = f" ({percent(borders / (windows + borders))} of all)" if windows + borders > 0 else ""
    yield "time in windows", seconds_unit([windows]).text(windows)
    yield "time at borders", f"{seconds_unit([borders]).text(borders)}{share}"
    changes = len(_changes(chain))
    undone = sum(each.kind == "undo" for each in chain.segments)
    yield "changes of the split", f"{changes}, {undone} of them undone" if undone else str(changes)
    yield "study", chain.study


def _known(seconds: Iterable[float]) -> float:
    return sum(value for value in seconds if math.isfinite(value))


def chain_progress(chain: ChainDocument) -> list[Block]:
    """Say above the view of a running segment which one it is, what came before, and why it has its split."""
    names = short_names(chain.participants, _NAME_WIDTH)
    blocks: list[Block] = [Paragraph(chain_line(chain), "lead")]
    if chain.segments:
        blocks.append(segment_table(chain, names, _LATEST))
    if chain.next is not None or chain.segments:
        blocks.append(Paragraph(f"S{_decided(chain, names)[1:]}"))
    return [*blocks, *_stopped(chain)]


def chain_line(chain: ChainDocument) -> str:
    """Say in one line where a chain is."""
    if chain.is_over:
        end = "stopped" if chain.problem is not None else "at its end"
        return f"Job chain {end}: {_how_far(chain)}"
    where = f"from window {chain.windows_done + 1} of {chain.total_windows} on"
    return f"Job chain: segment {len(chain.segments) + 1}, {where}"


def read_story(directory: Path) -> Story | None:
    """Read what the chain of jobs in a directory has done, if there is one."""
    chain = read_chain(directory)
    return None if chain is None else story_of(chain)


def story_of(chain: ChainDocument) -> Story:
    """Say what a chain has done."""
    return Story(
        "chain",
        "Job chain",
        chain_line(chain),
        chain.study,
        chain.is_over,
        plain(chain),
        section=partial(chain_section, chain),
        blocks=partial(chain_blocks, chain),
        progress=partial(chain_progress, chain),
    )
