"""What one rank recorded: its metadata, the configuration, and tables, in memory or in its file."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from precice_lb.exceptions import StoreError
from precice_lb.store.columns import TABLES, Column, Mask, Rows, StoreTable, Tables, Values, decode_names
from precice_lb.store.schema import store_directory


@dataclass(frozen=True, eq=False)
class RankFile:
    """What one rank recorded.

    Attributes
    ----------
    path : Path
        The file.
    metadata : dict
        Values by key, as `precice_lb.store.schema.METADATA` describes them.
    configuration : str
        Text of ``precice-config.xml``.
    tables : dict of str to ndarray
        Tables of `precice_lb.store.columns.TABLES` that are in memory, by name.
    read : callable, optional
        From names of other tables, and of those with the names that they count, to what the file holds of them, at each
        access: keep an array instead of asking twice, or have all of them `loaded`.
    """

    path: Path
    metadata: dict[str, Any]
    configuration: str
    tables: Tables = field(default_factory=dict)
    read: Callable[[Iterable[str]], Tables] | None = None

    @property
    def advances(self) -> Rows:
        """Rows of ``/advances``, in the order of the calls."""
        return self.rows("advances")

    @property
    def initialize(self) -> Rows:
        """Rows of ``/initialize``, at most one."""
        return self.rows("initialize")

    def rows(self, table: str) -> Values:
        """Give the rows of a table; none where it was not recorded.

        Parameters
        ----------
        table : str
            Its name in `precice_lb.store.columns.TABLES`.

        Returns
        -------
        ndarray, shape (n,)
        """
        return self.read_tables(table)[0]

    def names(self, table: str) -> tuple[str, ...]:
        """Give what the column ``name`` of a table counts, from 0.

        Parameters
        ----------
        table : str
            The table whose rows count them.

        Returns
        -------
        tuple of str
            None where the rows count nothing, or the room is not there that has the table.
        """
        names = TABLES[table].names if table in TABLES else ""
        return decode_names(self.rows(names)) if names else ()

    def read_tables(self, *names: str) -> list[Values]:
        """Give several tables, read at once.

        Parameters
        ----------
        *names : str
            As of `rows`.

        Returns
        -------
        list of ndarray, shape (n,) each
        """
        tables = self.tables
        others = [name for name in names if name not in tables]
        if others and self.read is not None:
            wanted = {*others, *(TABLES[name].names for name in others)} - {"", *tables}
            with wrap_read_errors(self.path):
                tables = written({**tables, **self.read(wanted)})
        return [tables[name] if name in tables else TABLES[name].empty() for name in names]

    def loaded(self, *names: str) -> RankFile:
        """Read tables into memory.

        Parameters
        ----------
        *names : str
            As of `rows`; by default all tables.

        Returns
        -------
        RankFile
        """
        names = names or tuple(TABLES)
        return replace(self, tables={**self.tables, **dict(zip(names, self.read_tables(*names), strict=True))})

    def having(self, metadata: Mapping[str, Any] | None = None, **tables: Values) -> RankFile:
        """Give the rank more or other metadata and tables.

        Parameters
        ----------
        metadata : mapping, optional
            Values by key, in place of those there are.
        **tables : ndarray
            Tables by name, shape (n,) each, likewise.

        Returns
        -------
        RankFile
        """
        return replace(self, metadata={**self.metadata, **(metadata or {})}, tables={**self.tables, **tables})

    @cached_property
    def interval_unix_ns(self) -> tuple[int, int]:
        """Unix time in ns from when to when the rank recorded, for a killed one up to its last row."""
        start: int = self.metadata["started_unix_ns"]
        end = self.metadata.get("ended_unix_ns")
        if end is None:
            offset = start - self.metadata["started_clock_ns"]
            ends = [
                offset + int(rows["begin_ns"][-1] + rows[f"{call}_ns"][-1])
                for call, rows in (("initialize", self.initialize), ("advance", self.advances))
                if len(rows)
            ]
            end = ends[-1] if ends else start
        return start, max(start, end)

    @property
    def directory(self) -> Path:
        """The store directory that the rank recorded into."""
        return store_directory(self.path)

    @property
    def is_imported(self) -> bool:
        """Whether it was made from preCICE's profiling files, whose clock begins at zero, and not recorded."""
        return "timing_source" in self.metadata and self.metadata["started_clock_ns"] == 0


Complete: TypeAlias = Callable[[Sequence[RankFile]], Sequence[RankFile]]
"""Takes some ranks of one participant, sorted; returns them with what was measured beside the store."""


@contextlib.contextmanager
def wrap_read_errors(path: Path) -> Iterator[None]:
    """Turn whatever a foreign file raises, or one that is damaged within, into one error with its name and a remedy."""
    try:
        yield
    except StoreError as error:
        if str(error).startswith(str(path)):
            raise
        raise StoreError(f"{path}: {error}; leave the file out, or copy it anew where it was damaged") from error
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise StoreError(
            f"{path}: expected a store written by precice_lb, found a file that cannot be read as one ({reason}); "
            "leave it out, or import it first if it holds measurements of another format (precice-lb import --help)"
        ) from error


# In ns 104 days: no call takes longer. And every whole number up to this is a float.
_LARGEST = 1 << 53
# Clocks may count from anywhere; differences and sums stay integers of 64 bits.
_LATEST = 1 << 62
# Of a column, in ns 36 years.
_LARGEST_SUM = 1 << 60


def table_rows(name: str, rows: Values) -> Values:
    """Convert the rows of a file to the columns of a table, matched by name.

    A missing optional column is filled with its value for "not recorded". A column that the table lacks is left out.

    Parameters
    ----------
    name : str
        The table, of `precice_lb.store.columns.TABLES`.
    rows : ndarray, shape (n,)
        Rows as they are stored in the file.

    Returns
    -------
    ndarray, shape (n,)

    Raises
    ------
    StoreError
        If an indispensable column is missing, or a column has another type or invalid values.
    """
    table = TABLES[name]
    check_columns(table, rows.dtype)
    if not table.columns:
        # A table of plain values, such as names or coordinates.
        return rows.astype(table.dtype, copy=False)
    completed = table.completed(rows)
    for column in table.columns:
        _check_values(column, completed[column.name])
    return completed


def check_columns(table: StoreTable, stored: np.dtype[Any]) -> None:
    """Refuse rows without an indispensable column, or with a column of another type.

    Parameters
    ----------
    table : StoreTable
        The table that they are read as.
    stored : dtype
        Type of the rows in a file, or of plain values.
    """
    if stored == table.dtype:
        return
    if not table.columns:
        check_type(f"values in /{table.name}", stored, table.dtype)
        return
    present = stored.names or ()
    for column in table.columns:
        if column.name in present:
            check_type(f"column {column.name} in /{table.name}", stored[column.name], table.dtype[column.name])
        elif column.is_required:
            raise missing_column(table.name, column.name, present)


def missing_column(table: str, column: str, present: Iterable[str]) -> StoreError:
    """Make the error of a file without an indispensable column."""
    return StoreError(f"expected column {column} in /{table}, found {', '.join(present) or 'no columns'}")


def check_type(what: str, stored: np.dtype[Any], wanted: np.dtype[Any]) -> None:
    """Refuse values of a type that the wanted one does not hold.

    Parameters
    ----------
    what : str
        What they are, for the error.
    stored, wanted : dtype
        Type in a file, and type that they are read as.
    """
    if stored.kind != wanted.kind or stored.itemsize > wanted.itemsize:
        raise StoreError(f"expected {what} of type {wanted}, found {stored}")


def _check_values(column: Column, values: Values) -> None:
    """Refuse numbers that nothing has: further computing with them overflows, or asks for any amount of memory."""
    name = column.name
    if name == "count" and not (np.isfinite(values) & (values >= 0)).all():
        raise StoreError("column count: expected finite numbers from 0, found others")
    if values.dtype.kind != "i" or not values.size:
        return
    is_clock = name == "begin_ns"
    # Any duration below zero is one that was not measured.
    least = -_LARGEST if name.endswith("_ns") and not is_clock else 0
    most = _LATEST if is_clock else _LARGEST
    if column.not_recorded is not None:
        least = min(least, int(column.not_recorded))
        most = max(most, int(column.not_recorded))
    low, high = int(values.min()), int(values.max())
    if low < least or high > most:
        raise StoreError(f"column {name}: expected numbers from {least} to {most}, found some from {low} to {high}")
    if not is_clock and values.sum(dtype=np.float64) > _LARGEST_SUM:
        raise StoreError(f"column {name}: expected a sum up to {_LARGEST_SUM}, found a larger one")


def written(tables: Tables) -> dict[str, Values]:
    """Leave out rows of zeros, which a machine that went down leaves in place of some, and rows that came twice."""
    kept = dict(tables)
    for name, rows in tables.items():
        if "window" in (rows.dtype.names or ()):
            known = rows["window"] > 0
            if names := TABLES[name].names:
                known &= rows["name"] < len(tables.get(names, ()))
            rows = rows if known.all() else rows[known]
            kept[name] = in_order(rows) if name == "advances" else rows
    return kept


def in_order(rows: Rows) -> Rows:
    """Give each row of ``advance`` once, as an interrupted flush wrote some again, and refuse what is in no order."""
    if not _wrong(rows).any():
        return rows
    # As bytes: "not recorded" may be NaN, which differs from itself.
    rows_as_bytes = np.ascontiguousarray(rows).view(f"S{rows.dtype.itemsize}")
    _, first_places = np.unique(rows_as_bytes, return_index=True)
    rows = rows[np.sort(first_places)]
    wrong = _wrong(rows)
    if wrong.any():
        before, after = rows[(first := int(np.argmax(wrong))) : first + 2]
        raise StoreError(
            "expected calls in the order they were made, each window once, found window "
            f"{after['window']}, iteration {after['iteration']} after window {before['window']}, iteration "
            f"{before['iteration']}"
        )
    return rows


def _wrong(rows: Rows) -> Mask:
    """Which rows are followed by one that cannot come after them, shape (n - 1,)."""
    window, iteration, complete = rows["window"], rows["iteration"], rows["window_complete"]
    again = complete[:-1] | (iteration[1:] < iteration[:-1])
    wrong: Mask = (window[1:] < window[:-1]) | ((window[1:] == window[:-1]) & again)
    return wrong
