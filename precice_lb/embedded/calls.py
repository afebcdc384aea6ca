"""The calls of preCICE's API that need no partner: connectivity, profiling sections, and what this backend refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from precice_lb.embedded.errors import CouplingError, ShapeError
from precice_lb.embedded.mesh import Mesh
from precice_lb.embedded.profiling import Profiler

__all__ = ["OtherCalls", "as_array", "as_text"]


def as_text(value: str | bytes) -> str:
    """Return a name as text: pyprecice takes both kinds of strings."""
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, str):
        return value
    raise TypeError(f"expected a name as str or bytes, found {type(value).__name__}")


def as_array(values: Any, name: str, call: str, dtype: type[np.generic] | None = None) -> NDArray[Any]:
    """Return an array of anything that is like one; a TypeError, as in pyprecice, if it has no length or elements."""
    if not (hasattr(values, "__len__") and hasattr(values, "__getitem__")):
        raise TypeError(f"expected {call}() to get an array for {name}, found {type(values).__name__}")
    return np.asarray(values, dtype=dtype)


def _refused(call: str, what: str) -> Callable[..., NoReturn]:
    def refuse(self: OtherCalls, *arguments: Any, **named: Any) -> NoReturn:
        raise CouplingError(f"{call}() needs {what}, which the embedded backend does not know; libprecice does it")

    refuse.__doc__ = f"Refused: {what}."
    refuse.__name__ = call
    return refuse


class OtherCalls:
    """Base of `Participant`."""

    def __init__(self, profiler: Profiler) -> None:
        self._profiler = profiler
        self._sections: list[str] = []

    def _mesh(self, mesh_name: str) -> Mesh:
        raise NotImplementedError

    def _mesh_to_modify(self, mesh_name: str) -> Mesh:
        raise NotImplementedError

    # Connectivity: no mapping of this backend needs any, and then preCICE forgets it, too.

    def requires_mesh_connectivity_for(self, mesh_name: str) -> bool:
        """Whether the mesh's connectivity is needed: never, with the mappings of this backend."""
        self._mesh(mesh_name)
        return False

    def set_mesh_edge(self, mesh_name: str, first_vertex_id: int, second_vertex_id: int) -> None:
        """Take an edge."""
        self._mesh_to_modify(mesh_name)

    def set_mesh_edges(self, mesh_name: str, vertices: ArrayLike) -> None:
        """Take edges, vertex ids of shape (n, 2)."""
        self._check_elements(mesh_name, vertices, 2, "set_mesh_edges")

    def set_mesh_triangle(
        self, mesh_name: str, first_vertex_id: int, second_vertex_id: int, third_vertex_id: int
    ) -> None:
        """Take a triangle."""
        self._mesh_to_modify(mesh_name)

    def set_mesh_triangles(self, mesh_name: str, vertices: ArrayLike) -> None:
        """Take triangles, vertex ids of shape (n, 3)."""
        self._check_elements(mesh_name, vertices, 3, "set_mesh_triangles")

    def set_mesh_quad(
        self, mesh_name: str, first_vertex_id: int, second_vertex_id: int, third_vertex_id: int, fourth_vertex_id: int
    ) -> None:
        """Take a quadrilateral."""
        self._mesh_to_modify(mesh_name)

    def set_mesh_quads(self, mesh_name: str, vertices: ArrayLike) -> None:
        """Take quadrilaterals, shape (n, 4)."""
        self._check_elements(mesh_name, vertices, 4, "set_mesh_quads")

    def set_mesh_tetrahedron(
        self, mesh_name: str, first_vertex_id: int, second_vertex_id: int, third_vertex_id: int, fourth_vertex_id: int
    ) -> None:
        """Take a tetrahedron of a 3-D mesh."""
        self._check_3d(mesh_name)

    def set_mesh_tetrahedra(self, mesh_name: str, vertices: ArrayLike) -> None:
        """Take tetrahedra of a 3-D mesh, shape (n, 4)."""
        self._check_3d(mesh_name)
        self._check_elements(mesh_name, vertices, 4, "set_mesh_tetrahedra")

    def _check_3d(self, mesh_name: str) -> None:
        if self._mesh_to_modify(mesh_name).dimensions != 3:
            raise CouplingError(
                f'expected a mesh of 3 dimensions for tetrahedra, found 2-D mesh "{as_text(mesh_name)}"'
            )

    def _check_elements(self, mesh_name: str, vertices: ArrayLike, corners: int, call: str) -> None:
        self._mesh_to_modify(mesh_name)
        array = as_array(vertices, "vertices", call)
        if len(array) and (array.ndim != 2 or array.shape[1] != corners):
            raise ShapeError(f"expected an array of shape (n, {corners}) in {call}(), found {array.shape}")

    # Profiling sections of the solver.

    def start_profiling_section(self, event_name: str) -> None:
        """Begin a profiling section."""
        name = as_text(event_name)
        if "/" in name:
            raise CouplingError(f'expected a profiling section without "/", found "{name}"')
        self._sections.append(name)
        self._profiler.begin(name)

    def stop_last_profiling_section(self) -> None:
        """End the profiling section that was begun last."""
        if not self._sections:
            raise CouplingError("there is no profiling section to stop: call start_profiling_section() first")
        self._profiler.end(self._sections.pop())

    def _check_no_sections(self, call: str) -> None:
        if self._sections:
            raise CouplingError(
                f'expected no open profiling section in {call}(), found "{self._sections[-1]}": call '
                "stop_last_profiling_section() before"
            )

    # What only libprecice does.

    def requires_gradient_data_for(self, mesh_name: str, data_name: str) -> bool:
        """Whether gradients are needed: never, with the mappings of this backend."""
        self.get_data_dimensions(mesh_name, data_name)
        return False

    def get_data_dimensions(self, mesh_name: str, data_name: str) -> int:
        """Components of a data: 1, or the mesh's dimensions."""
        raise NotImplementedError

    reset_mesh = _refused("reset_mesh", "remeshing")
    write_and_map_data = _refused("write_and_map_data", "just-in-time mapping")
    map_and_read_data = _refused("map_and_read_data", "just-in-time mapping")
    write_gradient_data = _refused("write_gradient_data", "mapping with gradients")
    set_mesh_access_region = _refused("set_mesh_access_region", "direct mesh access")
    get_mesh_vertex_ids_and_coordinates = _refused("get_mesh_vertex_ids_and_coordinates", "direct mesh access")
