"""The subcommand that writes recorded runs in the formats of other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from precice_lb.cli.app import app
from precice_lb.cli.options import required
from precice_lb.exceptions import DataError

__all__ = ["export"]

_NAMES = {"perfetto": "trace.json", "csv": "runs.csv"}


@app.command
def export(
    *sources: Path, format: Literal["perfetto", "csv"] = "perfetto", output: Path | None = None, force: bool = False
) -> None:
    """Export recorded runs: a trace for ui.perfetto.dev and chrome://tracing, or a table.

    Traces have one process per participant and one thread per rank, and name their slices as preCICE does, with their
    time window and coupling iteration. Tables have a row per run, participant, rank, coupling iteration and quantity,
    in seconds. Runs on libprecice are joined with preCICE's own profiling files. For pandas and xarray see
    precice_lb.export.

    Example: precice-lb export precice-lb-store --output trace.json

    Example: precice-lb export precice-lb-store --format csv --output runs.csv

    Parameters
    ----------
    sources
        Directories of stores, searched with everything below them, or store files.
    format
        perfetto, a trace as JSON; or csv.
    output
        The file to write; by default trace.json or runs.csv.
    force
        Replace the file if it is there.
    """
    from precice_lb.export import export_csv, export_trace

    path = output or Path(_NAMES[format])
    if path.exists() and not force:
        raise DataError(f"--output: expected the name of a new file, found {path}; give another, or --force")
    write, what = (export_trace, "slices") if format == "perfetto" else (export_csv, "rows")
    count = write(required(sources, "directory of stores"), path)
    print(f"wrote {path}: {count} {what}")
