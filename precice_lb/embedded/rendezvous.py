"""How the primary ranks of two participants find each other: a file in the m2n's exchange directory.

The acceptor listens and publishes its address with a token of this run; the connector reads the file and introduces
itself with that token. A file of an earlier, killed run is thereby harmless: either nobody listens there, or whoever
does turns the old token away; the connector then waits for the file to change. As preCICE
(``m2n/M2N.cpp``), both sides compare a hash of the configuration.
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
import struct
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from precice_lb.embedded.errors import CouplingError
from precice_lb.embedded.sockets import HELLO, Channel, read_frame, write_frame

__all__ = ["Appointment", "configuration_hash", "connect", "timeout_seconds"]

_DEFAULT_TIMEOUT = 60.0
_DIRECTORY = "precice-lb-run"
_PROTOCOL = 1
_HELLO_LIMIT = 4096
_POLL_SECONDS = 0.01
_REPLY_SECONDS = 5.0


@dataclass(frozen=True)
class Appointment:
    """One m2n of this participant: whom to meet and where.

    ``network`` is the name of a network interface, ``port`` the port to listen on (0: any free one), ``directory``
    the exchange directory as written in the configuration, relative to the working directory.
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


def configuration_hash(text: str) -> str:
    """Hash that both partners' configurations must share, byte for byte."""
    return hashlib.sha256(text.encode()).hexdigest()


def connect(me: str, appointments: Sequence[Appointment], configuration: str, timeout: float) -> dict[str, Channel]:
    """Meet all partners, in whatever order they come.

    Parameters
    ----------
    me
        Name of this participant.
    appointments
        One for each partner.
    configuration
        Result of `configuration_hash`.
    timeout
        Seconds until partners must have come.

    Returns
    -------
    dict
        A channel for each partner.

    Raises
    ------
    CouplingError
        If a partner does not come in time, or comes with another configuration.
    """
    meetings: list[_Acceptor | _Connector] = [
        (_Acceptor if appointment.accepts else _Connector)(me, appointment, configuration)
        for appointment in appointments
    ]
    channels: dict[str, Channel] = {}
    deadline = time.monotonic() + timeout
    try:
        while True:
            for meeting in meetings:
                partner = meeting.appointment.partner
                if partner not in channels and (sock := meeting.attempt()) is not None:
                    channels[partner] = Channel(sock, me, partner)
            if len(channels) == len(meetings):
                return channels
            if time.monotonic() > deadline:
                missing = [meeting for meeting in meetings if meeting.appointment.partner not in channels]
                raise CouplingError(" ".join(_never_came(me, meeting, timeout) for meeting in missing))
            time.sleep(_POLL_SECONDS)
    except BaseException:
        for channel in channels.values():
            channel.abort()
        raise
    finally:
        for meeting in meetings:
            meeting.close()


class _Acceptor:
    """Listens, and publishes where."""

    def __init__(self, me: str, appointment: Appointment, configuration: str) -> None:
        self.appointment = appointment
        self._me = me
        self._configuration = configuration
        self._token = secrets.token_hex(16)
        self.path = appointment.file(me)
        address = _interface_address(appointment.network)
        self._listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._listener.bind((address, appointment.port))
            self._listener.listen()
            self._listener.setblocking(False)
            self._publish(address)
        except OSError as error:
            self._listener.close()
            raise CouplingError(
                f'"{me}" cannot publish its address for partner "{appointment.partner}" in {self.path}: {error}; make '
                "the m2n's exchange-directory writable and its port free"
            ) from error

    def _publish(self, address: str) -> None:
        port = self._listener.getsockname()[1]
        content = {"address": address, "port": port, "token": self._token, "host": socket.gethostname()}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # Written aside and renamed: a connector sees the whole file or none, and an old one is replaced.
        aside = self.path.with_name(f"{self.path.name}.{self._token}")
        aside.write_text(json.dumps(content))
        os.replace(aside, self.path)

    def attempt(self) -> socket.socket | None:
        """One look whether the connector has come."""
        try:
            sock, _ = self._listener.accept()
        except BlockingIOError:
            return None
        try:
            sock.settimeout(_REPLY_SECONDS)
            hello = json.loads(read_frame(sock, HELLO, _HELLO_LIMIT))
            if not isinstance(hello, dict) or hello.get("token") != self._token:
                raise ConnectionError("a stranger, or a connector that read an old file")
            accepted = {"protocol": _PROTOCOL, "configuration": self._configuration}
            write_frame(sock, HELLO, json.dumps(accepted).encode())
        except (OSError, ValueError):
            sock.close()
            return None
        _compare(self._me, self.appointment.partner, self._configuration, hello, sock)
        return sock

    def close(self) -> None:
        """Stop listening and remove the file, if it is still ours."""
        self._listener.close()
        with contextlib.suppress(OSError, ValueError):
            if json.loads(self.path.read_text()).get("token") == self._token:
                self.path.unlink()
                self.path.parent.rmdir()


class _Connector:
    """Reads the acceptor's file and introduces itself there."""

    def __init__(self, me: str, appointment: Appointment, configuration: str) -> None:
        self.appointment = appointment
        self._me = me
        self._configuration = configuration
        self.path = appointment.file(me)
        self._sock: socket.socket | None = None
        self._token: str | None = None

    def attempt(self) -> socket.socket | None:
        """One look whether the acceptor has published its address, or has answered."""
        try:
            published = json.loads(self.path.read_text())
            token, address = published["token"], (published["address"], published["port"])
        except (OSError, ValueError, KeyError, TypeError):
            token = address = None
        if self._sock is None:
            if address is not None:
                self._introduce(address, str(token))
            return None
        if select.select([self._sock], [], [], 0)[0]:
            return self._take_answer(self._sock)
        if token not in {self._token, None}:
            # The file has changed while an older listener keeps silent.
            self.close()
        return None

    def _introduce(self, address: tuple[str, int], token: str) -> None:
        hello = {"protocol": _PROTOCOL, "token": token, "configuration": self._configuration}
        sock: socket.socket | None = None
        try:
            sock = socket.create_connection(address, timeout=1.0)
            sock.settimeout(_REPLY_SECONDS)
            write_frame(sock, HELLO, json.dumps(hello).encode())
        except (OSError, OverflowError, TypeError):
            # Nobody listens: a file of an earlier run.
            if sock is not None:
                sock.close()
            return
        self._sock = sock
        self._token = token

    def _take_answer(self, sock: socket.socket) -> socket.socket | None:
        try:
            answer = json.loads(read_frame(sock, HELLO, _HELLO_LIMIT))
        except (OSError, ValueError):
            self.close()
            return None
        self._sock = None
        _compare(self._me, self.appointment.partner, self._configuration, answer, sock)
        return sock

    def close(self) -> None:
        """Drop an unfinished introduction."""
        if self._sock is not None:
            self._sock.close()
            self._sock = None


def _compare(me: str, partner: str, configuration: str, other: dict[str, Any], sock: socket.socket) -> None:
    if other.get("protocol") != _PROTOCOL:
        sock.close()
        raise CouplingError(
            f'"{me}" and its partner "{partner}" run versions of precice_lb that cannot talk to each other: '
            "install the same version for both"
        )
    if other.get("configuration") != configuration:
        sock.close()
        raise CouplingError(
            f'"{me}" and its partner "{partner}" were given configurations that differ: give both the same '
            "precice-config.xml, byte for byte"
        )


def _never_came(me: str, meeting: _Acceptor | _Connector, timeout: float) -> str:
    directory = meeting.path.parent.parent.resolve()
    return (
        f'"{me}" waited {timeout:g} s for its partner "{meeting.appointment.partner}", which never came to the '
        f"exchange directory {directory}: start it with the same configuration, so that its exchange-directory means "
        "this directory too, or raise PRECICE_LB_TIMEOUT (seconds)."
    )


def _interface_address(name: str) -> str:
    """IPv4 address of a network interface, by name."""
    if name in {"lo", "lo0"}:
        return "127.0.0.1"
    if sys.platform == "linux":
        import fcntl

        request_address = 0x8915  # SIOCGIFADDR of linux/sockios.h
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock, contextlib.suppress(OSError):
            answer = fcntl.ioctl(sock.fileno(), request_address, struct.pack("256s", name.encode()[:15]))
            return socket.inet_ntoa(answer[20:24])
    raise CouplingError(
        f'the m2n\'s network="{name}" has no IPv4 address on this machine: name an interface that has one, or leave '
        "the attribute out for the loopback"
    )


def timeout_seconds() -> float:
    """Return the seconds that partners have to appear, from ``PRECICE_LB_TIMEOUT``.

    Raises
    ------
    CouplingError
        If it is no positive number.
    """
    text = os.environ.get("PRECICE_LB_TIMEOUT", str(_DEFAULT_TIMEOUT))
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not seconds > 0:
        raise CouplingError(f'expected a positive number of seconds in PRECICE_LB_TIMEOUT, found "{text}"')
    return seconds
