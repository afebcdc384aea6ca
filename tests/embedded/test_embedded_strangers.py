"""Who comes to a participant's door uninvited, and what a partner may claim: nobody is delayed, nothing ends a run."""

from __future__ import annotations

import contextlib
import json
import socket
import stat
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from embedded_helpers import m2n

from precice_lb.case import M2N
from precice_lb.embedded import CouplingError
from precice_lb.embedded.communication import Connection, connect, published_file


@pytest.fixture
def acceptor(tmp_path: Path) -> M2N:
    return m2n(tmp_path)


def published(acceptor: M2N, waiting: Future[Any]) -> dict[str, Any]:
    """Wait for the address that A publishes as long as it waits for its partner."""
    while not published_file(acceptor).exists():
        assert not waiting.done()
        time.sleep(0.01)
    return json.loads(published_file(acceptor).read_text())


@contextlib.contextmanager
def strangers(address: tuple[str, int], *greetings: bytes) -> Iterator[None]:
    """Say what each of them says, and keep all connections open."""
    with contextlib.ExitStack() as stack:
        for greeting in greetings:
            stack.enter_context(sock := socket.create_connection(address)).sendall(greeting)
            # Whoever is turned away notices.
            with contextlib.suppress(OSError):
                sock.settimeout(0.05)
                sock.recv(1)
        yield


def frame(content: bytes) -> bytes:
    return len(content).to_bytes(8, "big") + content


SAYINGS = {
    "nothing": b"",
    "a frame of 2^61 bytes": (2**61).to_bytes(8, "big"),
    "4,096 brackets": frame(b"[" * 4096),
    "a wrong token": frame(b'{"token": "wrong"}'),
    "bytes that are no text": frame(b'{"token": "\xff"}'),
}


@pytest.mark.parametrize("saying", SAYINGS)
def test_whatever_strangers_say_the_partner_comes_in(saying: str, acceptor: M2N, tmp_path: Path) -> None:
    with ThreadPoolExecutor() as pool:
        a = pool.submit(connect, "A", [acceptor], "same", 15.0)
        told = published(acceptor, a)
        with strangers((told["address"], told["port"]), *[SAYINGS[saying]] * 5):
            b = pool.submit(connect, "B", [acceptor], "same", 15.0)
            channels = a.result(100)["B"], b.result(100)["A"]
        channels[0].send([np.ones((2, 1))])
        np.testing.assert_array_equal(channels[1].receive()[0], np.ones((2, 1)))
        for channel in channels:
            channel.abort()


def test_only_its_user_may_read_the_token(acceptor: M2N, tmp_path: Path) -> None:
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(connect, "A", [acceptor], "same", 60.0)
        told = published(acceptor, waiting)
        path = published_file(acceptor)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert not [other for other in path.parent.iterdir() if told["token"] in other.name]
        for channel in (connect("B", [acceptor], "same", 60.0)["A"], waiting.result(100)["B"]):
            channel.abort()


@pytest.mark.parametrize(
    "claim",
    [
        (2**61).to_bytes(8, "big"),
        (2**64 - 1).to_bytes(8, "big"),
        frame((2**61).to_bytes(8, "big")),
        frame(b"\xff" * 8),
        frame(b"".join(number.to_bytes(8, "big", signed=True) for number in (2, 0, -1))),
        frame(b"".join(number.to_bytes(8, "big", signed=True) for number in (3, 0, 1, 2**62))),
        frame(b"".join(number.to_bytes(8, "big", signed=True) for number in (2, 0, 2**62))),
        frame(b"".join(number.to_bytes(8, "big", signed=True) for number in (4, 0, 2, 2**62, 2**62))),
    ],
)
def test_what_a_message_claims_is_no_room_that_it_gets(claim: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        left = socket.create_connection(server.getsockname())
        right, _ = server.accept()
    channel = Connection(right, "B", "A")
    left.sendall(claim)
    left.close()
    with pytest.raises(CouplingError, match='partner "A" is gone'):
        channel.receive()
    channel.abort()
