"""The database that ``precice-profiling merge`` writes from profiling files: events of all ranks, in SQLite."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterator, Sequence, Set
from pathlib import Path
from urllib.parse import quote

import numpy as np

from precice_lb.exceptions import DataError
from precice_lb.ingest.profiling.files import DATABASE, Events, EventSource, Header

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
