"""Running the five constituents, and what is learned from their clocks."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from climate_parts.coupling import NAMES, program, seconds_per_day
from precice_lb.schedule import Trace

__all__ = ["Measured", "run_split", "run_splits"]

Split = Mapping[str, int]


@dataclass(frozen=True)
class Measured:
    """A split that was run.

    Attributes
    ----------
    split : dict of str to int
        Ranks by constituent.
    day : float
        Seconds per simulated day, mean of those after the first.
    traces : dict of str to Trace
        Of a mean day after the first.
    computed : dict of str to ndarray
        Seconds that each constituent computed on each of these days.
    """

    split: dict[str, int]
    day: float
    traces: dict[str, Trace]
    computed: dict[str, NDArray[np.float64]]


def run_splits(
    splits: Sequence[Split], *, scale: float, days: int, jobs: int = 1, emulated: bool = False
) -> list[Measured]:
    """Run several splits, some at the same time: sleeping takes no processor."""
    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(lambda split: run_split(split, scale=scale, days=days, emulated=emulated), splits))


def run_split(
    split: Split,
    *,
    scale: float,
    days: int,
    emulated: bool = False,
    factors: Mapping[str, Sequence[float]] | None = None,
) -> Measured:
    """Run the constituents for some days; a second of the law is `scale` seconds of sleep, and results are scaled back.

    Each process stands for all ranks of its constituent. On an emulated clock they take no longer than their messages.
    With factors a constituent takes so many times what its law says, day by day.
    """
    ends: dict[str, dict[str, socket.socket]] = {name: {} for name in NAMES}
    pairs = [pair for pair in combinations(NAMES, 2) if "cpl" in pair]
    for a, b in pairs:
        ends[a][b], ends[b][a] = socket.socketpair()
    script = str(Path(__file__).with_name("constituent.py"))
    runs = {}
    try:
        for name in NAMES:
            numbers = {other: end.fileno() for other, end in ends[name].items()}
            run = subprocess.Popen(
                [sys.executable, "-S", script],
                pass_fds=list(numbers.values()),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            runs[name] = run
            whole = scale * float(seconds_per_day(name, split[name]))
            each = [1.0] * days if factors is None else list(factors[name])
            task = {"sockets": numbers, "factors": each, "steps": _steps(name, whole), "emulated": emulated}
            assert run.stdin is not None
            run.stdin.write(json.dumps(task) + "\n")
            run.stdin.flush()
        for run in runs.values():
            assert run.stdout is not None
            assert run.stdout.readline() == "ready\n"
        said = {}
        for run in runs.values():
            assert run.stdin is not None
            run.stdin.write("\n")
            run.stdin.flush()
        for name, run in runs.items():
            said[name] = json.loads(run.communicate(timeout=600)[0])
    finally:
        for run in runs.values():
            run.kill()
            run.communicate()
        for end in ends.values():
            for each in end.values():
                each.close()
    stops = np.array([said[name]["stop"] for name in NAMES])
    day = float(((stops[:, -1] - stops[:, 0]) / (days - 1)).max()) / scale
    traces = {name: _trace(name, said[name], scale) for name in NAMES}
    return Measured(dict(split), day, traces, {name: _computed(said[name], scale) for name in NAMES})


def _steps(name: str, whole: float) -> list[tuple[float, tuple[str, ...]]]:
    return [(step.share * whole, step.partners) for step in program(name)]


def _trace(name: str, clocks: dict[str, list[list[float]]], scale: float) -> Trace:
    partners = [step.partners for step in program(name) if step.kind == "meet"]
    times = (np.array(clocks[key][1:]) / scale for key in ("begin", "end", "start", "stop"))
    return Trace.from_events(partners, ["exchange"] * len(partners), *times)


def _computed(clocks: dict[str, list[list[float]]], scale: float) -> NDArray[np.float64]:
    begin, end, start, stop = (np.array(clocks[key][1:]) / scale for key in ("begin", "end", "start", "stop"))
    return np.asarray(stop - start - (end - begin).sum(axis=1), dtype=np.float64)
