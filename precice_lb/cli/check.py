"""The subcommand that judges recorded runs before anything is learned from them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

from precice_lb.cli.app import app
from precice_lb.cli.options import required

__all__ = ["check"]

# Characters of a line where nobody reads it on a screen.
_ENDLESS = 10_000


@app.command
def check(*directories: Path, warmup: int | None = None, format: Literal["table", "json"] = "table") -> int:
    """Judge recorded runs: warm-up, drift, outliers, spread and other load, with numbers and what to do.

    Each participant's compute seconds per window (medians, per coupling iteration) are looked at: do the first windows
    belong to the rest, do later ones drift, do some stand out, is the median known well enough, do participants of one
    machine slow down together, do runs with the same ranks agree, did runs overlap or not come to the end? Exit code 1
    says that something was found.

    Example: precice-lb check precice-lb-store

    Parameters
    ----------
    directories
        Directories of stores, searched with everything below them.
    warmup
        Time windows that are left out; by default what the run says, else 1, or more where more are
        unlike those that follow.
    format
        A table to read, with the same finding of several runs in one line, or JSON with each of its own.
    """
    from precice_lb.check import check_runs
    from precice_lb.dataset import load_runs
    from precice_lb.ingest.profiling import enrich

    runs = load_runs(required(directories, "directory of stores"), warmup=warmup, complete=enrich)
    result = check_runs(runs)
    if format == "json":
        from precice_lb.report.documents import json_text

        sys.stdout.write(json_text(result.to_dict()))
    else:
        from precice_lb.report.check_view import check_blocks
        from precice_lb.report.terminal import console, rendered

        screen = console()
        if not screen.is_terminal:
            # Whole lines for programs that search them.
            screen.width = _ENDLESS
        screen.print(rendered(check_blocks(result)))
    return 1 if result.findings else 0
