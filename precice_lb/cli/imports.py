"""Subcommands of ``import``: one per format of foreign measurements."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from cyclopts import App

from precice_lb.cli.app import app
from precice_lb.cli.options import required
from precice_lb.exceptions import DataError
from precice_lb.plural import plural

__all__ = ["ateles_timeinfo", "case", "csv", "importer", "precice_events", "precice_profiling"]

_TABLE = Path("measurements.csv")

importer = App(name="import", help="Bring measurements of other tools into a store or a table for recommend.")
app.command(importer)


@importer.default
@importer.command
def precice_profiling(
    *sources: Path,
    output: Path = Path("precice-lb-store"),
    config: Path | None = None,
    processes: int | None = None,
) -> None:
    """Turn preCICE's profiling files, of solvers in any language, into stores like recorded ones.

    Databases that precice-profiling merge wrote from them are read too. Time windows come from
    precice-<Participant>-iterations.log where it lies beside the profiling files; without it every coupling iteration
    is taken for a window, and the command says so.

    Example: precice-lb import precice-profiling case/fluid case/solid --output precice-lb-store

    Example: precice-lb import profiling.db --output precice-lb-store

    Parameters
    ----------
    sources
        Profiling files or databases, or directories that are searched for profiling files with everything below them.
    output
        Directory of the stores.
    config
        The precice-config.xml; by default the one beside or above the profiling files.
    processes
        How many processes read files; by default one per processor.
    """
    from precice_lb.ingest.profiling import import_profiling

    given = required(sources, "profiling file or directory of them")
    result = import_profiling(given, output, configuration=config, processes=processes)
    for note in result.notes:
        print(note, file=sys.stderr)
    print(f"wrote {plural(len(result.stores), 'store')} below {output}")


@importer.command
def csv(*files: Path, output: Path = _TABLE) -> None:
    """Join tables with the columns participant, ranks and seconds (own seconds per time window) to one.

    Example: precice-lb import csv fluid.csv solid.csv --output measurements.csv

    Parameters
    ----------
    files
        The tables; cells apart by commas, semicolons or tabs.
    output
        The new CSV file to write, for recommend.
    """
    _to_table("csv", files, output)


@importer.command
def precice_events(
    *files: Path,
    output: Path = _TABLE,
    participant: str | None = None,
    warmup: int | None = None,
    every_rank: bool | None = None,
    advances_per_window: int | None = None,
    mesh_header: Path | None = None,
    parameters: Path | None = None,
) -> None:
    """Read event logs of preCICE 1.3 to 2.5: precice-<Participant>-events.log or .json.

    Example: precice-lb import precice-events precice-Fluid-events.json precice-Solid-events.json

    Parameters
    ----------
    files
        The event logs.
    output
        The new CSV file to write, for recommend.
    participant
        Whose logs they are; by default what the file names say.
    warmup
        Time windows to leave out, at least and by default 1.
    every_rank
        Take the slowest of all ranks, also of those that never received data.
    advances_per_window
        Calls of advance per time window; by default what precice-<Participant>-iterations.log says, else 1.
    mesh_header
        Header of a Seeder mesh (header.lua): its number of elements becomes a parameter.
    parameters
        An ini file with further parameters.
    """
    options = {"participant": participant, "warmup": warmup, "every_rank": every_rank}
    more = {"advances_per_window": advances_per_window, "mesh_header": mesh_header, "parameters": parameters}
    _to_table("precice-events", files, output, **options, **more)


@importer.command
def ateles_timeinfo(
    *files: Path,
    participant: str,
    output: Path = _TABLE,
    windows: int | None = None,
    mesh_header: Path | None = None,
    parameters: Path | None = None,
) -> None:
    """Read timer tables (timeinfo) of Ateles and the other solvers of the APES suite, run uncoupled.

    Example: precice-lb import ateles-timeinfo timing.res --participant Fluid --windows 100 --mesh-header header.lua

    Parameters
    ----------
    files
        The timer tables, one per run.
    participant
        The solver's name in the coupled simulation.
    output
        The new CSV file to write, for recommend.
    windows
        Time windows that each run made; without it a whole run counts as one.
    mesh_header
        Header of a Seeder mesh (header.lua): its number of elements becomes a parameter.
    parameters
        An ini file with further parameters.
    """
    options = {"participant": participant, "windows": windows, "mesh_header": mesh_header, "parameters": parameters}
    _to_table("ateles-timeinfo", files, output, **options)


@importer.command
def case(
    *folders: Path,
    output: Path = _TABLE,
    warmup: int | None = None,
    windows: int | None = None,
    every_rank: bool | None = None,
    advances_per_window: int | None = None,
) -> None:
    """Read case folders: case.ini names the event logs, timer tables and mesh headers in the folder of each run.

    Example: precice-lb import case channel --output channel.csv

    Parameters
    ----------
    folders
        Folders with a case.ini, and beside it one folder per run.
    output
        The new CSV file to write, for recommend.
    warmup
        Event logs: time windows to leave out, at least and by default 1.
    windows
        Timer tables: time windows that each run made.
    every_rank
        Event logs: take the slowest of all ranks, also of those that never received data.
    advances_per_window
        Event logs: calls of advance per time window.
    """
    options = {"warmup": warmup, "windows": windows}
    more = {"every_rank": every_rank, "advances_per_window": advances_per_window}
    _to_table("case", folders, output, **options, **more)


def _to_table(kind: str, paths: tuple[Path, ...], output: Path, **options: Any) -> None:
    from precice_lb.ingest import import_measurements, write_csv

    # A table may have taken days to measure: nothing is replaced.
    if output.exists():
        raise DataError(f"--output: expected the name of a new file, found {output}; give another")
    measurements = import_measurements(kind, required(paths, "file to import"), **options)
    write_csv(measurements, output)
    rows = sum(len(samples) for samples in measurements.samples.values())
    print(f"wrote {output}: {plural(rows, 'sample')} of {', '.join(measurements.samples)}")
