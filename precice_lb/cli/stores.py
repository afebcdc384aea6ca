"""Subcommands that show and merge recorded runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

from precice_lb.cli.app import app
from precice_lb.cli.flow import name_files, print_result
from precice_lb.cli.options import required

__all__ = ["merge", "summary"]


@app.command
def summary(
    *directories: Path,
    warmup: int | None = None,
    per_rank: bool = False,
    format: Literal["table", "json", "csv"] = "table",
) -> None:
    """Show what recorded runs spent their time on, and what waiting cost.

    All times are means over the time windows after the warm-up: solve, mapping, wait and overhead, mean over a
    participant's ranks, slowest and fastest rank, and the share of the window. Waiting for partners is told apart from
    waiting for slower ranks of the same participant. Load imbalance is (max - min) / max. What was not measured says
    so, with the remedy, and so do runs that did not come to the end or lack a participant. Runs on libprecice are
    joined with preCICE's own profiling files.

    Example: precice-lb summary precice-lb-store --warmup 2

    Parameters
    ----------
    directories
        Directories of stores, searched with everything below them.
    warmup
        Time windows to leave out; by default what the run says, else 1, or more where more are
        unlike those that follow.
    per_rank
        List every rank.
    format
        A table to read, or JSON or CSV for scripts.
    """
    from precice_lb.dataset import load_runs
    from precice_lb.ingest.profiling import enrich
    from precice_lb.report.summary import summarise
    from precice_lb.report.summary_text import rank_csv, summary_blocks, summary_csv, summary_dict

    sources = required(directories, "directory of stores")
    runs = summarise(load_runs(sources, warmup=warmup, complete=enrich))
    if format == "csv":
        sys.stdout.write(rank_csv(runs) if per_rank else summary_csv(runs))
    else:
        print_result(
            format,
            lambda: summary_blocks(runs, per_rank=per_rank),
            lambda: [summary_dict(each, per_rank=per_rank) for each in runs],
        )


@app.command
def merge(*directories: Path, force: bool = False, keep_parts: bool = False) -> None:
    """Merge the files of a participant's ranks into one, with mapping and wait from preCICE's profiling files.

    The files of the ranks are removed once the merged one has been read back and holds the same. A merge that was
    interrupted loses nothing: run it again. Job scripts call this after the solvers have ended.

    Example: precice-lb merge precice-lb-store

    Parameters
    ----------
    directories
        Directories of stores, searched with everything below them.
    force
        Merge also what looks as if a solver still writes to it, as after a crash.
    keep_parts
        Do not remove the files of the ranks.
    """
    from precice_lb.ingest.profiling import enrich
    from precice_lb.store.merge import merge_stores

    for directory in required(directories, "directory of stores"):
        written = merge_stores(directory, complete=enrich, remove=not keep_parts, force=force)
        name_files(written)
        if not written:
            print(f"nothing left to merge in {directory}")
