"""Messages of arrays between two processes, and between the ranks of one participant.

The part of preCICE's ``com/SocketCommunication.cpp`` that gather-scatter coupling needs. A frame is a length (eight
bytes, big endian) and so many bytes; a message is a frame of the shapes of its arrays and their bytes. Nothing is ever
unpickled.

Two primary ranks find each other by a file in the m2n's exchange directory. The acceptor listens and publishes its
address with a token of this run; the connector reads the file and greets with
that token. A file of an earlier, killed run is thereby harmless: either nobody listens there, or whoever does turns the
old token away; the connector then waits for the file to change. As preCICE (``m2n/M2N.cpp``), both sides compare a hash
of the configuration.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import queue
import secrets
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from precice_lb.embedded.errors import CouplingError

_CONNECT_SECONDS = 60.0

Arrays = list[NDArray[np.float64]]


def write_frame(sock: socket.socket, content: bytes) -> None:
    """Send a frame and wait until it is out (used while connecting)."""
    sock.sendall(len(content).to_bytes(8, "big") + content)


def read_frame(sock: socket.socket, limit: int = 2**62) -> bytearray:
    """Receive a frame, of at most `limit` bytes; an OSError if the connection ends or something else comes."""
    if (length := int.from_bytes(_read(sock, 8), "big")) > limit:
        raise ConnectionError("not a frame")
    return _read(sock, length)


def _read(sock: socket.socket, length: int) -> bytearray:
    content = bytearray(length)
    view = memoryview(content)
    while len(view):
        if (received := sock.recv_into(view)) == 0:
            raise ConnectionError("the connection was closed")
        view = view[received:]
    return content


class Channel:
    """The connection to one partner's primary rank, or to another rank of this participant.

    What the operating system does not take at once is left to a thread: two partners may send each other data of any
    size at the same time, and an upstream participant may run ahead. preCICE's sends are asynchronous as well.
    """

    def __init__(self, sock: socket.socket, me: str, partner: str) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        # No time-out: a partner may compute for as long as it likes, and a dead one closes the connection.
        sock.settimeout(None)
        self._socket = sock
        self._me = me
        self.partner = partner
        self._broken: OSError | None = None
        # Each is counted by one thread alone.
        self._put_out = self._sent = 0
        self._outbox: queue.SimpleQueue[memoryview] = queue.SimpleQueue()
        # Daemons live until `finish` has been called at interpreter exit, where no thread can be started any more.
        self._sender = threading.Thread(target=self._work, name=f"send-to-{partner}", daemon=True)
        self._sender.start()

    def send(self, arrays: Sequence[NDArray[np.float64]], failure: str | None = None) -> None:
        """Send arrays, or let the other side's `receive` raise a failure, without waiting for it."""
        if self._broken is not None:
            raise self._lost(self._broken)
        text = (failure or "").encode()
        numbers = [len(text)]
        for array in arrays:
            numbers += (array.ndim, *array.shape)
        parts: list[bytes | memoryview] = [struct.pack(f"!{len(numbers) + 1}q", len(numbers), *numbers)]
        parts += [np.ascontiguousarray(array).data.cast("B") for array in arrays if array.size]
        length = sum(map(len, parts)) + len(text)
        message = memoryview(b"".join([length.to_bytes(8, "big"), *parts, text]))
        if self._sent == self._put_out:
            try:
                message = message[self._socket.send(message, socket.MSG_DONTWAIT) :]
            except BlockingIOError:
                pass
            except OSError as error:
                raise self._lost(error) from error
        if message:
            self._put_out += 1
            self._outbox.put(message)

    def receive(self) -> Arrays:
        """Wait for the next message; a `CouplingError` if the other side ended or failed."""
        arrays = []
        try:
            message = read_frame(self._socket)
            (count,) = struct.unpack_from("!q", message)
            numbers = struct.unpack_from(f"!{count}q", message, 8)
            position, index = 8 + 8 * count, 1
            while index < count:
                end = index + 1 + numbers[index]
                shape = numbers[index + 1 : end]
                size, index = math.prod(shape), end
                found = np.frombuffer(message, count=size, offset=position) if size else np.empty(0)
                arrays.append(found.reshape(shape))
                position += 8 * size
            failure = message[position : position + numbers[0]].decode()
        except (OSError, ValueError, struct.error) as error:
            raise self._lost(error) from error
        if failure:
            raise CouplingError(failure)
        return arrays

    def finish(self) -> None:
        """Say goodbye, let everything that was sent go out, and close."""
        with contextlib.suppress(CouplingError):
            goodbye = (
                f'partner "{self._me}" finalised while "{self.partner}" still expected data from it: both solvers must '
                "run until is_coupling_ongoing() is false"
            )
            self.send([], goodbye)
        self._outbox.put(memoryview(b""))
        self._sender.join()
        self._close(socket.SHUT_WR)

    def abort(self) -> None:
        """Drop the connection, so that the partner notices at once."""
        self._outbox.put(memoryview(b""))
        self._close(socket.SHUT_RDWR)

    def _close(self, how: int) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(how)
        self._socket.close()

    def _work(self) -> None:
        while message := self._outbox.get():
            try:
                self._socket.sendall(message)
            except OSError as error:
                # The other side left first; the next call raises.
                self._broken = error
                return
            self._sent += 1

    def _lost(self, error: Exception) -> CouplingError:
        return CouplingError(
            f'partner "{self.partner}" is gone: "{self._me}" lost its connection ({error or "closed"}); it crashed, '
            "was killed or ended early, see its own output"
        )


class IntraComm:
    """The ranks of one participant; rank 0, the primary rank, alone talks to partners. All calls are collective.

    MPI only tells the ranks apart; they talk over sockets to the primary rank, as with ``<intra-comm:sockets>``. Who
    waits there sleeps and wakes up at once, while a rank that waits in MPI keeps a core busy, which disturbs all others
    where ranks share cores. `communicator` is one of mpi4py, None stands for ``MPI.COMM_WORLD``. A single rank needs no
    MPI, and mpi4py is then not even imported.
    """

    def __init__(self, name: str, rank: int, size: int, communicator: Any = None) -> None:
        if size < 1 or not 0 <= rank < size:
            raise CouplingError(
                f"expected a process index in [0, process size), found index {rank} of size {size}: "
                "check what the solver passes to Participant"
            )
        self.rank = rank
        self.size = size
        self.is_primary = rank == 0
        self.is_parallel = size > 1
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


_DEFAULT_TIMEOUT = 60.0
_DIRECTORY = "precice-lb-run"
_PROTOCOL = 3
_GREETING_LIMIT = 4096
_POLL_SECONDS = 0.01
_REPLY_SECONDS = 5.0
_DIFFERENCES = {
    "protocol": "run versions of precice_lb that cannot talk to each other: install the same version for both",
    "configuration": "were given configurations that differ: give both the same precice-config.xml, byte for byte",
    "guess": "start time windows from other first guesses ({} and {}): ask both for the same, before initialize()",
}


@dataclass(frozen=True)
class Appointment:
    """One m2n of this participant: whom to meet, where, over which network interface and port (0: any free one).

    ``directory`` is the exchange directory as written in the configuration, relative to the working directory.
    """

    partner: str
    accepts: bool
    directory: str
    network: str = "lo"
    port: int = 0

    def file(self, me: str) -> Path:
        """Path of the file that the acceptor publishes."""
        acceptor, connector = (me, self.partner) if self.accepts else (self.partner, me)
        return Path(self.directory) / _DIRECTORY / f"{quote(acceptor, safe='')}-{quote(connector, safe='')}.json"


def connect(
    me: str, appointments: Sequence[Appointment], configuration: str, timeout: float, guess: str = "hold"
) -> dict[str, Channel]:
    """Meet all partners, in whatever order they come; a `CouplingError` if one does not, or has another configuration.

    `configuration` is the text of it; `timeout` are the seconds until all must have come; `guess` is what time windows
    start from.
    """
    digest = hashlib.sha256(configuration.encode()).hexdigest()
    told: dict[str, int | str] = {"protocol": _PROTOCOL, "configuration": digest, "guess": guess}
    meetings: list[_Acceptor | _Connector] = [
        (_Acceptor if appointment.accepts else _Connector)(me, appointment, told) for appointment in appointments
    ]
    channels: dict[str, Channel] = {}
    deadline = time.monotonic() + timeout
    try:
        while True:
            for meeting in meetings:
                partner = meeting.appointment.partner
                if partner not in channels and (sock := meeting.attempt()) is not None:
                    channels[partner] = Channel(sock, me, partner)
            missing = [meeting for meeting in meetings if meeting.appointment.partner not in channels]
            if not missing:
                return channels
            if time.monotonic() > deadline:
                never_came = [
                    f'"{me}" waited {timeout:g} s for its partner "{meeting.appointment.partner}", which never came to '
                    f"the exchange directory {meeting.path.parent.parent.resolve()}: start it with the same "
                    "configuration, so that its exchange-directory means this directory too, or raise "
                    "PRECICE_LB_TIMEOUT (seconds)."
                    for meeting in missing
                ]
                raise CouplingError(" ".join(never_came))
            time.sleep(_POLL_SECONDS)
    except BaseException:
        for channel in channels.values():
            channel.abort()
        raise
    finally:
        for meeting in meetings:
            meeting.close()


class _Meeting:
    """One side of an appointment."""

    def __init__(self, me: str, appointment: Appointment, told: dict[str, int | str]) -> None:
        self.appointment = appointment
        self.path = appointment.file(me)
        self._me = me
        self._told = told

    def _greet(self, sock: socket.socket, token: str) -> None:
        write_frame(sock, json.dumps({"token": token, **self._told}).encode())

    def _greeted(self, sock: socket.socket, token: str, *, answer: bool) -> socket.socket | None:
        """Read a greeting that has come and compare; None, with the connection closed, if it is not of this run."""
        greeting = None
        with contextlib.suppress(OSError, ValueError):
            greeting = json.loads(read_frame(sock, _GREETING_LIMIT))
        if not isinstance(greeting, dict) or not secrets.compare_digest(str(greeting.get("token")), token):
            sock.close()
            return None
        if answer:
            with contextlib.suppress(OSError):
                self._greet(sock, token)
        for key, problem in _DIFFERENCES.items():
            if greeting.get(key) != self._told[key]:
                sock.close()
                what = problem.format(self._told[key], greeting.get(key))
                raise CouplingError(f'"{self._me}" and its partner "{self.appointment.partner}" {what}')
        return sock


class _Acceptor(_Meeting):
    """Listens, and publishes where."""

    def __init__(self, me: str, appointment: Appointment, told: dict[str, int | str]) -> None:
        super().__init__(me, appointment, told)
        self._token = secrets.token_hex(16)
        address = _interface_address(appointment.network)
        try:
            self._listener = socket.create_server((address, appointment.port))
            self._listener.setblocking(False)
            content = {"address": address, "port": self._listener.getsockname()[1], "token": self._token}
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # Written aside and renamed: a connector sees the whole file or none, and an old one is replaced.
            aside = self.path.with_name(f"{self.path.name}.{self._token}")
            aside.write_text(json.dumps({**content, "host": socket.gethostname()}))
            os.replace(aside, self.path)
        except OSError as error:
            raise CouplingError(
                f'"{me}" cannot publish its address for partner "{appointment.partner}" in {self.path}: {error}; make '
                "the m2n's exchange-directory writable and its port free"
            ) from error

    def attempt(self) -> socket.socket | None:
        """One look whether the connector has come."""
        try:
            sock, _ = self._listener.accept()
        except BlockingIOError:
            return None
        sock.settimeout(_REPLY_SECONDS)
        # Others are strangers, or connectors that read an old file.
        return self._greeted(sock, self._token, answer=True)

    def close(self) -> None:
        """Stop listening and remove the file, if it is still ours."""
        self._listener.close()
        with contextlib.suppress(OSError, ValueError):
            if json.loads(self.path.read_text()).get("token") == self._token:
                self.path.unlink()
                self.path.parent.rmdir()


class _Connector(_Meeting):
    """Reads the acceptor's file and introduces itself there."""

    _sock: socket.socket | None = None
    _token = ""

    def attempt(self) -> socket.socket | None:
        """One look whether the acceptor has published its address, or has answered."""
        token, address = self._token, None
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            published = json.loads(self.path.read_text())
            token, address = str(published["token"]), (published["address"], published["port"])
        sock, self._sock = self._sock, None
        if sock is None:
            # Whoever does not listen left a file of an earlier run.
            with contextlib.suppress(OSError, OverflowError, TypeError):
                if address is not None:
                    self._sock, self._token = socket.create_connection(address, timeout=1.0), token
                    self._sock.settimeout(_REPLY_SECONDS)
                    self._greet(self._sock, token)
            return None
        if select.select([sock], [], [], 0)[0]:
            return self._greeted(sock, self._token, answer=False)
        if token == self._token:
            self._sock = sock
        else:
            # The file has changed while an older listener keeps silent.
            sock.close()
        return None

    def close(self) -> None:
        """Drop an unfinished introduction."""
        if self._sock is not None:
            self._sock.close()


def _interface_address(name: str) -> str:
    """IPv4 address of a network interface, by name."""
    if name in {"lo", "lo0"}:
        return "127.0.0.1"
    # It costs some milliseconds: only who asks for another interface pays for it.
    import psutil

    for address in psutil.net_if_addrs().get(name, ()):
        if address.family == socket.AF_INET:
            return str(address.address)
    raise CouplingError(
        f'the m2n\'s network="{name}" has no IPv4 address on this machine: name an interface that has one, or leave '
        "the attribute out for the loopback"
    )


def timeout_seconds() -> float:
    """Return the seconds that partners have to appear, from ``PRECICE_LB_TIMEOUT``; a `CouplingError` if it is none."""
    text = os.environ.get("PRECICE_LB_TIMEOUT", str(_DEFAULT_TIMEOUT))
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not seconds > 0:
        raise CouplingError(f'expected a positive number of seconds in PRECICE_LB_TIMEOUT, found "{text}"')
    return seconds
