"""Measurements from a CSV file: one row per participant and run."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.dataset import Measurements
from precice_lb.exceptions import DataError

__all__ = ["read_csv"]

_COLUMNS = ("participant", "ranks", "seconds")


def read_csv(path: str | Path) -> Measurements:
    """Read measurements from a CSV file.

    Parameters
    ----------
    path : path
        UTF-8 text with a header. Columns ``participant`` (name), ``ranks`` (whole number from 1) and ``seconds``
        (own seconds per time window, above 0) in any order; every further column is a parameter of the row.

    Returns
    -------
    Measurements
        Rows sorted by ranks, spread unknown. A parameter whose values are all numbers is a float array, any other an
        array of text.

    Raises
    ------
    DataError
        If the file cannot be read, a column is missing or a value is not what it should be, with the line.
    """
    path = Path(path)
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file, skipinitialspace=True, strict=True)
            lines = [(reader.line_num, [cell.strip() for cell in row]) for row in reader if any(map(str.strip, row))]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise DataError(f"{path}: expected a readable CSV file, found: {reason}") from error
    if not lines:
        raise DataError(f"{path}: expected a header with the columns {', '.join(_COLUMNS)}, found an empty file")
    header = [name if name.lower() not in _COLUMNS else name.lower() for name in lines[0][1]]
    _check_header(path, header)
    rows: dict[str, list[tuple[int, float, dict[str, str]]]] = {}
    for line, cells in lines[1:]:
        where = f"{path}, line {line}"
        if len(cells) != len(header):
            raise DataError(f"{where}: expected {len(header)} columns as in the header, found {len(cells)}")
        row = dict(zip(header, cells, strict=True))
        name = row.pop("participant")
        if not name:
            raise DataError(f"{where}: expected the name of a participant in column participant, found nothing")
        ranks = _ranks(where, row.pop("ranks"))
        seconds = _seconds(where, row.pop("seconds"))
        rows.setdefault(name, []).append((ranks, seconds, row))
    if not rows:
        raise DataError(f"{path}: expected at least one row of measurements below the header, found none")
    samples, spread, parameters = {}, {}, {}
    for name, entries in rows.items():
        entries.sort(key=lambda entry: entry[:2])
        samples[name] = np.array([entry[:2] for entry in entries], dtype=float)
        spread[name] = np.full(len(entries), np.nan)
        parameters[name] = {key: _parameter([entry[2][key] for entry in entries]) for key in entries[0][2]}
    return Measurements(samples, spread, None, {}, {}, (str(path),), parameters)


def _check_header(path: Path, header: list[str]) -> None:
    missing = [name for name in _COLUMNS if name not in header]
    if missing:
        raise DataError(
            f"{path}, line 1: expected the columns {', '.join(_COLUMNS)}, found {', '.join(header)}; "
            f"missing {', '.join(missing)}"
        )
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice:
        raise DataError(f"{path}, line 1: expected every column once, found {', '.join(twice)} more than once")


def _ranks(where: str, text: str) -> int:
    try:
        ranks = int(text)
    except ValueError:
        ranks = 0
    if ranks < 1:
        raise DataError(f"{where}: expected a whole number of at least 1 in column ranks, found {text!r}")
    return ranks


def _seconds(where: str, text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not (math.isfinite(seconds) and seconds > 0):
        raise DataError(f"{where}: expected seconds per time window above 0 in column seconds, found {text!r}")
    return seconds


def _parameter(values: list[str]) -> NDArray[Any]:
    try:
        return np.array([float(value) for value in values])
    except ValueError:
        return np.array(values)
