"""The recorder of one rank: rows in preallocated memory, to disk in blocks, never an exception."""

from __future__ import annotations

import contextlib
import os
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from precice_lb.record.notes import warn_once
from precice_lb.record.sections import Sections
from precice_lb.record.signals import SignalsHeld
from precice_lb.record.totals import Totals
from precice_lb.store.schema import ADVANCE_DTYPE, ADVANCE_STRUCT, INITIALIZE_DTYPE

if TYPE_CHECKING:
    from precice_lb.store.writer import StoreWriter

__all__ = ["Recorder"]

_BUFFER_ROWS = 4096
_FLUSH_EVERY = 64


class Recorder:
    """Takes the times of one participant on one rank.

    All ranks flush after the same time windows, 1, 2, 4, …, 64 and every 64th from there on: unaligned flushes of many
    ranks would delay every window. A failure is one warning; after it there are only running sums.

    Parameters
    ----------
    writer : StoreWriter or None
        The store file; without one there are only running sums.
    after_close : callable, optional
        Called with the path of the store file once it is complete.
    """

    def __init__(self, writer: StoreWriter | None, after_close: Callable[[Path], None] | None = None) -> None:
        self._writer = writer
        self._after_close = after_close
        self._pid = os.getpid()
        self._memory = bytearray(_BUFFER_ROWS * ADVANCE_DTYPE.itemsize)
        self._table = np.frombuffer(self._memory, dtype=ADVANCE_DTYPE)
        self._rows = 0
        self._totals = Totals()
        self._sections = Sections()
        self._window = 1
        self._iteration = 1
        self._repeated = False
        self._next_flush = 1
        self._previous_end = time.perf_counter_ns()
        self._finished = False

    def initialized(self, begin: int, end: int, mapping: int, wait: int) -> None:
        """Take the times of ``initialize``, in ns of the clock; -1 for a duration that is not known."""
        row = np.array([(begin, end - begin, mapping, wait)], dtype=INITIALIZE_DTYPE)
        with SignalsHeld():
            if self._writer is not None:
                try:
                    self._writer.write_initialize(row)
                except Exception as error:
                    self.fail(error)
        self._previous_end = time.perf_counter_ns()

    def advanced(self, begin: int, end: int, dt: float, complete: bool, ended: bool, mapping: int, wait: int) -> None:
        """Take the times of one ``advance``.

        Parameters
        ----------
        begin, end : int
            The clock before and after it, in ns.
        dt : float
            The computed time step, in simulated seconds.
        complete : bool
            Whether the time window is complete.
        ended : bool
            Whether the coupling is over.
        mapping, wait : int
            Durations within, in ns; -1 if not known.
        """
        rows = self._rows
        try:
            ADVANCE_STRUCT.pack_into(
                self._memory,
                rows * ADVANCE_STRUCT.size,
                self._window,
                self._iteration,
                begin,
                begin - self._previous_end,
                end - begin,
                mapping,
                wait,
                dt,
                complete,
            )
        except (struct.error, TypeError) as error:
            self.fail(error)
            return
        self._rows = rows = rows + 1
        self._previous_end = end
        self._repeated = False
        if complete:
            self._finished = ended
            if self._window == self._next_flush:
                self._next_flush += min(self._window, _FLUSH_EVERY)
                rows = _BUFFER_ROWS
            self._window += 1
            self._iteration = 1
        if rows == _BUFFER_ROWS:
            self._flush()
            # Our own time on disk is no solver time.
            self._previous_end = time.perf_counter_ns()

    def repeated(self) -> None:
        """Count a coupling iteration: the solver goes back to its checkpoint."""
        if not self._repeated:
            self._repeated = True
            self._iteration += 1

    def section_started(self, name: str | bytes) -> None:
        """Take the beginning of a profiling section of the solver."""
        self._sections.start(name, time.perf_counter_ns())

    def section_stopped(self, end: int) -> None:
        """Take the end of the profiling section that began last; ``end`` is the clock, in ns."""
        if self._sections.stop(end, self._window):
            begin = time.perf_counter_ns()
            self._flush()
            self._previous_end += time.perf_counter_ns() - begin

    def timing_summary(self) -> dict[str, float]:
        """Return the running sums.

        Returns
        -------
        dict
            As `precice_lb.record.totals.Totals.summary`.
        """
        return self._totals.summary(self._table[: self._rows])

    def finalized(self) -> None:
        """Close the store: the solver has finalised the participant."""
        self._finished = True
        self.close()

    def close(self) -> None:
        """Complete and close the store, once; in a forked child do nothing."""
        if self._writer is None or os.getpid() != self._pid:
            return
        self._flush()
        with SignalsHeld():
            self._complete()

    def fail(self, error: Exception) -> None:
        """Stop recording with one warning.

        Parameters
        ----------
        error : Exception
            What went wrong.
        """
        writer, self._writer = self._writer, None
        if writer is not None:
            warn_once(f"recording stops before window {self._window} of {writer.path}: {error}")
            with contextlib.suppress(Exception):
                writer.close(finished=False, ended_unix_ns=_unix_ns(writer))

    def _complete(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            try:
                writer.close(finished=self._finished, ended_unix_ns=_unix_ns(writer))
                if not writer.path.exists():
                    raise FileNotFoundError("it was removed during the run")
                if self._after_close is not None:
                    self._after_close(writer.path)
            except Exception as error:
                warn_once(f"the recording {writer.path} is not complete: {error}")

    def _flush(self) -> None:
        with SignalsHeld():
            rows = self._table[: self._rows]
            sections, names = self._sections.take()
            self._rows = 0
            self._totals.add(rows)
            if self._writer is not None and (len(rows) or len(sections)):
                try:
                    self._writer.append(rows, sections, names)
                except Exception as error:
                    self.fail(error)


def _unix_ns(writer: StoreWriter) -> int:
    """Now, by the clock that the durations are of: the system's may have been set since the start."""
    data = writer.metadata
    unix: int = data["started_unix_ns"] + time.perf_counter_ns() - data["started_clock_ns"]
    return unix
