"""What a rank tells preCICE about its meshes before ``initialize``, for its store.

The vertex count, bounding box and access region of every mesh are kept always; with ``PRECICE_LB_MESHES=coordinates``
also vertices and cells, with ``PRECICE_LB_MESHES=0`` nothing. ``advance`` is left alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.record.recorder import setting, warn_once
from precice_lb.store.columns import CELL_VERTICES, CELLS, COORDINATES, MESHES, RecordedMeshes, box_names
from precice_lb.store.spool import raised_elsewhere

# Calls that add single vertices or cells are collected for those that add several, so that they cost little.
_COLLECTED = 4096
_SEVERAL = {
    "set_mesh_vertex": "set_mesh_vertices",
    "set_mesh_edge": "set_mesh_edges",
    "set_mesh_triangle": "set_mesh_triangles",
    "set_mesh_quad": "set_mesh_quads",
    "set_mesh_tetrahedron": "set_mesh_tetrahedra",
}
_VERTEX_CALLS = ("set_mesh_vertex", "set_mesh_vertices", "set_mesh_access_region", "reset_mesh")
_CELL_CALLS = (*list(_SEVERAL)[1:], *list(_SEVERAL.values())[1:])
_CORNERS = ("first_vertex_id", "second_vertex_id", "third_vertex_id", "fourth_vertex_id")


@dataclass
class _Mesh:
    """One mesh: its count, its box, what is kept of it, and what single calls have added since."""

    region: NDArray[np.float64] | None = None
    count: int = 0
    box: NDArray[np.float64] | None = None
    points: list[NDArray[np.float64]] = field(default_factory=list)
    cells: dict[str, list[NDArray[np.int32]]] = field(default_factory=lambda: {kind: [] for kind in CELL_VERTICES})
    new: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)


class MeshNotes:
    """Vertex counts, bounding boxes and access regions of one rank, with vertices and cells where asked for.

    What cannot be understood is one warning, and then nothing is kept.
    """

    def __init__(self, keep_points: bool) -> None:
        self._keep_points = keep_points
        self._meshes: dict[str, _Mesh] | None = {}

    def take(self, call: str, mesh_name: Any, *values: Any) -> None:
        """Take a call of preCICE's and its arguments."""
        if self._meshes is None:
            return
        try:
            name = mesh_name.decode() if isinstance(mesh_name, bytes) else str(mesh_name)
            mesh = self._meshes.get(name) or self._meshes.setdefault(name, _Mesh())
            if call == "reset_mesh":
                self._meshes[name] = _Mesh(mesh.region)
                return
            if call not in _SEVERAL:
                self._settle(mesh)
                self._add(mesh, call, *values)
                return
            new = mesh.new.setdefault(_SEVERAL[call], [])
            new.append(tuple(values[0]) if call == "set_mesh_vertex" else values)
            if len(new) >= _COLLECTED:
                self._settle(mesh)
        except Exception as error:
            self._fail(error)

    def recorded(self, rank: int) -> RecordedMeshes:
        """Return what was taken, for the store; empty where something could not be understood."""
        try:
            return self._recorded(self._meshes or {}, rank)
        except Exception as error:
            self._fail(error)
            return RecordedMeshes()

    def _fail(self, error: Exception) -> None:
        # A signal handler's exception is the solver's, and none of ours.
        if raised_elsewhere(error):
            raise error
        self._meshes = None
        warn_once(f"meshes of this run are not recorded: {error}")

    def _settle(self, mesh: _Mesh) -> None:
        """Take over what single calls added."""
        new, mesh.new = mesh.new, {}
        for call, values in new.items():
            self._add(mesh, call, values)

    def _add(self, mesh: _Mesh, call: str, values: Any) -> None:
        if call == "set_mesh_access_region":
            mesh.region = np.array(values, dtype=float).reshape(-1, 2)
        elif call == "set_mesh_vertices":
            points = np.asarray(values, dtype=float)
            if len(points):
                known = points if mesh.box is None else np.concatenate([points, mesh.box.T])
                box = np.stack([known.min(axis=0), known.max(axis=0)], axis=1)
                mesh.count, mesh.box = mesh.count + len(points), box
                mesh.points += [np.array(points)] * self._keep_points
        else:
            kind = call.removeprefix("set_mesh_")
            mesh.cells[kind].append(np.array(values, dtype=np.int32).reshape(-1, CELL_VERTICES[kind]))

    def _recorded(self, meshes: dict[str, _Mesh], rank: int) -> RecordedMeshes:
        for mesh in meshes.values():
            self._settle(mesh)
        kept = {name: mesh for name, mesh in meshes.items() if mesh.box is not None or mesh.region is not None}
        rows = MESHES.unrecorded(len(kept))
        rows["rank"], rows["name"], rows["coordinates"] = rank, np.arange(len(kept)), self._keep_points
        coordinates, cells = [COORDINATES.empty()], [CELLS.empty()]
        for row, mesh in zip(rows, kept.values(), strict=True):
            row["vertices"] = mesh.count
            for prefix, box in (("", mesh.box), ("region_", mesh.region)):
                if box is None:
                    continue
                row["dimensions"] = len(box)
                for names, bounds in zip(box_names(prefix), box, strict=False):
                    row[names[0]], row[names[1]] = bounds
            coordinates += [points.ravel() for points in mesh.points]
            for kind, parts in mesh.cells.items():
                row[kind] = sum(map(len, parts))
                cells += [part.ravel() for part in parts]
        return RecordedMeshes(tuple(kept), rows, np.concatenate(coordinates), np.concatenate(cells))


def mesh_calls(base: Any) -> tuple[dict[str, Callable[..., Any]], bool]:
    """Make the methods of a recording participant that take notes of its meshes, by name, and say whether of points.

    They do while its attribute ``_precice_lb_meshes`` is not None.
    """
    wanted = setting("PRECICE_LB_MESHES", "boxes", "coordinates", "0")
    calls = {"0": (), "boxes": _VERTEX_CALLS, "coordinates": _VERTEX_CALLS + _CELL_CALLS}[wanted]
    return {name: _noting(name, getattr(base, name)) for name in calls if hasattr(base, name)}, wanted == "coordinates"


def _noting(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    def call(self: Any, mesh_name: Any, *values: Any, **named: Any) -> Any:
        result = method(self, mesh_name, *values, **named)
        if self._precice_lb_meshes is not None:
            corners = tuple(named[corner] for corner in _CORNERS if corner in named)
            self._precice_lb_meshes.take(name, mesh_name, *values, *(corners or named.values()))
        return result

    call.__name__ = name
    return call
