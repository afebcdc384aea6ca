"""Communication between the ranks of one participant: gather to and scatter from the primary rank, over MPI.

Plain blocking calls on purpose: with more ranks than cores they disturb the solver least.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.embedded.errors import CouplingError

__all__ = ["IntraComm"]


class IntraComm:
    """The ranks of one participant; rank 0 is the primary rank.

    Parameters
    ----------
    rank, size
        This rank and the number of ranks, as the solver passed them.
    communicator
        An mpi4py communicator of these ranks; None stands for ``MPI.COMM_WORLD``. A single rank needs no MPI, and
        mpi4py is then not even imported.

    Raises
    ------
    CouplingError
        If rank and size are not those of the communicator.
    """

    def __init__(self, rank: int, size: int, communicator: Any = None) -> None:
        if size < 1 or not 0 <= rank < size:
            raise CouplingError(
                f"expected a process index in [0, process size), found index {rank} of size {size}: "
                "check what the solver passes to Participant"
            )
        self.rank = rank
        self.size = size
        self._comm: Any = None
        if size == 1 and communicator is None:
            return
        from mpi4py import MPI

        given = MPI.COMM_WORLD if communicator is None else communicator
        if (given.Get_rank(), given.Get_size()) != (rank, size):
            raise CouplingError(
                f"expected the MPI communicator's rank {given.Get_rank()} of {given.Get_size()}, found process index "
                f"{rank} of size {size}: start the solver with this environment's mpiexec and pass its rank and size"
            )
        if size > 1:
            # A duplicate, so that no message of ours can meet one of the solver's.
            self._comm = given.Dup()
            self._double = MPI.DOUBLE

    @property
    def is_primary(self) -> bool:
        """Whether this rank talks to the partners."""
        return self.rank == 0

    @property
    def is_parallel(self) -> bool:
        """Whether there is more than one rank."""
        return self.size > 1

    def agree(self, failure: str | None) -> None:
        """Raise the primary rank's failure on every rank, or return on every rank.

        Parameters
        ----------
        failure
            What went wrong at the primary rank, None if nothing did; other ranks' values are not looked at.

        Raises
        ------
        CouplingError
            On all ranks, if the primary rank failed.
        """
        if self.is_parallel:
            length = np.array([len(failure.encode()) if failure else 0], dtype=np.int64)
            self._comm.Bcast(length, root=0)
            if length[0] and not self.is_primary:
                failure = self._comm.bcast(None, root=0)
            elif length[0]:
                self._comm.bcast(failure, root=0)
            elif not self.is_primary:
                failure = None
        if failure:
            raise CouplingError(failure)

    def agree_all(self, failure: str | None) -> None:
        """Raise the first rank's failure on every rank, or return on every rank.

        Raises
        ------
        CouplingError
            On all ranks, if any rank failed.
        """
        failures = self._comm.allgather(failure) if self.is_parallel else [failure]
        for found in failures:
            if found:
                raise CouplingError(found)

    def broadcast(self, value: Any) -> Any:
        """Return the primary rank's value on every rank (any picklable object; used while initialising)."""
        return self._comm.bcast(value, root=0) if self.is_parallel else value

    def gather(self, value: Any) -> list[Any] | None:
        """Return every rank's value at the primary rank, None elsewhere (used while initialising)."""
        result: list[Any] | None = self._comm.gather(value, root=0) if self.is_parallel else [value]
        return result

    def gather_rows(self, local: NDArray[np.float64], counts: NDArray[np.int64] | None) -> NDArray[np.float64]:
        """Stack the ranks' rows at the primary rank.

        Parameters
        ----------
        local
            Shape (rows of this rank, components).
        counts
            Rows of each rank, shape (ranks,); needed at the primary rank of a parallel participant only.

        Returns
        -------
        array
            Shape (sum of counts, components) at the primary rank; shape (0, components) elsewhere. A single rank
            gets its own array back, not a copy.
        """
        if not self.is_parallel:
            return local
        components = local.shape[1]
        send = np.ascontiguousarray(local, dtype=np.float64)
        if not self.is_primary:
            self._comm.Gatherv(send, None, root=0)
            return np.empty((0, components))
        assert counts is not None
        whole = np.empty((int(counts.sum()), components))
        self._comm.Gatherv(send, [whole, counts * components, None, self._double], root=0)
        return whole

    def scatter_rows(
        self, whole: NDArray[np.float64] | None, counts: NDArray[np.int64] | None, rows: int, components: int
    ) -> NDArray[np.float64]:
        """Hand each rank its rows of an array that the primary rank holds.

        Parameters
        ----------
        whole
            Shape (sum of counts, components) at the primary rank, rank after rank; not looked at elsewhere.
        counts
            Rows of each rank, shape (ranks,); needed at the primary rank of a parallel participant only.
        rows
            Rows of this rank.
        components
            Numbers per row.

        Returns
        -------
        array
            Shape (rows, components).
        """
        if not self.is_parallel:
            assert whole is not None
            return whole
        local = np.empty((rows, components))
        if self.is_primary:
            assert whole is not None
            assert counts is not None
            self._comm.Scatterv([whole, counts * components, None, self._double], local, root=0)
        else:
            self._comm.Scatterv(None, local, root=0)
        return local
