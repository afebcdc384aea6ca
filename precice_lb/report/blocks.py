"""What everything that is said consists of: paragraphs, tables, lists, charts and code, before anyone renders them.

Terminal, Markdown, HTML, JSON and CSV are renderers of these. Texts are plain: a renderer escapes them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "Block",
    "Chart",
    "CodeBlock",
    "DefinitionList",
    "Page",
    "Paragraph",
    "Picture",
    "Section",
    "Table",
]


@dataclass(frozen=True)
class Paragraph:
    """Plain text of one paragraph.

    ``role`` is ``plain``; ``lead`` for what all is about; ``warning`` for what speaks against it; ``missing`` for what
    is not there, with what to set. ``head`` stands before a warning in place of that word.
    """

    text: str
    role: str = "plain"
    head: str = ""
    kind: ClassVar[str] = "sentence"

    @property
    def heading(self) -> str:
        """The word that stands before it, or nothing."""
        return self.head or ("warning" if self.role == "warning" else "")


@dataclass(frozen=True)
class Table:
    """A table under its title. All columns but those of ``text``, by their places, are numbers and set flush right."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    text: tuple[int, ...] = (0,)
    kind: ClassVar[str] = "table"

    @property
    def numeric(self) -> tuple[bool, ...]:
        """Whether a column is set flush right."""
        return tuple(place not in self.text for place in range(len(self.header)))


@dataclass(frozen=True)
class DefinitionList:
    """Keys and texts; ``tiles`` are set large, as the few numbers that matter most."""

    pairs: tuple[tuple[str, str], ...]
    tiles: bool = False
    kind: ClassVar[str] = "pairs"


@dataclass(frozen=True)
class CodeBlock:
    """Text to be used as it stands, line by line, such as a script."""

    caption: str
    text: str
    kind: ClassVar[str] = "listing"


@dataclass(frozen=True)
class Picture:
    """A figure that is a file beside the text."""

    file: str
    caption: str
    kind: ClassVar[str] = "picture"


@dataclass(frozen=True, eq=False)
class Chart:
    """A figure with the numbers that it shows.

    ``name`` is the stem of its files, of letters, digits and ``-``; ``caption`` says what is to be seen, also to those
    who do not see it; ``rows`` are the numbers, in seconds and counts, one row per point.
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
        from precice_lb.report.style import figure_bytes

        return figure_bytes(self.figure, "svg")


Block: TypeAlias = Paragraph | Table | DefinitionList | CodeBlock | Picture | Chart


@dataclass(frozen=True)
class Section:
    """A part of a page, with its anchor and heading."""

    name: str
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Page:
    """A whole report; ``values`` are what programs want to know beside its sections, as JSON-ready values."""

    title: str
    subtitle: str
    sections: tuple[Section, ...]
    values: dict[str, Any] = field(default_factory=dict)

    @property
    def charts(self) -> tuple[Chart, ...]:
        """All charts, in order."""
        return tuple(block for section in self.sections for block in section.blocks if isinstance(block, Chart))
