"""What the recorder says while a solver runs: single lines that can neither raise nor repeat."""

from __future__ import annotations

import contextlib
import sys
from typing import TextIO

__all__ = ["note", "warn_once"]

_said: set[str] = set()


def warn_once(message: str) -> None:
    """Print a warning on standard error, the same one only once per process.

    Parameters
    ----------
    message : str
        One line. Python's ``warnings`` are not used: a solver that turns them into errors would die of them.
    """
    if message not in _said:
        _said.add(message)
        note(f"warning: {message}", sys.stderr)


def note(message: str, stream: TextIO | None) -> None:
    """Print a line under the name of the tool.

    Parameters
    ----------
    message : str
        One line.
    stream : file or None
        Where to; nothing happens if it is closed or full.
    """
    if stream is not None:
        with contextlib.suppress(Exception):
            print(f"precice-lb: {message}", file=stream, flush=True)
