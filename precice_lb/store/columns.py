"""What a store holds: each table and column once, with type, unit and meaning, and coupling meshes.

A file of one rank has these tables: while the run goes on in a spool (`precice_lb.store.spool`), from its end on in
HDF5. Beside them HDF5 has ``/configuration``, the text of ``precice-config.xml``; attributes of the root are the
metadata. The file that `precice_lb.export.export_merged` makes of many such files is described in
`precice_lb.store.merged`.

Of coupling meshes there are counts and boxes always, coordinates and cells where asked for: ``/meshes`` has a row for
each rank and mesh that it named, ``/mesh_names`` the names in UTF-8, each with a zero byte behind it, and, row after
row of ``/meshes``, ``/coordinates`` (vertex by vertex) and ``/cells`` (vertices of edges, triangles, quads and
tetrahedra, counted on each rank from 0).

Rooms register the tables they record (`precice_lb.rooms`): nothing here or in the files of the stores knows those by
name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import StoreError
from precice_lb.rooms import hooks

if TYPE_CHECKING:
    from precice_lb.store.records import RankFile

Rows: TypeAlias = NDArray[np.void]
Array: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]
Values: TypeAlias = NDArray[Any]
"""What a column or a table holds, in annotations."""

Tables: TypeAlias = Mapping[str, Values]
"""Rows of tables by name."""

NOT_MEASURED = -1
"""What a duration holds that the backend does not tell (never zero)."""

INDISPENSABLE = None
"""In place of the value for "not recorded": each row has a value, and a file without the column is refused."""

NAME_BYTES = 128
"""Longest name of a section, a predictor or a feature in a store, in bytes of UTF-8."""

CASE = "length of the case"
"""Unit of coordinates."""


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Attributes
    ----------
    name : str
        Name that writers and readers find the column by.
    dtype : str
        Type of its values, as numpy writes it: a number of any size, or ``?`` for yes or no.
    unit : str
        Unit of its values; 1 for plain numbers.
    description : str
        What a value says, for the documentation.
    not_recorded : float or None
        Value of each row for which nothing was recorded: what the recorder leaves open, and all rows of a file without
        the column. `INDISPENSABLE` where rows mean nothing without it.
    """

    name: str
    dtype: str
    unit: str
    description: str
    not_recorded: float | None

    @property
    def is_required(self) -> bool:
        """Whether a file without the column is refused."""
        return self.not_recorded is INDISPENSABLE

    def __post_init__(self) -> None:
        if self.not_recorded is None:
            return
        declared_value = np.array([self.not_recorded])
        # NaN becomes an arbitrary integer, which the comparison finds.
        with np.errstate(invalid="ignore"):
            stored_value = declared_value.astype(self.dtype)
        if not np.array_equal(stored_value, declared_value, equal_nan=True):
            raise ValueError(
                f"column {self.name}: expected a value for 'not recorded' that {self.dtype} can hold, found "
                f"{self.not_recorded!r}; give another value or type"
            )


@dataclass(frozen=True, eq=False)
class StoreTable:
    """One table: rows with columns, or plain values.

    Attributes
    ----------
    name : str
        Name that writers and readers find the table by.
    columns : tuple of Column
        Columns of its rows; none where it has plain values.
    kind : str
        Type of plain values, as numpy writes it.
    names : str
        Table with the names that the column ``name`` counts from 0; empty where there is none.
    counted : tuple of str and callable, optional
        Of values that belong to rows of another table: its name, and a function from its rows to the number of values
        of each.
    """

    name: str
    columns: tuple[Column, ...] = ()
    kind: str = ""
    names: str = ""
    counted: tuple[str, Callable[[Rows], Integers]] | None = None

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """Type of its rows."""
        return np.dtype([(column.name, column.dtype) for column in self.columns] if self.columns else self.kind)

    @cached_property
    def _unrecorded_row(self) -> Rows:
        row = np.zeros(1, self.dtype)
        for column in self.columns:
            if column.not_recorded is not None:
                row[column.name] = column.not_recorded
        return row

    def empty(self) -> Values:
        """Return no rows."""
        return np.empty(0, self.dtype)

    def unrecorded(self, count: int) -> Rows:
        """Make rows whose columns say "not recorded", to be filled in; indispensable columns are zero.

        Parameters
        ----------
        count : int
            Number of rows.

        Returns
        -------
        ndarray, shape (count,)
        """
        return np.repeat(self._unrecorded_row, count)

    def completed(self, rows: Rows) -> Rows:
        """Give rows the columns of this table, found by their names.

        Columns that the rows lack say "not recorded"; columns that the table lacks are left out.

        Parameters
        ----------
        rows : ndarray, shape (n,)
            Rows with columns of any number and order.

        Returns
        -------
        ndarray, shape (n,)
            The same array where it has these columns already.
        """
        if rows.dtype == self.dtype:
            return rows
        completed = self.unrecorded(len(rows))
        present = rows.dtype.names or ()
        for column in self.columns:
            if column.name in present:
                completed[column.name] = rows[column.name]
        return completed


TABLES: dict[str, StoreTable] = {}
"""Every table of a rank's file by name."""

Attributes: TypeAlias = dict[str, str]
ORIGINALS: list[Callable[[str, Attributes], Attributes | None]] = []
"""What makes of a tag of ``precice-config.xml`` and its attributes those that the case has without what a room adds to
the configuration; None where the room added the element."""


def register(
    name: str,
    *columns: Column,
    kind: str = "",
    names: str = "",
    names_kind: str = f"S{NAME_BYTES}",
    counted: tuple[str, Callable[[Rows], Integers]] | None = None,
) -> StoreTable:
    """Add a table to `TABLES`, and the table of its names if it has one.

    Parameters
    ----------
    name, *columns, kind, names, counted
        As of `StoreTable`.
    names_kind : str
        Type of the table of names.

    Returns
    -------
    StoreTable

    Raises
    ------
    ValueError
        If a table called ``name`` or ``names`` is already registered.
    """
    for table_name in (name, names):
        if table_name in TABLES:
            raise ValueError(f"table {table_name}: this name is already taken; choose another name")
    if names:
        TABLES[names] = StoreTable(names, kind=names_kind)
    table = StoreTable(name, columns, kind, names, counted)
    TABLES[name] = table
    return table


def stored_name(name: str) -> str:
    """Make what a store can hold of a name, and keeps apart from other ones: a longer one ends in its hash."""
    data = name.encode("utf-8", "replace").rstrip(b"\0")
    if len(data) > NAME_BYTES:
        digest = b"~" + hashlib.sha256(data).hexdigest()[:16].encode()
        data = data[: NAME_BYTES - len(digest)].decode("utf-8", "ignore").encode() + digest
    return data.decode()


def encode_names(table: str, names: Sequence[str]) -> Values:
    """Make the rows of a table of names; where these are of any length, each has a zero byte behind it."""
    if TABLES[table].kind == "u1":
        return np.frombuffer("".join(f"{name}\0" for name in names).encode(), "u1")
    return np.array([stored_name(name).encode() for name in names], TABLES[table].dtype)


def decode_names(rows: Values) -> tuple[str, ...]:
    """Read the rows of a table of names."""
    texts = rows.tolist() if rows.dtype.kind == "S" else rows.tobytes().split(b"\0")[:-1]
    return tuple(text.decode("utf-8", "replace") for text in texts)


def joined(ranks: Sequence[Tables], name: str) -> dict[str, Values]:
    """Put the rows of a table of several ranks together, and the names that they count, in one numbering."""
    table = TABLES[name]
    parts = [rank.get(name, table.empty()) for rank in ranks]
    if not table.names:
        return {name: np.concatenate([table.empty(), *parts])}
    numbers: dict[str, int] = {}
    for number, (rank, rows) in enumerate(zip(ranks, parts, strict=True)):
        if len(rows):
            parts[number] = rows = rows.copy()
            known = [numbers.setdefault(text, len(numbers)) for text in decode_names(rank[table.names])]
            rows["name"] = np.array(known)[rows["name"]]
    return {name: np.concatenate([table.empty(), *parts]), table.names: encode_names(table.names, list(numbers))}


ADVANCES = register(
    "advances",
    Column("window", "<i8", "1", "time window that the call belongs to, from 1", INDISPENSABLE),
    Column("iteration", "<i4", "1", "coupling iteration in it, from 1", INDISPENSABLE),
    Column("begin_ns", "<i8", "ns", "clock when `advance` began", INDISPENSABLE),
    Column("solve_ns", "<i8", "ns", "time of the solver since the call before", INDISPENSABLE),
    Column("advance_ns", "<i8", "ns", "time in `advance`", INDISPENSABLE),
    Column("mapping_ns", "<i8", "ns", "mapping within it, as preCICE's profiling files tell", NOT_MEASURED),
    Column("wait_ns", "<i8", "ns", "waiting for partners within it, likewise", NOT_MEASURED),
    Column("computed_dt", "<f8", "simulated s", "time step that the solver computed", np.nan),
    Column("window_complete", "?", "1", "whether the call completed the window", INDISPENSABLE),
)
INITIALIZE = register(
    "initialize",
    Column("begin_ns", "<i8", "ns", "clock when `initialize` began", INDISPENSABLE),
    Column("initialize_ns", "<i8", "ns", "time in it", INDISPENSABLE),
    Column("mapping_ns", "<i8", "ns", "mapping within it", NOT_MEASURED),
    Column("wait_ns", "<i8", "ns", "waiting for partners within it", NOT_MEASURED),
)
SECTIONS = register(
    "sections",
    Column("name", "<i4", "1", "profiling section, as a position in `/section_names`", INDISPENSABLE),
    Column("window", "<i8", "1", "time window in which it ended", INDISPENSABLE),
    Column("begin_ns", "<i8", "ns", "clock when it began", NOT_MEASURED),
    Column("duration_ns", "<i8", "ns", "its duration, with everything in it", INDISPENSABLE),
    names="section_names",
)
COUNTS = register(
    "counts",
    Column("window", "<i8", "1", "time window from which on the rank holds as much", INDISPENSABLE),
    Column("name", "<i4", "1", "feature, as a position in `/count_names`", INDISPENSABLE),
    Column("count", "<f8", "1", "how much of it; the last one counts", INDISPENSABLE),
    names="count_names",
)
MPI = register(
    "mpi",
    Column("window", "<i8", "1", "time window; rows of one add up", INDISPENSABLE),
    Column("mpi_ns", "<i8", "ns", "time in MPI within solve", INDISPENSABLE),
)
CPU = register(
    "cpu",
    Column("window", "<i8", "1", "time window; rows of one add up", INDISPENSABLE),
    Column("cpu_ns", "<i8", "ns", "CPU time of the rank's process, of all its threads, within solve", INDISPENSABLE),
)
CALLS = ("window", "iteration", "window_complete")
"""Columns of ``advances`` that say which call a row is of."""

ADVANCE_SPENDS = "advance/"
"""What the names of sections begin with that are preCICE's own events in ``advance``, but mapping and waits, as its
profiling files tell; the names of the solver's have no slash."""

CELL_VERTICES = {"edges": 2, "triangles": 3, "quads": 4, "tetrahedra": 4}
"""Vertices of each kind of cell, in the order of ``/cells``."""


def box_names(prefix: str = "") -> list[list[str]]:
    """Columns of a mesh's bounding box, or of the access ``region_``: lower and upper bound by axis."""
    return [[f"{prefix}{side}_{axis}" for side in ("low", "high")] for axis in "xyz"]


def _coordinates(rows: Rows) -> Integers:
    values: Integers = rows["coordinates"] * rows["vertices"] * rows["dimensions"]
    return values


def _cells(rows: Rows) -> Integers:
    sizes = np.zeros(len(rows), np.int64)
    for kind, corners in CELL_VERTICES.items():
        sizes += rows[kind] * corners
    return sizes


_BOX = [
    Column(
        f"{prefix}{side}_{axis}", "<f8", CASE, f"{words} bound of {what} along {axis}; NaN where there is none", np.nan
    )
    for prefix, what in (("", "its bounding box"), ("region_", "the access region that the rank set"))
    for axis in "xyz"
    for side, words in (("low", "lower"), ("high", "upper"))
]
MESHES = register(
    "meshes",
    Column("rank", "<i8", "1", "rank", INDISPENSABLE),
    Column("name", "<i4", "1", "mesh that it named before `initialize`, as a position in `/mesh_names`", INDISPENSABLE),
    Column("dimensions", "<i4", "1", "space dimensions", INDISPENSABLE),
    Column("vertices", "<i8", "1", "vertices that the rank has", INDISPENSABLE),
    *(Column(kind, "<i8", "1", f"{kind} that were kept", INDISPENSABLE) for kind in CELL_VERTICES),
    Column("coordinates", "?", "1", "whether `/coordinates` has the vertices", INDISPENSABLE),
    *_BOX,
    names="mesh_names",
    names_kind="u1",
)
COORDINATES = register("coordinates", kind="<f8", counted=("meshes", _coordinates))
CELLS = register("cells", kind="<i4", counted=("meshes", _cells))

MESH_TABLES = ("mesh_names", "coordinates", "cells", "meshes")
"""The tables in the order they are written: the rows last, which say what the others mean."""


@dataclass(frozen=True, eq=False)
class RecordedMeshes:
    """Meshes of one rank, or of several ranks of a participant, rank by rank."""

    # What column ``name`` of the rows counts, from 0.
    names: tuple[str, ...] = ()
    rows: Rows = field(default_factory=MESHES.empty)
    # Of the vertices of all rows that have them, and vertices of the cells of all rows.
    coordinates: Array = field(default_factory=COORDINATES.empty)
    cells: NDArray[np.int32] = field(default_factory=CELLS.empty)

    def arrays(self) -> Tables:
        """Return what the tables of a store hold."""
        names = encode_names("mesh_names", self.names)
        return dict(zip(MESH_TABLES, (names, self.coordinates, self.cells, self.rows), strict=True))

    @cached_property
    def coordinate_starts(self) -> Integers:
        """Where each row's coordinates begin, and their number, shape (n + 1,)."""
        return np.concatenate([[0], np.cumsum(_coordinates(self.rows))])

    @cached_property
    def cell_starts(self) -> Integers:
        """Where each row's cells begin, and how many vertices all have, shape (n + 1,)."""
        return np.concatenate([[0], np.cumsum(_cells(self.rows))])


def recorded_meshes(*ranks: RankFile) -> RecordedMeshes:
    """Read what ranks of a participant said about their coupling meshes, in their order; damage is a `StoreError`."""
    tables = [rank.arrays() for rank in map(_of_rank, ranks) if len(rank.rows)]
    meshes = joined(tables, "meshes")
    values = (joined(tables, name)[name] for name in ("coordinates", "cells"))
    return RecordedMeshes(decode_names(meshes["mesh_names"]), meshes["meshes"], *values)


def _of_rank(store: RankFile) -> RecordedMeshes:
    """Make sense of the tables of a store, without rows that a machine lost when it went down."""
    names, coordinates, cells, rows = store.read_tables(*MESH_TABLES)
    rows = rows[rows["dimensions"] > 0]
    if not len(rows):
        # A kill may have come between the tables.
        return RecordedMeshes()
    if (rows["rank"] != store.metadata["rank"]).any():
        raise StoreError(f"{store.path}: expected meshes of rank {store.metadata['rank']}, found some of another rank")
    recorded = RecordedMeshes(decode_names(names), rows, coordinates, cells)
    sane = all((rows[name] >= 0).all() for name in ("name", "vertices", *CELL_VERTICES))
    sane = sane and bool(((rows["name"] < len(recorded.names)) & (rows["dimensions"] <= 3)).all())
    sizes = np.diff(recorded.cell_starts)
    if sane and sizes.sum() == len(cells):
        sane = bool(((cells >= 0) & (cells < np.repeat(rows["vertices"], sizes))).all())
    if not sane or recorded.coordinate_starts[-1] != len(coordinates) or recorded.cell_starts[-1] != len(cells):
        raise StoreError(
            f"{store.path}: expected coordinates and cells of every mesh in it, found others; leave the file out, or "
            "copy it anew where it was damaged"
        )
    return recorded


hooks("columns")
