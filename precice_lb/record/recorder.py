"""The recorder of one rank: times in memory, to disk in blocks, never an exception."""

from __future__ import annotations

import contextlib
import functools
import math
import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np
from numpy.typing import NDArray

from precice_lb.store.columns import ADVANCES, TABLES, stored_name
from precice_lb.store.spool import raised_elsewhere
from precice_lb.text import say

if TYPE_CHECKING:
    from precice_lb.record.meshes import MeshNotes
    from precice_lb.store.spool import StoreWriter

_BUFFER_ROWS = 1024
_FLUSH_EVERY = 512
_MOST_NAMES = 1000
# What a killed run may lose at most, but for the window that it was in.
_LONGEST_NS = 10_000_000_000
# Columns of the tuples in `_Taken.rows`, by table; other columns of a table say "not recorded".
_TAKEN_COLUMNS = {
    "initialize": ("begin_ns", "initialize_ns"),
    "sections": ("name", "window", "begin_ns", "duration_ns"),
    "guesses": ("window", "name", "cost_ns", "error"),
    "counts": ("window", "name", "count"),
}
# Tables whose rows tell the window by the call that follows.
_BY_CALL = {"sections", "counts"}
_CALL_DTYPE = np.dtype(
    [("begin", "<i8"), ("end", "<i8"), ("dt", "<f8"), ("complete", "?"), ("cpu_begin", "<i8"), ("cpu_end", "<i8")]
)


class Names(dict[str | bytes, int]):
    """Numbers from 0 of names that rows count; -1 of those that are one too many: they would be kept for ever.

    ``texts`` are the names as a store has them, in this order.
    """

    def __init__(self, what: str) -> None:
        super().__init__()
        self._what = what
        self._texts: dict[str, int] = {}

    @property
    def texts(self) -> tuple[str, ...]:
        """All names so far."""
        return tuple(self._texts)

    def __missing__(self, name: str | bytes) -> int:
        text = stored_name(name.decode("utf-8", "replace") if isinstance(name, bytes) else name)
        if text not in self._texts and len(self._texts) == _MOST_NAMES:
            warn_once(f"{self._what} are recorded for the first {_MOST_NAMES} names only")
            return -1
        self[name] = self._texts.setdefault(text, len(self._texts))
        return self[name]


_warned: set[str] = set()


def warn_once(message: str) -> None:
    """Print a warning once in this process.

    A solver that turns Python's own warnings into errors would die of those.
    """
    if message not in _warned:
        _warned.add(message)
        note(f"warning: {message}", sys.stderr)


def note(message: str, stream: TextIO | None) -> None:
    """Print a line under the name of the tool; nothing happens if the stream is closed or full."""
    if stream is not None:
        with contextlib.suppress(Exception):
            say(f"precice-lb: {message}", stream)


def setting(name: str, *choices: str) -> str:
    """Read an environment variable; the first choice where it is not set, or set to something else."""
    value = os.environ.get(name) or choices[0]
    if value in choices:
        return value
    warn_once(f"{name} is ignored: expected {' or '.join(sorted(filter(None, choices)))}, found {value!r}")
    return choices[0]


@dataclass(slots=True)
class _Taken:
    """What was taken since the last flush, and where that stood; what is still to be written is in ``before``."""

    number: int = 0
    # Of the call that will be the first of `calls`.
    window: int = 1
    iteration: int = 1
    previous_end: int = field(default_factory=lambda: time.perf_counter_ns())
    previous_cpu: int = field(default_factory=lambda: time.process_time_ns())
    # Tables by name.
    before: dict[str, NDArray[np.void]] | None = None
    calls: list[tuple[int, int, float, bool, int, int]] = field(default_factory=list)
    # Positions in `calls`, where the next one begins another iteration.
    repeats: set[int] = field(default_factory=set)
    # Rows of further tables by name, with the columns of `_TAKEN_COLUMNS`. Those of `_BY_CALL` have the position in
    # `calls` in place of the window.
    rows: defaultdict[str, list[tuple[Any, ...]]] = field(default_factory=lambda: defaultdict(list))
    # Where asked for, ns in MPI within the solve time before each of `calls`.
    mpi: list[int] = field(default_factory=list)

    def following(self) -> _Taken:
        """Begin what is taken from now on."""
        calls = np.array(self.calls, dtype=_CALL_DTYPE)
        count, rows = len(calls), self._advances(calls)
        window, iteration, end, cpu = self.window, self.iteration, self.previous_end, self.previous_cpu
        if count:
            complete = bool(rows["window_complete"][-1])
            window = int(rows["window"][-1]) + complete
            iteration = 1 if complete else int(rows["iteration"][-1])
            end, cpu = self.calls[-1][1], self.calls[-1][-1]
        tables = {name: _rows_of(name, taken) for name, taken in self.rows.items() if taken}
        for name in _BY_CALL & tables.keys():
            tables[name]["window"] = np.append(rows["window"], window)[tables[name]["window"]]
        # A call that failed has no row.
        if mpi := self.mpi[:count]:
            tables["mpi"] = _by_window("mpi", rows["window"][: len(mpi)], np.array(mpi, dtype=np.int64))
        spent = calls["cpu_begin"] - np.append(self.previous_cpu, calls["cpu_end"])[:count]
        tables |= {"cpu": _by_window("cpu", rows["window"], spent), "advances": rows}
        repeats = {0} & {index - count for index in self.repeats}
        return _Taken(self.number + 1, window, iteration, end, cpu, tables, repeats=repeats)

    def _advances(self, calls: NDArray[np.void]) -> NDArray[np.void]:
        """Rows of ``advance``."""
        count = len(calls)
        rows = ADVANCES.unrecorded(count)
        if not count:
            return rows
        begins_window = np.append(False, calls["complete"][:-1])
        rows["window"] = self.window + np.cumsum(begins_window)
        repeats = np.bincount([index for index in self.repeats if index < count], minlength=count).cumsum()
        start = np.maximum.accumulate(np.where(begins_window, np.arange(count), 0))
        rows["iteration"] = repeats + np.where(start > 0, 1 - repeats[start], self.iteration)
        rows["begin_ns"] = calls["begin"]
        rows["solve_ns"] = calls["begin"] - np.append(self.previous_end, calls["end"][:-1])
        rows["advance_ns"] = calls["end"] - calls["begin"]
        rows["computed_dt"] = calls["dt"]
        rows["window_complete"] = calls["complete"]
        return rows


class Recorder:
    """Takes the times of one participant on one rank into its store.

    All ranks flush after the same time windows, as `flush_after` says: unaligned flushes of many ranks would delay
    every window. A failure is one warning; after it nothing is written. No signal handler of the solver is
    touched: what one raises meanwhile is the solver's. It may come between any two steps, so that what was taken is put
    aside by one assignment, and written once by its number, by this flush or the next.

    What happens in each ``advance`` is up to the caller (`precice_lb.record.participant`). It gives ``take`` a tuple of
    the clock before and after (ns), the computed time step (simulated s), whether the time window is complete, and the
    CPU time of the process before and after (ns). It
    calls `flush_due` after the first time window and then after as many as that returns, and `stayed` where no window
    is complete. Mapping and wait within are for preCICE's profiling files to tell, after the run.
    """

    def __init__(
        self,
        writer: StoreWriter,
        after_close: Callable[[], None] | None = None,
        settle: Callable[[], str | None] | None = None,
    ) -> None:
        self._taken = _Taken()
        self._names = {
            "sections": Names("profiling sections"), "guesses": Names("first guesses"), "counts": Names("features")
        }  # fmt: skip
        self._open_sections: list[tuple[str | bytes, int]] = []
        # By feature, the latest number.
        self._counts: dict[int, float] = {}
        self._writer: StoreWriter | None = writer
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
                writer.append(None, None, {"meshes": 1}, **notes.recorded(writer.metadata["rank"]).arrays())

    def take(self, call: tuple[int, int, float, bool, int, int]) -> None:
        """Take a call of ``advance``."""
        self._taken.calls.append(call)

    def take_mpi(self, nanoseconds: int) -> None:
        """Take the time in MPI before the next call of ``advance``."""
        self._taken.mpi.append(nanoseconds)

    def initialized(self, begin: int, end: int) -> None:
        """Take the times of ``initialize``, in ns of the clock."""
        self._taken.rows["initialize"].append((begin, end - begin))
        with self._writing() as writer:
            launch = None if self._settle is None else self._settle()
            if writer is not None and launch is not None:
                writer.write_launch(launch)
        self._restart()
        self.flush()

    def stayed(self) -> None:
        """Note that an ``advance`` did not complete its time window, of which there may be any number."""
        if len(self._taken.calls) >= _BUFFER_ROWS:
            self.flush()

    def repeated(self) -> None:
        """Count a coupling iteration: the solver goes back to its checkpoint."""
        self._taken.repeats.add(len(self._taken.calls))

    def section_started(self, name: str | bytes) -> None:
        """Take the beginning of a profiling section of the solver."""
        self._open_sections.append((name, time.perf_counter_ns()))

    def section_stopped(self, end: int) -> None:
        """Take the end of the profiling section that began last; ``end`` is the clock, in ns."""
        if not self._open_sections:
            return
        name, begin = self._open_sections.pop()
        number, taken = self._names["sections"][name], self._taken
        if number >= 0:
            rows = taken.rows["sections"]
            rows.append((number, len(taken.calls), begin, end - begin))
            if len(rows) >= _BUFFER_ROWS:
                self._write()

    def guessed(self, window: int, name: str, cost_ns: int, error: float) -> None:
        """Take which predictor made a time window's first guess, what it took, and what the guess was wrong by."""
        number = self._names["guesses"][name]
        if number >= 0:
            self._taken.rows["guesses"].append((window, number, cost_ns, error))

    def count(self, feature: Any, number: Any) -> None:
        """Take how much of a feature the rank holds from now on; what is no such call is one warning."""
        name, amount = feature.decode("utf-8", "replace") if isinstance(feature, bytes) else feature, math.nan
        # Code of any package may run here, and raise what it likes.
        with contextlib.suppress(Exception):
            amount = float(number)
        if not isinstance(name, str) or not name.strip("\0") or not (math.isfinite(amount) and amount >= 0):
            expected = "the name of a feature and how much of it this rank holds, a number of at least 0"
            warn_once(f"a call of count() is ignored: expected {expected}, found others")
            return
        position = self._names["counts"][name]
        if position >= 0 and self._counts.get(position) != amount:
            self._taken.rows["counts"].append((len(self._taken.calls), position, amount))
            self._counts[position] = amount

    def flush_due(self) -> int:
        """Flush, and return the number of time windows until the next flush."""
        before = self._taken
        self.flush()
        now = self._taken
        done = now.window - 1
        mean = (now.previous_end - before.previous_end) / max(now.window - before.window, 1)
        return flush_after(done, mean) - done

    def flush(self) -> None:
        """Write everything taken so far; our own time on disk is no solver time."""
        self._write()
        self._restart()

    def _restart(self) -> None:
        """Begin the solver's time anew."""
        if not self._taken.calls:
            self._taken.previous_cpu = time.process_time_ns()
            self._taken.previous_end = time.perf_counter_ns()

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
                if writer.lacks_h5py and writer.metadata["rank"] == 0:
                    kept = f"{writer.path.parent} keeps its spools, as h5py is not installed"
                    note(f"{kept}; every command of precice-lb reads them", sys.stderr)
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
                warn_once(f"recording into {writer.path} stops: {error}")
                with contextlib.suppress(Exception):
                    writer.close(finished=False, ended_unix_ns=_unix_ns(writer), keep_spool=True)

    def _write(self) -> None:
        """Put aside what was taken, and write it, after what an exception of a handler has left."""
        with self._writing():
            self._write_before()
            self._taken = self._taken.following()
            self._write_before()

    def _write_before(self) -> None:
        if self._taken.before is not None and self._writer is not None and self.is_open:
            # The room may not be there whose table it is.
            names = {table: names.texts for table, names in self._names.items() if table in TABLES}
            self._writer.append(**self._taken.before, names=names, once={"flush": self._taken.number})
        self._taken.before = None


def _rows_of(table: str, taken: list[tuple[Any, ...]]) -> NDArray[np.void]:
    """Make rows of a table of tuples with the values of `_TAKEN_COLUMNS`."""
    return TABLES[table].completed(np.array(taken, _taken_dtype(table)))


@functools.cache
def _taken_dtype(table: str) -> np.dtype[Any]:
    columns = TABLES[table].dtype
    return np.dtype([(name, columns[name]) for name in _TAKEN_COLUMNS[table]])


def _by_window(table: str, windows: NDArray[np.int64], nanoseconds: NDArray[np.int64]) -> NDArray[np.void]:
    """Sum up by time window, which rise: rows of such a table."""
    starts = np.flatnonzero(np.diff(windows, prepend=0))
    rows = TABLES[table].unrecorded(len(starts))
    if len(starts):
        rows["window"], rows[f"{table}_ns"] = windows[starts], np.add.reduceat(nanoseconds, starts)
    return rows


def flush_after(window: int, window_ns: float = 0.0) -> int:
    """Time window, after this one, that all ranks flush after: by its number, as no rank asks another.

    Every window at first, then every 2nd (from window 16 on), 4th (32), 8th (64), … and at last every 512th: a file
    shows all but the last eighth of a run as it goes, and in the long run nothing is written in 511 of 512 windows.
    Windows that take ``window_ns`` long are flushed before 10 s of them are lost with the process: after some more
    windows than those of other ranks, whatever a rank's clock then says.
    """
    every = min(max(1 << window.bit_length() >> 4, 1), _FLUSH_EVERY)
    while every > 1 and every * window_ns > _LONGEST_NS:
        every //= 2
    return (window // every + 1) * every


def _unix_ns(writer: StoreWriter) -> int:
    """Now, by the clock that the durations are of: the system's may have been set since the start."""
    data = writer.metadata
    unix: int = data["started_unix_ns"] + time.perf_counter_ns() - data["started_clock_ns"]
    return unix
