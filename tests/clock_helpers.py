"""Clocks of tests: of solvers whose times are planned (see `emulated_clock/sitecustomize.py`), and of the package."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

__all__ = ["Clock", "emulated_clock", "study_environment"]

_DIRECTORY = str(Path(__file__).with_name("emulated_clock"))
# Unix time (ns) at which all emulated clocks begin: not before any of the processes.
_EPOCH = time.time_ns() + 10**13


def emulated_clock(environment: dict[str, str]) -> dict[str, str]:
    """Return an environment whose Python processes run on the emulated clock; for the embedded backend only."""
    paths = [_DIRECTORY, environment.get("PYTHONPATH", "")]
    return {**environment, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "EMULATED_EPOCH": str(_EPOCH)}


def study_environment() -> str:
    """Return the ``[case.environment]`` table of a study whose solvers run on the emulated clock."""
    variables = emulated_clock({"PRECICE_LB_BACKEND": "embedded", "PYTHONPATH": os.environ.get("PYTHONPATH", "")})
    return "[case.environment]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in variables.items())


class Clock:
    """Stands in for the module `time`: time passes in pauses, and where a test says that something takes some.

    Attributes
    ----------
    now : float
        Seconds since the clock was made.
    pauses : list of float
        Seconds of each pause so far.
    in_pause : dict of int to function
        What happens in the pause of that number, from 1.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []
        self.in_pause: dict[int, Callable[[], object]] = {}

    def monotonic(self) -> float:
        """Return the seconds since the clock was made."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let time pass at once."""
        self.pauses.append(seconds)
        self.now += seconds
        happens = self.in_pause.get(len(self.pauses))
        if happens is not None:
            happens()
