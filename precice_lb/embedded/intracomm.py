"""Communication between the ranks of one participant: gather to and scatter from the primary rank.

MPI tells the ranks apart and serves while initialising. In the time loop the ranks talk over sockets to the primary
rank, as with preCICE's ``<intra-comm:sockets>``: whoever waits there sleeps, while a rank that waits in MPI keeps a
core busy, which with more ranks than cores disturbs every other rank.
"""

from __future__ import annotations

import contextlib
import secrets
import socket
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.embedded.errors import CouplingError
from precice_lb.embedded.sockets import HELLO, Channel, read_frame, write_frame

__all__ = ["IntraComm"]

_CONNECT_SECONDS = 60.0

Arrays = Sequence[NDArray[np.float64]]


class IntraComm:
    """The ranks of one participant; rank 0 is the primary rank.

    Parameters
    ----------
    name
        Name of the participant, for messages.
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

    def __init__(self, name: str, rank: int, size: int, communicator: Any = None) -> None:
        if size < 1 or not 0 <= rank < size:
            raise CouplingError(
                f"expected a process index in [0, process size), found index {rank} of size {size}: "
                "check what the solver passes to Participant"
            )
        self.rank = rank
        self.size = size
        self._name = name
        self._comm: Any = None
        #: By rank: all other ranks at the primary rank, the primary rank elsewhere.
        self._channels: dict[int, Channel] = {}
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
            hosts = self._comm.allgather(MPI.Get_processor_name())
            self._connect("127.0.0.1" if len(set(hosts)) == 1 else hosts[0])

    @property
    def is_primary(self) -> bool:
        """Whether this rank talks to the partners."""
        return self.rank == 0

    @property
    def is_parallel(self) -> bool:
        """Whether there is more than one rank."""
        return self.size > 1

    # While initialising, over MPI.

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
        """Return the primary rank's value on every rank (any picklable object)."""
        return self._comm.bcast(value, root=0) if self.is_parallel else value

    def collect(self, value: Any) -> list[Any] | None:
        """Return every rank's value at the primary rank, None elsewhere (any picklable objects)."""
        result: list[Any] | None = self._comm.gather(value, root=0) if self.is_parallel else [value]
        return result

    # At any time, over sockets.

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
        if not self.is_primary:
            self._channels[0].receive([])
            return
        for channel in self._channels.values():
            if failure is None:
                channel.send([])
            else:
                channel.send_failure(failure)
        if failure is not None:
            raise CouplingError(failure)

    def gather(self, local: Arrays, parts: Callable[[int], Arrays]) -> None:
        """Bring arrays of every rank to the primary rank; only the primary rank waits.

        Parameters
        ----------
        local
            C-contiguous arrays of this rank, not changed afterwards.
        parts
            Where the arrays of a given rank go at the primary rank; called there only.
        """
        if not self.is_primary:
            self._channels[0].send(local)
            return
        for part, own in zip(parts(0), local, strict=True):
            part[...] = own
        for rank, channel in self._channels.items():
            channel.receive(parts(rank))

    def scatter(self, local: Arrays, parts: Callable[[int], Arrays]) -> None:
        """Hand every rank its arrays; the other ranks wait for the primary rank.

        Parameters
        ----------
        local
            Arrays of this rank, to be filled.
        parts
            The C-contiguous arrays of a given rank at the primary rank, not changed afterwards; called there only.

        Raises
        ------
        CouplingError
            On the other ranks, if the primary rank called `agree` with a failure instead.
        """
        if not self.is_primary:
            self._channels[0].receive(local)
            return
        for rank, channel in self._channels.items():
            channel.send(parts(rank))
        for part, own in zip(parts(0), local, strict=True):
            own[...] = part

    def total(self, local: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sum of a one-dimensional array over all ranks, on all ranks (preCICE's ``IntraComm::allreduceSum``)."""
        if not self.is_parallel:
            return local
        result = np.array(local)
        if not self.is_primary:
            self._channels[0].send([local])
            self._channels[0].receive([result])
            return result
        for channel in self._channels.values():
            part = np.empty_like(result)
            channel.receive([part])
            result += part
        for channel in self._channels.values():
            channel.send([result])
        return result

    def close(self) -> None:
        """Close the sockets once everything has been sent."""
        for channel in self._channels.values():
            channel.finish()

    def _connect(self, host: str) -> None:
        try:
            if self.is_primary:
                self._accept(host)
            else:
                self._introduce()
        except OSError as error:
            raise CouplingError(
                f'the ranks of "{self._name}" cannot connect over TCP: {error} (the primary rank listens on {host}); '
                "run them on one machine, or let that name resolve on all"
            ) from error

    def _accept(self, host: str) -> None:
        try:
            listener = socket.create_server((host, 0), backlog=self.size)
        except OSError:
            self._comm.bcast(None, root=0)
            raise
        token = secrets.token_hex(16)
        with listener:
            listener.settimeout(_CONNECT_SECONDS)
            self._comm.bcast((listener.getsockname(), token), root=0)
            while len(self._channels) < self.size - 1:
                sock, _ = listener.accept()
                sock.settimeout(_CONNECT_SECONDS)
                hello = ""
                with contextlib.suppress(OSError, UnicodeDecodeError):
                    hello = read_frame(sock, HELLO, len(token) + 20).decode()
                if not hello.startswith(token):
                    sock.close()
                    continue
                rank = int(hello[len(token) :])
                self._channels[rank] = Channel(sock, f"{self._name}, rank 0", f"{self._name}, rank {rank}")

    def _introduce(self) -> None:
        published = self._comm.bcast(None, root=0)
        if published is None:
            raise ConnectionError("the primary rank cannot listen")
        address, token = published
        sock = socket.create_connection(address, timeout=_CONNECT_SECONDS)
        write_frame(sock, HELLO, f"{token}{self.rank}".encode())
        self._channels[0] = Channel(sock, f"{self._name}, rank {self.rank}", f"{self._name}, rank 0")
