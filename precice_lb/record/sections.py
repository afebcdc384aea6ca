"""The solver's own profiling sections, timed beside what the backend makes of them."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from precice_lb.record.notes import warn_once
from precice_lb.store.schema import SECTION_DTYPE

__all__ = ["Sections"]

_BUFFER_ROWS = 1024
_MOST_NAMES = 1000
_STRUCT = struct.Struct("<iqqq")


class Sections:
    """Rows of `precice_lb.store.schema.SECTION_DTYPE` in preallocated memory.

    Attributes
    ----------
    names : list of str
        What column ``name`` of the rows counts, from 0.
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self._numbers: dict[str | bytes, int] = {}
        self._open: list[tuple[str | bytes, int]] = []
        self._memory = bytearray(_BUFFER_ROWS * SECTION_DTYPE.itemsize)
        self._table = np.frombuffer(self._memory, dtype=SECTION_DTYPE)
        self._rows = 0

    def start(self, name: str | bytes, begin: int) -> None:
        """Take the beginning of a section.

        Parameters
        ----------
        name : str or bytes
            As the solver gives it.
        begin : int
            The clock, in ns.
        """
        self._open.append((name, begin))

    def stop(self, end: int, call: int) -> bool:
        """Take the end of the section that began last.

        Parameters
        ----------
        end : int
            The clock, in ns.
        call : int
            Which call of ``advance`` comes next, counted from 0 after each flush of those calls.

        Returns
        -------
        bool
            Whether the memory is full and the rows have to be taken now.
        """
        if self._open:
            name, begin = self._open.pop()
            number = self._numbers.get(name)
            if number is None:
                number = self._number(name)
            if number >= 0:
                _STRUCT.pack_into(self._memory, self._rows * _STRUCT.size, number, call, begin, end - begin)
                self._rows += 1
        return self._rows == _BUFFER_ROWS

    def take(self, windows: NDArray[np.int64]) -> tuple[NDArray[np.void], Sequence[str]]:
        """Return the rows since the last call, valid until the next `stop`, and all names.

        Parameters
        ----------
        windows : ndarray of int, shape (calls + 1,)
            Time window of each call of ``advance`` and of the one to come.

        Returns
        -------
        rows : ndarray of SECTION_DTYPE, shape (n,)
        names : sequence of str
        """
        rows = self._table[: self._rows]
        rows["window"] = windows[rows["window"]]
        self._rows = 0
        return rows, self.names

    def _number(self, name: str | bytes) -> int:
        """Give a new name its number; -1 where there are too many, which would be kept in memory for ever."""
        if len(self.names) == _MOST_NAMES:
            warn_once(f"profiling sections are recorded for the first {_MOST_NAMES} names only")
            return -1
        text = name.decode("utf-8", "replace") if isinstance(name, bytes) else name
        text = text.encode("utf-8", "replace").decode()
        if text in self.names:
            number = self.names.index(text)
        else:
            number = len(self.names)
            self.names.append(text)
        self._numbers[name] = number
        return number
