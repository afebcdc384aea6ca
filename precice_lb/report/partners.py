"""Partner ranks as tables and sentences of plain text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from precice_lb.partners.advice import reason
from precice_lb.plural import plural
from precice_lb.report.blocks import Block, DefinitionList, Paragraph, Table
from precice_lb.report.text import percent

if TYPE_CHECKING:
    from precice_lb.partners import LinkPartners, PartnersReport

__all__ = ["bytes_text", "partners_blocks", "partners_tables"]

_MOST = 5


def bytes_text(size: float) -> str:
    """Write a number of bytes with a binary unit."""
    if not math.isfinite(size):
        return "–"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024 or unit == "GiB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.3g} {unit}"
        size /= 1024
    raise AssertionError("unreachable")


def partners_tables(report: PartnersReport) -> list[Table]:
    """Make the tables of a report."""
    one = [found for found in report.links if not found.link.two_level]
    two = [found for found in report.links if found.link.two_level]
    tables = [_pairs(one, two_level=False), _partners(one, two_level=False)] if one else []
    tables += [_pairs(two, two_level=True), _partners(two, two_level=True)] if two else []
    tables.append(_initialisation(report.links))
    if one:
        tables.append(_partners(one, two_level=True, instead=True))
    return [*tables, *_most(report.links)]


def _pairs(links: Sequence[LinkPartners], *, two_level: bool) -> Table:
    rows = []
    for found in links:
        size = float("nan") if found.pair_bytes is None else float(found.pair_bytes.sum())
        pairs = found.level_1 if two_level else found.one_level
        busy = None if found.level_2 is None else len(found.level_2)
        empty = None if pairs is None or busy is None else (len(pairs) - busy) / max(len(pairs), 1)
        one = "–" if found.one_level is None else str(len(found.one_level))
        level_1 = str(len(found.level_1))
        rows.append(
            (
                found.link.title,
                f"{found.ranks[0]} × {found.ranks[1]}",
                level_1 if two_level else one,
                "–" if busy is None else str(busy),
                "–" if empty is None else percent(empty),
                one if two_level else level_1,
                f"{found.messages_per_window:.0f}",
                bytes_text(size),
            )
        )
    names = ("level 1", "one level") if two_level else ("one level", "level 1")
    header = ("mesh", "ranks", names[0], "level 2", "empty", f"instead: {names[1]}", "messages", "data")
    how = "two-level" if two_level else "one-level"
    title = f"Pairs of ranks with {how} initialisation, as configured, and what they exchange per time window"
    return Table(title, header, tuple(rows))


def _partners(links: Sequence[LinkPartners], *, two_level: bool, instead: bool = False) -> Table:
    rows = []
    for found in links:
        pairs = found.level_1 if two_level else found.one_level
        for side, who in enumerate((found.link.provider, found.link.receiver)):
            cells = ("–",) * 3
            if pairs is not None:
                partners = found.partners(side, pairs)
                cells = (f"{partners.mean():.1f}", str(partners.max()), str(int((partners == 0).sum())))
            busy = "–" if found.level_2 is None else f"{found.partners(side, found.level_2).mean():.1f}"
            rows.append((found.link.title, who, *cells, busy))
    header = ("mesh", "ranks of", "mean", "maximum", "without", "mean with data")
    how = "level 1" if two_level else "one level"
    title = f"Partners per rank ({how}{', with two-level initialisation instead' if instead else ''})"
    return Table(title, header, tuple(rows), (0, 1))


def _initialisation(links: Sequence[LinkPartners]) -> Table:
    rows = []
    for found in links:
        # What is configured first.
        for two_level, cost in sorted(found.cost.items(), key=lambda each: each[0] != found.link.two_level):
            name = ("one level", "two levels")[two_level] + (
                " (configured)" if two_level == found.link.two_level else ""
            )
            memory = (bytes_text(cost.primary_bytes), bytes_text(cost.rank_bytes))
            rows.append((found.link.title, name, *memory, f"{cost.seconds:.2g} s"))
    header = ("mesh", "initialisation", "memory, primary", "memory, each rank", "start-up")
    return Table("Initialisation, by the stated cost model", header, tuple(rows), (0, 1))


def _most(links: Sequence[LinkPartners]) -> list[Table]:
    tables = []
    for found in links:
        rows = []
        for side, who in enumerate((found.link.provider, found.link.receiver)):
            partners = found.partners(side)
            for rank in np.argsort(-partners, kind="stable")[:_MOST]:
                if partners[rank] > max(1.5 * partners.mean(), 2):
                    rows.append((f"{who} {rank}", str(partners[rank]), reason(found, side, int(rank))))
        if rows:
            where = "level 1" if found.link.two_level else "level 1, with two-level initialisation instead"
            title = f"Ranks with the most partners ({where}), {found.link.title}"
            tables.append(Table(title, ("rank", "partners", "why"), tuple(rows), (0, 2)))
    return tables


def partners_notes(report: PartnersReport) -> list[tuple[str, str]]:
    """Say what the tables leave out: forecast, what geometry leaves open, placement."""
    notes = []
    if report.forecast is not None:
        told = report.forecast
        styles = ", ".join(
            f"{mesh} as {style}"
            + ("" if math.isnan(told.likeness[mesh]) else f" ({percent(told.likeness[mesh], 0)} alike)")
            for mesh, style in told.styles.items()
        )
        notes.append(
            (
                "forecast",
                f"{styles}; for the measured ranks the same forecast misses the mean by {percent(told.mean_error)} and "
                f"the maximum by {percent(told.max_error)}"
                + ("; a single leap of the curve may decide the maximum" if "hilbert" in told.styles.values() else ""),
            )
        )
    for found in report.links:
        if found.approximated:
            notes.append(
                (
                    found.link.title,
                    f"no connectivity is known, so that nearest vertices stand for {', '.join(found.approximated)}",
                )
            )
        if found.open_choices:
            notes.append(
                (
                    found.link.title,
                    f"for {found.open_choices} vertices several of the provider are equally near: preCICE may "
                    "pick others",
                )
            )
    for name, parts in report.measured.items():
        took = ", ".join(f"{event} {seconds:.3g} s" for event, seconds in parts.items() if event != "ranks")
        slowest = f"the slowest of {plural(parts['ranks'], 'rank', '.0f')}, with waits for the partner"
        notes.append((f"measured start-up of {name}", f"{took or 'nothing recorded'} ({slowest})"))
    constants = ", ".join(f"{name} {value:g}" for name, value in report.model.to_dict().items())
    notes.append(("cost model", f"{constants} (seconds, bytes)"))
    return notes


def partners_blocks(report: PartnersReport) -> list[Block]:
    """Say all of partner ranks: what is missing, tables, notes and advice."""
    return [
        *(Paragraph(f"{text[0].upper()}{text[1:]}.", "missing") for text in report.missing),
        *partners_tables(report),
        DefinitionList(tuple(partners_notes(report))),
        *(Paragraph(text, "warning", "advice") for text in report.advice),
    ]
