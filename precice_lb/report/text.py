"""Texts and numbers for people: nothing from a user's file becomes markup, numbers carry their unit."""

from __future__ import annotations

import contextlib
import hashlib
import math
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from urllib.parse import quote

import numpy as np

from precice_lb.layout import Layouts, count_text
from precice_lb.text import visible


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
