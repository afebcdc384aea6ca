"""Foreign measurements, brought into the same table as recorded ones.

Every format here ends as `Measurements`, and `write_csv` makes a file of them that ``precice-lb recommend`` reads.
preCICE's profiling files, which hold every rank and window, become stores instead (`precice_lb.ingest.profiling`).

A reader is a function of its own file, named in `precice_lb.plugins.READERS`: it takes a sequence of paths, and options
by keyword, each with a default. ``precice-lb import`` makes a command of it, and its help out of its docstring.
"""

from __future__ import annotations

import contextlib
import importlib
import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from precice_lb.exceptions import DataError
from precice_lb.plugins import READERS
from precice_lb.rooms import lazily
from precice_lb.text import checked_list

if TYPE_CHECKING:
    from precice_lb.dataset import Measurements
    from precice_lb.ingest.csv import write_csv

__all__ = ["READERS", "import_measurements", "write_csv"]

__getattr__ = lazily(__name__, csv=("import_files", "read_csv", "read_frame", "write_csv"))


def import_measurements(kind: str, paths: Sequence[str | Path], **options: Any) -> Measurements:
    """Read foreign measurements of one case.

    Parameters
    ----------
    kind : str
        One of `READERS`.
    paths : sequence of path
        The files.
    **options
        What the format's reader takes; None stands for not given.

    Returns
    -------
    Measurements

    Raises
    ------
    DataError
        If the format is unknown, there is no path, or the reader finds something wrong.
    """
    if kind not in READERS:
        raise DataError(f"expected one of the formats {', '.join(READERS)}, found {kind!r}")
    files = [Path(path) for path in checked_list(paths, "paths", "paths", DataError)]
    if not files:
        raise DataError(f"{kind}: expected at least one path, found none")
    stated = {name: value for name, value in options.items() if value is not None}
    measurements: Measurements = READERS[kind](files, **stated)
    return measurements


def read_meshio(path: Path) -> Any:
    """Read a file of any format that meshio knows, as a ``meshio.Mesh``."""
    try:
        meshio: Any = importlib.import_module("meshio")
    except ImportError:
        raise DataError(
            "expected meshio to read mesh files, found it is not installed; pip install precice_lb[meshio]"
        ) from None
    try:
        # It prints what it cannot read, too, and ends the program where it finds no reader.
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            return meshio.read(path)
    except (Exception, SystemExit) as error:
        raise DataError(f"{path}: expected a mesh file that meshio reads, found: {error}") from error
