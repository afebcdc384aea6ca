"""Communication between the ranks of one participant: gather to and scatter from the primary rank.

MPI only tells the ranks apart. They talk over sockets to the primary rank, as with preCICE's ``<intra-comm:sockets>``:
whoever waits there sleeps and wakes up at once, while a rank that waits in MPI keeps a core busy, which with more ranks
than cores disturbs every other rank.
"""

from __future__ import annotations

import contextlib
import secrets
import socket
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.embedded.channel import Channel, read_frame, write_frame
from precice_lb.embedded.errors import CouplingError

__all__ = ["IntraComm"]

_CONNECT_SECONDS = 60.0

Arrays = list[NDArray[np.float64]]


class IntraComm:
    """The ranks of one participant; rank 0 is the primary rank. All calls are collective.

    `communicator` is one of mpi4py, None stands for ``MPI.COMM_WORLD``. A single rank needs no MPI, and mpi4py is then
    not even imported.
    """

    def __init__(self, name: str, rank: int, size: int, communicator: Any = None) -> None:
        if size < 1 or not 0 <= rank < size:
            raise CouplingError(
                f"expected a process index in [0, process size), found index {rank} of size {size}: "
                "check what the solver passes to Participant"
            )
        self.rank = rank
        self.size = size
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
            try:
                self._connect(name, given.Dup(), MPI.Get_processor_name())
            except OSError as error:
                raise CouplingError(
                    f'the ranks of "{name}" cannot connect over TCP: {error}; run them on one machine, or let the name '
                    "of the primary rank's machine resolve on all"
                ) from error

    def _connect(self, name: str, communicator: Any, host: str) -> None:
        hosts = communicator.allgather(host)
        listener, published = None, None
        try:
            if self.is_primary:
                listener = socket.create_server(("127.0.0.1" if len(set(hosts)) == 1 else host, 0), backlog=self.size)
                listener.settimeout(_CONNECT_SECONDS)
                published = (listener.getsockname(), secrets.token_bytes(16))
        finally:
            published = communicator.bcast(published)
        if published is None:
            raise ConnectionError("the primary rank cannot listen")
        address, token = published
        if listener is None:
            sock = socket.create_connection(address, timeout=_CONNECT_SECONDS)
            write_frame(sock, token + self.rank.to_bytes(8, "big"))
            self._channels[0] = Channel(sock, f"{name}, rank {self.rank}", f"{name}, rank 0")
            return
        with listener:
            while len(self._channels) < self.size - 1:
                sock, _ = listener.accept()
                sock.settimeout(_CONNECT_SECONDS)
                greeting = b""
                with contextlib.suppress(OSError):
                    greeting = bytes(read_frame(sock, len(token) + 8))
                if secrets.compare_digest(greeting[:-8], token):
                    rank = int.from_bytes(greeting[-8:], "big")
                    self._channels[rank] = Channel(sock, f"{name}, rank 0", f"{name}, rank {rank}")
                else:
                    sock.close()

    @property
    def is_primary(self) -> bool:
        """Whether this rank talks to the partners."""
        return self.rank == 0

    @property
    def is_parallel(self) -> bool:
        """Whether there is more than one rank."""
        return self.size > 1

    def gather(self, local: Arrays) -> list[Arrays]:
        """Return every rank's arrays at the primary rank, which alone waits; nothing elsewhere."""
        if self.is_primary:
            return [local, *(self._channels[rank].receive() for rank in range(1, self.size))]
        self._channels[0].send(local)
        return []

    def scatter(self, part: Callable[[int], Arrays], failure: str | None = None) -> Arrays:
        """Return what `part` gives for this rank at the primary rank, or raise its failure, on all ranks."""
        if not self.is_primary:
            return self._channels[0].receive()
        for rank, channel in self._channels.items():
            channel.send([] if failure else part(rank), failure)
        if failure:
            raise CouplingError(failure)
        return part(0)

    def broadcast(self, arrays: Arrays) -> Arrays:
        """Return the primary rank's arrays on every rank."""
        return self.scatter(lambda rank: arrays)

    def agree(self, failure: str | None) -> None:
        """Raise the primary rank's failure on every rank, or return on every rank; others' are not looked at."""
        self.scatter(lambda rank: [], failure)

    def agree_all(self, failure: str | None) -> None:
        """Raise the first rank's failure on every rank, or return on every rank."""
        if not self.is_primary:
            self._channels[0].send([], failure)
        for channel in self._channels.values() if self.is_primary else ():
            try:
                channel.receive()
            except CouplingError as error:
                failure = failure or str(error)
        self.agree(failure)

    def total(self, local: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sum of an array over all ranks, on all ranks (preCICE's ``IntraComm::allreduceSum``)."""
        if not self.is_parallel:
            return local
        parts = [part for (part,) in self.gather([local])]
        return self.broadcast([sum(parts[1:], start=parts[0])] if parts else [])[0]

    def close(self) -> None:
        """Close the connections once everything has been sent."""
        for channel in self._channels.values():
            channel.finish()
