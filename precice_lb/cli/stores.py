"""Subcommands that show, judge and export recorded runs, and that import what others have measured."""

from __future__ import annotations

import inspect
import math
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter

from precice_lb.cli.app import Stores, Warmup, app, named_values, required
from precice_lb.cli.flow import OUTPUT, Output, ResultFile, name_files, print_result
from precice_lb.exceptions import DataError
from precice_lb.plugins import READERS
from precice_lb.text import plural, say

if TYPE_CHECKING:
    from precice_lb.dataset import CoupledRun

_NAMES = {"perfetto": "trace.json", "csv": "runs.csv"}
_TABLE = Path("measurements.csv")

TableFile = Annotated[Path, OUTPUT, Parameter(help="The new CSV file to write, for recommend.")]
ReaderOptions = Annotated[
    list[str] | None, Parameter(name="--set", help="What the reader takes, as above: KEY=VALUE, values as in TOML.")
]

importer = App(name="import", help="Bring measurements of other tools into a store or a table for recommend.")
app.command(importer)


@app.command
def summary(
    *directories: Stores,
    warmup: Warmup = None,
    per_rank: bool = False,
    config: Path | None = None,
    format: Literal["table", "json"] | None = None,
    output: ResultFile = None,
) -> None:
    """Show what runs spent their time on, and what waiting cost.

    Of recorded runs, or of any run of preCICE by its profiling files, as they are; by default those below the current
    directory.

    All times are means over the time windows after the warm-up: solve, mapping, wait and overhead, mean over a
    participant's ranks, slowest and fastest rank, and the share of the window. Waiting for partners is told apart from
    waiting for slower ranks of the same participant. The parallel efficiency is shown as a product of factors, each
    with what would raise it; load balance is mean / max. What was not measured says so, with the remedy, and so do runs
    that did not come to the end or lack a participant. Runs on libprecice are joined with preCICE's own profiling
    files. Profiling sections of the solver and its adapter are listed by name. Of a chain of jobs the segments come
    first, each with its decision. A single run ends with the split that it speaks for, and the run to make next.

    Example: precice-lb summary precice-lb-store --warmup 2

    Parameters
    ----------
    per_rank
        List every rank; JSON also has what each holds, and its profiling sections.
    config
        The precice-config.xml of profiling files; by default the one beside or above them.
    format
        A table to read, or JSON for scripts; by default as --output ends, else a table.
    """
    from precice_lb.report.blocks import read_story
    from precice_lb.report.summary import summarise, summary_dict
    from precice_lb.report.summary_view import answered, summary_blocks

    runs = summarise(_runs(directories, warmup, config))
    stories = [story for source in directories if (story := read_story(source)) is not None]
    # A chain of jobs decides by itself, and knows what a change costs.
    answer = None if stories else answered(runs)
    print_result(
        format,
        lambda: [
            *(block for story in stories for block in story.blocks()),
            *summary_blocks(runs, answer, per_rank=per_rank),
        ],
        lambda: [summary_dict(run, answer, per_rank=per_rank) for run in runs],
        output=output,
    )


@app.command
def compare(
    *sources: Path,
    fail_above: str | None = None,
    warmup: Warmup = None,
    config: Path | None = None,
    format: Literal["table", "json", "markdown"] | None = None,
    output: ResultFile = None,
) -> int:
    """Say what changed from one run to another, or from which run on production became slower, and who did it.

    Of two sources the first is before and the second after a change, such as of split, compiler, preCICE or machine:
    window time, compute time and waiting of each participant, with intervals and whether that is more than noise. Runs
    of one source, or of more than two, are put in the order of their start.

    Example: precice-lb compare before after --fail-above 5%

    Example: precice-lb compare runs-2025 runs-2026 runs-2027 --format markdown

    Parameters
    ----------
    sources
        Directories of runs, with stores or preCICE's profiling files; by default the current directory.
    fail_above
        Exit code 1 where the window time grew by more than this, such as 5%, and by more than noise.
    config
        The precice-config.xml of profiling files; by default the one beside or above them.
    format
        A table to read, JSON for scripts, or Markdown for a pull request; by default as --output ends, else a table.
    """
    from precice_lb.report.compare import compare_in_order, compare_runs, comparison_blocks

    limit = math.inf if fail_above is None else _share(fail_above)
    if len(sources) == 2:
        result = compare_runs(*(_runs([source], warmup, config) for source in sources))
    else:
        result = compare_in_order(_runs(sources, warmup, config))
    print_result(format, lambda: list(comparison_blocks(result)), result.to_dict, output=output)
    return 1 if result.window.is_real and result.window.share > limit else 0


def _share(text: str) -> float:
    """Read a percentage of --fail-above."""
    if not re.fullmatch(r"\d+(\.\d+)? ?%", text):
        raise DataError(f"--fail-above: expected a percentage from 0%, such as 5%, found {text!r}")
    return float(text.rstrip("% ")) / 100


def _runs(directories: Sequence[Path], warmup: int | None, config: Path | None = None) -> list[CoupledRun]:
    """Read recorded runs and profiling files, of the current directory where none is named."""
    from precice_lb.dataset import load_runs
    from precice_lb.ingest.profiling import enrich
    from precice_lb.ingest.profiling.find import later_runs, profiles_below
    from precice_lb.ingest.profiling.importer import profiled_runs
    from precice_lb.store.reader import stores_below
    from precice_lb.store.schema import is_store_name

    recorded: list[Path] = []
    raw: list[Path] = []
    for source in directories or (Path(),):
        stores = stores_below(source)
        if stores or (source.is_file() and is_store_name(source.name)):
            recorded.append(source)
            if later := later_runs(source, stores):
                say(
                    f"precice-lb: profiling files below {source.absolute()} are of a later run than its stores; to see "
                    f"that run: precice-lb summary {shlex.join(map(str, later))}",
                    sys.stderr,
                )
        elif source.is_file() or profiles_below(source):
            raw.append(source)
        else:
            raise _no_run(source)
    if config is not None and not raw:
        raise DataError(
            f"--config: expected profiling files to read with {config}, found recorded stores; leave it out"
        )
    runs = load_runs(recorded, warmup=warmup, complete=enrich)
    if raw:
        profiled, notes = profiled_runs(raw, configuration=config, warmup=warmup)
        runs += profiled
        for note in notes:
            say(note, sys.stderr)
    return runs


def _no_run(source: Path) -> DataError:
    """Say what a summary needs, where there is nothing of the kind."""
    from precice_lb.ingest.profiling.find import refused_outputs_below

    where = source.absolute() if source == Path() else source
    for problem in refused_outputs_below(source) if source.is_dir() else ():
        return problem
    there = "none there or below" if source.is_dir() else "nothing there"
    return DataError(
        f"{where}: expected the directory of a run with preCICE's profiling files (precice-profiling/*; none with "
        '<profiling mode="off"/>) or recorded stores (*.h5, *.spool), or one of these files; '
        f"found {there}; give another"
    )


@app.command
def check(
    *directories: Path,
    warmup: Warmup = None,
    format: Literal["table", "json"] | None = None,
    output: ResultFile = None,
) -> int:
    """Judge recorded runs: warm-up, drift, outliers, spread and other load, with numbers and what to do.

    Each participant's compute seconds per window (medians, per coupling iteration) are looked at: do the first windows
    belong to the rest, do later ones drift, do some stand out, is the median known well enough, do runs with the same
    ranks agree, did runs overlap or not come to the end? Exit code 1 says that something was found.

    Example: precice-lb check precice-lb-store

    Parameters
    ----------
    directories
        Directories of runs, with stores or preCICE's profiling files, or these files; by default the current directory.
    format
        A table to read, with the same finding of several runs in one line, or JSON with each of its own; by default as
        --output ends, else a table.
    """
    from precice_lb.check import check_runs
    from precice_lb.report.runs import check_blocks

    result = check_runs(_runs(directories, warmup))
    print_result(format, lambda: check_blocks(result), result.to_dict, output=output, whole_lines=True)
    return 1 if result.findings else 0


@app.command
def export(
    *sources: Path,
    format: Literal["perfetto", "csv"] | None = None,
    merged: bool = False,
    recorder: bool = False,
    output: Output = None,
    force: bool = False,
) -> None:
    """Export recorded runs: a trace for ui.perfetto.dev and chrome://tracing, a table, or one file per participant.

    Or write the recorder, as one file that needs numpy alone beside preCICE.

    Traces have one process per participant and one thread per rank, and name their slices as preCICE does, with their
    time window and coupling iteration. Tables have a row per run, participant, rank, coupling iteration and quantity,
    in seconds. Runs on libprecice are joined with preCICE's own profiling files. For pandas see
    precice_lb.to_dataframe. One file per participant in place of one per rank is a store as well; nothing is removed.

    Example: precice-lb export precice-lb-store --output trace.json

    Example: precice-lb export precice-lb-store --format csv --output runs.csv

    Example: precice-lb export precice-lb-store --merged --output merged

    Example: precice-lb export --recorder

    Parameters
    ----------
    sources
        Directories of stores, searched with everything below them, or store files.
    format
        perfetto, a trace as JSON, which is the default; or csv.
    merged
        Copy the ranks of each participant and run into one file.
    recorder
        Write precice_lb_recorder.py, for clusters: solvers import Participant from it.
    output
        The file to write, or the directory of merged ones; by default trace.json, runs.csv, merged, or
        precice_lb_recorder.py.
    force
        Replace what is there.
    """
    from precice_lb.export import export_csv, export_merged, export_trace
    from precice_lb.record.one_file import NAME, write_recorder

    if merged and format is not None:
        raise DataError(f"--format: expected none with --merged, found {format}; leave one of them out")
    if recorder and (sources or merged or format):
        raise DataError("--recorder: expected it alone, found sources or another form of export; leave them out")
    path = output or Path(f"{NAME}.py" if recorder else "merged" if merged else _NAMES[format or "perfetto"])
    if path.exists() and not force:
        what = "directory" if merged else "file"
        raise DataError(f"--output: expected the name of a new {what}, found {path}; give another, or --force")
    if recorder:
        write_recorder(path)
        name_files([path])
        return
    required(sources, "directory of stores")
    if merged:
        name_files(export_merged(sources, path))
        return
    write, what = (export_csv, "rows") if format == "csv" else (export_trace, "slices")
    count = write(sources, path)
    say(f"wrote {path}: {count} {what}")


@importer.default
@importer.command
def precice_profiling(
    *sources: Path,
    output: Annotated[Path, OUTPUT] = Path("precice-lb-store"),
    config: Path | None = None,
    threads: list[str] | None = None,
) -> None:
    """Turn preCICE's profiling files, of solvers in any language, into stores like recorded ones.

    Time windows come from precice-<Participant>-iterations.log where it lies beside the profiling files; without it
    every coupling iteration is taken for a window, and the command says so.

    Example: precice-lb import precice-profiling case/fluid case/solid --output precice-lb-store

    Parameters
    ----------
    sources
        Profiling files, or directories that are searched for them with everything below.
    output
        Directory of the stores.
    config
        The precice-config.xml; by default the one beside or above the profiling files.
    threads
        Threads of each rank, where it had several: Solid=4.
    """
    from precice_lb.ingest.profiling import import_profiling

    wanted = "participant=a whole number above 0, such as Solid=4"
    counts = named_values(threads or [], "--threads", wanted, lambda _, value: int(value))
    wanted_sources = required(sources, "profiling file or directory of them")
    result = import_profiling(wanted_sources, output, configuration=config, threads=counts)
    for note in result.notes:
        say(note, sys.stderr)
    say(f"wrote {plural(len(result.stores), 'store')} below {output}")


def add_readers() -> App:
    """Give ``import`` a command for each reader, and return it."""
    for name, reader in READERS.items():
        if name not in list(importer):
            # All of it is shown, as no section of parameters.
            text = (inspect.getdoc(reader) or "").replace("----------\n", "")
            importer.command(_command(name), name=name, help=text)
    return importer


def _command(kind: str) -> Callable[..., None]:
    def command(*paths: Path, output: TableFile = _TABLE, options: ReaderOptions = None) -> None:
        from precice_lb.case.read import tables_from

        settings = tables_from([f"reader.{text}" for text in options or ()])
        _to_table(kind, paths, output, **settings.get("reader", {}))

    return command


def _to_table(kind: str, paths: tuple[Path, ...], output: Path, **options: Any) -> None:
    from precice_lb.ingest import import_measurements, write_csv

    # A table may have taken days to measure: nothing is replaced.
    if output.exists():
        raise DataError(f"--output: expected the name of a new file, found {output}; give another")
    measurements = import_measurements(kind, required(paths, "file to import"), **options)
    write_csv(measurements, output)
    for text in measurements.remarks:
        say(text, sys.stderr)
    rows = sum(len(samples) for samples in measurements.samples.values())
    say(f"wrote {output}: {plural(rows, 'sample')} of {', '.join(measurements.samples)}")
