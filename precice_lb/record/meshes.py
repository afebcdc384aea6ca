"""What a rank tells preCICE about its meshes before ``initialize``, for its store.

The vertex count, bounding box and access region of every mesh are kept always; with ``PRECICE_LB_MESHES=coordinates``
also vertices and cells, with ``PRECICE_LB_MESHES=0`` nothing. ``advance`` is left alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.record.notes import warn_once
from precice_lb.store.meshes import CELL_VERTICES, RecordedMeshes, box_names
from precice_lb.store.schema import MESH_DTYPE, TABLES
from precice_lb.store.writer import raised_elsewhere

__all__ = ["MeshCalls", "MeshNotes"]

# Values of PRECICE_LB_MESHES, the first by default.
_SETTINGS = ("boxes", "coordinates", "0")
# Calls that add single vertices or cells are collected, so that they cost little more than a copy.
_COLLECTED = 4096
# The kind of cell, and whether a call adds several.
_CELL_CALLS = {
    **{f"set_mesh_{kind}": (kind, True) for kind in CELL_VERTICES},
    "set_mesh_edge": ("edges", False),
    "set_mesh_triangle": ("triangles", False),
    "set_mesh_quad": ("quads", False),
    "set_mesh_tetrahedron": ("tetrahedra", False),
}
_CORNERS = ("first_vertex_id", "second_vertex_id", "third_vertex_id", "fourth_vertex_id")
_PLAIN = (list, tuple, np.ndarray)


class _Mesh:
    """One mesh: its count, its box, and what is kept of it."""

    def __init__(self) -> None:
        self.region: NDArray[np.float64] | None = None
        self.clear()

    def clear(self) -> None:
        """Forget all but the access region."""
        self.count = 0
        self.box: NDArray[np.float64] | None = None
        self.points: list[NDArray[np.float64]] = []
        self.cells: dict[str, list[NDArray[np.int32]]] = {kind: [] for kind in CELL_VERTICES}
        self.new: dict[str, list[tuple[Any, ...]]] = {}


class MeshNotes:
    """Vertex counts, bounding boxes and access regions of one rank, with vertices and cells where asked for.

    No method raises: what cannot be understood is one warning, and then nothing is kept.

    Parameters
    ----------
    keep_points : bool
        Whether to keep vertices and cells.
    """

    def __init__(self, keep_points: bool) -> None:
        self._keep_points = keep_points
        self._meshes: dict[str, _Mesh] | None = {}

    def vertex(self, mesh: Any, position: Any) -> None:
        """Take one vertex; shape (dimensions,)."""
        if isinstance(position, _PLAIN):
            self._collect(mesh, "vertices", tuple(position))
        else:
            self.vertices(mesh, [position])

    def vertices(self, mesh: Any, positions: Any) -> None:
        """Take vertices of a mesh; shape (vertices, dimensions)."""
        self._guarded(self._vertices, mesh, positions)

    def cell(self, kind: str, mesh: Any, vertices: Sequence[Any]) -> None:
        """Take one cell of a kind of `precice_lb.store.meshes.CELL_VERTICES`; ids of its vertices."""
        self._collect(mesh, kind, tuple(vertices))

    def cells(self, kind: str, mesh: Any, vertices: Any) -> None:
        """Take cells of a kind; ids of their vertices, shape (cells, vertices of one)."""
        self._guarded(self._cells, mesh, vertices, kind)

    def region(self, mesh: Any, bounding_box: Any) -> None:
        """Take an access region: lower and upper bound of each dimension in turn."""
        self._guarded(self._region, mesh, bounding_box)

    def reset(self, mesh: Any) -> None:
        """Forget the vertices and cells of a mesh."""
        self._guarded(lambda: self._of(mesh).clear())

    def recorded(self, rank: int) -> RecordedMeshes:
        """Return what was taken, for the store.

        Parameters
        ----------
        rank : int
            The rank.

        Returns
        -------
        RecordedMeshes
            Empty where something could not be understood.
        """
        found: list[RecordedMeshes] = []
        self._guarded(lambda: found.append(self._recorded(rank)))
        return found[0] if found else RecordedMeshes()

    def _guarded(self, take: Callable[..., None], *arguments: Any) -> None:
        if self._meshes is None:
            return
        try:
            take(*arguments)
        except Exception as error:
            # A signal handler's exception is the solver's, and none of ours.
            if raised_elsewhere(error):
                raise
            self._meshes = None
            warn_once(f"meshes of this run are not recorded: {error}")

    def _collect(self, mesh: Any, what: str, values: tuple[Any, ...]) -> None:
        if self._meshes is not None:
            new = self._of(mesh).new.setdefault(what, [])
            new.append(values)
            if len(new) >= _COLLECTED:
                self._guarded(self._settle, mesh)

    def _of(self, mesh: Any) -> _Mesh:
        assert self._meshes is not None
        name = mesh.decode() if isinstance(mesh, bytes) else str(mesh)
        found = self._meshes.get(name)
        if found is None:
            found = self._meshes[name] = _Mesh()
        return found

    def _settle(self, mesh: Any) -> None:
        """Take over what single calls added."""
        kept = self._of(mesh)
        new, kept.new = kept.new, {}
        for what, values in new.items():
            if what == "vertices":
                self._vertices(mesh, values)
            else:
                self._cells(mesh, values, what)

    def _vertices(self, mesh: Any, positions: Any) -> None:
        kept = self._of(mesh)
        if kept.new:
            self._settle(mesh)
        points = np.asarray(positions, dtype=float)
        if not len(points):
            return
        low, high = points.min(axis=0), points.max(axis=0)
        if kept.box is not None:
            low, high = np.minimum(low, kept.box[:, 0]), np.maximum(high, kept.box[:, 1])
        kept.count, kept.box = kept.count + len(points), np.stack([low, high], axis=1)
        if self._keep_points:
            kept.points.append(np.array(points))

    def _cells(self, mesh: Any, vertices: Any, kind: str) -> None:
        self._of(mesh).cells[kind].append(np.array(vertices, dtype=np.int32).reshape(-1, CELL_VERTICES[kind]))

    def _region(self, mesh: Any, bounding_box: Any) -> None:
        self._of(mesh).region = np.array(bounding_box, dtype=float).reshape(-1, 2)

    def _recorded(self, rank: int) -> RecordedMeshes:
        assert self._meshes is not None
        for name in self._meshes:
            self._settle(name)
        kept = {name: mesh for name, mesh in self._meshes.items() if mesh.box is not None or mesh.region is not None}
        rows = np.zeros(len(kept), MESH_DTYPE)
        rows["rank"] = rank
        coordinates, cells = [], []
        for number, (row, mesh) in enumerate(zip(rows, kept.values(), strict=True)):
            row["name"], row["vertices"], row["coordinates"] = number, mesh.count, self._keep_points
            for prefix, box in (("", mesh.box), ("region_", mesh.region)):
                bounds = np.full((3, 2), np.nan)
                if box is not None:
                    row["dimensions"] = len(box)
                    bounds[: len(box)] = box
                for names, values in zip(box_names(prefix), bounds, strict=True):
                    row[names[0]], row[names[1]] = values
            coordinates += [points.ravel() for points in mesh.points]
            for kind, parts in mesh.cells.items():
                row[kind] = sum(map(len, parts))
                cells += [part.ravel() for part in parts]
        return RecordedMeshes(
            tuple(kept),
            rows,
            np.concatenate([np.empty(0, TABLES["coordinates"]), *coordinates]),
            np.concatenate([np.empty(0, TABLES["cells"]), *cells]),
        )


class MeshCalls:
    """The methods of a recording participant that take notes of its meshes.

    A participant takes notes while its attribute ``_precice_lb_meshes`` is not None.

    Parameters
    ----------
    base : type
        The backend's ``Participant``.

    Attributes
    ----------
    methods : dict of str to callable
        By name, those that the backend has; none with ``PRECICE_LB_MESHES=0``.
    """

    def __init__(self, base: Any) -> None:
        self._setting = _setting()
        wanted: list[Callable[..., Any]] = [] if self._setting == "0" else _vertex_calls(base)
        self.methods = {call.__name__: call for call in wanted if hasattr(base, call.__name__)}
        if self._setting == "coordinates":
            self.methods |= {name: _cell_call(base, name) for name in _CELL_CALLS if hasattr(base, name)}

    def notes(self) -> MeshNotes | None:
        """Return what a new participant takes notes with, if it is to take any."""
        return MeshNotes(self._setting == "coordinates") if self.methods else None


def _setting() -> str:
    setting = os.environ.get("PRECICE_LB_MESHES") or _SETTINGS[0]
    if setting in _SETTINGS:
        return setting
    warn_once(f"PRECICE_LB_MESHES is ignored: expected {', '.join(_SETTINGS)}, found {setting!r}")
    return _SETTINGS[0]


def _vertex_calls(base: Any) -> list[Callable[..., Any]]:
    def set_mesh_vertex(self: Any, mesh_name: Any, position: Any) -> Any:
        result = base.set_mesh_vertex(self, mesh_name, position)
        if self._precice_lb_meshes is not None:
            self._precice_lb_meshes.vertex(mesh_name, position)
        return result

    def set_mesh_vertices(self: Any, mesh_name: Any, positions: Any) -> Any:
        result = base.set_mesh_vertices(self, mesh_name, positions)
        if self._precice_lb_meshes is not None:
            self._precice_lb_meshes.vertices(mesh_name, positions)
        return result

    def set_mesh_access_region(self: Any, mesh_name: Any, bounding_box: Any) -> Any:
        result = base.set_mesh_access_region(self, mesh_name, bounding_box)
        if self._precice_lb_meshes is not None:
            self._precice_lb_meshes.region(mesh_name, bounding_box)
        return result

    def reset_mesh(self: Any, mesh_name: Any) -> Any:
        result = base.reset_mesh(self, mesh_name)
        if self._precice_lb_meshes is not None:
            self._precice_lb_meshes.reset(mesh_name)
        return result

    return [set_mesh_vertex, set_mesh_vertices, set_mesh_access_region, reset_mesh]


def _cell_call(base: Any, name: str) -> Callable[..., Any]:
    method, (kind, several) = getattr(base, name), _CELL_CALLS[name]

    def call(self: Any, mesh_name: Any, *vertices: Any, **named: Any) -> Any:
        result = method(self, mesh_name, *vertices, **named)
        notes = self._precice_lb_meshes
        if notes is not None and several:
            notes.cells(kind, mesh_name, *vertices, *named.values())
        elif notes is not None:
            notes.cell(kind, mesh_name, (*vertices, *(named[each] for each in _CORNERS if each in named)))
        return result

    call.__name__ = name
    return call
