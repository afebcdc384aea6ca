"""What everything that is said consists of, before anyone renders it: blocks, texts, and numbers with their unit.

Terminal and HTML are renderers of these. Texts are plain: a renderer escapes them.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TypeAlias
from urllib.parse import quote

import numpy as np
from rich.cells import cell_len, set_cell_size

from precice_lb.layout import Layouts, count_text
from precice_lb.rooms import hooks
from precice_lb.text import visible

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def file_stem(text: str) -> str:
    """Write a name as the stem of a file's name: percent-encoded, and of a very long one a hash for its end."""
    stem = quote(text, safe=" ", errors="surrogatepass")
    return stem if len(stem) <= 160 else f"{stem[:160]}~{hashlib.sha256(stem.encode()).hexdigest()[:16]}"


def short_names(names: Iterable[str], width: int) -> dict[str, str]:
    """Printable names that take at most ``width`` places of a fixed-width font and stay different from each other."""
    short: dict[str, str] = {}
    for name in names:
        text = visible(name)
        if cell_len(text) > width:
            end = set_cell_size(text[::-1], width // 2)[::-1]
            text = f"{set_cell_size(text, (width - 1) // 2)}…{end}"
        candidate, number = text, 2
        while candidate in short.values():
            candidate, number = f"{set_cell_size(text, width - len(str(number)) - 1).rstrip()}#{number}", number + 1
        short[name] = candidate
    return short


def or_dash(value: float, form: str, unit: str = "") -> str:
    """Write a number as the format says; an unknown one (NaN) is a dash."""
    return "–" if math.isnan(value) else f"{value:{form}}{unit}"


@dataclass(frozen=True)
class SecondsUnit:
    """One unit for all times of a table or an axis: its symbol, how many make a second, and the decimals."""

    symbol: str
    per_second: float
    decimals: int

    def number(self, seconds: float) -> str:
        """Write seconds in this unit, without its symbol; an unmeasured time (NaN) is a dash."""
        return or_dash(seconds * self.per_second, f".{self.decimals}f")

    def text(self, seconds: float) -> str:
        """Write seconds in this unit with its symbol."""
        return f"{self.number(seconds)} {self.symbol}"


def seconds_unit(values: Iterable[float], digits: int = 4) -> SecondsUnit:
    """Choose the unit and the decimals that the largest of some times needs."""
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    symbol, per_second = ("ms", 1e3) if largest >= 1e-3 else ("µs", 1e6)
    # Tenths of a second still read best as seconds.
    if largest >= 0.1 or largest == 0.0:
        symbol, per_second = "s", 1.0
    before_point = math.floor(math.log10(largest * per_second)) + 1 if largest > 0.0 else 1
    return SecondsUnit(symbol, per_second, min(max(digits - before_point, 0), 6))


def seconds_text(seconds: float, digits: int) -> str:
    """Write one time of which few digits are known, in seconds."""
    return f"{np.format_float_positional(seconds, precision=digits, fractional=False, unique=False, trim='-')} s"


def percent(share: float, digits: int = 1) -> str:
    """Write a share of one as per cent; an unknown share (NaN) is a dash."""
    return or_dash(100.0 * share, f".{digits}f", " %")


def listed(parts: Iterable[str]) -> str:
    """Join words as a sentence does: ``a, b and c``."""
    words = list(parts)
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}" if words else ""


def ranks_text(
    split: Mapping[str, int],
    names: Mapping[str, str] | None = None,
    layouts: Mapping[str, Layouts] | None = None,
) -> str:
    """Write a split as a sentence does: ``Inner 9 ranks and Outer 1 x 4 threads``."""
    short = names or {}
    return listed(f"{visible(short.get(who, who))} {count_text(who, count, layouts)}" for who, count in split.items())


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
    """Keys and texts."""

    pairs: tuple[tuple[str, str], ...]
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
        from precice_lb.report.charts import figure_svg

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

    ``blocks`` are for a page and a summary, ``progress`` for who watches.
    """

    name: str
    title: str
    line: str
    study: str
    is_over: bool
    values: object
    blocks: Callable[[], Sequence[Block]]
    progress: Callable[[], Sequence[Block]]


def read_story(directory: Path) -> Story | None:
    """Read what a directory says above its runs, where a room has written that there."""
    return next((story for read in hooks("read_story") if (story := read(directory)) is not None), None)
