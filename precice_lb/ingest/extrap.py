"""Extra-P's text input: PARAMETER, POINTS, then METRIC, REGION and a line DATA for each point.

Read is what docs/file-formats.md of extra-p/extrap describes for version 4, with one parameter or several.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from precice_lb.dataset import Measurements
from precice_lb.exceptions import DataError
from precice_lb.ingest.csv import PlacedRows, checked_number, join_files, read_lines
from precice_lb.text import plural

_KEYWORDS = ("PARAMETER", "POINTS", "METRIC", "REGION", "DATA")


def import_files(
    paths: Sequence[Path], *, metric: str | None = None, ranks: str = "", windows: int = 1
) -> Measurements:
    """Join text input of Extra-P to a table: each region is a participant, each value of a line DATA a run.

    Example: precice-lb import extrap input.txt --set metric=time --set windows=100

    Parameters
    ----------
    paths : sequence of Path
        The files.
    metric : str, optional
        Which one has seconds, where a file has several.
    ranks : str
        The parameter that counts ranks; by default the first. All others are parameters of the row.
    windows : int
        Time windows in which the seconds were spent.
    """
    if not (isinstance(windows, int) and windows >= 1):
        raise DataError(f"windows: expected a whole number of at least 1, found {windows!r}")
    return join_files(paths, lambda path: _rows(path, metric, ranks, windows))


def _rows(path: Path, metric: str | None, ranks: str, windows: int) -> PlacedRows:
    parameters: list[str] = []
    numbers: list[str] = []
    region, current = "", ""
    regions: dict[str, None] = {}
    # By metric and region, the lines DATA.
    data: dict[str, dict[str, list[tuple[str, list[str]]]]] = {}
    for where, line in read_lines(path):
        keyword, _, rest = " ".join(line.split()).partition(" ")
        if not keyword or keyword.startswith("#"):
            continue
        if keyword not in _KEYWORDS or not rest:
            raise DataError(f"{where}: expected {', '.join(_KEYWORDS)} and what belongs to it, found {line.strip()!r}")
        if keyword == "PARAMETER":
            parameters += rest.split()
        elif keyword == "POINTS":
            numbers += re.sub("[()]", " ", rest).split()
        elif keyword == "METRIC":
            current = rest
        elif keyword == "REGION":
            region = rest
            regions[region] = None
        elif not region:
            raise DataError(f"{where}: expected a REGION, the participant, before its lines DATA, found none")
        else:
            data.setdefault(current, {}).setdefault(region, []).append((where, rest.split()))
    width = len(parameters)
    if not width or not numbers or len(numbers) % width or len(set(parameters)) < width:
        raise DataError(
            f"{path}: expected POINTS with a number for each PARAMETER, found the parameters "
            f"{', '.join(parameters) or 'none'} and {plural(len(numbers), 'number')}"
        )
    rank_name = ranks or parameters[0]
    if rank_name not in parameters:
        raise DataError(
            f"{path}: expected a parameter of {', '.join(parameters)} as ranks, found {ranks!r}; --set ranks=…"
        )
    wanted = next(iter(data), "") if metric is None and len(data) < 2 else metric
    if wanted not in data:
        raise DataError(
            f"{path}: expected one of the metrics {', '.join(data) or 'with lines DATA'}, in seconds, found "
            f"{'none' if wanted is None or not data else wanted}; --set metric=NAME"
        )
    points = [dict(zip(parameters, numbers[i : i + width], strict=True)) for i in range(0, len(numbers), width)]
    rows: PlacedRows = []
    for name in regions:
        lines = data[wanted].get(name, [])
        if len(lines) != len(points):
            raise DataError(
                f"{path}: expected a line DATA for each of {plural(len(points), 'point')} in REGION {name}, "
                f"found {len(lines)}; the file may have been cut"
            )
        for point, (where, cells) in zip(points, lines, strict=True):
            others = {key: value for key, value in point.items() if key != rank_name}
            for cell in cells:
                total = checked_number(where, "DATA", cell, "seconds above 0", lambda value: value > 0)
                row = {"participant": name, "ranks": point[rank_name], "seconds": repr(total / windows)}
                rows.append((where, {**row, **others}))
    return rows
