"""What a solver says besides its calls: cells of its rank, sections of its own; running sums, and notes to it."""

from __future__ import annotations

import contextlib
import math
import os
import sys
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from precice_lb.names import say
from precice_lb.store.schema import stored_name

_MOST_NAMES = 1000


class Counts:
    """Numbers of features; ``names`` are what column ``name`` of the rows counts, from 0."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._latest: dict[int, float] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """All features so far."""
        return tuple(self._numbers)

    def take(self, feature: Any, number: Any, call: int, rows: list[tuple[int, int, float]]) -> None:
        """Add to ``rows`` how much of a feature the rank holds from the ``call``-th ``advance`` in them on."""
        name = feature.decode("utf-8", "replace") if isinstance(feature, bytes) else feature
        if not isinstance(name, str) or not name.strip("\0"):
            _ignore_count("the name of a feature", feature)
            return
        name = stored_name(name)
        try:
            count = float(number)
        # Code of any package may run here, and raise what it likes.
        except Exception:
            _ignore_count("how much of a feature this rank holds", number, name)
            return
        if not (math.isfinite(count) and count >= 0):
            _ignore_count("how much of a feature this rank holds, at least 0", count, name)
            return
        if name not in self._numbers and len(self._numbers) == _MOST_NAMES:
            _ignore_count(f"at most {_MOST_NAMES} features", name)
            return
        at = self._numbers.setdefault(name, len(self._numbers))
        if self._latest.get(at) != count:
            rows.append((call, at, count))
            self._latest[at] = count


def _ignore_count(expected: str, found: Any, feature: str = "") -> None:
    """Warn of a call of ``count``, once of each kind."""
    text = repr(found)[:80] if type(found) in (str, bytes, int, float, type(None)) else f"a {type(found).__name__}"
    of = f" of {feature[:80]!r}" if feature else ""
    warn_once(f"a call of count() is ignored: expected {expected}, found {text}{of}", kind=expected)


class Sections:
    """Sections that have ended; ``names`` are what column ``name`` of the rows counts, from 0."""

    def __init__(self) -> None:
        self._texts: dict[str, int] = {}
        self._numbers: dict[str | bytes, int] = {}
        self._open: list[tuple[str | bytes, int]] = []

    @property
    def names(self) -> tuple[str, ...]:
        """All names so far."""
        return tuple(self._texts)

    def start(self, name: str | bytes, begin: int) -> None:
        """Take the beginning of a section, in ns of the clock."""
        self._open.append((name, begin))

    def stop(self, end: int, call: int, rows: list[tuple[int, int, int, int]]) -> None:
        """Add to ``rows`` the section that began last, ended before the ``call``-th ``advance`` in them."""
        if self._open:
            name, begin = self._open.pop()
            number = self._numbers.get(name)
            if number is None:
                number = self._number(name)
            if number >= 0:
                rows.append((number, call, begin, end - begin))

    def _number(self, name: str | bytes) -> int:
        """Give a new name its number; -1 where there are too many, which would be kept in memory for ever."""
        text = stored_name(name.decode("utf-8", "replace") if isinstance(name, bytes) else name)
        if text not in self._texts and len(self._texts) == _MOST_NAMES:
            warn_once(f"profiling sections are recorded for the first {_MOST_NAMES} names only")
            return -1
        self._numbers[name] = self._texts.setdefault(text, len(self._texts))
        return self._numbers[name]


NO_SUMS = np.zeros(4, np.int64)
"""`sums` of no rows."""


def sums(rows: NDArray[np.void]) -> NDArray[np.int64]:
    """Sum up rows of `ADVANCE_DTYPE`: complete time windows, calls of ``advance``, and ns of solve and ``advance``."""
    windows = np.count_nonzero(rows["window_complete"])
    return np.array([windows, len(rows), rows["solve_ns"].sum(), rows["advance_ns"].sum()])


def summary(summed: NDArray[np.int64]) -> dict[str, float]:
    """Return what ``timing_summary`` of the participant returns."""
    windows, advances, *times = summed.tolist()
    result: dict[str, float] = {"windows": windows, "advances": advances}
    for name, time in zip(("solve", "advance"), times, strict=True):
        result[f"{name}_seconds"] = time * 1e-9 if advances else math.nan
        result[f"{name}_share"] = time / sum(times) if sum(times) > 0 else math.nan
    return result


_said: set[str] = set()


def warn_once(message: str, kind: str = "") -> None:
    """Print a warning, the first of its kind (or of these words) in this process.

    A solver that turns Python's own warnings into errors would die of those.
    """
    if (kind or message) not in _said:
        _said.add(kind or message)
        note(f"warning: {message}", sys.stderr)


def note(message: str, stream: TextIO | None) -> None:
    """Print a line under the name of the tool; nothing happens if the stream is closed or full."""
    if stream is not None:
        with contextlib.suppress(Exception):
            say(f"precice-lb: {message}", stream)


def setting(name: str, *choices: str) -> str:
    """Read an environment variable; the first choice where it is not set, or set to something else."""
    found = os.environ.get(name) or choices[0]
    if found in choices:
        return found
    warn_once(f"{name} is ignored: expected {' or '.join(sorted(filter(None, choices)))}, found {found!r}")
    return choices[0]
