"""The command line: one importable function per subcommand.

Exit codes: see `precice_lb.cli.app`. Heavy libraries are imported inside the
functions that need them, so that ``--help`` and errors come at once.
"""

from __future__ import annotations

from precice_lb.cli.app import app, completion, main
from precice_lb.cli.chain import chain, chain_app
from precice_lb.cli.commands import at_end, calibrate, demo, init, run
from precice_lb.cli.guess import guess_app, guess_check, guess_patch
from precice_lb.cli.inside import inside
from precice_lb.cli.launch import launch
from precice_lb.cli.partners import partners
from precice_lb.cli.recommend import recommend, report
from precice_lb.cli.stores import add_readers, check, export, importer, summary
from precice_lb.cli.watch import watch

__all__ = [
    "add_readers",
    "app",
    "at_end",
    "calibrate",
    "chain",
    "chain_app",
    "check",
    "completion",
    "demo",
    "export",
    "guess_app",
    "guess_check",
    "guess_patch",
    "importer",
    "init",
    "inside",
    "launch",
    "main",
    "partners",
    "recommend",
    "report",
    "run",
    "summary",
    "watch",
]
