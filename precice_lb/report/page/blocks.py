"""What a report consists of: sections of sentences, tables, charts and listings, before anyone renders them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from precice_lb.report.view import Grid

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Block", "Chart", "Listing", "Page", "Pairs", "Section", "Sentence", "Table"]


@dataclass(frozen=True)
class Sentence:
    """Plain text of one paragraph.

    Attributes
    ----------
    text
        What it says.
    role
        ``plain``; ``lead`` for what the report is about; ``warning`` for what speaks against it; ``missing`` for a
        section whose data are not there, with what to set.
    """

    text: str
    role: str = "plain"
    kind: ClassVar[str] = "sentence"


@dataclass(frozen=True)
class Table:
    """A table, and what it says in a sentence where the title does not say it."""

    grid: Grid
    note: str = ""
    kind: ClassVar[str] = "table"


@dataclass(frozen=True)
class Pairs:
    """Keys and texts; ``tiles`` are set large, as the few numbers that matter most."""

    pairs: tuple[tuple[str, str], ...]
    tiles: bool = False
    kind: ClassVar[str] = "pairs"


@dataclass(frozen=True)
class Listing:
    """Text to be used as it stands, line by line, such as a script."""

    caption: str
    text: str
    kind: ClassVar[str] = "listing"


@dataclass(frozen=True, eq=False)
class Chart:
    """A figure with the numbers that it shows.

    Attributes
    ----------
    name
        Stem of its files, of letters, digits and ``-``.
    caption
        What is to be seen, in a sentence or two; also for those who do not see it.
    figure
        What matplotlib drew; the axes say their units, and a legend or colour bar what is what.
    header, rows
        The numbers, in seconds and counts, one row per point.
    """

    name: str
    caption: str
    figure: Figure
    header: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    kind: ClassVar[str] = "chart"

    @cached_property
    def svg(self) -> bytes:
        """The figure as SVG: rendered once, for the page and as a file."""
        from precice_lb.report.figure import figure_bytes

        return figure_bytes(self.figure, "svg")


Block: TypeAlias = Sentence | Table | Pairs | Listing | Chart


@dataclass(frozen=True)
class Section:
    """A part of the report.

    Attributes
    ----------
    name
        Its anchor.
    title
        Its heading.
    blocks
        In order.
    """

    name: str
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Page:
    """A whole report.

    Attributes
    ----------
    title
        What is recommended, in a few words.
    subtitle
        For what.
    sections
        In order.
    values
        What programs want to know beside them, as JSON-ready values.
    """

    title: str
    subtitle: str
    sections: tuple[Section, ...]
    values: dict[str, Any] = field(default_factory=dict)

    @property
    def charts(self) -> tuple[Chart, ...]:
        """All charts, in order."""
        return tuple(block for section in self.sections for block in section.blocks if isinstance(block, Chart))
