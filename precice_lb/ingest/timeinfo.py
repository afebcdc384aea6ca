"""Timer tables (``timeinfo``) of Ateles and the other solvers of the APES suite.

Format as written by treelm's ``tem_timer_module`` (its format statements were read and run): a line with the number of
processes, a header, then name and seconds per timer. Tables with the column ``avg`` or ``ave`` instead of ``sum``,
as J. L. Schröder (MSc thesis, Stuttgart 2019, section 4.2.2) describes them, read alike: only ``max`` is used.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from precice_lb.dataset import Measurements
from precice_lb.exceptions import DataError
from precice_lb.ingest.files import beside, count_of, finite, read_text
from precice_lb.ingest.samples import Sample, join

__all__ = ["import_files", "read_timeinfo"]

_LOOP, _COUPLING = "simLoop", "preciceAdv"
_PROCESSES = re.compile(r"\s*Timings for a run on\s+(\S+?)\s*processes\s*$")
_DETAILS = re.compile(r"D\s*(\S+?)\s*:\s*(\S.*?)\s*$")


def import_files(
    paths: Sequence[Path],
    *,
    participant: str | None = None,
    windows: int | None = None,
    mesh_header: Path | None = None,
    parameters: Path | None = None,
) -> Measurements:
    """Read timer tables (timeinfo) of Ateles and the other solvers of the APES suite, run uncoupled.

    Example: precice-lb import ateles-timeinfo timing.res --participant Fluid --windows 100 --mesh-header header.lua

    Parameters
    ----------
    paths : sequence of Path
        The timer tables, one per run.
    participant : str
        The solver's name in the coupled simulation; always needed.
    windows : int, optional
        Time windows (or steps) that each run made. Without it a whole run counts as one window: a recommendation is
        the same if every participant's runs made as many.
    mesh_header : Path, optional
        Header of a Seeder mesh (header.lua): its number of elements becomes a parameter.
    parameters : Path, optional
        An ini file with further parameters.

    Raises
    ------
    DataError
        If there is no participant, or something is wrong in a file.
    """
    if not participant:
        raise DataError(
            f"{paths[0]}: expected the name of the participant, found none; a timer table does not say it: "
            "give it with --participant"
        )
    extra = beside(mesh_header, parameters, participant)
    return join(read_timeinfo(path, participant, windows=windows, parameters=extra) for path in paths)


def read_timeinfo(
    path: Path, participant: str, *, windows: int | None = None, parameters: dict[str, float | str] | None = None
) -> Sample:
    """Read the sample of one timer table: the time loop of the slowest rank."""
    if windows is not None and windows < 1:
        raise DataError(f"{path}: expected a number of time windows of at least 1, found {windows}")
    lines = read_text(path, "a timer table (timeinfo)").splitlines()
    title = next(((index, match) for index, line in enumerate(lines) if (match := _PROCESSES.match(line))), None)
    if title is None:
        raise DataError(
            f"{path}: expected a timer table that begins with 'Timings for a run on N processes', found no such line; "
            "give the file that the solver's table timer = { file = ... } names"
        )
    start, processes = title[0], title[1][1]
    ranks = count_of(processes, f"{path}, line {start + 1}", "a whole number of processes")
    seconds = _maximum(path, lines, start + 1, _LOOP)
    if seconds is None or seconds <= 0:
        found = "none" if seconds is None else f"{seconds:g}"
        raise DataError(
            f"{path}: expected seconds above 0 for the timer {_LOOP}, found {found}; was the run cut short?"
        )
    coupled = _maximum(path, lines, start + 1, _COUPLING)
    if coupled:
        raise DataError(
            f"{path}: expected an uncoupled run, found {coupled:g} seconds in the timer {_COUPLING}: the time loop "
            "holds waiting for partners; give preCICE's event log of the run instead (format precice-events)"
        )
    return Sample(participant, ranks, seconds / (windows or 1), str(path), parameters=parameters or {})


def _maximum(path: Path, lines: Sequence[str], start: int, timer: str) -> float | None:
    """Seconds of the slowest rank in a timer; None if the table has no such timer."""
    header = lines[start].split() if start < len(lines) else []
    if header[:1] != ["timer"] or "max" not in header:
        raise DataError(f"{path}, line {start + 1}: expected a header with timer and max, found {' '.join(header)!r}")
    for number, line in enumerate(lines[start + 1 :], start + 2):
        details = _DETAILS.match(line)
        if details and details[1].lower() == timer.lower():
            return _detailed(path.parent / Path(details[2]).name)
        cells = line.split()
        if cells and cells[0].lower() == timer.lower():
            if len(cells) != len(header):
                raise DataError(f"{path}, line {number}: expected {len(header)} cells as in the header, found {line!r}")
            return _seconds(path, number, cells[header.index("max")])
    return None


def _detailed(path: Path) -> float:
    """Read the maximum from the file of a timer written in detail."""
    for number, line in enumerate(read_text(path, "the details of a timer").splitlines(), 1):
        if line.strip().startswith("max:"):
            return _seconds(path, number, line.split(":", 1)[1].strip())
    raise DataError(f"{path}: expected a line max: SECONDS, found none")


def _seconds(path: Path, number: int, text: str) -> float:
    seconds = finite(text)
    if seconds is None or seconds < 0:
        raise DataError(f"{path}, line {number}: expected seconds of at least 0, found {text!r}")
    return seconds
