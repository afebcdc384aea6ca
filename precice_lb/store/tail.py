"""Following the file of one rank while its solver writes it: only what is new is read, and nothing is ever locked."""

from __future__ import annotations

import os
import time
from pathlib import Path

import h5py
import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import StoreError
from precice_lb.store.rank_file import read_rank_file, told_damage
from precice_lb.store.records import RankStore
from precice_lb.store.schema import ADVANCE_DTYPE, SPOOL_SUFFIX, SUFFIX, TABLES
from precice_lb.store.spool import checked, read_blocks, with_text

__all__ = ["StoreTail"]

# Clocks of file systems tick slowly: a file changed less long ago may change again without showing it.
_SETTLED_SECONDS = 2.0


class StoreTail:
    """Reads the rows of ``advance`` of one rank's store as they appear; where a spool becomes HDF5, that is read on."""

    def __init__(self, path: Path, most: int = 4096) -> None:
        self.path = path
        # Everything but the rows; None as long as the file could not be read.
        self.head: RankStore | None = None
        # How many were read, and whether the file had more: memory stays bounded where a long run is first seen.
        self.rows, self.has_more, self._most = 0, False, most
        # Why the last `read` failed: a file that is just being written to may fail once.
        self.problem = ""
        self._seen: tuple[Path, int, int] | None = None
        # Bytes of the blocks of a spool that were read.
        self._offset = 0

    def read(self) -> NDArray[np.void]:
        """Read what is new since the last call: nothing where the file cannot be read, which `problem` then says."""
        nothing: NDArray[np.void] = np.empty(0, dtype=ADVANCE_DTYPE)
        try:
            if self.path.suffix == SPOOL_SUFFIX and not self.path.exists():
                self.path = self.path.with_suffix(SUFFIX)
            status = os.stat(self.path)
            state = (self.path, status.st_mtime_ns, status.st_size)
            if state == self._seen and not self.has_more:
                return nothing
            with told_damage(self.path):
                rows = self._of_spool() if self.path.suffix == SPOOL_SUFFIX else self._of_hdf5()
        except (StoreError, OSError) as error:
            self.problem = " ".join(str(error).split())
            return nothing
        self.problem = ""
        self._seen = state if time.time() - status.st_mtime > _SETTLED_SECONDS else None
        self.rows += len(rows)
        # What a machine lost when it went down was never written.
        return rows[rows["window"] > 0]

    def _of_spool(self) -> NDArray[np.void]:
        head, found = self.head, [np.empty(0, dtype=ADVANCE_DTYPE)]
        with self.path.open("rb") as file:
            file.seek(self._offset)
            for name, array in read_blocks(file):
                self._offset = file.tell()
                if name == "advances":
                    found.append(array)
                elif name == "initialize":
                    head = checked(head).having(initialize=array)
                elif name not in TABLES:
                    head = with_text(self.path, head, name, array)
                self.has_more = sum(map(len, found)) >= self._most
                if self.has_more:
                    break
            else:
                self.has_more = False
        rows = np.concatenate(found)
        self.head = checked(head).having(advances=rows)
        return rows

    def _of_hdf5(self) -> NDArray[np.void]:
        self.head = read_rank_file(self.path, ("initialize",))
        with h5py.File(self.path, "r", locking=False) as file:
            table = file["advances"]
            rows: NDArray[np.void] = table[self.rows : self.rows + self._most]
            self.has_more = self.rows + len(rows) < len(table)
        return rows
