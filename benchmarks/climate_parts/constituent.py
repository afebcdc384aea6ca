"""One constituent as a process: sleeps what its law says and meets its partners, in the order of its program.

A task comes as one line of JSON on standard input; then the next line starts it. Clocks go out as JSON.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import time


def main() -> None:
    """Run the days and tell their clocks."""
    task = json.loads(sys.stdin.readline())
    peers = {name: socket.socket(fileno=number) for name, number in task["sockets"].items()}
    for peer in peers.values():
        peer.settimeout(120)
    # Who sleeps takes no processor, but should wake up at once on a busy machine, where that is allowed.
    with contextlib.suppress(AttributeError, OSError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    print("ready", flush=True)
    sys.stdin.readline()
    clocks: dict[str, list[list[float]]] = {"begin": [], "end": []}
    start, stop = [], []
    for _ in range(task["days"]):
        begin, end = [], []
        start.append(time.perf_counter())
        for seconds, partners in task["steps"]:
            if seconds:
                time.sleep(seconds)
            if partners:
                begin.append(time.perf_counter())
                for name in partners:
                    peers[name].sendall(b".")
                for name in partners:
                    peers[name].recv(1)
                end.append(time.perf_counter())
        stop.append(time.perf_counter())
        clocks["begin"].append(begin)
        clocks["end"].append(end)
    print(json.dumps({**clocks, "start": start, "stop": stop}), flush=True)


if __name__ == "__main__":
    main()
