"""One constituent as a process: sleeps what its law says and meets its partners, in the order of its program.

A task comes as one line of JSON on standard input; then the next line starts it. Clocks go out as JSON. Where the task
says so, the clock is emulated: sleeping takes no real time, and who meets another goes on from the later time of both.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import sys
import time

_TIME = struct.Struct("!d")


class RealClock:
    """The machine's clock."""

    now = staticmethod(time.perf_counter)
    sleep = staticmethod(time.sleep)

    def meet(self, other: float) -> None:
        """Go on: the other has come."""


class EmulatedClock:
    """Time passes in sleep and for who waits, exactly."""

    def __init__(self) -> None:
        self._seconds = 0.0

    def now(self) -> float:
        """Return seconds since the start."""
        return self._seconds

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self._seconds += seconds

    def meet(self, other: float) -> None:
        """Go on from the time of the other where that is later."""
        self._seconds = max(self._seconds, other)


def main() -> None:
    """Run the days and tell their clocks."""
    task = json.loads(sys.stdin.readline())
    peers = {name: socket.socket(fileno=number) for name, number in task["sockets"].items()}
    for peer in peers.values():
        peer.settimeout(120)
    clock = EmulatedClock() if task["emulated"] else RealClock()
    # Who sleeps takes no processor, but should wake up at once on a busy machine, where that is allowed.
    with contextlib.suppress(AttributeError, OSError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    print("ready", flush=True)
    sys.stdin.readline()
    clocks: dict[str, list[list[float]]] = {"begin": [], "end": []}
    start, stop = [], []
    for factor in task["factors"]:
        begin, end = [], []
        start.append(clock.now())
        for seconds, partners in task["steps"]:
            if seconds:
                clock.sleep(factor * seconds)
            if partners:
                begin.append(clock.now())
                for name in partners:
                    peers[name].sendall(_TIME.pack(clock.now()))
                for name in partners:
                    clock.meet(*_TIME.unpack(peers[name].recv(_TIME.size, socket.MSG_WAITALL)))
                end.append(clock.now())
        stop.append(clock.now())
        clocks["begin"].append(begin)
        clocks["end"].append(end)
    print(json.dumps({**clocks, "start": start, "stop": stop}), flush=True)


if __name__ == "__main__":
    main()
