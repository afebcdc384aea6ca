"""The database that ``precice-profiling merge`` writes from profiling files: events of all ranks, in SQLite."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import numpy as np

from precice_lb.exceptions import DataError
from precice_lb.ingest.profiling.files import DATABASE, Header
from precice_lb.ingest.profiling.nesting import Events, EventSource

__all__ = ["DatabaseEvents", "is_database", "read_database"]

_MAGIC = b"SQLite format 3\0"
# Columns of precice-profiling 2: times are Unix time in microseconds, aligned between ranks and participants.
_TABLES = {
    "participants": {"pid", "name", "size"},
    "names": {"eid", "name"},
    "events": {"pid", "rank", "eid", "ts", "dur", "data"},
}
_RANKS = (
    "SELECT p.pid, p.name, p.size, e.rank, MIN(e.ts) FROM events e INNER JOIN participants p ON e.pid = p.pid "
    "GROUP BY p.pid, e.rank ORDER BY p.name, e.rank"
)
# What had not ended when the run was killed, the tool gives a duration of decades.
_EVENTS = "SELECT eid, ts, dur, data FROM events WHERE pid = ? AND rank = ? AND dur < ts"


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
            found = {row[0] for row in connection.execute("SELECT name FROM pragma_table_info(?)", (table,))}
            if not columns <= found:
                raise DataError(
                    f"{path}: expected a database of precice-profiling with the table {table} "
                    f"({', '.join(sorted(columns))}), found {', '.join(sorted(found)) or 'none'}"
                )
        headers = []
        for pid, name, size, rank, first in connection.execute(_RANKS):
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


class DatabaseEvents(EventSource):
    """Events of one rank in a database: one block of all, in microseconds from the rank's first event, then none."""

    def __init__(self, header: Header) -> None:
        super().__init__()
        self._header = header
        self._is_read = False

    def __iter__(self) -> Iterator[Events]:
        if self._is_read:
            return
        self._is_read = True
        header = self._header
        with _opened(header.path) as connection:
            names = dict(connection.execute("SELECT eid, name FROM names"))
            rows = list(connection.execute(_EVENTS, (header.offset, header.rank)))
            for *_, data in rows:
                if data:
                    sizes = {str(k): int(v) for k, v in json.loads(data).items() if str(k).startswith("meshSize")}
                    self.mesh_sizes.update({name.removeprefix("meshSize"): size for name, size in sizes.items()})
            yield self._events(names, np.array([row[:3] for row in rows], dtype=np.int64).reshape(-1, 3))

    def _events(self, names: dict[int, str], rows: np.ndarray[tuple[int, int], np.dtype[np.int64]]) -> Events:
        numbers = {}
        for event in np.unique(rows[:, 0]).tolist():
            numbers[event] = len(self.paths)
            self.paths.append(tuple(str(names.get(event, f"unnamed-{event}")).split("/")))
        depths = np.array([len(path) for path in self.paths])
        paths = np.array([numbers[event] for event in rows[:, 0].tolist()], dtype=np.int64)
        begins, durations = rows[:, 1] - self._header.unix_us, rows[:, 2]
        ends = begins + durations
        self.last_us = int(ends.max(initial=0))
        outside = np.array([path == ("_GLOBAL",) for path in self.paths])[paths]
        for at in np.flatnonzero(outside)[:1].tolist():
            self.global_begin_us, self.global_end_us = int(begins[at]), int(ends[at])
        # Of what ended in the same microsecond, inner events ended first.
        order = np.lexsort((begins, -depths[paths], ends))
        order = order[~outside[order]]
        return Events(paths[order], begins[order], durations[order], np.arange(len(order)))


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
