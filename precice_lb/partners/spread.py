"""Work spread over MPI ranks that all know the same meshes: each takes a block, and all get everything."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Spread", "launched_spread"]

_SIZES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "PMIX_SIZE")


class Spread:
    """Blocks of work on the ranks of a communicator, and the way back from them; without one this process does all."""

    def __init__(self, communicator: Any = None) -> None:
        self._communicator = communicator
        self.rank: int = 0 if communicator is None else communicator.Get_rank()
        self.size: int = 1 if communicator is None else communicator.Get_size()

    def block(self, count: int) -> range:
        """Return this process's part of so many pieces of work."""
        return range(count * self.rank // self.size, count * (self.rank + 1) // self.size)

    def gather(self, value: Any) -> list[Any]:
        """Give every process the values of all, in the order of their blocks."""
        if self._communicator is None:
            return [value]
        return list(self._communicator.allgather(value))

    def join(self, parts: Iterable[NDArray[Any]]) -> NDArray[Any]:
        """Concatenate arrays of this process, and then those of all, along the first axis."""
        own = list(parts)
        joined = self.gather(np.concatenate(own) if own else None)
        known = [each for each in joined if each is not None]
        return np.concatenate(known) if known else np.empty(0, np.int64)


def launched_spread() -> Spread:
    """Return the ranks of an MPI launcher, or this process alone where there is none."""
    # Without a launcher MPI is not started: it takes time, and may be missing.
    if not any(os.environ.get(name, "1") not in ("", "1") for name in _SIZES):
        return Spread()
    from mpi4py import MPI

    return Spread(MPI.COMM_WORLD)
