"""A chain of jobs for people: what its segments took, how they were split, and why."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import TYPE_CHECKING

from precice_lb.plural import plural
from precice_lb.report.blocks import Block, DefinitionList, Paragraph, Table
from precice_lb.report.text import percent, seconds_unit, short_names

if TYPE_CHECKING:
    from precice_lb.chain.document import ChainDocument

_NAME_WIDTH = 24
# Splits so far that are told one by one; earlier ones are counted.
_TOLD = 5


def chain_title(chain: ChainDocument) -> str:
    """Say in a heading how far a chain is."""
    return f"Job chain: {_how_far(chain)}"


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
        split = _split(chain.next.split, names)
        number = len(chain.segments) + 1
        blocks.append(
            Paragraph(f"Next, segment {number} at {split} {chain.unit} ({chain.next.kind}): {chain.next.decision}")
        )
    elif not chain.segments:
        blocks.append(Paragraph("No segment has come to its end yet.", "missing"))
    if chain.problem is not None:
        blocks.append(Paragraph(f"The chain has stopped: {chain.problem}", "warning"))
    return blocks


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


def segment_table(chain: ChainDocument, names: Mapping[str, str]) -> Table:
    """Tabulate the segments: splits, windows, their seconds, waiting, and what the border took."""
    unit = seconds_unit([each.window_seconds for each in chain.segments])
    border = seconds_unit([each.border_seconds for each in chain.segments], 3)
    header = ("no.", chain.unit, "windows", f"window ({unit.symbol})", "waiting (%)", f"border ({border.symbol})")
    rows = (
        (
            str(each.segment),
            _counts(each.split, chain),
            f"{each.start_window + 1}–{each.start_window + each.windows}",
            unit.number(each.window_seconds),
            " + ".join(percent(each.wait_share[name], 0).removesuffix(" %") for name in chain.participants),
            border.number(each.border_seconds),
        )
        for each in chain.segments
    )
    return Table(f"Segments, with {chain.unit} and waiting of {' + '.join(names.values())}", header, tuple(rows))


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
    changes = sum(
        after.split != before.split for before, after in zip(chain.segments, chain.segments[1:], strict=False)
    )
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
        blocks.append(Paragraph(f"Splits so far, {chain.unit} of {' + '.join(names.values())}: {_so_far(chain)}."))
    decided = chain.next or (chain.segments[-1] if chain.segments else None)
    if decided is not None:
        number = len(chain.segments) + (chain.next is not None)
        split = _split(decided.split, names)
        blocks.append(Paragraph(f"Segment {number} at {split} {chain.unit} ({decided.kind}): {decided.decision}"))
    if chain.problem is not None:
        blocks.append(Paragraph(f"The chain has stopped: {chain.problem}", "warning"))
    return blocks


def chain_line(chain: ChainDocument) -> str:
    """Say in one line where a chain is."""
    if chain.is_over:
        end = "stopped" if chain.problem is not None else "at its end"
        return f"Job chain {end}: {_how_far(chain)}"
    where = f"from window {chain.windows_done + 1} of {chain.total_windows} on"
    return f"Job chain: segment {len(chain.segments) + 1}, {where}"


def _so_far(chain: ChainDocument) -> str:
    """Name the splits one after the other, those of neighbouring segments once, with their last window time."""
    groups = [list(group) for _, group in groupby(chain.segments, key=lambda each: _counts(each.split, chain))]
    unit = seconds_unit([each.window_seconds for each in chain.segments])
    told = []
    for group in groups[-_TOLD:]:
        numbers = f"{group[0].segment}" + (f" to {group[-1].segment}" if len(group) > 1 else "")
        told.append(f"{_counts(group[0].split, chain)} ({numbers}: {unit.text(group[-1].window_seconds)})")
    earlier = [f"{plural(len(groups) - _TOLD, 'other')} before"] if len(groups) > _TOLD else []
    return "; ".join([*earlier, *told])


def _counts(split: Mapping[str, int], chain: ChainDocument) -> str:
    return " + ".join(str(split[name]) for name in chain.participants)


def _split(split: Mapping[str, int], names: Mapping[str, str]) -> str:
    return " + ".join(f"{names[name]} {count}" for name, count in split.items())
