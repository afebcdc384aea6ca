"""Messages of arrays between two processes, and between the ranks of one participant.

The part of preCICE's ``com/SocketCommunication.cpp`` that gather-scatter coupling needs. A frame is a length (eight
bytes, big endian) and so many bytes; a message is a frame of the shapes of its arrays and their bytes. Nothing is ever
unpickled.

Two primary ranks find each other by a file in the m2n's exchange directory, which only their user may read. The
acceptor listens and publishes its address with a token of this run; the connector reads the file and greets with that
token. A file of an earlier, killed run is thereby harmless: either nobody listens there, or whoever does turns the old
token away; the connector then waits for the file to change. As preCICE (``m2n/M2N.cpp``), both sides compare a hash of
the configuration, and here of the protocol.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
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
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from precice_lb.case.config import M2N
from precice_lb.embedded.timeline import Array, CouplingError

_CONNECT_SECONDS = 60.0
_GREETING_SECONDS = 5.0
_GREETING_LIMIT = 4096
_POLL_SECONDS = 0.01
#: Connections that may wait to be accepted, beside those that are expected.
_BACKLOG = 64
#: Messages that wait behind the one on its way: one `advance` sends a window size, a convergence and data.
_AHEAD = 3

Arrays = list[Array]


def write_frame(sock: socket.socket, content: bytes) -> None:
    """Send a frame and wait until it is out (used while connecting)."""
    sock.sendall(len(content).to_bytes(8, "big") + content)


def _read(sock: socket.socket, length: int, deadline: float | None = None) -> memoryview:
    # Memory is used as bytes come, whatever length was claimed.
    content, position = np.empty(length, np.uint8).data, 0
    while position < length:
        if deadline is not None:
            sock.settimeout(max(deadline - time.monotonic(), _POLL_SECONDS))
        received = sock.recv_into(content[position:])
        if not received:
            raise ConnectionError("the connection was closed")
        position += received
    return content


def _greeting(sock: socket.socket, head: bytes) -> bytes:
    """Wait for the first frame on a connection; an OSError if it does not begin with the head, or is too slow."""
    deadline = time.monotonic() + _GREETING_SECONDS
    length = int.from_bytes(_read(sock, 8, deadline), "big")
    content = bytes(_read(sock, min(length, _GREETING_LIMIT), deadline))
    if not secrets.compare_digest(content[: len(head)], head):
        raise ConnectionError("not a greeting of this run")
    return content


class _Endpoint:
    """A listening socket. Each greeting is read by a thread of its own: strangers delay nobody."""

    def __init__(self, address: str, port: int, head: bytes, expected: int = 1) -> None:
        self.listener = socket.create_server((address, port), backlog=expected + _BACKLOG)
        #: Connections whose greeting begins with the head, with their greetings.
        self.arrived: queue.SimpleQueue[tuple[socket.socket, bytes]] = queue.SimpleQueue()
        self._head = head
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while self.listener.fileno() >= 0:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                time.sleep(_POLL_SECONDS)
                continue
            threading.Thread(target=self._admit, args=(sock,), daemon=True).start()

    def _admit(self, sock: socket.socket) -> None:
        try:
            self.arrived.put((sock, _greeting(sock, self._head)))
        except OSError:
            sock.close()

    def close(self) -> None:
        """Stop listening and turn away whoever is still here."""
        # Ends the wait of the thread that accepts, too.
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        while not self.arrived.empty():
            self.arrived.get()[0].close()


class Connection:
    """The connection to one partner's primary rank, or to another rank of this participant.

    What the operating system does not take at once is left to a thread, up to what one ``advance`` sends; then `send`
    waits. preCICE's point-to-point sends keep everything instead, its gather-scatter sends wait at once. With room for
    an ``advance``, whoever waits is ahead of its partner: partners never wait for each other only because of that.
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
        self._outbox: queue.Queue[memoryview] = queue.Queue(_AHEAD)
        # Daemons live until `finish` has been called at interpreter exit, where no thread can be started any more.
        self._sender = threading.Thread(target=self._work, name=f"send-to-{partner}", daemon=True)
        self._sender.start()

    def send(self, arrays: Sequence[Array], failure: str | None = None) -> None:
        """Send arrays, or let the other side's `receive` raise a failure; wait only for room for it."""
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
        if not self._outbox.unfinished_tasks:
            try:
                message = message[self._socket.send(message, socket.MSG_DONTWAIT) :]
            except BlockingIOError:
                pass
            except OSError as error:
                raise self._lost(error) from error
        if message:
            self._outbox.put(message)

    def receive(self) -> Arrays:
        """Wait for the next message; a `CouplingError` if the other side ended or failed."""
        arrays = []
        try:
            message = _read(self._socket, int.from_bytes(_read(self._socket, 8), "big"))
            (count,) = struct.unpack_from("!q", message)
            length, *numbers = struct.unpack_from(f"!{count}q", message, 8)
            position, shapes = 8 + 8 * count, iter(numbers)
            for dimensions in shapes:
                shape = tuple(itertools.islice(shapes, dimensions))
                size = math.prod(shape)
                values = np.frombuffer(message, count=size, offset=position) if size else np.empty(0)
                arrays.append(values.reshape(shape))
                position += 8 * size
            failure = bytes(message[position : position + length]).decode()
        except (OSError, ValueError, OverflowError, MemoryError, struct.error) as error:
            raise self._lost(error) from error
        if failure:
            raise CouplingError(failure)
        return arrays

    def finish(self) -> None:
        """Say goodbye, let everything that was sent go out, and close."""
        self._outbox.maxsize = 0
        with contextlib.suppress(CouplingError):
            goodbye = (
                f'partner "{self._me}" finalised while "{self.partner}" still expected data from it: both solvers must '
                "run until is_coupling_ongoing() is false"
            )
            self.send([], goodbye)
        self._outbox.put(memoryview(b""))
        while self._sender.is_alive():
            # A partner that finishes as well takes nothing more: dropping what it sends, neither waits for ever.
            dropped = b""
            with contextlib.suppress(OSError):
                dropped = self._socket.recv(2**20, socket.MSG_DONTWAIT)
            self._sender.join(0 if dropped else _POLL_SECONDS)
        self._close(socket.SHUT_WR)

    def abort(self) -> None:
        """Drop the connection, so that the partner notices at once."""
        self._close(socket.SHUT_RDWR)
        self._outbox.put(memoryview(b""))

    def _close(self, how: int) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(how)
        self._socket.close()

    def _work(self) -> None:
        while message := self._outbox.get():
            # Once the other side has left, the next call raises; one that waits for room goes on.
            if self._broken is None:
                try:
                    self._socket.sendall(message)
                except OSError as error:
                    self._broken = error
            self._outbox.task_done()

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
        self.channels: dict[int, Connection] = {}
        if size == 1 and communicator is None:
            return
        from mpi4py import MPI

        world = MPI.COMM_WORLD if communicator is None else communicator
        if (world.Get_rank(), world.Get_size()) != (rank, size):
            raise CouplingError(
                f"expected the MPI communicator's rank {world.Get_rank()} of {world.Get_size()}, found process index "
                f"{rank} of size {size}: start the solver with this environment's mpiexec and pass its rank and size"
            )
        if size > 1:
            # A duplicate, so that no message of ours can meet one of the solver's.
            try:
                self._connect(name, world.Dup(), MPI.Get_processor_name())
            except OSError as error:
                raise CouplingError(
                    f'the ranks of "{name}" cannot connect over TCP: {error}; run them on one machine, or let the name '
                    "of the primary rank's machine resolve on all"
                ) from error

    def _connect(self, name: str, communicator: Any, host: str) -> None:
        hosts = communicator.allgather(host)
        token, endpoint, published = secrets.token_bytes(16), None, None
        try:
            if self.is_primary:
                endpoint = _Endpoint("127.0.0.1" if len(set(hosts)) == 1 else host, 0, token, self.size)
                published = (endpoint.listener.getsockname(), token)
        finally:
            published = communicator.bcast(published)
        if published is None:
            raise ConnectionError("the primary rank cannot listen")
        if endpoint is None:
            address, token = published
            sock = socket.create_connection(address, timeout=_CONNECT_SECONDS)
            write_frame(sock, token + self.rank.to_bytes(8, "big"))
            self.channels[0] = Connection(sock, f"{name}, rank {self.rank}", f"{name}, rank 0")
            return
        deadline = time.monotonic() + _CONNECT_SECONDS
        with contextlib.closing(endpoint):
            while len(self.channels) < self.size - 1:
                try:
                    sock, content = endpoint.arrived.get(timeout=max(deadline - time.monotonic(), 0.0))
                except queue.Empty:
                    raise TimeoutError(f"{self.size - 1 - len(self.channels)} did not come") from None
                rank = int.from_bytes(content[len(token) :], "big")
                self.channels[rank] = Connection(sock, f"{name}, rank 0", f"{name}, rank {rank}")

    def gather(self, local: Arrays) -> list[Arrays]:
        """Return every rank's arrays at the primary rank, which alone waits; nothing elsewhere."""
        if self.is_primary:
            return [local, *(self.channels[rank].receive() for rank in range(1, self.size))]
        self.channels[0].send(local)
        return []

    def scatter(self, part: Callable[[int], Arrays], failure: str | None = None) -> Arrays:
        """Return what `part` gives for this rank at the primary rank, or raise its failure, on all ranks."""
        if not self.is_primary:
            return self.channels[0].receive()
        for rank, channel in self.channels.items():
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

    def total(self, local: Array) -> Array:
        """Sum of an array over all ranks, on all ranks (preCICE's ``IntraComm::allreduceSum``)."""
        return self.reduce(local, lambda parts: sum(parts[1:], start=parts[0]))

    def reduce(self, local: Array, combine: Callable[[Arrays], Array]) -> Array:
        """Return on every rank what the primary rank makes of an array of each."""
        parts = [part for (part,) in self.gather([local])]
        return self.broadcast([combine(parts)] if parts else [])[0]


_DEFAULT_TIMEOUT = 60.0
_DIRECTORY = "precice-lb-run"
_PROTOCOL = 6


def published_file(m2n: M2N) -> Path:
    """Path of the file that the acceptor publishes, relative to the working directory as the exchange directory is."""
    names = f"{quote(m2n.acceptor, safe='')}-{quote(m2n.connector, safe='')}.json"
    return Path(m2n.exchange_directory) / _DIRECTORY / names


def connect(me: str, m2ns: Sequence[M2N], configuration: str, timeout: float) -> dict[str, Connection]:
    """Meet all partners, in whatever order they come; a `CouplingError` if one does not, or has another configuration.

    `m2ns` are all and `configuration` is the text of it; `timeout` are the seconds until all must have come.
    """
    digest = hashlib.sha256(f"{_PROTOCOL}\n{configuration}".encode()).hexdigest()
    sides: dict[str, Generator[socket.socket | None, None, None]] = {}
    directories: dict[str, Path] = {}
    for m2n in m2ns:
        for name, partner, meet in ((m2n.acceptor, m2n.connector, _accept), (m2n.connector, m2n.acceptor, _seek)):
            if me == name:
                sides[partner], directories[partner] = meet(m2n, digest), Path(m2n.exchange_directory).resolve()
    channels: dict[str, Connection] = {}
    deadline = time.monotonic() + timeout
    try:
        while True:
            for partner in [name for name in sides if name not in channels]:
                if (sock := next(sides[partner])) is not None:
                    channels[partner] = Connection(sock, me, partner)
            missing = [partner for partner in sides if partner not in channels]
            if not missing:
                return channels
            if time.monotonic() > deadline:
                raise CouplingError(
                    " ".join(
                        f'"{me}" waited {timeout:g} s for its partner "{partner}", which never came to the exchange '
                        f"directory {directories[partner]}: start it with the same configuration, so that its "
                        "exchange-directory means this directory too, or raise PRECICE_LB_TIMEOUT (seconds)."
                        for partner in missing
                    )
                )
            time.sleep(_POLL_SECONDS)
    except BaseException:
        for channel in channels.values():
            channel.abort()
        raise
    finally:
        for side in sides.values():
            side.close()


def _accept(m2n: M2N, digest: str) -> Generator[socket.socket | None, None, None]:
    """Listen, publish where, and look again and again whether the connector has come."""
    token, path, published = secrets.token_hex(16), published_file(m2n), ""
    with contextlib.ExitStack() as stack:
        try:
            endpoint = stack.enter_context(
                contextlib.closing(_Endpoint("127.0.0.1", m2n.element.integer("port", "0"), _head(token)))
            )
            port = endpoint.listener.getsockname()[1]
            published = json.dumps({"address": "127.0.0.1", "port": port, "token": token})
            path.parent.mkdir(parents=True, exist_ok=True)
            # Written aside and renamed: a connector sees the whole file or none, and an old one is replaced.
            aside = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
            aside.touch(0o600, exist_ok=False)
            aside.write_text(published)
            os.replace(aside, path)
        except OSError as error:
            raise CouplingError(
                f'"{m2n.acceptor}" cannot publish its address for partner "{m2n.connector}" in {path}: {error}; '
                "make the m2n's exchange-directory writable and its port free"
            ) from error
        try:
            while endpoint.arrived.empty():
                yield None
            sock, content = endpoint.arrived.get()
            with contextlib.suppress(OSError):
                _greet(sock, token, digest)
            yield _compared(m2n, digest, sock, content)
        finally:
            # If it is still ours.
            with contextlib.suppress(OSError, ValueError):
                if path.read_text() == published:
                    path.unlink()
                    path.parent.rmdir()


def _seek(m2n: M2N, digest: str) -> Generator[socket.socket | None, None, None]:
    """Read the acceptor's file and greet there, and look again and again for the answer, or for another file."""
    sock: socket.socket | None = None
    token = ""
    try:
        while True:
            published, address = token, None
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
                content = json.loads(published_file(m2n).read_text())
                published, address = str(content["token"]), (content["address"], content["port"])
            if sock is None:
                # Whoever does not listen left a file of an earlier run.
                with contextlib.suppress(OSError, OverflowError, TypeError, ValueError):
                    if address is not None:
                        sock, token = socket.create_connection(address, timeout=1.0), published
                        _greet(sock, token, digest)
            elif select.select([sock], [], [], 0)[0]:
                answered, sock = sock, None
                try:
                    answer = _greeting(answered, _head(token))
                except OSError:
                    answered.close()
                else:
                    yield _compared(m2n, digest, answered, answer)
            elif published != token:
                # The file has changed while an older listener keeps silent.
                sock.close()
                sock = None
            yield None
    finally:
        if sock is not None:
            sock.close()


def _greet(sock: socket.socket, token: str, digest: str) -> None:
    write_frame(sock, json.dumps({"token": token, "configuration": digest}).encode())


def _head(token: str) -> bytes:
    """Return what the greeting of one who knows the token begins with: nothing else of strangers is looked at."""
    return json.dumps({"token": token}).encode()[:-1]


def _compared(m2n: M2N, digest: str, sock: socket.socket, content: bytes) -> socket.socket:
    """Return the connection to whoever knew the token; a `CouplingError` if what else was told differs."""
    if json.loads(content).get("configuration") != digest:
        sock.close()
        raise CouplingError(
            f'"{m2n.acceptor}" and its partner "{m2n.connector}" were given configurations that differ: give both the '
            "same precice-config.xml, byte for byte, and install the same version of precice_lb for both"
        )
    return sock


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
