"""Timing files of CIME, which CESM and E3SM write after each run.

Read is what `CIME/get_timing.py` of ESMCI/cime writes, of the drivers CPL7 and CMEPS alike: the table of components
with ``comp_pes``, ``root_pe``, tasks x threads, instances and stride, then a line ``Run Time`` of each.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from precice_lb.dataset import Measurements
from precice_lb.exceptions import DataError
from precice_lb.ingest.csv import PlacedRows, join_files, read_lines

_COMPONENT = re.compile(
    r"\s*(?P<name>\w+) = (?P<model>\S+)\s+(?P<pes>\d+)\s+(?P<root>\d+)\s+(?P<tasks>\d+)\s*x\s*(?P<threads>\d+)"
    r"\s+\d+\s*\(\s*(?P<stride>\d+)\s*\)\s*"
)
_RUN_TIME = re.compile(r"\s*(\w+) Run Time:\s+\S+ seconds\s+(\S+) seconds/mday\s+\S+ myears/wday\s*")


def import_files(paths: Sequence[Path]) -> Measurements:
    """Join timing files of CIME (cesm_timing.CASE.ID, e3sm_timing.CASE.ID), one a run, to a table of components.

    Seconds are those per model day of each component's line Run Time, ranks its tasks. Left out are the coupler, whose
    time is that of its own tasks alone, and components that take no time. Which components share tasks, and so run in
    turns, and which have their own, and so run at the same time, is said.

    Example: precice-lb import cime timing/cesm_timing.* --output measurements.csv

    Parameters
    ----------
    paths : sequence of Path
        The timing files, of one case on different numbers of tasks.
    """
    remarks: list[str] = []
    measurements = join_files(paths, lambda path: _rows(path, remarks))
    return replace(measurements, remarks=(*measurements.remarks, *dict.fromkeys(remarks)))


def _rows(path: Path, remarks: list[str]) -> PlacedRows:
    components: dict[str, re.Match[str]] = {}
    times: dict[str, tuple[str, str]] = {}
    for where, line in read_lines(path):
        if match := _COMPONENT.fullmatch(line):
            components[match["name"].upper()] = match
        elif match := _RUN_TIME.fullmatch(line):
            times[match[1]] = where, match[2]
    missing = [name for name in components if name not in times]
    if missing or not components:
        raise DataError(
            f"{path}: expected a timing file of CIME with a table of components and a line Run Time of each, found "
            f"{f'no such line of {missing[0]}' if missing else 'no such table'}; give cesm_timing.* or e3sm_timing.*"
        )
    rows: PlacedRows = []
    tasks: dict[str, set[int]] = {}
    for name, of in components.items():
        where, seconds = times[name]
        if name != "CPL" and seconds.strip("0") != ".":
            row = {"participant": name, "ranks": of["tasks"], "threads": of["threads"], "seconds": seconds}
            rows.append((where, row))
            first, stride = int(of["root"]), int(of["stride"])
            tasks[name] = set(range(first, first + int(of["tasks"]) * stride, stride))
    for name, numbers in tasks.items():
        partners = [other for other in tasks if other != name and numbers & tasks[other]]
        among = f"in turns with {', '.join(partners)}, on the same tasks" if partners else "on tasks of its own"
        remarks.append(f"{name} runs {among}")
    return rows
