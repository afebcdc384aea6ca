"""Solvers whose times are planned and not measured: see `emulated_clock/sitecustomize.py`."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["EMULATED_CLOCK", "emulated_clock"]

#: What PYTHONPATH begins with in processes that run on the emulated clock.
EMULATED_CLOCK = str(Path(__file__).with_name("emulated_clock"))


def emulated_clock(environment: dict[str, str]) -> dict[str, str]:
    """Return an environment whose Python processes run on the emulated clock; for the embedded backend only."""
    paths = [EMULATED_CLOCK, environment.get("PYTHONPATH", "")]
    return {**environment, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
