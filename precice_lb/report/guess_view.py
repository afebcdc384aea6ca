"""What a first guess would be made for, and what stands in its way, as blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from precice_lb.guess.config import carriers, is_patched, notes, obstacles
from precice_lb.report.blocks import Block, Paragraph, Table

if TYPE_CHECKING:
    from precice_lb.guess.config import Route
    from precice_lb.precice_xml import Configuration


def guess_blocks(configuration: Configuration) -> list[Block]:
    """Tabulate what would be predicted, or is where the configuration is patched; then obstacles and notes."""
    header = ("data", "coupling", "from", "written on", "to", "read on", "first guess")
    rows = tuple(_row(way) for way in carriers(configuration))
    patched = is_patched(configuration)
    title = f"{configuration.path}: data that {'have' if patched else 'would get'} fields of predictions"
    found, known = obstacles(configuration), notes(configuration)
    return [
        *([Table(title, header, rows, tuple(range(len(header))))] if rows else []),
        *(Paragraph(line, "warning", "note") for line in known),
        *(Paragraph(line, "warning", "in the way") for line in found),
        *([] if found else [Paragraph(f"nothing stands in the way{'; it is patched' if patched else ''}")]),
    ]


def _row(way: Route) -> tuple[str, ...]:
    what = "predicted" if way.shifted else "none: says that it takes part"
    exchange = way.exchange
    coupling = f"{way.scheme.kind}, line {way.scheme.line}"
    return exchange.data, coupling, exchange.source, way.write_mesh, exchange.target, way.read_mesh, what
