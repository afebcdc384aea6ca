"""What ranks said about their coupling meshes: counts and boxes always, coordinates and cells where asked for.

A store has it in four tables: ``/meshes`` (`precice_lb.store.schema.MESH_DTYPE`), ``/mesh_names`` (the names in UTF-8,
each with a zero byte behind it), and, row after row of ``/meshes``, ``/coordinates`` (vertex by vertex) and ``/cells``
(vertices of edges, triangles, quads and tetrahedra, counted on each rank from 0). A merged store has the rows of all
ranks in the same four.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import StoreError
from precice_lb.store.schema import MESH_DTYPE, TABLES

__all__ = ["CELL_VERTICES", "MESH_TABLES", "RecordedMeshes", "box_names", "recorded_meshes"]

CELL_VERTICES = {"edges": 2, "triangles": 3, "quads": 4, "tetrahedra": 4}
"""Vertices of each kind of cell, in the order of ``/cells``."""

MESH_TABLES = ("mesh_names", "coordinates", "cells", "meshes")
"""The tables in the order they are written: the rows last, which say what the others mean."""


def box_names(prefix: str = "") -> list[list[str]]:
    """Columns of the bounding box in `MESH_DTYPE`, or of the access ``region_``: lower and upper bound by axis."""
    return [[f"{prefix}{side}_{axis}" for side in ("low", "high")] for axis in "xyz"]


@dataclass(frozen=True, eq=False)
class RecordedMeshes:
    """Meshes of one rank, or of several ranks of a participant.

    Attributes
    ----------
    names : tuple of str
        What column ``name`` of the rows counts, from 0.
    rows : ndarray of MESH_DTYPE, shape (n,)
        Rank by rank.
    coordinates : ndarray, shape (c,)
        Of the vertices of all rows that have them.
    cells : ndarray of int32, shape (k,)
        Vertices of the cells of all rows.
    """

    names: tuple[str, ...] = ()
    rows: NDArray[np.void] = field(default_factory=lambda: np.empty(0, MESH_DTYPE))
    coordinates: NDArray[np.float64] = field(default_factory=lambda: np.empty(0, TABLES["coordinates"]))
    cells: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, TABLES["cells"]))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what the tables of a store hold."""
        names = np.frombuffer("".join(f"{name}\0" for name in self.names).encode(), TABLES["mesh_names"])
        return dict(zip(MESH_TABLES, (names, self.coordinates, self.cells, self.rows), strict=True))

    @cached_property
    def coordinate_starts(self) -> NDArray[np.int64]:
        """Where each row's coordinates begin, and their number, shape (n + 1,)."""
        return _starts(np.where(self.rows["coordinates"], self.rows["vertices"] * self.rows["dimensions"], 0))

    @cached_property
    def cell_starts(self) -> NDArray[np.int64]:
        """Where each row's cells begin, and how many vertices all have, shape (n + 1,)."""
        sizes = np.zeros(len(self.rows), np.int64)
        for kind, corners in CELL_VERTICES.items():
            sizes += self.rows[kind] * corners
        return _starts(sizes)

    @staticmethod
    def joined(ranks: Sequence[RecordedMeshes]) -> RecordedMeshes:
        """Put meshes of several ranks together, in the order of ranks."""
        ranks = [each for each in ranks if len(each.rows)]
        if not ranks:
            return RecordedMeshes()
        numbers: dict[str, int] = {}
        return RecordedMeshes(
            rows=np.concatenate([each.numbered(numbers) for each in ranks]),
            names=tuple(numbers),
            coordinates=np.concatenate([each.coordinates for each in ranks]),
            cells=np.concatenate([each.cells for each in ranks]),
        )

    def numbered(self, numbers: dict[str, int]) -> NDArray[np.void]:
        """Copy the rows, with the names numbered as in a table of several ranks, where new ones are added."""
        rows: NDArray[np.void] = self.rows.copy()
        if len(rows):
            rows["name"] = np.array([numbers.setdefault(name, len(numbers)) for name in self.names])[rows["name"]]
        return rows


def recorded_meshes(
    path: Path,
    names: NDArray[np.uint8],
    coordinates: NDArray[np.float64],
    cells: NDArray[np.int32],
    rows: NDArray[np.void],
) -> RecordedMeshes:
    """Make sense of the tables of a store, without rows that a machine lost when it went down.

    Raises
    ------
    StoreError
        If they do not fit together.
    """
    rows = rows[rows["dimensions"] > 0]
    if not len(rows):
        # A kill may have come between the tables.
        return RecordedMeshes()
    texts = tuple(name.decode("utf-8", "replace") for name in names.tobytes().split(b"\0")[:-1])
    found = RecordedMeshes(texts, rows, coordinates, cells)
    sane = all((rows[name] >= 0).all() for name in ("name", "vertices", *CELL_VERTICES))
    sane = sane and bool((rows["name"] < len(texts)).all())
    if not sane or found.coordinate_starts[-1] != len(coordinates) or found.cell_starts[-1] != len(cells):
        raise StoreError(
            f"{path}: expected coordinates and cells of every mesh in it, found others; leave the file out, or copy it "
            "anew where it was damaged"
        )
    return found


def _starts(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
