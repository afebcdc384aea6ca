"""What the recorder says while a solver runs and is told by the environment, without raising or repeating itself."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TextIO

_said: set[str] = set()


def warn_once(message: str) -> None:
    """Print a warning, once per process; a solver that turns Python's own warnings into errors would die of those."""
    if message not in _said:
        _said.add(message)
        note(f"warning: {message}", sys.stderr)


def note(message: str, stream: TextIO | None) -> None:
    """Print a line under the name of the tool; nothing happens if the stream is closed or full."""
    if stream is not None:
        with contextlib.suppress(Exception):
            print(f"precice-lb: {message}", file=stream, flush=True)


def setting(name: str, *choices: str) -> str:
    """Read an environment variable; the first choice where it is not set, or set to something else."""
    found = os.environ.get(name) or choices[0]
    if found in choices:
        return found
    warn_once(f"{name} is ignored: expected {' or '.join(sorted(filter(None, choices)))}, found {found!r}")
    return choices[0]
