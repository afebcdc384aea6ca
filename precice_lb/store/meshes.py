"""What ranks said about their coupling meshes: counts and boxes always, coordinates and cells where asked for.

A store has it in four tables: ``/meshes`` (`precice_lb.store.schema.MESH_DTYPE`), ``/mesh_names`` (the names in UTF-8,
each with a zero byte behind it), and, row after row of ``/meshes``, ``/coordinates`` (vertex by vertex) and ``/cells``
(vertices of edges, triangles, quads and tetrahedra, counted on each rank from 0). A merged store has the rows of all
ranks in the same four.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import StoreError
from precice_lb.store.schema import MESH_DTYPE, TABLES

__all__ = ["CELL_VERTICES", "MESH_PARTS", "RecordedMeshes", "box_names", "recorded_meshes"]

CELL_VERTICES = {"edges": 2, "triangles": 3, "quads": 4, "tetrahedra": 4}
"""Vertices of each kind of cell, in the order of ``/cells``."""

MESH_PARTS: dict[str, np.dtype[Any]] = {name: TABLES[name] for name in ("mesh_names", "coordinates", "cells")}
"""Tables that rows of ``/meshes`` refer to, in the order they are written, and their types."""


def box_names(prefix: str = "") -> list[list[str]]:
    """Columns of a box in `MESH_DTYPE`.

    Parameters
    ----------
    prefix : str
        Empty for the bounding box, ``region_`` for the access region.

    Returns
    -------
    list of list of str
        Lower and upper bound by axis.
    """
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
    coordinates: NDArray[np.float64] = field(default_factory=lambda: np.empty(0, MESH_PARTS["coordinates"]))
    cells: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, MESH_PARTS["cells"]))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what the tables of a store hold, the rows last: they say what the others mean."""
        return {
            "mesh_names": np.frombuffer("".join(f"{name}\0" for name in self.names).encode(), MESH_PARTS["mesh_names"]),
            "coordinates": self.coordinates,
            "cells": self.cells,
            "meshes": self.rows,
        }

    @property
    def coordinate_starts(self) -> NDArray[np.int64]:
        """Where each row's coordinates begin, and their number, shape (n + 1,)."""
        return _starts(np.where(self.rows["coordinates"], self.rows["vertices"] * self.rows["dimensions"], 0))

    @property
    def cell_starts(self) -> NDArray[np.int64]:
        """Where each row's cells begin, and how many vertices all have, shape (n + 1,)."""
        sizes = np.zeros(len(self.rows), np.int64)
        for kind, corners in CELL_VERTICES.items():
            sizes += self.rows[kind] * corners
        return _starts(sizes)

    @staticmethod
    def joined(parts: Sequence[RecordedMeshes]) -> RecordedMeshes:
        """Put meshes of several ranks together.

        Parameters
        ----------
        parts : sequence of RecordedMeshes
            In the order of ranks.

        Returns
        -------
        RecordedMeshes
        """
        parts = [part for part in parts if len(part.rows)]
        numbers: dict[str, int] = {}
        rows = []
        for part in parts:
            known = np.array([numbers.setdefault(name, len(numbers)) for name in part.names], dtype=np.int32)
            rows.append(part.rows.copy())
            rows[-1]["name"] = known[part.rows["name"]]
        if not parts:
            return RecordedMeshes()
        return RecordedMeshes(
            tuple(numbers),
            np.concatenate(rows),
            np.concatenate([part.coordinates for part in parts]),
            np.concatenate([part.cells for part in parts]),
        )


def recorded_meshes(
    names: bytes, rows: NDArray[np.void], coordinates: NDArray[np.float64], cells: NDArray[np.int32]
) -> RecordedMeshes:
    """Make sense of the four tables of a store, without rows that a machine lost when it went down.

    Parameters
    ----------
    names : bytes
        ``/mesh_names``.
    rows, coordinates, cells : ndarray of shape (n,)
        The other tables.

    Returns
    -------
    RecordedMeshes

    Raises
    ------
    StoreError
        If they do not fit together.
    """
    rows = rows[rows["dimensions"] > 0]
    if not len(rows):
        # A kill may have come between the tables.
        return RecordedMeshes()
    texts = tuple(name.decode("utf-8", "replace") for name in names.split(b"\0")[:-1])
    found = RecordedMeshes(texts, rows, coordinates, cells)
    counts = [rows[name] for name in ("vertices", *CELL_VERTICES)]
    sane = all((count >= 0).all() for count in counts) and bool(
        ((rows["name"] >= 0) & (rows["name"] < len(texts))).all()
    )
    if not sane or found.coordinate_starts[-1] != len(coordinates) or found.cell_starts[-1] != len(cells):
        raise StoreError("expected coordinates and cells of every mesh in it, found others")
    return found


def _starts(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
