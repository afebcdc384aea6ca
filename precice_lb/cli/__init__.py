"""The command line: one importable function per subcommand.

Exit codes: see `precice_lb.cli.app`. Heavy libraries are imported inside the
functions that need them, so that ``--help`` and errors come at once.
"""

from __future__ import annotations

from precice_lb.cli.app import app
from precice_lb.cli.check import check
from precice_lb.cli.commands import at_end, calibrate, demo, run
from precice_lb.cli.completion import completion
from precice_lb.cli.entry import main
from precice_lb.cli.export import export
from precice_lb.cli.fit import fit
from precice_lb.cli.imports import add_readers, importer
from precice_lb.cli.partners import partners
from precice_lb.cli.recommend import recommend
from precice_lb.cli.report import report
from precice_lb.cli.scripts import scripts
from precice_lb.cli.stores import merge, summary
from precice_lb.cli.watch import watch

__all__ = [
    "add_readers",
    "app",
    "at_end",
    "calibrate",
    "check",
    "completion",
    "demo",
    "export",
    "fit",
    "importer",
    "main",
    "merge",
    "partners",
    "recommend",
    "report",
    "run",
    "scripts",
    "summary",
    "watch",
]
