"""The command line: one importable function per subcommand.

Exit codes: see `precice_lb.cli.app`. Heavy libraries are imported inside the
functions that need them, so that ``--help`` and errors come at once.
"""

from __future__ import annotations

# Each adds its commands, and so do those of the rooms.
from precice_lb.cli import commands, launch  # noqa: F401
from precice_lb.cli.app import app, main
from precice_lb.cli.stores import add_readers
from precice_lb.rooms import hooks

hooks("command")

__all__ = ["add_readers", "app", "main"]
