"""A chain of jobs for people: what its segments took, how they were split, and why."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from precice_lb.report.blocks import (
    Block,
    DefinitionList,
    Paragraph,
    Story,
    Table,
    percent,
    seconds_unit,
    short_names,
)
from precice_lb.text import plural, to_jsonable

if TYPE_CHECKING:
    from precice_lb.chain.document import ChainDocument

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
        blocks=lambda: chain_blocks(chain),
        progress=lambda: _progress(chain),
    )


def chain_line(chain: ChainDocument) -> str:
    """Say in one line where a chain is."""
    if chain.is_over:
        return f"Job chain {'at its end' if chain.problem is None else 'stopped'}: {_how_far(chain)}"
    where = f"from window {chain.windows_done + 1} of {chain.total_windows} on"
    return f"Job chain: segment {len(chain.segments) + 1}, {where}"


def chain_blocks(chain: ChainDocument) -> list[Block]:
    """Say what a chain did: its course in a table, why each split, what it took, what comes next."""
    blocks: list[Block] = [Paragraph(f"{_how_far(chain)}{_gain(chain)}.", "lead")]
    if chain.segments:
        rows = tuple((str(entry.segment), entry.kind, entry.decision) for entry in chain.segments)
        decisions = Table("Decisions", ("no.", "decision", "why this split"), rows, text=(0, 1, 2))
        blocks += [segment_table(chain), decisions, DefinitionList(tuple(_totals(chain)))]
    if chain.next is not None:
        blocks.append(Paragraph(f"Next, {_decided(chain)}"))
    elif not chain.segments:
        blocks.append(Paragraph("No segment has come to its end yet.", "missing"))
    return [*blocks, *_stopped(chain)]


def _progress(chain: ChainDocument) -> list[Block]:
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
    """Say what windows and borders took in all."""
    windows = np.nansum([entry.windows * entry.window_seconds for entry in chain.segments])
    borders = np.nansum([entry.border_seconds for entry in chain.segments])
    share = f" ({percent(borders / (windows + borders))} of all)" if windows + borders > 0 else ""
    yield "time in windows", seconds_unit([windows]).text(windows)
    yield "time at borders", f"{seconds_unit([borders]).text(borders)}{share}"
