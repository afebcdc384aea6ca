"""Gives a Python process a clock of its own, on which nothing but sleeping and receiving takes time.

Python loads this by itself where this directory is on PYTHONPATH. Sleeping takes exactly what was asked for, and no
real time. Every message of the embedded backend carries its sender's time, and whoever receives it goes on a
microsecond after that or after its own time, whichever is later: what a run records is then the same on every machine,
however busy it is.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

# Those who look for others again and again leave the processor to them and wait in real time.
POLLING = ("_received", "connect", "wait_asleep", "wait_for")

TRANSFER = 10**3  # ns
now = 10**9  # ns
really_sleep = time.sleep


def sleep(seconds: float) -> None:
    global now
    # So does whoever is not the solver itself: its threads have no part in what takes it time.
    if sys._getframe(1).f_code.co_name in POLLING or threading.current_thread() is not threading.main_thread():
        really_sleep(seconds)
    else:
        now += round(seconds * 1e9)


time.sleep = sleep
time.perf_counter_ns = lambda: now
time.perf_counter = lambda: now * 1e-9
# Those of one run are told by when they were there: all must begin at the same moment.
epoch = int(os.environ["EMULATED_EPOCH"])
time.time_ns = lambda: epoch + now

# Only now: some modules take the clock by its name.
import numpy as np  # noqa: E402

from precice_lb.embedded.communication import Connection  # noqa: E402

send, receive = Connection.send, Connection.receive


def send_with_time(self: Connection, arrays: Sequence[Any], failure: str | None = None) -> None:
    send(self, [*arrays, np.array([float(now)])], failure)


def receive_with_time(self: Connection) -> list[Any]:
    global now
    *arrays, sent = receive(self)
    now = max(now, int(sent[0])) + TRANSFER
    return arrays


Connection.send = send_with_time  # type: ignore[method-assign]
Connection.receive = receive_with_time  # type: ignore[method-assign]
