"""Following the file of one rank while it is written, and filling in what others tell of its rows meanwhile."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from precice_lb.exceptions import StoreError
from precice_lb.store.columns import ADVANCES, NOT_MEASURED, TABLES, Rows, Tables
from precice_lb.store.rank_file import dataset, opened, read_rank_file, told_damage, writing_problem
from precice_lb.store.records import RankFile, in_order, table_rows
from precice_lb.store.schema import SPOOL_SUFFIX, SUFFIX
from precice_lb.store.spool import read_spool

# Clocks of file systems tick slowly: a file changed less long ago may change again without showing it.
_SETTLED_SECONDS = 2.0


class Filler:
    """Tells what the rows of one rank lack, or makes them, out of another file that grows."""

    def __init__(self) -> None:
        # What it says of the rank besides, and why the file could not be read just now; empty if it could.
        self.metadata: dict[str, Any] = {}
        self.problem = ""

    @property
    def tables(self) -> Tables:
        """Tables that it tells, but calls."""
        return {}

    @property
    def is_replaced(self) -> bool:
        """Whether another run writes to the file by now."""
        return False

    def fill(self, rows: Rows, *, is_last: bool) -> Rows:
        """Take new rows in the order of the calls, and give, each once, those that are known by now.

        With ``is_last`` nobody writes any more: then all are given.
        """
        raise NotImplementedError


class Tail:
    """One rank: what its file says by now, with the rows of the windows that were not forgotten.

    Parameters
    ----------
    source
        Its file; where a spool becomes HDF5, that is read on. Or what is known of a rank whose file does not grow.
    waits
        Makes the filler of a rank whose file does not tell how long it waited.
    filler
        Makes all rows of a rank that was not recorded.
    tables
        Those that are wanted of a spool besides, their latest rows.
    most
        Rows that are read at once: memory stays bounded where a long run is first seen.
    """

    def __init__(
        self,
        source: Path | RankFile,
        waits: Callable[[RankFile], Filler] | None = None,
        filler: Filler | None = None,
        tables: Sequence[str] = (),
        most: int = 4096,
    ) -> None:
        self.path = source if isinstance(source, Path) else source.path
        # Everything but the rows; None as long as the file could not be read.
        self.head = None if isinstance(source, Path) else source
        self.rows = ADVANCES.empty()
        self.has_more = False
        # Whether the recorder has counted its iterations.
        self.is_recorded = filler is None
        self._left = self.head
        self._is_fixed = self.head is not None
        self._waits, self._filler, self._most = waits, filler, most
        self._tables = {"initialize", *tables, *(TABLES[name].names for name in tables)}
        self._problem = ""
        self._seen: tuple[Path, int, int] | None = None
        # Rows that were read, and bytes of the blocks of a spool.
        self._count = self._offset = 0

    @property
    def problem(self) -> str:
        """Why the last `read` failed: a file that is just being written to may fail once; empty if it did not."""
        return self._problem or (self._filler.problem if self._filler is not None else "")

    @property
    def is_replaced(self) -> bool:
        """Whether another run writes to its file by now, as solvers without a recorder do."""
        return self._filler is not None and self._filler.is_replaced

    @property
    def store(self) -> RankFile:
        """The rank with the rows that were not forgotten; only where there is a `head`."""
        assert self.head is not None
        if self._filler is None:
            return self.head.having(advances=self.rows)
        return self.head.having(self._filler.metadata, **self._filler.tables, advances=self.rows)

    @property
    def state(self) -> str:
        """What its writer does: ``running``, ``ended``, or ``stopped`` before the end of the coupling."""
        store = self.store
        if "ended_unix_ns" in store.metadata:
            return "ended" if store.metadata["finished"] else "stopped"
        return "stopped" if writing_problem(store) is None else "running"

    def update(self) -> None:
        """Read what is new, and fill it."""
        rows, head = self.read(), self.head
        if head is None:
            return
        lacks_waits = "timing_source" not in head.metadata and (rows["wait_ns"] == NOT_MEASURED).any()
        if self._filler is None and self._waits is not None and lacks_waits:
            self._filler = self._waits(head)
        if self._filler is not None:
            rows = self._filler.fill(rows, is_last=not self.has_more and self.state != "running")
        if len(rows):
            self.rows = np.concatenate([self.rows, rows])

    def forget(self, window: int) -> None:
        """Drop the rows of all windows before this one."""
        kept = self.rows["window"] >= window
        if not kept.all():
            self.rows = self.rows[kept]

    def read(self) -> Rows:
        """Read what is new in its file since the last call: nothing where that fails, which `problem` then says."""
        if self._is_fixed:
            left, self._left = self._left, None
            return ADVANCES.empty() if left is None else left.advances
        try:
            if self.path.suffix == SPOOL_SUFFIX and not self.path.exists():
                self.path = self.path.with_suffix(SUFFIX)
            status = os.stat(self.path)
            seen = (self.path, status.st_mtime_ns, status.st_size)
            if seen == self._seen and not self.has_more:
                return ADVANCES.empty()
            with told_damage(self.path):
                rows = self._of_spool() if self.path.suffix == SPOOL_SUFFIX else self._of_hdf5()
                written = in_order(rows)
        except (StoreError, OSError) as error:
            self._problem = " ".join(str(error).split())
            return ADVANCES.empty()
        self._problem = ""
        self._seen = seen if time.time() - status.st_mtime > _SETTLED_SECONDS else None
        self._count += len(rows)
        self.has_more = len(rows) >= self._most
        return written

    def _of_spool(self) -> Rows:
        before = {} if self.head is None else self.head.tables
        found, self._offset = read_spool(self.path, self.head, self._offset, self._most)
        tables = {}
        for name in self._tables:
            rows = np.concatenate([before.get(name, found.tables[name][:0]), found.tables[name]])
            tables[name] = rows[-2 * self._most :] if TABLES[name].columns else rows
        self.head = replace(found, tables=tables)
        return found.tables["advances"]

    def _of_hdf5(self) -> Rows:
        self.head = read_rank_file(self.path)
        with opened(self.path, locking=False) as file:
            source = dataset(file, "advances", ADVANCES.least)
            return table_rows("advances", source[self._count : self._count + self._most])
