"""The recorder of one rank: times in memory, to disk in blocks, never an exception."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.record.tables import NO_SUMS, Counts, Sections, summary, sums, warn_once
from precice_lb.store.schema import (
    ADVANCE_DTYPE,
    CPU_DTYPE,
    GUESS_DTYPE,
    INITIALIZE_DTYPE,
    MPI_DTYPE,
    NOT_MEASURED,
)
from precice_lb.store.spool import raised_elsewhere

if TYPE_CHECKING:
    from precice_lb.record.meshes import MeshNotes
    from precice_lb.store.spool import StoreWriter

_BUFFER_ROWS = 1024
_FLUSH_EVERY = 64
# What a killed run may lose at most, but for the window that it was in.
_LONGEST_NS = 10_000_000_000
_NO_MPI: NDArray[np.void] = np.empty(0, dtype=MPI_DTYPE)
_CALL_DTYPE = np.dtype(
    [("begin", "<i8"), ("end", "<i8"), ("dt", "<f8"), ("complete", "?"), ("cpu_begin", "<i8"), ("cpu_end", "<i8")]
)


class Recorder:
    """Takes the times of one participant on one rank, into a store if there is one.

    All ranks flush after the same time windows, as `flush_after` says: unaligned flushes of many ranks would delay
    every window. A failure is one warning; after it there are only running sums. No signal handler of the solver is
    touched: what one raises meanwhile is the solver's, and may cost the rows of one flush.

    What happens in each ``advance`` is up to the caller (`precice_lb.record.participant`). It gives ``take`` a tuple of
    the clock before and after (ns), the computed time step (simulated s), whether the time window is complete, and the
    CPU time of the process before and after (ns). It
    calls `flush_due` after the first time window and then after as many as that returns, and `stayed` where no window
    is complete. Mapping and wait within are for preCICE's profiling files to tell, after the run.
    """

    def __init__(
        self,
        writer: StoreWriter | None,
        after_close: Callable[[], None] | None = None,
        settle: Callable[[], str | None] | None = None,
    ) -> None:
        self._calls: list[tuple[int, int, float, bool, int, int]] = []
        self.take = self._calls.append
        self._repeats: set[int] = set()
        # Of the call that will be the first of `_calls`.
        self._window = 1
        self._iteration = 1
        self._previous_end = time.perf_counter_ns()
        self._previous_cpu = time.process_time_ns()
        self._sums = NO_SUMS
        self._sections = Sections()
        self._guesses: list[tuple[int, int, int, float]] = []
        self._guess_names: dict[str, int] = {}
        self._counts = Counts()
        # Where asked for, ns in MPI within the solve time before each of `_calls`.
        self._mpi: list[int] = []
        self.take_mpi = self._mpi.append
        self._writer = writer
        self._after_close = after_close
        # Gives the id of the launch, once all ranks are known to have come as far as that.
        self._settle = settle
        self._pid = os.getpid()

    @property
    def is_open(self) -> bool:
        """Whether this process has a store file to complete."""
        return self._writer is not None and os.getpid() == self._pid

    def write_meshes(self, notes: MeshNotes) -> None:
        """Write what the rank said about its meshes."""
        with self._writing() as writer:
            if writer is not None:
                writer.write_meshes(notes.recorded(writer.metadata["rank"]))

    def initialized(self, begin: int, end: int) -> None:
        """Take the times of ``initialize``, in ns of the clock."""
        row = np.array([(begin, end - begin, NOT_MEASURED, NOT_MEASURED)], dtype=INITIALIZE_DTYPE)
        with self._writing() as writer:
            if writer is not None:
                launch = None if self._settle is None else self._settle()
                writer.write_initialize(row, launch)
        self._previous_cpu = time.process_time_ns()
        self._previous_end = time.perf_counter_ns()

    def stayed(self) -> None:
        """Note that an ``advance`` did not complete its time window, of which there may be any number."""
        if len(self._calls) >= _BUFFER_ROWS:
            self.flush()

    def repeated(self) -> None:
        """Count a coupling iteration: the solver goes back to its checkpoint."""
        self._repeats.add(len(self._calls))

    def section_started(self, name: str | bytes) -> None:
        """Take the beginning of a profiling section of the solver."""
        self._sections.start(name, time.perf_counter_ns())

    def section_stopped(self, end: int) -> None:
        """Take the end of the profiling section that began last; ``end`` is the clock, in ns."""
        if self._sections.stop(end, len(self._calls)):
            with self._writing():
                self._write(self._rows(), sections_only=True)

    def guessed(self, window: int, name: str, cost_ns: int, error: float) -> None:
        """Take which predictor made a time window's first guess, what it took, and what the guess was wrong by."""
        number = self._guess_names.setdefault(name, len(self._guess_names))
        self._guesses.append((window, number, cost_ns, error))

    def count(self, feature: Any, number: Any) -> None:
        """Take how much of a feature the rank holds from now on."""
        self._counts.take(feature, number, len(self._calls))

    def timing_summary(self) -> dict[str, float]:
        """Return the running sums, as the participant's ``timing_summary`` does."""
        return summary(self._sums + sums(self._rows()))

    def flush_due(self) -> int:
        """Flush, and return the number of time windows until the next flush."""
        before, begin = self._window, self._previous_end
        self.flush()
        done = self._window - 1
        return flush_after(done, (self._previous_end - begin) / max(self._window - before, 1)) - done

    def flush(self) -> None:
        """Write everything taken so far; our own time on disk is no solver time."""
        rows = np.empty(0, ADVANCE_DTYPE)
        with self._writing():
            rows = self._rows()
            self._sums = self._sums + sums(rows)
            self._write(rows)
        if len(rows):
            last = rows[-1]
            self._window = int(last["window"]) + int(last["window_complete"])
            self._iteration = 1 if last["window_complete"] else int(last["iteration"])
        self._calls.clear()
        self._repeats.clear()
        self._guesses.clear()
        self._mpi.clear()
        self._previous_cpu = time.process_time_ns()
        self._previous_end = time.perf_counter_ns()

    def close(self, *, finished: bool, keep_spool: bool = False) -> None:
        """Complete and close the store, once; in a forked child do nothing.

        While the backend is still there, the spool is kept, and no HDF5 store made of it.
        """
        if not self.is_open:
            return
        self.flush()
        writer, self._writer = self._writer, None
        if writer is not None:
            try:
                writer.close(finished=finished, ended_unix_ns=_unix_ns(writer), keep_spool=keep_spool)
                if self._after_close is not None:
                    self._after_close()
            except Exception as error:
                if raised_elsewhere(error):
                    raise
                warn_once(f"the recording {writer.path} is not complete: {error}")

    @contextlib.contextmanager
    def _writing(self) -> Iterator[StoreWriter | None]:
        """Stop writing at a failure, with one warning; what a handler of the solver raised goes on to the solver."""
        try:
            yield self._writer
        except Exception as error:
            if raised_elsewhere(error):
                raise
            writer, self._writer = self._writer, None
            if writer is not None:
                warn_once(f"recording stops before window {self._window} of {writer.path}: {error}")
                with contextlib.suppress(Exception):
                    writer.close(finished=False, ended_unix_ns=_unix_ns(writer), keep_spool=True)

    def _rows(self) -> NDArray[np.void]:
        """Rows of `ADVANCE_DTYPE` of the calls taken since the last flush."""
        calls = np.array(self._calls, dtype=_CALL_DTYPE)
        count = len(calls)
        rows = np.zeros(count, dtype=ADVANCE_DTYPE)
        if not count:
            return rows
        begins_window = np.concatenate(([False], calls["complete"][:-1]))
        rows["window"] = self._window + np.cumsum(begins_window)
        repeats = np.bincount([index for index in self._repeats if index < count], minlength=count).cumsum()
        start = np.maximum.accumulate(np.where(begins_window, np.arange(count), 0))
        rows["iteration"] = repeats + np.where(start > 0, 1 - repeats[start], self._iteration)
        rows["begin_ns"] = calls["begin"]
        rows["solve_ns"] = calls["begin"] - np.concatenate(([self._previous_end], calls["end"][:-1]))
        rows["advance_ns"] = calls["end"] - calls["begin"]
        rows["mapping_ns"] = rows["wait_ns"] = NOT_MEASURED
        rows["computed_dt"] = calls["dt"]
        rows["window_complete"] = calls["complete"]
        return rows

    def _write(self, rows: NDArray[np.void], *, sections_only: bool = False) -> None:
        following = int(rows["window"][-1]) + int(rows["window_complete"][-1]) if len(rows) else self._window
        windows = np.append(rows["window"], following)
        sections, counts = self._sections.take(windows), self._counts.rows(windows)
        guesses, mpi, cpu = np.array(self._guesses, dtype=GUESS_DTYPE), self._mpi_rows(rows), self._cpu_rows(rows)
        if sections_only:
            rows, guesses, mpi, cpu = rows[:0], guesses[:0], mpi[:0], cpu[:0]
        if self._writer is not None and self.is_open and (len(rows) or len(sections) or len(guesses) or len(counts)):
            names = self._sections.names, tuple(self._guess_names), self._counts.names
            self._writer.append(rows, sections, names[0], guesses, names[1], counts, names[2], mpi, cpu)

    def _mpi_rows(self, rows: NDArray[np.void]) -> NDArray[np.void]:
        """Rows of `MPI_DTYPE` of the calls taken since the last flush; a call that failed has no row."""
        if not self._mpi:
            return _NO_MPI
        nanoseconds = np.array(self._mpi[: len(rows)], dtype=np.int64)
        return _by_window(rows["window"][: len(nanoseconds)], nanoseconds, MPI_DTYPE)

    def _cpu_rows(self, rows: NDArray[np.void]) -> NDArray[np.void]:
        """Rows of `CPU_DTYPE` of the calls taken since the last flush."""
        calls = np.array(self._calls, dtype=_CALL_DTYPE)
        nanoseconds = calls["cpu_begin"] - np.concatenate(([self._previous_cpu], calls["cpu_end"]))[: len(calls)]
        return _by_window(rows["window"], nanoseconds, CPU_DTYPE)


def _by_window(windows: NDArray[np.int64], nanoseconds: NDArray[np.int64], dtype: np.dtype[Any]) -> NDArray[np.void]:
    """Sum up by time window: rows of such a type."""
    known, at = np.unique(windows, return_inverse=True)
    found = np.zeros(len(known), dtype=dtype)
    found["window"] = known
    np.add.at(found[dtype.names[1]] if dtype.names else found, at, nanoseconds)
    return found


def flush_after(window: int, window_ns: float = 0.0) -> int:
    """Time window, after this one, that all ranks flush after: by its number, as no rank asks another.

    Every window at first, then every 2nd (from window 4 on), 4th (16), 8th (64), … and at last every 64th: a file
    shows all but the last eighth of a run as it goes, and in the long run nothing is written in 63 of 64 windows.
    Windows that take ``window_ns`` long are flushed before 10 s of them are lost with the process: whatever a rank's
    clock then says, a flush is nothing beside such windows.
    """
    every = min(1 << max(window.bit_length() - 1, 0) // 2, _FLUSH_EVERY)
    while every > 1 and every * window_ns > _LONGEST_NS:
        every //= 2
    return (window // every + 1) * every


def _unix_ns(writer: StoreWriter) -> int:
    """Now, by the clock that the durations are of: the system's may have been set since the start."""
    data = writer.metadata
    unix: int = data["started_unix_ns"] + time.perf_counter_ns() - data["started_clock_ns"]
    return unix
