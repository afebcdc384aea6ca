"""What lies beside profiling files: tables that preCICE writes, and the database of ``precice-profiling merge``."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence, Set
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote

import numpy as np

from precice_lb.exceptions import DataError
from precice_lb.ingest.profiling.files import DATABASE, Events, EventSource, Header
from precice_lb.store.columns import Array, Integers

# preCICE 1 called time windows time steps.
_WINDOWS, _ITERATIONS = ("TimeWindow", "Timesteps"), "Iterations"
_BLOCK = 1 << 20
# Bytes at the end of a table that its last two rows lie in.
_END = 1 << 16


class TableTail:
    """Yields the rows of a table as arrays of floats; iterated again, those that were written meanwhile.

    preCICE begins each line with its line break, so that the last one waits until it has all cells and, since cells are
    padded, is no shorter than the one before. A table that was started anew is read from its beginning.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        #: Names of the columns; none before the file has any.
        self.columns: tuple[str, ...] = ()
        # Lines that were read, where the last of them ends, that line, and how long it was if it was a row.
        self._lines = 0
        self._position = 0
        self._last = b""
        self._width = 0
        # Its inode, size and time of change then.
        self._seen: tuple[int, ...] = ()

    def __iter__(self) -> Iterator[Array]:
        try:
            stat = self.path.stat()
            seen = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
            if seen == self._seen:
                return
            with self.path.open("rb") as file:
                self._begin(file)
                # What is written from here on waits: it may begin in the midst of the header that was read.
                left, rest = stat.st_size - file.tell(), b""
                while left > 0 and (block := file.read(min(_BLOCK, left))):
                    left -= len(block)
                    rest += block
                    cut = rest.rfind(b"\n")
                    if cut > 0:
                        yield self._rows(rest[:cut])
                        rest = rest[cut:]
                if len(rest) > self._width and len(rest.split()) == len(self.columns) > 0:
                    yield self._rows(rest)
        except OSError as error:
            raise DataError(
                f"{self.path}: expected a table of preCICE, found none that can be read ({error})"
            ) from None
        self._seen = seen

    def _begin(self, file: BinaryIO) -> None:
        """Go to where reading ended; to the end of the header where the file is another one by now."""
        file.seek(self._position - len(self._last))
        if self._position and file.read(len(self._last) + 1) in (self._last, self._last + b"\n"):
            file.seek(self._position)
            return
        file.seek(0)
        self._last = file.readline(_END).rstrip(b"\n")
        self._lines, self._position, self._width = 1, len(self._last), 0
        self.columns = tuple(self._last.decode("utf-8", "replace").split())
        file.seek(self._position)

    def _rows(self, text: bytes) -> Array:
        """Read whole lines, each behind its line break."""
        try:
            rows = np.array(text.split(), dtype=np.float64).reshape(text.count(b"\n"), len(self.columns))
        except ValueError:
            wrong = ((number, line) for number, line in enumerate(text.split(b"\n")[1:], 1) if not self._is_row(line))
            number, line = next(wrong)
            raise DataError(
                f"{self.path}, line {self._lines + number}: expected {len(self.columns)} numbers, "
                f"found {line.strip()[:60].decode('utf-8', 'replace')!r}"
            ) from None
        self._position += len(text)
        self._lines += len(rows)
        self._last = text[text.rfind(b"\n") + 1 :]
        self._width = len(self._last)
        return rows

    def _is_row(self, line: bytes) -> bool:
        try:
            return len(np.array(line.split(), dtype=np.float64)) == len(self.columns)
        except ValueError:
            return False


class IterationsTail(TableTail):
    """The table ``precice-<Participant>-iterations.log``."""

    #: Coupling iterations of each window that was read.
    counts: Integers = np.empty(0, dtype=np.int64)

    def windows(self) -> Iterator[dict[str, Integers]]:
        """Yield the columns of the time windows that were completed, as of the table."""
        for rows in self:
            with np.errstate(invalid="ignore"):
                table = dict(zip(self._names(), rows.astype(np.int64).T, strict=True))
            windows, iterations = table[_WINDOWS[0]], table[_ITERATIONS]
            if (np.diff(windows) != 1).any() or (iterations < 1).any():
                raise self._refused(f"iterations of each window after {windows[0]}", "others")
            yield table
        if any(self._seen[1:2]):
            self._names()

    def read(self) -> Integers:
        """Return the iterations of each window from the first on, with those that are new."""
        for table in self.windows():
            windows = table[_WINDOWS[0]]
            if windows[0] > len(self.counts) + 1:
                raise self._refused(f"window {len(self.counts) + 1} and its iterations", f"window {windows[0]}")
            self.counts = np.concatenate([self.counts, table[_ITERATIONS][windows > len(self.counts)]])
        return self.counts

    def _names(self) -> list[str]:
        """Names of the columns as today's preCICE has them."""
        names = [_WINDOWS[0] if name in _WINDOWS else name for name in self.columns]
        if not {_WINDOWS[0], _ITERATIONS}.issubset(names):
            raise self._refused(f"the columns {_WINDOWS[0]}, {_ITERATIONS}", " ".join(names)[:60] or "none")
        return names

    def _refused(self, expected: str, actual: str) -> DataError:
        return DataError(f"{self.path}: expected an iterations log of preCICE with {expected}, found {actual}")


def read_iterations_log(path: Path) -> Integers:
    """Read the coupling iterations of each completed time window."""
    return IterationsTail(path).read()


def last_row(path: Path) -> dict[str, float]:
    """Read the last whole row of a table by column, without what is before it; nothing where there is none."""
    try:
        with path.open("rb") as file:
            columns = file.readline(_END).decode("utf-8", "replace").split()
            begin = file.tell() - 1
            file.seek(max(begin, file.seek(0, os.SEEK_END) - _END))
            lines = file.read().split(b"\n")[1:]
        rows = [line for line in lines if len(line.split()) == len(columns)][-2:]
        if len(rows) == 2 and len(rows[1]) < len(rows[0]):
            rows.pop()
        return dict(zip(columns, map(float, rows[-1].split()), strict=True)) if rows else {}
    except (OSError, ValueError):
        return {}


def find_table(name: str, directory: Path, roots: Iterable[Path]) -> Path | None:
    """Find a table of a participant where its solver ran, or, where there is only one of this name, below the roots."""
    beside = directory / name
    if beside.is_file():
        return beside
    places = {path.resolve() for root in roots if root.is_dir() for path in root.rglob(name)}
    return places.pop() if len(places) == 1 else None


_MAGIC = b"SQLite format 3\0"
# Columns of precice-profiling 2: times are Unix time in microseconds, aligned between ranks and participants.
_TABLES = {
    "participants": {"pid", "name", "size"},
    "names": {"eid", "name"},
    "events": {"pid", "rank", "eid", "ts", "dur", "data"},
}
# By the tool's indices: neither goes through the rows of all events.
_RANKS = (
    "SELECT p.pid, p.name, p.size, e.rank FROM (SELECT DISTINCT pid, rank FROM events) e INNER JOIN participants p "
    "ON e.pid = p.pid ORDER BY p.name, e.rank"
)
_BY_TIME = "SELECT pid, rank, ts FROM events ORDER BY ts"
# Rows are in the order in which events ended. What had not when the run was killed, has a duration of decades.
_EVENTS = "SELECT eid, ts, dur, data FROM events WHERE pid = ? AND rank = ? AND dur < ts ORDER BY rowid"
_ROWS = 1 << 16


def is_database(path: Path) -> bool:
    """Whether a file begins as a SQLite database does."""
    try:
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


def read_database(path: Path) -> list[Header]:
    """Read which ranks a database has events of."""
    with _opened(path) as connection:
        for table, columns in _TABLES.items():
            present = {row[0] for row in connection.execute("SELECT name FROM pragma_table_info(?)", (table,))}
            if not columns <= present:
                raise DataError(
                    f"{path}: expected a database of precice-profiling with the table {table} "
                    f"({', '.join(sorted(columns))}), found {', '.join(sorted(present)) or 'none'}"
                )
        headers = []
        ranks = connection.execute(_RANKS).fetchall()
        begun = _begun(connection, {(pid, rank) for pid, _, _, rank in ranks})
        for pid, name, size, rank in ranks:
            first = begun[pid, rank]
            if not (isinstance(name, str) and name and all(isinstance(n, int) for n in (size, rank, first))):
                raise DataError(
                    f"{path}: expected names and whole numbers in its tables, found {name!r}, rank {rank!r}"
                )
            if not 0 <= rank < size or not 0 <= first < 1 << 53:
                raise DataError(f"{path}: expected ranks of {name!r} below its size of {size}, found {rank} at {first}")
            headers.append(Header(path, name, rank, size, first, "merged", DATABASE, pid))
    if not headers:
        raise DataError(f"{path}: expected events in this database of precice-profiling, found none")
    return headers


def _begun(connection: sqlite3.Connection, ranks: Set[tuple[int, int]]) -> dict[tuple[int, int], int]:
    """When the first event of each rank began."""
    begun: dict[tuple[int, int], int] = {}
    for pid, rank, time in connection.execute(_BY_TIME):
        begun.setdefault((pid, rank), time)
        if begun.keys() >= ranks:
            break
    return begun


class DatabaseEvents(EventSource):
    """Events of one rank in a database, in microseconds from the rank's first event; iterated again, it gives none."""

    def __init__(self, header: Header) -> None:
        super().__init__()
        self._header = header
        self._is_read = False
        self._numbers: dict[int, int] = {}

    def __iter__(self) -> Iterator[Events]:
        if self._is_read:
            return
        self._is_read = True
        header = self._header
        with _opened(header.path) as connection:
            names = dict(connection.execute("SELECT eid, name FROM names"))
            cursor = connection.execute(_EVENTS, (header.offset, header.rank))
            while rows := cursor.fetchmany(_ROWS):
                events, begins, durations, data = zip(*rows, strict=True)
                for text in filter(None, data):
                    sizes = {str(k): int(v) for k, v in json.loads(text).items() if str(k).startswith("meshSize")}
                    self.mesh_sizes.update({name.removeprefix("meshSize"): size for name, size in sizes.items()})
                for event in sorted(set(events) - self._numbers.keys()):
                    self._numbers[event] = len(self.paths)
                    self.paths.append(tuple(str(names.get(event, f"unnamed-{event}")).split("/")))
                yield self._events(events, begins, durations)

    def _events(self, events: Sequence[int], begun: Sequence[int], took: Sequence[int]) -> Events:
        paths = np.array([self._numbers[event] for event in events], dtype=np.int64)
        begins, durations = np.array(begun, dtype=np.int64) - self._header.unix_us, np.array(took, dtype=np.int64)
        self.last_us = max(self.last_us, int((begins + durations).max()))
        outside = paths == next((number for number, path in enumerate(self.paths) if path == ("_GLOBAL",)), -1)
        for number in np.flatnonzero(outside)[:1].tolist():
            self.global_begin_us, self.global_end_us = int(begins[number]), int(begins[number] + durations[number])
        if outside.any():
            paths, begins, durations = paths[~outside], begins[~outside], durations[~outside]
        return Events(paths, begins, durations, np.arange(len(paths)))


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a database for reading; whatever is wrong with it becomes one error with its name."""
    try:
        with contextlib.closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as connection:
            yield connection
    except (sqlite3.Error, ValueError, TypeError, AttributeError, OverflowError) as error:
        reason = " ".join(str(error).split())
        raise DataError(
            f"{path}: expected a database of precice-profiling, found one that cannot be read ({reason}); merge the "
            "profiling files anew"
        ) from error
