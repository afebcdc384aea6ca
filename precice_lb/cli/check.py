"""The subcommand that judges recorded runs before anything is learned from them."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from precice_lb.cli.app import app
from precice_lb.cli.options import required
from precice_lb.plural import plural

if TYPE_CHECKING:
    from precice_lb.check import CheckResult

__all__ = ["check"]


@app.command
def check(*directories: Path, warmup: int | None = None, format: Literal["table", "json"] = "table") -> int:
    """Judge recorded runs: warm-up, drift, outliers, spread and other load, with numbers and what to do.

    Each participant's own seconds per window (medians, per coupling iteration) are looked at: do the first windows
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
        sys.stdout.write("\n".join(_lines(result)) + "\n")
    return 1 if result.findings else 0


def _lines(result: CheckResult) -> Iterator[str]:
    """Give a table of numbers, then each finding with its remedy."""
    from precice_lb.report.text import visible

    titles = (
        "run", "participant", "ranks", "windows", "warm-up", "median own s", "iterations", "drift", "outliers",
        "spread", "error",
    )  # fmt: skip
    rows = [
        (
            visible(each.run),
            visible(each.participant),
            str(each.ranks),
            str(each.windows),
            f"{each.warmup_found} ({each.warmup_left_out} left out)",
            _known(each.seconds, ".4g"),
            _known(each.iterations, ".2f"),
            each.drift_text,
            str(each.outliers),
            _percent(each.deviation),
            _percent(each.error),
        )
        for each in result.healths
    ]
    widths = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]
    for row in (titles, *rows):
        yield "  ".join(
            cell.ljust(width) if at < 2 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
    yield "median own s: per time window, the median per coupling iteration after warm-up times the mean iterations;"
    yield "spread: of one window, error: of that median (standard deviations)"
    judged = {each.participant for each in result.healths if not each.negligible}
    negligible = dict.fromkeys(
        f"{each.participant} in {each.run}" if each.participant in judged else each.participant
        for each in result.healths
        if each.negligible
    )
    if negligible:
        yield visible(f"not judged, with less than 1 % of the window: {', '.join(negligible)}")
    yield ""
    for group in result.groups:
        worst = group.worst
        same = all(each.size == worst.size for each in group.others)
        count = f" ({1 + len(group.others)} times{'' if same else ', this is the worst'})" if group.others else ""
        yield visible(f"{worst.kind}{count}: {worst.where}: {worst.text}")
        if group.others:
            yield visible(f"    also {group.also}")
        yield f"    {visible(worst.remedy)}"
    if not result.findings:
        left_out = f"{plural(result.warmup, 'window')} of warm-up {'is' if result.warmup == 1 else 'are'} left out"
        yield f"nothing found that speaks against these runs; {left_out}"


def _known(value: float, form: str) -> str:
    return f"{value:{form}}" if math.isfinite(value) else "unknown"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %" if math.isfinite(share) else "unknown"
