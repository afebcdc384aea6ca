"""What everything that is said consists of: paragraphs, tables, lists, charts and code, before anyone renders them.

Terminal and HTML are renderers of these. Texts are plain: a renderer escapes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from precice_lb.rooms import hooks

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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

    @classmethod
    def of(cls, title: str, rows: Sequence[Mapping[str, str]], text: tuple[int, ...] = (0,)) -> Table:
        """Make one of rows by the heads of their columns."""
        return cls(title, tuple(rows[0] if rows else ()), tuple(tuple(row.values()) for row in rows), text)

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


@dataclass(frozen=True, eq=False)
class Chart:
    """A figure.

    ``name`` is the stem of its file, of letters, digits and ``-``; ``caption`` says what is to be seen, also to those
    who do not see it.
    """

    name: str
    caption: str
    figure: Figure
    kind: ClassVar[str] = "chart"

    @cached_property
    def svg(self) -> bytes:
        """The figure as SVG: rendered once, for the page and as a file."""
        from precice_lb.report.style import figure_svg

        return figure_svg(self.figure)


class Missing(Exception):
    """What a section of a report is made of is not there; the message says what to set."""


Block: TypeAlias = Paragraph | Table | DefinitionList | CodeBlock | Chart


@dataclass(frozen=True)
class Section:
    """A part of a page, with its anchor and heading; ``folded`` until a reader opens it."""

    name: str
    title: str
    blocks: tuple[Block, ...]
    folded: bool = False


@dataclass(frozen=True)
class Page:
    """A whole report."""

    title: str
    subtitle: str
    sections: tuple[Section, ...]

    @property
    def charts(self) -> tuple[Chart, ...]:
        """All charts, in order."""
        return tuple(block for section in self.sections for block in section.blocks if isinstance(block, Chart))


@dataclass(frozen=True)
class Story:
    """What a directory says above its runs, as that of a chain of jobs does: in one line, and all of it.

    ``section`` is for a page, ``blocks`` for a summary, and ``progress`` for who watches.
    """

    name: str
    title: str
    line: str
    study: str
    is_over: bool
    values: object
    section: Callable[[], Iterable[Block]]
    blocks: Callable[[], Sequence[Block]]
    progress: Callable[[], Sequence[Block]]


def read_story(directory: Path) -> Story | None:
    """Read what a directory says above its runs, where a room has written that there."""
    return next((story for read in hooks("read_story") if (story := read(directory)) is not None), None)
