"""The solver's own profiling sections, timed beside what the backend makes of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from precice_lb.record.notes import warn_once
from precice_lb.store.schema import SECTION_DTYPE

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
