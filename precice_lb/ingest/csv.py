"""Measurements as CSV: one row per participant and run. Every import ends in such a file."""

from __future__ import annotations

import codecs
import csv
import io
import math
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np

from precice_lb.dataset import Measurements, Samples
from precice_lb.dataset.measurements import joined
from precice_lb.exceptions import DataError
from precice_lb.store.columns import Values
from precice_lb.text import checked_name

COLUMNS = ("participant", "ranks", "seconds")
"""Columns that every table of measurements has."""

OPTIONAL_COLUMNS = ("standard_error", "iterations", "threads", "version")
"""Columns with a meaning of their own: standard error of the seconds, coupling iterations per time window, threads of
each rank, and which version of the participant ran."""

_RESERVED = (*COLUMNS, *OPTIONAL_COLUMNS)


_DELIMITERS = ",;\t"
# Beyond this a float no longer holds every whole number.
_LARGEST = 2**53
PlacedRows = list[tuple[str, dict[str, str]]]


def read_csv(path: str | Path) -> Measurements:
    """Read measurements from a CSV file.

    Parameters
    ----------
    path : path
        Text in UTF-8, or in UTF-16 with a mark, with a header; cells apart by commas, semicolons or tabs, numbers with
        decimal points. Columns ``participant`` (name), ``ranks`` (whole number from 1) and ``seconds`` (compute seconds
        per time window, above 0) in any order; optionally ``standard_error`` (of the seconds, from 0) and
        ``iterations`` (coupling iterations per time window, from 1), empty where unknown, ``threads`` (of each rank, 1
        where empty) and ``version`` (of the participant, such as gpu; empty where there is one only). Every further
        column is a parameter of the row.

    Returns
    -------
    Measurements
        Rows sorted by cores, which are ranks times threads. A parameter whose values are all numbers is a float array
        (NaN where a cell is empty), any other an array of text.

    Raises
    ------
    DataError
        If the file cannot be read, a column is missing or a value is not what it should be, with the line.
    """
    return joined([_measurements(str(path), read_rows(Path(path)))])


def read_frame(frame: Any) -> Measurements:
    """Read measurements from a long pandas DataFrame as if it were such a file."""
    rows = _rows("DataFrame", frame.to_csv(index=False), place="row", shift=-1)
    return joined([_measurements("DataFrame", rows)])


def import_files(paths: Sequence[Path]) -> Measurements:
    """Join tables with the columns participant, ranks and seconds (compute seconds per time window) to one.

    Example: precice-lb import csv fluid.csv solid.csv --output measurements.csv

    Parameters
    ----------
    paths : sequence of Path
        The tables; cells apart by commas, semicolons or tabs.
    """
    return join_files(paths, read_rows)


def join_files(paths: Sequence[Path], read: Callable[[Path], PlacedRows]) -> Measurements:
    """Join what ``read`` gives of files of one case: rows as of a table, each with the words for where it stands."""
    # A file that is named twice says nothing anew.
    once = {path.resolve(): path for path in reversed(paths)}
    parts = [_measurements(str(path), read(path)) for path in reversed(once.values())]
    first: dict[str, Measurements] = {}
    for part in parts:
        for name, parameters in part.parameters.items():
            known = first.setdefault(name, part)
            if parameters.keys() != known.parameters[name].keys():
                stated = (f"{', '.join(of.parameters[name]) or 'none'} in {of.sources[0]}" for of in (known, part))
                raise DataError(
                    f"expected runs of one case, found {name} with the parameters {' and '.join(stated)}; give the "
                    "same parameters for every run, or one case at a time"
                )
    return joined(parts)


def write_csv(measurements: Measurements, path: str | Path) -> None:
    """Write measurements as a CSV file that `read_csv` reads; a file of that name is replaced.

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
    keys = dict.fromkeys(key for frame in measurements.frames.values() for key in frame.parameters)
    rows: list[dict[str, Any]] = []
    for name, frame in measurements.frames.items():
        for number, layout in enumerate(frame.layouts):
            usual = {
                "participant": name,
                "ranks": layout.ranks,
                "seconds": float(frame.seconds[number]),
                "standard_error": _cell(float(frame.standard_error[number])),
                "iterations": _cell(measurements.iterations.get(name, math.nan)),
                "threads": layout.threads,
                "version": frame.version[number],
            }
            rows.append(usual | {key: _cell(values[number]) for key, values in frame.parameters.items()})
    # What nothing is known of is left out.
    unknown = {"standard_error": "", "iterations": "", "threads": 1, "version": ""}
    header = [
        column
        for column in (*_RESERVED, *keys)
        if column not in unknown or any(row[column] != unknown[column] for row in rows)
    ]
    try:
        with Path(path).open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, header, extrasaction="ignore", lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    except (OSError, ValueError) as error:
        raise DataError(
            f"{path}: expected a place to write measurements to, found: {' '.join(str(error).split())}"
        ) from error


def _cell(value: object) -> object:
    """Say an unknown number as an empty cell, and a whole one without a fraction."""
    if not isinstance(value, float):
        return value
    if math.isnan(value):
        return ""
    return int(value) if value.is_integer() and abs(value) < 1e15 else float(value)


def read_lines(path: Path) -> list[tuple[str, str]]:
    """Read the lines of a text, each with the words for where it stands."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: expected a readable text in UTF-8, found: {' '.join(str(error).split())}") from error
    return [(f"{path}, line {number}", line) for number, line in enumerate(text.splitlines(), 1)]


def read_rows(path: Path, columns: Sequence[str] = COLUMNS, optional: Sequence[str] = OPTIONAL_COLUMNS) -> PlacedRows:
    """Read the rows of a table with some columns and perhaps others, each with the words for where it stands."""
    try:
        content = path.read_bytes()
        # Spreadsheets write UTF-16 with a mark, too.
        marked = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        return _rows(str(path), content.decode("utf-16" if marked else "utf-8-sig"), columns, optional)
    except (OSError, ValueError, csv.Error) as error:
        raise DataError(
            f"{path}: expected a readable CSV file in UTF-8, found: {' '.join(str(error).split())}"
        ) from error


def _rows(
    source: str,
    text: str,
    columns: Sequence[str] = COLUMNS,
    optional: Sequence[str] = OPTIONAL_COLUMNS,
    *,
    place: str = "line",
    shift: int = 0,
) -> PlacedRows:
    """Read header and rows, each with its line; what a spreadsheet leaves empty at the end of every row is cut off."""
    # Texts below may contain any of them, so only the header decides.
    header_line = next((line for line in text.splitlines() if line.strip()), "")
    delimiter = max(_DELIMITERS, key=header_line.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True, strict=True)
    lines = [(reader.line_num, [cell.strip() for cell in row]) for row in reader if any(map(str.strip, row))]
    if not lines:
        raise DataError(f"{source}: expected a header with the columns {', '.join(columns)}, found an empty file")
    number, names = lines[0]
    width = max(column for column, name in enumerate(names, 1) if name)
    header = [name.lower() if name.lower() in (*columns, *optional) else name for name in names[:width]]
    _check_header(f"{source}, line {number}", header, columns, optional)
    rows = []
    for line, cells in lines[1:]:
        where = f"{source}, {place} {line + shift}"
        while len(cells) > width and not cells[-1]:
            cells.pop()
        if len(cells) != width:
            remedy = "; write decimal points" if len(cells) > width else ""
            raise DataError(f"{where}: expected {width} columns as in the header, found {len(cells)}{remedy}")
        rows.append((where, dict(zip(header, cells, strict=True))))
    return rows


# What a cell has to be, where there is one: in words, and whether a number is that.
_NUMBERS: dict[str, tuple[str, Callable[[float], bool]]] = {
    "seconds": ("seconds per time window above 0", lambda value: value > 0),
    "standard_error": ("seconds of at least 0 or nothing", lambda value: value >= 0),
    "iterations": ("a number of at least 1 or nothing", lambda value: value >= 1),
}


def _measurements(source: str, rows: PlacedRows) -> Measurements:
    """Check the rows of one file."""
    participants: dict[str, list[tuple[Any, ...]]] = {}
    for where, row in rows:
        name, version = row["participant"], row.get("version", "")
        if not name:
            raise DataError(f"{where}: expected the name of a participant in column participant, found nothing")
        ranks = _count(where, "ranks", row["ranks"])
        threads = _count(where, "threads", row["threads"] or "1") if "threads" in row else math.nan
        seconds, error, iterations = (
            checked_number(where, column, row[column], *wanted) if row.get(column) or column in COLUMNS else math.nan
            for column, wanted in _NUMBERS.items()
        )
        try:
            checked_name(version or "none", "version")
        except ValueError as problem:
            raise DataError(f"{where}: column version: {problem}") from None
        cells = participants.setdefault(name, [])
        # Else what is missing here would be a version of its own.
        if cells and bool(version) != bool(cells[0][5]):
            raise DataError(
                f"{where}: expected a version in every row of {name} or in none, found {version or 'none'}, unlike in "
                "rows before"
            )
        cells.append((ranks, seconds, threads, error, math.nan, version, where, iterations, row))
    if not participants:
        raise DataError(f"{source}: expected at least one row of measurements below the header, found none")
    frames: dict[str, Samples] = {}
    iterations_of: dict[str, float] = {}
    for name, cells in participants.items():
        *columns, counts, texts = zip(*cells, strict=True)
        further = {key: [row[key] for row in texts] for key in texts[0] if key not in _RESERVED}
        frames[name] = Samples(*columns, parameters={key: _column(of) for key, of in further.items() if any(of)})
        if np.isfinite(counts).any():
            iterations_of[name] = float(np.nanmean(counts))
    return Measurements(frames, iterations=iterations_of, sources=(source,))


def _column(cells: Sequence[str]) -> Values:
    """Turn the cells into numbers if they are; NaN for an empty one."""
    numbers, texts = np.array([_number(cell) for cell in cells]), np.array(cells)
    return numbers if np.isin(texts[np.isnan(numbers)], ["", "nan"]).all() else texts


def _check_header(where: str, header: list[str], columns: Sequence[str], optional: Sequence[str]) -> None:
    missing = [name for name in columns if name not in header]
    if missing:
        raise DataError(
            f"{where}: expected the columns {', '.join(columns)}, found {', '.join(header)}; "
            f"missing {', '.join(missing)}"
        )
    for name in header:
        # It would be taken for a parameter.
        if name not in (*columns, *optional) and (close := get_close_matches(name.lower(), optional, 1, 0.9)):
            raise DataError(f"{where}: did you mean the column {close[0]}? found {name!r}; rename it")
    if "" in header:
        raise DataError(f"{where}: expected a name for every column, found none for column {header.index('') + 1}")
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice:
        raise DataError(f"{where}: expected every column once, found {', '.join(twice)} more than once")


def checked_number(where: str, column: str, text: str, wanted: str, right: Callable[[float], bool]) -> float:
    """Read a finite number that is ``right``, which ``wanted`` says in words."""
    value = _number(text)
    if not (math.isfinite(value) and right(value)):
        remedy = "; write a decimal point" if "," in text else ""
        raise DataError(f"{where}: expected {wanted} in column {column}, found {text!r}{remedy}")
    return value


def _count(where: str, column: str, text: str) -> int:
    value = whole_number(text)
    if value is None or value < 1:
        raise DataError(
            f"{where}: expected a whole number of at least 1 in column {column}, found {text!r}; correct it"
        )
    return value


def whole_number(text: str) -> int | None:
    """Read a whole number, which a table may write as 36.0; None if it is none, or too large for a float to hold."""
    value = _number(text)
    return int(value) if value.is_integer() and abs(value) < _LARGEST else None


def _number(cell: str) -> float:
    """Read a number; NaN for what is none, also where Python takes it for one: 1_0, and digits of other scripts."""
    try:
        return float(cell) if cell.isascii() and "_" not in cell else math.nan
    except ValueError:
        return math.nan
