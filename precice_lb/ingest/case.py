"""Case folders: ``case.ini`` says which files of each run's folder hold what.

Layout of J. L. Schröder, Load-balancing for multi-physics simulations, MSc thesis, Stuttgart 2019, appendix A: the
section DEFAULT has ``d`` (number of inputs of the models, 1 is the number of ranks alone), ``mesh_header`` and
``additional`` (an ini file); every other section is a participant, with ``events`` or ``timeinfo``. Each folder beside
``case.ini`` is one run. For d = 1 its name is the ranks of the participants, ``p1_p2``, and is compared with what the
files say. Known from this description only; the files themselves are those of the other modules here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from configparser import ConfigParser
from pathlib import Path

from precice_lb.dataset import Measurements
from precice_lb.exceptions import DataError
from precice_lb.ingest.events import read_events
from precice_lb.ingest.files import beside, count_of, parse_ini
from precice_lb.ingest.samples import Sample, join
from precice_lb.ingest.timeinfo import read_timeinfo

__all__ = ["import_files", "read_case"]

_KEYS = ("d", "mesh_header", "additional", "events", "timeinfo")
_RANKS = re.compile(r"\d+(_\d+)*$", re.ASCII)


def import_files(
    paths: Sequence[Path],
    *,
    warmup: int | None = None,
    windows: int | None = None,
    every_rank: bool | None = None,
    advances_per_window: int | None = None,
) -> Measurements:
    """Read case folders: case.ini names the event logs, timer tables and mesh headers in the folder of each run.

    Example: precice-lb import case channel --output channel.csv

    Parameters
    ----------
    paths : sequence of Path
        Folders with a case.ini (or these files), and beside it one folder per run.
    warmup : int, optional
        Event logs: time windows to leave out, at least and by default 1.
    windows : int, optional
        Timer tables: time windows that each run made.
    every_rank : bool, optional
        Event logs: take the slowest of all ranks, also of those that never received data.
    advances_per_window : int, optional
        Event logs: calls of advance per time window.
    """
    options = {"warmup": warmup, "every_rank": every_rank, "advances_per_window": advances_per_window}
    return join(sample for path in paths for sample in read_case(path, windows=windows, **options))


def read_case(path: Path, *, windows: int | None = None, **events: int | None) -> list[Sample]:
    """Read the samples of one case folder (or its ``case.ini``), by run, then by participant."""
    file = path / "case.ini" if path.is_dir() else path
    case = parse_ini(file, "a case.ini")
    inputs = _checked(file, case)
    folders = sorted(each for each in file.parent.iterdir() if each.is_dir() and not each.name.startswith("."))
    if not folders:
        raise DataError(f"{file.parent}: expected one folder per run beside case.ini, found none")
    samples: list[Sample] = []
    for folder in folders:
        found = []
        for name in case.sections():
            section = case[name]
            header, ini = (
                _file(folder, section[key]) if key in section else None for key in ("mesh_header", "additional")
            )
            extra = beside(header, ini, name, case.sections())
            if inputs is not None and len(extra) + 1 < inputs:
                raise DataError(
                    f"{folder}: expected d = {inputs} inputs, found the ranks and {', '.join(extra) or 'nothing'}; "
                    "add parameters or lower d in case.ini"
                )
            if "events" in section:
                log = _file(folder, section["events"])
                runs = read_events(log, name, parameters=extra, **events)  # type: ignore[arg-type]
                found.append([sample for _, sample in runs])
            else:
                log = _file(folder, section["timeinfo"])
                found.append([read_timeinfo(log, name, windows=windows, parameters=extra)])
        if inputs == 1:
            _check_name(folder, found)
        samples += [sample for part in found for sample in part]
    return samples


def _checked(file: Path, case: ConfigParser) -> int | None:
    """Check what case.ini says; the number of inputs, if given."""
    if not case.sections():
        raise DataError(f"{file}: expected one section per participant, such as [Fluid], found none")
    for name in case.sections():
        section = case[name]
        for key in section:
            if key not in _KEYS:
                raise DataError(f"{file}, [{name}]: expected one of {', '.join(_KEYS)}, found {key!r}")
        if ("events" in section) == ("timeinfo" in section):
            found = "both" if "events" in section else "neither"
            raise DataError(f"{file}, [{name}]: expected either events=FILE or timeinfo=FILE, found {found}")
    text = case.defaults().get("d")
    return None if text is None else count_of(text, f"{file}, [DEFAULT]", "a whole number of inputs d")


def _file(folder: Path, name: str) -> Path:
    """Find a file of a run: in its folder, else beside case.ini for all runs."""
    for place in (folder, folder.parent):
        if name.strip() and (place / name).is_file():
            return place / name
    raise DataError(
        f"{folder}: expected the file {name!r} that case.ini names, found none; every folder beside case.ini is a run, "
        "move others away"
    )


def _check_name(folder: Path, found: Sequence[Sequence[Sample]]) -> None:
    """For d = 1: compare the folder's name with the ranks that the files say."""
    ranks = [sorted({sample.ranks for sample in run}) for run in found]
    said = "_".join(" or ".join(map(str, each)) for each in ranks)
    if not _RANKS.match(folder.name) or [[int(each)] for each in folder.name.split("_")] != ranks:
        raise DataError(
            f"{folder}: expected the folder to be named after the ranks in its files, {said}, found {folder.name!r}; "
            "rename it, or set d in case.ini above 1"
        )
