"""One connection between two processes: messages of arrays, sends that never wait for the other side.

The part of preCICE's ``com/SocketCommunication.cpp`` that gather-scatter coupling needs. A frame is a length (eight
bytes, big endian) and so many bytes; a message is a frame of the shapes of its arrays and their bytes. Nothing is ever
unpickled.
"""

from __future__ import annotations

import contextlib
import math
import queue
import socket
import struct
import threading
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from precice_lb.embedded.errors import CouplingError

__all__ = ["Channel", "read_frame", "write_frame"]


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

    def receive(self) -> list[NDArray[np.float64]]:
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
                arrays.append(
                    np.frombuffer(message, count=size, offset=position).reshape(shape) if size else np.empty(shape)
                )
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
