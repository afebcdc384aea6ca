"""Following the file of one rank while its solver writes it: only what is new is read, and nothing is ever locked."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
from h5py import h5d, h5s, h5t
from numpy.typing import NDArray

from precice_lb.exceptions import StoreError
from precice_lb.store.parts import open_read_only, read_part
from precice_lb.store.records import RankStore
from precice_lb.store.schema import ADVANCE_DTYPE

__all__ = ["StoreTail"]

# Clocks of file systems tick slowly: a file changed less long ago may change again without showing it.
_SETTLED_SECONDS = 2.0
_ADVANCES = h5t.py_create(ADVANCE_DTYPE, logical=True)


class StoreTail:
    """Reads the rows of ``advance`` of one rank's store as they appear.

    Parameters
    ----------
    path : Path
        The store file of one rank.
    most : int
        Rows that `read` reads at once, so that memory stays bounded where a long run is looked at for the first time.

    Attributes
    ----------
    head : RankStore or None
        Everything but the rows as of the last `read`; None as long as the file could not be read.
    rows : int
        Rows read so far.
    has_more : bool
        Whether the file had more rows than were read at once.
    problem : str
        Why the last `read` failed; empty if it did not. A file that is just being written to may fail once.
    """

    def __init__(self, path: Path, most: int = 4096) -> None:
        self.path = path
        self.head: RankStore | None = None
        self.rows = 0
        self.has_more = False
        self.problem = ""
        self._most = most
        self._seen: tuple[int, int] | None = None

    def read(self) -> NDArray[np.void]:
        """Read what is new since the last call.

        Returns
        -------
        ndarray of ADVANCE_DTYPE, shape (n,)
            Empty where nothing is new or the file cannot be read, which `problem` then says.
        """
        nothing: NDArray[np.void] = np.empty(0, dtype=ADVANCE_DTYPE)
        try:
            status = os.stat(self.path)
            state = (status.st_mtime_ns, status.st_size)
            if state == self._seen and not self.has_more:
                return nothing
            self.head = read_part(self.path, rows=False)
            rows = self._new_rows()
        except (StoreError, OSError, RuntimeError, KeyError) as error:
            self.problem = " ".join(str(error).split())
            return nothing
        self.problem = ""
        self._seen = state if time.time() - status.st_mtime > _SETTLED_SECONDS else None
        # What a machine lost when it went down was never written.
        return rows[rows["window"] > 0]

    def _new_rows(self) -> NDArray[np.void]:
        file = open_read_only(self.path)
        try:
            dataset = h5d.open(file, b"advances")
            count = min(int(dataset.shape[0]) - self.rows, self._most)
            rows = np.empty(max(count, 0), dtype=ADVANCE_DTYPE)
            if len(rows):
                space = dataset.get_space()
                space.select_hyperslab((self.rows,), (len(rows),))
                dataset.read(h5s.create_simple((len(rows),)), space, rows, _ADVANCES)
            self.rows += len(rows)
            self.has_more = int(dataset.shape[0]) > self.rows
        finally:
            file.close()
        return rows
