"""The subcommand that judges recorded runs before anything is learned from them."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from precice_lb.cli.app import app
from precice_lb.cli.options import required

if TYPE_CHECKING:
    from precice_lb.check import CheckResult

__all__ = ["check"]


@app.command
def check(*directories: Path, warmup: int | None = None, format: Literal["table", "json"] = "table") -> int:
    """Judge recorded runs: warm-up, drift, outliers, spread and other load, with numbers and what to do.

    Each participant's own seconds per window are looked at: do the first windows belong to the rest, do later ones
    drift, do some stand out, is the median known well enough, do participants of one machine slow down together, do
    runs with the same ranks agree, did runs overlap? Exit code 1 says that something was found.

    Example: precice-lb check precice-lb-store

    Parameters
    ----------
    directories
        Directories of stores, searched with everything below them.
    warmup
        Time windows that are left out; by default what the run says, else 1.
    format
        A table to read, or JSON.
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
        sys.stdout.write("\n".join(_lines(result)) + "\n")
    return 1 if result.findings else 0


def _lines(result: CheckResult) -> Iterator[str]:
    """Give a table of numbers, then each finding with its remedy."""
    from precice_lb.report.text import visible

    titles = ("run", "participant", "ranks", "windows", "warm-up", "seconds", "drift", "outliers", "spread", "error")
    rows = [
        (
            visible(each.run),
            visible(each.participant),
            str(each.ranks),
            str(each.windows),
            f"{each.warmup_found} ({each.warmup_left_out} left out)",
            f"{each.seconds:.4g}",
            _percent(each.drift, "+.1f"),
            str(each.outliers),
            _percent(each.deviation, ".1f"),
            _percent(each.error, ".1f"),
        )
        for each in result.healths
    ]
    widths = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]
    for row in (titles, *rows):
        yield "  ".join(
            cell.ljust(width) if at < 2 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
    yield ""
    for finding in result.findings:
        where = f"{finding.run}: {finding.participant}" if finding.participant else finding.run
        yield visible(f"{finding.kind}: {where}: {finding.text}")
        yield f"    {visible(finding.remedy)}"
    if not result.findings:
        yield f"nothing found that speaks against these runs; {result.warmup} windows of warm-up are left out"


def _percent(share: float, form: str) -> str:
    return f"{100 * share:{form}} %" if math.isfinite(share) else "unknown"
