"""Foreign measurements, brought into the same table as recorded ones.

Every format here ends as `Measurements`, and `write_csv` makes a file of them that ``precice-lb recommend`` reads.
preCICE's profiling files, which hold every rank and window, become stores instead (`precice_lb.ingest.profiling`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from precice_lb.exceptions import DataError

if TYPE_CHECKING:
    from precice_lb.dataset import Measurements

__all__ = ["FORMATS", "Format", "import_measurements", "write_csv"]


@dataclass(frozen=True)
class Format:
    """One format of foreign measurements.

    Attributes
    ----------
    description : str
        One line.
    module : str
        The module of this package that reads it, loaded when asked for.
    """

    description: str
    module: str

    @property
    def reader(self) -> Callable[..., Measurements]:
        """Read files: takes a sequence of paths, and its options by keyword."""
        read: Callable[..., Measurements] = import_module(f"{__name__}.{self.module}").import_files
        return read

    @property
    def options(self) -> tuple[str, ...]:
        """Names of the options its reader takes."""
        parameters = inspect.signature(self.reader).parameters.values()
        return tuple(each.name for each in parameters if each.kind is each.KEYWORD_ONLY)


FORMATS: dict[str, Format] = {
    "csv": Format("tables with the columns participant, ranks and seconds per time window", "csv"),
    "precice-events": Format(
        "event logs of preCICE 1.3 to 2.5, as CSV (…-events.log) or JSON (…-events.json)", "events"
    ),
    "ateles-timeinfo": Format("timer tables (timeinfo) of Ateles and other APES solvers, uncoupled runs", "timeinfo"),
    "case": Format("a case folder: case.ini, and one folder per run with the files it names", "case"),
}
"""By name, what `import_measurements` reads."""


def import_measurements(kind: str, paths: Sequence[str | Path], **options: Any) -> Measurements:
    """Read foreign measurements of one case.

    Parameters
    ----------
    kind : str
        One of `FORMATS`.
    paths : sequence of path
        The files (for ``case``: folders).
    **options
        What the format's reader takes; None stands for not given.

    Returns
    -------
    Measurements

    Raises
    ------
    DataError
        If the format or an option is unknown, there is no path, or the reader finds something wrong.
    """
    if kind not in FORMATS:
        raise DataError(f"expected one of the formats {', '.join(FORMATS)}, found {kind!r}")
    if not paths:
        raise DataError(f"{kind}: expected at least one path, found none")
    given = {name: value for name, value in options.items() if value is not None}
    known = FORMATS[kind].options
    for name in given:
        if name not in known:
            raise DataError(f"{kind}: expected one of the options {', '.join(known) or '(none)'}, found {name!r}")
    return FORMATS[kind].reader([Path(path) for path in paths], **given)


def write_csv(measurements: Measurements, path: str | Path) -> None:
    """Write measurements as a CSV file; see `precice_lb.ingest.csv.write_csv`.

    Parameters
    ----------
    measurements : Measurements
        The rows.
    path : path
        The file.

    Raises
    ------
    DataError
        If it cannot be written.
    """
    from precice_lb.ingest.csv import write_csv as write

    write(measurements, path)
