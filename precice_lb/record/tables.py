"""What a solver says besides its calls: cells that its rank holds, sections of its own; running sums, and notes to it."""

from __future__ import annotations

import contextlib
import math
import os
import sys
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from precice_lb.names import say
from precice_lb.store.schema import COUNT_DTYPE, NAME_BYTES, SECTION_DTYPE
from precice_lb.store.spool import raised_elsewhere

_MOST_NAMES = 1000
_NO_ROWS: NDArray[np.void] = np.empty(0, dtype=COUNT_DTYPE)


class Counts:
    """Numbers of features since the last flush; ``names`` are what column ``name`` of the rows counts, from 0."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._latest: dict[str, tuple[int, float]] = {}
        self._new: list[tuple[int, int, float]] = []

    def take(self, feature: Any, number: Any, call: int) -> None:
        """Take how much of a feature the rank holds from the ``call``-th ``advance`` since the last flush on."""
        try:
            name = feature.decode("utf-8", "replace") if isinstance(feature, bytes) else feature
            if not isinstance(name, str) or not name.strip("\0"):
                raise TypeError(f"expected the name of a feature, found {feature!r}")
            name = name.encode("utf-8", "replace")[:NAME_BYTES].decode("utf-8", "ignore").rstrip("\0")
            count = float(number)
            if not (math.isfinite(count) and count >= 0):
                raise ValueError(f"expected how much of {name!r} this rank holds, found {number!r}")
            at, latest = self._latest.get(name, (len(self.names), None))
            if latest == count:
                return
            if at == _MOST_NAMES:
                raise ValueError(f"expected at most {_MOST_NAMES} features, found {name!r} as a further one")
        except Exception as error:
            # A signal handler's exception is the solver's, and none of ours.
            if raised_elsewhere(error):
                raise
            warn_once(f"a call of count() is ignored: {error}")
            return
        if at == len(self.names):
            self.names.append(name)
        self._latest[name] = at, count
        self._new.append((call, at, count))

    def rows(self, windows: NDArray[np.int64]) -> NDArray[np.void]:
        """Return rows of `COUNT_DTYPE` since the last call, given the time window of each call of ``advance``."""
        if not self._new:
            return _NO_ROWS
        rows = np.array(self._new, dtype=COUNT_DTYPE)
        rows["window"] = windows[rows["window"]]
        self._new.clear()
        return rows


_BUFFER_ROWS = 1024
_MOST_NAMES = 1000


class Sections:
    """Sections that have ended since the last flush; ``names`` are what column ``name`` of the rows counts, from 0."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._numbers: dict[str | bytes, int] = {}
        self._open: list[tuple[str | bytes, int]] = []
        self._ended: list[tuple[int, int, int, int]] = []

    def start(self, name: str | bytes, begin: int) -> None:
        """Take the beginning of a section, in ns of the clock."""
        self._open.append((name, begin))

    def stop(self, end: int, call: int) -> bool:
        """Take the end of the section that began last, before the ``call``-th ``advance`` since the last flush.

        Returns whether so many have ended that they have to be taken now.
        """
        if self._open:
            name, begin = self._open.pop()
            number = self._numbers.get(name)
            if number is None:
                number = self._number(name)
            if number >= 0:
                self._ended.append((number, call, begin, end - begin))
        return len(self._ended) >= _BUFFER_ROWS

    def take(self, windows: NDArray[np.int64]) -> NDArray[np.void]:
        """Return rows of `SECTION_DTYPE` since the last call, given the time window of each call of ``advance``."""
        rows = np.array(self._ended, dtype=SECTION_DTYPE)
        rows["window"] = windows[rows["window"]]
        self._ended.clear()
        return rows

    def _number(self, name: str | bytes) -> int:
        """Give a new name its number; -1 where there are too many, which would be kept in memory for ever."""
        text = name.decode("utf-8", "replace") if isinstance(name, bytes) else name
        text = text.encode("utf-8", "replace").decode()
        if text not in self._numbers:
            if len(self.names) == _MOST_NAMES:
                warn_once(f"profiling sections are recorded for the first {_MOST_NAMES} names only")
                return -1
            self._numbers[text] = len(self.names)
            self.names.append(text)
        self._numbers[name] = self._numbers[text]
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


def warn_once(message: str) -> None:
    """Print a warning, once per process; a solver that turns Python's own warnings into errors would die of those."""
    if message not in _said:
        _said.add(message)
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
