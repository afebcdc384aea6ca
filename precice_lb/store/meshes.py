"""Coupling meshes in stores, which the recorder writes and `precice_lb.partners` reads.

Counts and boxes always, coordinates and cells where asked for: ``/meshes`` has a row for each rank and mesh that it
named, ``/mesh_names`` the names in UTF-8, each with a zero byte behind it, and, row after row of ``/meshes``,
``/coordinates`` (vertex by vertex) and ``/cells`` (vertices of edges, triangles, quads and tetrahedra, counted on each
rank from 0).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import StoreError
from precice_lb.store.columns import CASE, Array, Integers, Rows, Tables, decode_names, encode_names, joined, register

if TYPE_CHECKING:
    from precice_lb.store.records import RankFile

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
    (f"{prefix}{side}_{axis}", "<f8", CASE, f"{words} bound of {what} along {axis}; NaN where there is none")
    for prefix, what in (("", "its bounding box"), ("region_", "the access region that the rank set"))
    for axis in "xyz"
    for side, words in (("low", "lower"), ("high", "upper"))
]
MESHES = register(
    "meshes",
    ("rank", "<i8", "1", "rank"),
    ("name", "<i4", "1", "mesh that it named before `initialize`, as a position in `/mesh_names`"),
    ("dimensions", "<i4", "1", "space dimensions"),
    ("vertices", "<i8", "1", "vertices that the rank has"),
    *((kind, "<i8", "1", f"{kind} that were kept") for kind in CELL_VERTICES),
    ("coordinates", "?", "1", "whether `/coordinates` has the vertices"),
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
