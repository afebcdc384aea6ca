"""What everything that is said consists of, before anyone renders it: blocks, texts, and numbers with their unit.

Terminal and HTML are renderers of these. Texts are plain: a renderer escapes them.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TypeAlias
from urllib.parse import quote

import numpy as np

from precice_lb.layout import Layouts, count_text
from precice_lb.rooms import hooks
from precice_lb.text import visible

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def file_stem(text: str) -> str:
    """Write a name as the stem of a file's name: percent-encoded, and of a very long one a hash for its end."""
    stem = quote(text, safe=" ", errors="surrogatepass")
    return stem if len(stem) <= 160 else f"{stem[:160]}~{hashlib.sha256(stem.encode()).hexdigest()[:16]}"


def cells(text: str) -> int:
    """Count the places of a fixed-width font that a text takes at most: two for a Chinese character."""
    return sum(1 + (unicodedata.east_asian_width(char) in "WF") for char in text)


def _beginning(text: str, width: int) -> str:
    """Cut a text to a width."""
    end, taken = 0, 0
    while end < len(text) and (taken := taken + cells(text[end])) <= width:
        end += 1
    return text[:end]


def short_names(names: Iterable[str], width: int) -> dict[str, str]:
    """Printable names of at most ``width`` characters that stay different from each other."""
    short: dict[str, str] = {}
    for name in names:
        text = visible(name)
        if cells(text) > width:
            text = f"{_beginning(text, (width - 1) // 2)}…{_beginning(text[::-1], width // 2)[::-1]}"
        candidate, number = text, 2
        while candidate in short.values():
            suffix = f"#{number}"
            candidate, number = f"{_beginning(text, width - len(suffix))}{suffix}", number + 1
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


# By the names that preCICE's own tools have for them: how they are written, and how many make a second.
_UNITS = {"h": ("h", 1 / 3600), "m": ("min", 1 / 60), "s": ("s", 1.0), "ms": ("ms", 1e3), "us": ("µs", 1e6)}
_asked: ContextVar[str | None] = ContextVar("unit", default=None)


@contextlib.contextmanager
def times_in(unit: str | None) -> Iterator[None]:
    """Write all times in this unit (h, m, s, ms or us); with None, each table in what suits its own."""
    token = _asked.set(unit)
    try:
        yield
    finally:
        _asked.reset(token)


def seconds_unit(values: Iterable[float], digits: int = 4) -> SecondsUnit:
    """Choose the unit, if none was asked for, and the decimals that the largest of some times needs."""
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    # Tenths of a second still read best as seconds.
    least = {"s": 0.1, "ms": 1e-3, "us": 0.0}
    suits = next(unit for unit in least if largest >= least[unit] or largest == 0.0)
    symbol, per_second = _UNITS[_asked.get() or suits]
    before_point = math.floor(math.log10(largest * per_second)) + 1 if largest > 0.0 else 1
    most = 6 if _asked.get() is None else 15
    return SecondsUnit(symbol, per_second, min(max(digits - before_point, 0), most))


def seconds_text(seconds: float, digits: int) -> str:
    """Write one time of which few digits are known, in seconds if no unit was asked for."""
    symbol, per_second = _UNITS[_asked.get() or "s"]
    number = np.format_float_positional(
        seconds * per_second, precision=digits, fractional=False, unique=False, trim="-"
    )
    return f"{number} {symbol}"


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
