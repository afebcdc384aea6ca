"""Solvers whose times are planned and not measured: see `emulated_clock/sitecustomize.py`."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

__all__ = ["emulated_clock", "study_environment"]

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
