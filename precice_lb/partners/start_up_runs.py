"""Measured start-ups, runs with profiling files and meshes, and the file of the constants fitted to them."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import DataError
from precice_lb.ingest.profiling.files import Header
from precice_lb.ingest.profiling.find import find_configuration, find_profiles
from precice_lb.partners.facade import partners_report
from precice_lb.partners.sources import export_directories, read_exports, start_up_seconds
from precice_lb.partners.start_up import ConstantsFit, CostModel, StartUpCounts
from precice_lb.partners.stores import read_store_meshes
from precice_lb.precice_xml import read_configuration
from precice_lb.store.reader import has_stores

__all__ = ["StartUpRun", "constants_dict", "read_constants", "read_start_up_runs"]

_FORMAT = "precice-lb-start-up"
_FORMAT_VERSION = 1


@dataclass(frozen=True)
class StartUpRun:
    """One run whose start-up was measured.

    Attributes
    ----------
    directory : Path
        Where it lies.
    ranks : dict of str to int
        Ranks by participant.
    counts : tuple of StartUpCounts
        What initialising each received mesh had to do, by the configured scheme.
    seconds : float
        Seconds of ``initialize``, without waiting for the other participant, exports and first data.
    """

    directory: Path
    ranks: dict[str, int]
    counts: tuple[StartUpCounts, ...]
    seconds: float

    @property
    def scheme(self) -> str:
        """The initialisation scheme, for people."""
        return " and ".join(sorted({"two levels" if each.two_level else "one level" for each in self.counts}))


def read_start_up_runs(directories: Iterable[str | Path], *, cores: int | None = None) -> list[StartUpRun]:
    """Read runs with profiling files in mode ``all``.

    Parameters
    ----------
    directories : iterable of path
        One for each run, with its profiling files, ``precice-config.xml``, and files of ``<export:csv>`` or stores;
        searched with everything below it.
    cores : int, optional
        Cores that all ranks of a run shared; by default every rank had one.

    Returns
    -------
    list of StartUpRun
        In the order of the directories.

    Raises
    ------
    DataError
        If a directory has no profiling files in mode ``all`` of one run with all ranks, no configuration, no meshes of
        that run, or no pair of ranks is connected.
    """
    return [_read_run(Path(each), cores) for each in directories]


def _read_run(directory: Path, cores: int | None) -> StartUpRun:
    headers, _ = find_profiles([directory])
    ranks = _ranks(directory, headers)
    path = find_configuration(headers[0].directory, [directory])
    if path is None:
        raise DataError(f"{directory}: expected the precice-config.xml of the run, found none; put it there")
    configuration = read_configuration(path)
    exports = export_directories(directory)
    regions: dict[str, NDArray[np.float64]] = {}
    if exports:
        meshes = read_exports(exports, configuration)
    elif has_stores(directory):
        _, meshes, regions = read_store_meshes([directory])
    else:
        raise DataError(
            f"{directory}: expected the meshes of the run, files of <export:csv> or stores, found none; add "
            '<export:csv directory="exports"/> to every participant and run again'
        )
    report = partners_report(configuration, meshes, regions, cores=cores)
    if report.ranks != {name: ranks.get(name) for name in report.ranks}:
        raise DataError(
            f"{directory}: expected meshes and profiling files of the same ranks, found meshes of {report.ranks} and "
            f"profiling files of {ranks}; keep the files of one run in a directory"
        )
    if not any(len(found.connected) for found in report.links):
        raise DataError(f"{directory}: expected connected ranks, found no pair; leave this run out")
    counts = tuple(found.counts[found.link.two_level] for found in report.links)
    return StartUpRun(directory, ranks, counts, start_up_seconds(headers))


def _ranks(directory: Path, headers: Sequence[Header]) -> dict[str, int]:
    """Check that the files are all of one run in mode ``all``, and count the ranks of its participants."""
    ranks = {header.participant: header.size for header in headers}
    for name, size in ranks.items():
        mine = [header for header in headers if header.participant == name]
        other = next((header for header in mine if header.mode != "all"), None)
        if other is not None:
            raise DataError(
                f'{other.path}: expected <profiling mode="all"/>, found mode="{other.mode}", which has no parts of the '
                "start-up; run again with it"
            )
        if len({header.path.parent for header in mine}) > 1 or sorted(header.rank for header in mine) != [*range(size)]:
            raise DataError(
                f"{directory}: expected profiling files of all {size} ranks of {name} in one run, found {len(mine)} in "
                f"{len({header.path.parent for header in mine})} folders; give one directory for each run"
            )
    return ranks


def constants_dict(fit: ConstantsFit, runs: Sequence[StartUpRun]) -> dict[str, Any]:
    """Return fitted constants and the runs they rest on.

    Parameters
    ----------
    fit : ConstantsFit
        The constants.
    runs : sequence of StartUpRun
        The runs they were fitted to.

    Returns
    -------
    dict
        For JSON; a file of it is what `read_constants` reads.
    """
    told = zip(runs, fit.measured, fit.estimated, fit.left_out, strict=True)
    return {
        "format": _FORMAT,
        "format_version": _FORMAT_VERSION,
        "constants": fit.model.to_dict(),
        "fitted": list(fit.fitted),
        "median_factor": float(np.median(fit.factors(fit.estimated))),
        "largest_factor": float(np.max(fit.factors(fit.estimated))),
        "median_factor_left_out": float(np.median(fit.factors(fit.left_out))),
        "largest_factor_left_out": float(np.max(fit.factors(fit.left_out))),
        "runs": [
            {
                "directory": str(run.directory),
                "ranks": run.ranks,
                "scheme": run.scheme,
                "cores": run.counts[0].cores,
                "measured": float(measured),
                "estimated": float(estimated),
                "left_out": float(left_out),
            }
            for run, measured, estimated, left_out in told
        ],
    }


def read_constants(path: str | Path) -> CostModel:
    """Read the constants of a file.

    Parameters
    ----------
    path : path
        As ``precice-lb partners … --fit-constants FILE`` writes it.

    Returns
    -------
    CostModel

    Raises
    ------
    DataError
        If it cannot be read, is no such file, or a constant is unknown or below 0.
    """
    known = [each.name for each in dataclasses.fields(CostModel)]
    try:
        told = json.loads(Path(path).read_text(encoding="utf-8"))
        if (told["format"], told["format_version"]) != (_FORMAT, _FORMAT_VERSION):
            raise DataError(
                f'{path}: expected "format": "{_FORMAT}" and version {_FORMAT_VERSION}, found {told["format"]!r} and '
                f"{told['format_version']!r}; fit the constants again"
            )
        values = {str(name): float(value) for name, value in told["constants"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"{path}: expected constants as --fit-constants writes them, found: {type(error).__name__}: {error}"
        ) from None
    wrong = [name for name, value in values.items() if name not in known or not 0 <= value < math.inf]
    if wrong:
        raise DataError(
            f"{path}: expected numbers of at least 0 for {', '.join(known)}, found {wrong[0]}={values[wrong[0]]:g}; "
            "fit the constants again"
        )
    return CostModel(**values)
