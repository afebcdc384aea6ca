"""How the primary ranks of two participants find each other: a file in the m2n's exchange directory.

The acceptor listens and publishes its address with a token of this run; the connector reads the file and greets with
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
import secrets
import select
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from precice_lb.embedded.communication import Channel, read_frame, write_frame
from precice_lb.embedded.errors import CouplingError

__all__ = ["Appointment", "connect", "timeout_seconds"]

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
