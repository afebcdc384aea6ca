"""What lies beside profiling files: tables that preCICE writes."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from precice_lb.exceptions import DataError
from precice_lb.ingest.profiling.files import read_bytes
from precice_lb.store.columns import Integers
from precice_lb.store.reader import paths_below

# Bytes at the end of a table that its last two rows lie in.
_END = 1 << 16


class IterationsLog:
    """The table ``precice-<Participant>-iterations.log``, read again while it grows.

    preCICE begins each line with its line break, so that the last one waits until it has all cells and, since cells are
    padded, is no shorter than the one before. A table that was started anew replaces what was read, unless it goes on
    with the next window: preCICE starts a new one when a mesh is reset.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        #: What was read, by column, with a row for each time window.
        self.columns: dict[str, Integers] = {}
        # What was read of the file, up to the end of a row, and how long that is.
        self._text, self._width = b"", 0

    def read(self) -> dict[str, Integers]:
        """Return the columns of the time windows that are complete; none before the first one is."""
        text = read_bytes(self.path, "a table of preCICE")
        if not text:
            return self.columns
        header = text.partition(b"\n")[0]
        names = header.decode("utf-8", "replace").split()
        if not {"TimeWindow", "Iterations"}.issubset(names):
            raise self._refused("the columns TimeWindow, Iterations", " ".join(names)[:60] or "none")
        if not (text + b"\n").startswith(self._text + b"\n"):
            self._text, self._width = header, 0
        lines = text[len(self._text) :].split(b"\n")[1:]
        width = len(lines[-2]) if len(lines) > 1 else self._width
        if lines and (len(lines[-1]) < width or len(lines[-1].split()) < len(names)):
            lines.pop()
        if not lines:
            return self.columns
        rows = []
        for number, line in enumerate(lines, self._text.count(b"\n") + 2):
            try:
                rows.append([float(cell) for _, cell in zip(names, line.split(), strict=True)])
            except ValueError:
                shown = line.strip()[:60].decode("utf-8", "replace")
                raise DataError(f"{self.path}, line {number}: expected {len(names)} numbers, found {shown!r}") from None
        with np.errstate(invalid="ignore"):
            new = dict(zip(names, np.array(rows).astype(np.int64).T, strict=True))
        first = new["TimeWindow"][0]
        if (np.diff(new["TimeWindow"]) != 1).any() or (new["Iterations"] < 1).any():
            raise self._refused(f"iterations of each window after {first}", "others")
        self._text, self._width = b"\n".join([self._text, *lines]), len(lines[-1])
        if self.columns.keys() == new.keys() and self.columns["TimeWindow"][-1] + 1 == first:
            new = {name: np.append(self.columns[name], values) for name, values in new.items()}
        self.columns = new
        return new

    def iterations(self) -> Integers:
        """Read the coupling iterations of each window from the first on."""
        columns = self.read()
        if columns and columns["TimeWindow"][0] != 1:
            raise self._refused("window 1 and its iterations", f"window {columns['TimeWindow'][0]}")
        return columns.get("Iterations", np.empty(0, dtype=np.int64))

    def _refused(self, expected: str, actual: str) -> DataError:
        return DataError(f"{self.path}: expected an iterations log of preCICE with {expected}, found {actual}")


def last_row(path: Path) -> dict[str, float]:
    """Read the last whole row of a table by column, without what is before it; nothing where there is none."""
    try:
        with path.open("rb") as file:
            columns = file.readline(_END).decode("utf-8", "replace").split()
            begin = file.tell() - 1
            file.seek(max(begin, file.seek(0, os.SEEK_END) - _END))
            lines = file.read().split(b"\n")[1:]
        rows = [line for line in lines if len(line.split()) == len(columns)][-2:]
        if len(rows) == 2 and len(rows[1]) < len(rows[0]):
            rows.pop()
        return dict(zip(columns, map(float, rows[-1].split()), strict=True)) if rows else {}
    except (OSError, ValueError):
        return {}


def find_table(name: str, directory: Path, roots: Iterable[Path]) -> Path | None:
    """Find a table of a participant where its solver ran, or, where there is only one of this name, below the roots."""
    beside = directory / name
    if beside.is_file():
        return beside
    places: set[Path] = set()
    for root in roots:
        tables = paths_below(root, lambda file_name: file_name == name)
        places.update(path.resolve() for path in tables)
    return places.pop() if len(places) == 1 else None
