"""What a border of a chain does to a coupled run, as blocks and as JSON-ready values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from precice_lb.plural import counts_text, plural
from precice_lb.report.blocks import Block, Paragraph, Table

if TYPE_CHECKING:
    from precice_lb.chain.borders import Border
    from precice_lb.chain.check import Finding, Start
    from precice_lb.precice_xml import Configuration

__all__ = ["chain_check_blocks", "chain_check_dict"]


def chain_check_blocks(
    configuration: Configuration,
    starts: Sequence[Start],
    found: Sequence[Finding],
    known: Sequence[Finding],
    borders: Sequence[Border] | None,
) -> list[Block]:
    """Tabulate how exchanges begin a segment and what starts cost; then notes and what was found."""
    header = ("data", "coupling", "from", "to", "reads at the start of a segment")
    rows = tuple(
        (each.exchange.data, _coupling(each), each.exchange.source, each.exchange.target, each.text) for each in starts
    )
    title = f"{configuration.path}: what is there when a segment starts"
    nothing = "nothing here makes a chain other than one run, where the solvers' own restart is exact"
    return [
        Table(title, header, rows, tuple(range(len(header)))),
        *(_cost(borders) if borders is not None else []),
        *(Paragraph(str(each), "warning", "note") for each in known),
        *(Paragraph(str(each), "warning", "found") for each in found),
        *([] if found else [Paragraph(nothing)]),
    ]


def _coupling(start: Start) -> str:
    return f"{start.scheme.kind}, line {start.scheme.line}"


def _cost(borders: Sequence[Border]) -> list[Block]:
    """Say what recorded starts cost."""
    if not borders:
        text = "no run there has an implicit coupling and enough time windows to compare the first ones with later ones"
        return [Paragraph(text, "missing")]
    count = len(borders[0].first)
    numbers = tuple(f"window {number}" for number in range(1, count + 1))
    header = ("run", "split", *numbers, "mean of later", "extra")
    rows = tuple(
        (
            each.run,
            counts_text(each.split),
            *(f"{value:g}" for value in each.first),
            f"{each.later:.2f}",
            f"{each.extra:+.1f}",
        )
        for each in borders
    )
    mean = sum(each.extra for each in borders) / len(borders)
    windows = mean / (sum(each.later for each in borders) / len(borders))
    text = f"a start costs {mean:+.1f} coupling iterations, those of {windows:.1f} later windows"
    return [
        Table("coupling iterations of the first windows and of later ones", header, rows, (0, 1)),
        Paragraph(f"{text}: the mean of {plural(len(borders), 'run')}"),
    ]


def chain_check_dict(
    configuration: Configuration,
    starts: Sequence[Start],
    found: Sequence[Finding],
    known: Sequence[Finding],
    borders: Sequence[Border] | None,
) -> dict[str, Any]:
    """Return the same as JSON-ready values; ``borders`` is null where no runs were given."""
    return {
        "configuration": str(configuration.path),
        "exchanges": [
            {
                "data": each.exchange.data,
                "mesh": each.exchange.mesh,
                "coupling": each.scheme.kind,
                "line": each.exchange.line,
                "from": each.exchange.source,
                "to": each.exchange.target,
                "start": each.kind,
                "text": each.text,
            }
            for each in starts
        ],
        "found": [asdict(each) for each in found],
        "notes": [asdict(each) for each in known],
        "borders": None if borders is None else [{**asdict(each), "extra": each.extra} for each in borders],
    }
