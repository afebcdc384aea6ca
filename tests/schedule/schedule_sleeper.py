"""A participant that only sleeps: name, files with what it should do, one after the other.

It gets ready, waits until the file "go" appears, runs, and prints when it finished the work of each time window and
when the window ended, by a clock that all processes share, how long it slept in it, and how much longer than asked for
each sleep was.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
import time
from pathlib import Path

import numpy as np


def wake_at_once() -> None:
    """Who sleeps takes no processor, but should wake up at once on a busy machine, where that is allowed."""
    with contextlib.suppress(AttributeError, OSError):
        # So should threads that send for it.
        for thread in os.listdir("/proc/self/task"):
            os.sched_setscheduler(int(thread), os.SCHED_RR, os.sched_param(1))


def run(name: str, path: Path) -> None:
    """Couple in one case."""
    os.chdir(path.parent)
    case = json.loads(path.read_text())
    backend = importlib.import_module(case["backend"])
    costs = case["costs"][name]
    print("ready", flush=True)
    while not Path(case["go"]).exists():
        time.sleep(0.02)
    participant = backend.Participant(name, case["configuration"], 0, 1)
    mesh = f"{name}-Mesh"
    vertices = participant.set_mesh_vertices(mesh, np.array([[0.0, 0.0], [1.0, 0.0]]))
    participant.initialize()
    if not case["emulated"]:
        wake_at_once()
    slept: list[float] = []
    worked: list[float] = []
    ended: list[float] = []
    own = 0.0
    while participant.is_coupling_ongoing():
        participant.requires_writing_checkpoint()
        step = min(participant.get_max_time_step_size(), case["steps"][name])
        # Costs are those of one iteration of a window of mean size.
        seconds = costs[len(ended) % len(costs)] * step / case["mean_steps"][name]
        begin = time.perf_counter()
        time.sleep(seconds)
        own += time.perf_counter() - begin
        if case["writes"][name]:
            participant.write_data(mesh, f"From{name}", vertices, np.ones(2))
        now = time.perf_counter()
        participant.advance(step)
        participant.requires_reading_checkpoint()
        if participant.is_time_window_complete():
            worked.append(now)
            ended.append(time.perf_counter())
            slept.append(own)
            own = 0.0
    participant.finalize()
    print(json.dumps({"worked": worked, "ended": ended, "slept": slept}), flush=True)


for file in sys.argv[2:]:
    run(sys.argv[1], Path(file))
