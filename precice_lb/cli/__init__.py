"""The command line: one importable function per subcommand.

Exit codes: 0 done, 2 refused (one line on standard error), 130 interrupted. Heavy libraries are imported inside the
functions that need them, so that ``--help`` and errors come at once.
"""

from __future__ import annotations

from precice_lb.cli.commands import app, at_end, calibrate, demo, recommend, run, summary
from precice_lb.cli.entry import main

__all__ = ["app", "at_end", "calibrate", "demo", "main", "recommend", "run", "summary"]
