"""One socket between the primary ranks of two participants: framed messages, sends that never block.

The part of preCICE's ``com/SocketCommunication.cpp`` that gather-scatter coupling needs. A frame is a kind (one byte),
a length (eight bytes, big endian) and that many bytes of content.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections import deque
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from precice_lb.embedded.errors import CouplingError

__all__ = ["HELLO", "Channel", "read_frame", "write_frame"]

HELLO = b"H"
_DATA = b"D"
_FAILURE = b"F"
_END = b"E"
_HEADER = struct.Struct("!cQ")


def write_frame(sock: socket.socket, kind: bytes, content: bytes) -> None:
    """Send one small frame, blocking (used while connecting)."""
    sock.sendall(_HEADER.pack(kind, len(content)) + content)


def read_frame(sock: socket.socket, kind: bytes, limit: int) -> bytes:
    """Receive one small frame of a given kind (used while connecting).

    Parameters
    ----------
    sock
        A connected socket; its timeout bounds the wait for each piece.
    kind
        The kind that must come.
    limit
        The greatest length in bytes that is believed.

    Raises
    ------
    OSError
        If the connection ends or something else comes.
    """
    header = _receive_exactly(sock, _HEADER.size)
    found, length = _HEADER.unpack(header)
    if found != kind or length > limit:
        raise ConnectionError("not a frame of this kind")
    return _receive_exactly(sock, length)


def _receive_exactly(sock: socket.socket, length: int) -> bytes:
    content = bytearray(length)
    _fill(sock, memoryview(content))
    return bytes(content)


def _fill(sock: socket.socket, view: memoryview) -> None:
    while len(view):
        received = sock.recv_into(view)
        if received == 0:
            raise ConnectionError("the connection was closed")
        view = view[received:]


class Channel:
    """The connection to one partner's primary rank.

    Parameters
    ----------
    sock
        The connected socket; the channel owns it from here on.
    me, partner
        Names of the two participants, for messages.

    Notes
    -----
    What the operating system does not take at once is handed to a thread that lives until it is sent: two partners
    may send each other data of any size at the same time, and an upstream participant may run ahead. preCICE's sends
    are asynchronous as well.
    """

    def __init__(self, sock: socket.socket, me: str, partner: str) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        # No time-out: a partner may compute for as long as it likes, and a dead one closes the connection.
        sock.settimeout(None)
        self._sock = sock
        self._me = me
        self.partner = partner
        self._pending: deque[memoryview] = deque()
        self._lock = threading.Lock()
        self._sender: threading.Thread | None = None
        self._broken: OSError | None = None

    def send(self, arrays: Sequence[NDArray[np.float64]]) -> None:
        """Send arrays as one message without waiting for the partner.

        Parameters
        ----------
        arrays
            C-contiguous arrays of any shape that are not changed afterwards: they are not copied.

        Raises
        ------
        CouplingError
            If the partner is known to be gone.
        """
        parts = [array.data.cast("B") for array in arrays if array.size]
        self._put(_DATA, parts)

    def send_failure(self, message: str) -> None:
        """Let the other side's next `receive` raise an error with this message; one that is gone needs none."""
        with contextlib.suppress(CouplingError):
            self._put(_FAILURE, [memoryview(message.encode())])

    def receive(self, arrays: Sequence[NDArray[np.float64]]) -> None:
        """Wait for the partner's next message and fill C-contiguous arrays with it.

        Raises
        ------
        CouplingError
            If the partner ended, sent a failure, or sends something else than expected.
        """
        expected = sum(array.nbytes for array in arrays)
        try:
            kind, length = _HEADER.unpack(_receive_exactly(self._sock, _HEADER.size))
            if kind == _FAILURE:
                raise CouplingError(_receive_exactly(self._sock, length).decode())
            if kind == _END:
                raise CouplingError(
                    f'partner "{self.partner}" finalised while "{self._me}" still expected data from it: both solvers '
                    "must run until is_coupling_ongoing() is false"
                )
            if kind != _DATA or length != expected:
                raise CouplingError(
                    f'expected {expected} bytes of data from partner "{self.partner}", found {length}: '
                    "do both solvers run the same version of precice_lb?"
                )
            for array in arrays:
                if array.size:
                    _fill(self._sock, array.data.cast("B"))
        except OSError as error:
            raise self._lost(error) from error

    def finish(self, *, wait_for_partner: bool = False) -> None:
        """Say goodbye, let everything that was sent go out, and close.

        Parameters
        ----------
        wait_for_partner
            Also wait for the partner's goodbye (``wait-in-finalize`` of the configuration).
        """
        try:
            self._put(_END, [], in_background=False)
            if (sender := self._sender) is not None:
                sender.join()
            # At interpreter exit no thread can be started any more.
            self._drain()
            self._sock.shutdown(socket.SHUT_WR)
            if wait_for_partner:
                read_frame(self._sock, _END, 0)
        except (CouplingError, OSError):
            # The partner left first: there is nobody to say goodbye to.
            pass
        finally:
            self._sock.close()

    def abort(self) -> None:
        """Drop the connection, so that the partner notices at once."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()

    def _put(self, kind: bytes, parts: list[memoryview], *, in_background: bool = True) -> None:
        header = memoryview(_HEADER.pack(kind, sum(len(part) for part in parts)))
        with self._lock:
            if self._broken is not None:
                raise self._lost(self._broken)
            queue = [header, *parts]
            if not self._pending:
                try:
                    queue = _unsent(queue, self._sock.sendmsg(queue, [], socket.MSG_DONTWAIT))
                except BlockingIOError:
                    pass
                except OSError as error:
                    raise self._lost(error) from error
            self._pending.extend(queue)
            if self._pending and self._sender is None and in_background:
                self._sender = threading.Thread(target=self._drain, name=f"send-to-{self.partner}")
                self._sender.start()

    def _drain(self) -> None:
        while True:
            with self._lock:
                if not self._pending:
                    self._sender = None
                    return
                part = self._pending[0]
            try:
                self._sock.sendall(part)
            except OSError as error:
                with self._lock:
                    self._broken = error
                    self._pending.clear()
                    self._sender = None
                return
            with self._lock:
                self._pending.popleft()

    def _lost(self, error: OSError) -> CouplingError:
        return CouplingError(
            f'partner "{self.partner}" is gone: "{self._me}" lost its connection ({error}); it crashed, was killed or '
            "ended early, see its own output"
        )


def _unsent(queue: list[memoryview], sent: int) -> list[memoryview]:
    for position, part in enumerate(queue):
        if sent < len(part):
            return [part[sent:], *queue[position + 1 :]]
        sent -= len(part)
    return []
