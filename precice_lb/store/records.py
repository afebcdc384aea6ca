"""What one rank recorded, as read back.

What it said about its coupling meshes (counts and boxes always, coordinates and cells where asked for) is in four
tables: ``/meshes`` (`precice_lb.store.schema.MESH_DTYPE`), ``/mesh_names`` (the names in UTF-8, each with a zero byte
behind it), and, row after row of ``/meshes``, ``/coordinates`` (vertex by vertex) and ``/cells`` (vertices of edges,
triangles, quads and tetrahedra, counted on each rank from 0). A merged store has the rows of all ranks in them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import StoreError
from precice_lb.store.schema import MESH_DTYPE, TABLES, store_directory

CELL_VERTICES = {"edges": 2, "triangles": 3, "quads": 4, "tetrahedra": 4}
"""Vertices of each kind of cell, in the order of ``/cells``."""

MESH_TABLES = ("mesh_names", "coordinates", "cells", "meshes")
"""The tables in the order they are written: the rows last, which say what the others mean."""


def box_names(prefix: str = "") -> list[list[str]]:
    """Columns of the bounding box in `MESH_DTYPE`, or of the access ``region_``: lower and upper bound by axis."""
    return [[f"{prefix}{side}_{axis}" for side in ("low", "high")] for axis in "xyz"]


@dataclass(frozen=True, eq=False)
class RecordedMeshes:
    """Meshes of one rank, or of several ranks of a participant, rank by rank."""

    # What column ``name`` of the rows counts, from 0.
    names: tuple[str, ...] = ()
    rows: NDArray[np.void] = field(default_factory=lambda: np.empty(0, MESH_DTYPE))
    # Of the vertices of all rows that have them, and vertices of the cells of all rows.
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
    """Make sense of the tables of a store, without rows that a machine lost when it went down."""
    rows = rows[rows["dimensions"] > 0]
    if not len(rows):
        # A kill may have come between the tables.
        return RecordedMeshes()
    texts = tuple(name.decode("utf-8", "replace") for name in names.tobytes().split(b"\0")[:-1])
    found = RecordedMeshes(texts, rows, coordinates, cells)
    sane = all((rows[name] >= 0).all() for name in ("name", "vertices", *CELL_VERTICES))
    sane = sane and bool(((rows["name"] < len(texts)) & (rows["dimensions"] <= 3)).all())
    sizes = np.diff(found.cell_starts)
    if sane and sizes.sum() == len(cells):
        sane = bool(((cells >= 0) & (cells < np.repeat(rows["vertices"], sizes))).all())
    if not sane or found.coordinate_starts[-1] != len(coordinates) or found.cell_starts[-1] != len(cells):
        raise StoreError(
            f"{path}: expected coordinates and cells of every mesh in it, found others; leave the file out, or copy it "
            "anew where it was damaged"
        )
    return found


def _starts(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])


Tables: TypeAlias = Mapping[str, NDArray[Any]]
"""Tables of a store by name, as in `precice_lb.store.schema.TABLES`."""


def _nothing(names: Sequence[str]) -> Tables:
    return {}


@dataclass(frozen=True, eq=False)
class RankStore:
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
        Tables of `precice_lb.store.schema.TABLES` that are in memory, by name.
    read : callable
        From names of other tables to those that the file holds, which are read at each access: keep an array instead of
        asking twice.
    """

    path: Path
    metadata: dict[str, Any]
    configuration: str
    tables: Tables = field(default_factory=dict)
    read: Callable[[Sequence[str]], Tables] = field(default_factory=lambda: _nothing)

    @property
    def advances(self) -> NDArray[np.void]:
        """Rows of `precice_lb.store.schema.ADVANCE_DTYPE`, in the order of the calls."""
        return self._tables("advances")[0]

    @property
    def initialize(self) -> NDArray[np.void]:
        """Rows of `precice_lb.store.schema.INITIALIZE_DTYPE`, at most one."""
        return self._tables("initialize")[0]

    @property
    def sections(self) -> NDArray[np.void]:
        """Rows of `precice_lb.store.schema.SECTION_DTYPE`: the solver's own profiling sections, as they ended."""
        return self._tables("sections")[0]

    @cached_property
    def section_names(self) -> tuple[str, ...]:
        """What ``sections["name"]`` counts, from 0."""
        return tuple(name.decode("utf-8", "replace") for name in self._tables("section_names")[0])

    @property
    def guesses(self) -> NDArray[np.void]:
        """Rows of `precice_lb.store.schema.GUESS_DTYPE`: time windows that were begun with a first guess."""
        return self._tables("guesses")[0]

    @cached_property
    def guess_names(self) -> tuple[str, ...]:
        """What ``guesses["name"]`` counts, from 0."""
        return tuple(name.decode("utf-8", "replace") for name in self._tables("guess_names")[0])

    @property
    def counts(self) -> NDArray[np.void]:
        """Rows of `precice_lb.store.schema.COUNT_DTYPE`: how much of what the solver said that the rank holds."""
        return self._tables("counts")[0]

    @cached_property
    def count_names(self) -> tuple[str, ...]:
        """What ``counts["name"]`` counts, from 0."""
        return tuple(name.decode("utf-8", "replace") for name in self._tables("count_names")[0])

    @property
    def mpi(self) -> NDArray[np.void]:
        """Rows of `precice_lb.store.schema.MPI_DTYPE`: time in MPI within solve, where it was recorded."""
        return self._tables("mpi")[0]

    @property
    def cpu(self) -> NDArray[np.void]:
        """Rows of `precice_lb.store.schema.CPU_DTYPE`: CPU time within solve; none in stores of earlier versions."""
        return self._tables("cpu")[0]

    @property
    def mesh_rows(self) -> NDArray[np.void]:
        """Rows of `precice_lb.store.schema.MESH_DTYPE` alone, without coordinates and cells."""
        return self._tables("meshes")[0]

    def meshes(self) -> RecordedMeshes:
        """Read what the rank said about its coupling meshes.

        Returns
        -------
        RecordedMeshes

        Raises
        ------
        StoreError
            If they are damaged.
        """
        found = recorded_meshes(self.path, *self._tables(*MESH_TABLES))
        if len(found.rows) and (found.rows["rank"] != self.metadata["rank"]).any():
            raise StoreError(
                f"{self.path}: expected meshes of rank {self.metadata['rank']}, found some of another rank"
            )
        return found

    def _tables(self, *names: str) -> list[NDArray[Any]]:
        others = [name for name in names if name not in self.tables]
        found = {**self.tables, **self.read(others)} if others else self.tables
        return [found[name] if name in found else np.empty(0, TABLES[name]) for name in names]

    def having(self, metadata: Mapping[str, Any] | None = None, **tables: NDArray[Any]) -> RankStore:
        """Give the rank more or other metadata and tables.

        Parameters
        ----------
        metadata : mapping, optional
            Values by key, in place of those there are.
        **tables : ndarray
            Tables by name, shape (n,) each, likewise.

        Returns
        -------
        RankStore
        """
        return replace(self, metadata={**self.metadata, **(metadata or {})}, tables={**self.tables, **tables})

    @cached_property
    def interval_unix_ns(self) -> tuple[int, int]:
        """Unix time in ns from when to when the rank recorded, for a killed one up to its last row."""
        start: int = self.metadata["started_unix_ns"]
        end = self.metadata.get("ended_unix_ns")
        if end is None:
            end = start
            offset = start - self.metadata["started_clock_ns"]
            if len(self.initialize):
                end = offset + int(self.initialize["begin_ns"][-1] + self.initialize["initialize_ns"][-1])
            advances = self.advances
            if len(advances):
                end = offset + int(advances["begin_ns"][-1] + advances["advance_ns"][-1])
        return start, max(start, end)

    @property
    def directory(self) -> Path:
        """The store directory that the rank recorded into."""
        return store_directory(self.path)

    @property
    def is_imported(self) -> bool:
        """Whether it was made from preCICE's profiling files, whose clock begins at zero, and not recorded."""
        return "timing_source" in self.metadata and self.metadata["started_clock_ns"] == 0


Complete: TypeAlias = Callable[[Sequence[RankStore]], Sequence[RankStore]]
"""Takes some ranks of one participant, sorted; returns them with what was measured beside the store."""
