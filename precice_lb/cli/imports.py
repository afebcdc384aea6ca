"""Subcommands of ``import``: preCICE's profiling files, and one per reader of foreign measurements."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, get_type_hints

from cyclopts import App, Parameter

from precice_lb.cli.app import app
from precice_lb.cli.options import required
from precice_lb.exceptions import DataError
from precice_lb.plugins import READERS, close_match
from precice_lb.plural import plural

__all__ = ["add_readers", "importer", "precice_profiling"]

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
    _refuse_words(given)
    result = import_profiling(given, output, configuration=config, processes=processes)
    for note in result.notes:
        print(note, file=sys.stderr)
    print(f"wrote {plural(len(result.stores), 'store')} below {output}")


def _refuse_words(sources: Sequence[Path]) -> None:
    """Refuse what looks like the name of a format, where that is left out for profiling files."""
    first = sources[0]
    if not first.exists() and first.name == str(first) and not first.suffix:
        formats = ["precice-profiling", *READERS]
        raise DataError(
            f"expected a format ({', '.join(formats)}), or a profiling file or a directory of them, found "
            f"{first.name!r}{close_match(first.name, formats)}"
        )


def add_readers() -> App:
    """Give ``import`` a command for each reader, which needs its module, and return it."""
    for name, reader in READERS.items():
        if name not in list(importer):
            importer.command(_command(name, reader), name=name)
    return importer


def _command(kind: str, reader: Callable[..., Any]) -> Callable[..., None]:
    """Make a command of a reader: the same options and docstring, and where to write."""

    def command(*paths: Path, output: Path = _TABLE, **options: Any) -> None:
        _to_table(kind, paths, output, **options)

    hints = get_type_hints(reader)
    own = [
        each.replace(annotation=hints.get(each.name, str))
        for each in inspect.signature(reader).parameters.values()
        if each.kind is each.KEYWORD_ONLY
    ]
    first, output = list(inspect.signature(command, eval_str=True).parameters.values())[:2]
    first = first.replace(name=next(iter(inspect.signature(reader).parameters), "paths"))
    help_text = "The new CSV file to write, for recommend."
    output = output.replace(annotation=Annotated[Path, Parameter(help=help_text)])
    command.__signature__ = inspect.Signature([first, output, *own])  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in (first, output, *own)}
    command.__doc__, command.__name__ = inspect.getdoc(reader), kind
    return command


def _to_table(kind: str, paths: tuple[Path, ...], output: Path, **options: Any) -> None:
    from precice_lb.ingest import import_measurements, write_csv

    # A table may have taken days to measure: nothing is replaced.
    if output.exists():
        raise DataError(f"--output: expected the name of a new file, found {output}; give another")
    measurements = import_measurements(kind, required(paths, "file to import"), **options)
    write_csv(measurements, output)
    rows = sum(len(samples) for samples in measurements.samples.values())
    print(f"wrote {output}: {plural(rows, 'sample')} of {', '.join(measurements.samples)}")
