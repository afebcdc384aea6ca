"""The calls of preCICE's API that need no partner: connectivity, profiling sections, and what this backend refuses."""

from __future__ import annotations

from collections.abc import Sequence
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
    """Return an array of anything that is like one.

    Raises
    ------
    TypeError
        As in pyprecice, if it has no length or no elements.
    """
    if not (hasattr(values, "__len__") and hasattr(values, "__getitem__")):
        raise TypeError(f"expected {call}() to get an array for {name}, found {type(values).__name__}")
    return np.asarray(values, dtype=dtype)


class OtherCalls:
    """Base of `Participant`."""

    def __init__(self, profiler: Profiler) -> None:
        self._profiler = profiler
        self._sections: list[str] = []

    def _mesh(self, mesh_name: str) -> Mesh:
        raise NotImplementedError

    def _mesh_to_modify(self, mesh_name: str) -> Mesh:
        raise NotImplementedError

    # Connectivity: taken where a mapping needs it, and else forgotten, as in preCICE.

    def requires_mesh_connectivity_for(self, mesh_name: str) -> bool:
        """Whether the mesh's connectivity is needed: with nearest-projection mapping."""
        return self._mesh(mesh_name).needs_connectivity

    def set_mesh_edge(self, mesh_name: str, first_vertex_id: int, second_vertex_id: int) -> None:
        """Add an edge."""
        self._take_one(mesh_name, (first_vertex_id, second_vertex_id), "set_mesh_edge")

    def set_mesh_edges(self, mesh_name: str, vertices: ArrayLike) -> None:
        """Add edges, vertex ids of shape (n, 2)."""
        self._take_elements(mesh_name, vertices, 2, "set_mesh_edges")

    def set_mesh_triangle(
        self, mesh_name: str, first_vertex_id: int, second_vertex_id: int, third_vertex_id: int
    ) -> None:
        """Add a triangle of three different vertices."""
        self._take_one(mesh_name, (first_vertex_id, second_vertex_id, third_vertex_id), "set_mesh_triangle")

    def set_mesh_triangles(self, mesh_name: str, vertices: ArrayLike) -> None:
        """Add triangles, vertex ids of shape (n, 3)."""
        self._take_elements(mesh_name, vertices, 3, "set_mesh_triangles")

    def set_mesh_quad(
        self, mesh_name: str, first_vertex_id: int, second_vertex_id: int, third_vertex_id: int, fourth_vertex_id: int
    ) -> None:
        """Take a quadrilateral; refused where connectivity is needed."""
        self._take_one(
            mesh_name, (first_vertex_id, second_vertex_id, third_vertex_id, fourth_vertex_id), "set_mesh_quad"
        )

    def set_mesh_quads(self, mesh_name: str, vertices: ArrayLike) -> None:
        """Take quadrilaterals, shape (n, 4); refused where connectivity is needed."""
        self._take_elements(mesh_name, vertices, 4, "set_mesh_quads")

    def set_mesh_tetrahedron(
        self, mesh_name: str, first_vertex_id: int, second_vertex_id: int, third_vertex_id: int, fourth_vertex_id: int
    ) -> None:
        """Take a tetrahedron of a 3-D mesh; refused where connectivity is needed."""
        self._check_3d(mesh_name)
        self._take_one(
            mesh_name, (first_vertex_id, second_vertex_id, third_vertex_id, fourth_vertex_id), "set_mesh_tetrahedron"
        )

    def set_mesh_tetrahedra(self, mesh_name: str, vertices: ArrayLike) -> None:
        """Take tetrahedra of a 3-D mesh, shape (n, 4); refused where connectivity is needed."""
        self._check_3d(mesh_name)
        self._take_elements(mesh_name, vertices, 4, "set_mesh_tetrahedra")

    def _check_3d(self, mesh_name: str) -> None:
        if self._mesh_to_modify(mesh_name).dimensions != 3:
            raise CouplingError(
                f'expected a mesh of 3 dimensions for tetrahedra, found 2-D mesh "{as_text(mesh_name)}"'
            )

    def _take_one(self, mesh_name: str, corners: tuple[int, ...], call: str) -> None:
        mesh = self._mesh_to_modify(mesh_name)
        if mesh.needs_connectivity and len(corners) > 2 and len(set(corners)) < len(corners):
            raise CouplingError(f"expected different vertex ids in {call}(), found {corners}")
        self._add(mesh, np.array([corners]), call)

    def _take_elements(self, mesh_name: str, vertices: ArrayLike, corners: int, call: str) -> None:
        mesh = self._mesh_to_modify(mesh_name)
        array = as_array(vertices, "vertices", call)
        if len(array) and (array.ndim != 2 or array.shape[1] != corners):
            raise ShapeError(f"expected an array of shape (n, {corners}) in {call}(), found {array.shape}")
        if len(array):
            self._add(mesh, array, call)

    def _add(self, mesh: Mesh, corners: NDArray[Any], call: str) -> None:
        if not mesh.needs_connectivity:
            return
        if corners.shape[1] > 3:
            self._refuse(call, "quadrilaterals or tetrahedra where a mapping needs connectivity")
        ids = corners.astype(np.int64)
        if ids.min() < 0 or ids.max() >= mesh.size:
            wrong = int(ids[(ids < 0) | (ids >= mesh.size)][0])
            raise CouplingError(
                f'invalid vertex id {wrong} in {call}(): mesh "{mesh.name}" has ids in [0, {mesh.size}) from '
                "set_mesh_vertex or set_mesh_vertices"
            )
        mesh.add_elements(ids)

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

    def reset_mesh(self, mesh_name: str) -> None:
        """Refused: remeshing."""
        self._refuse("reset_mesh", "remeshing")

    def write_and_map_data(self, mesh_name: str, data_name: str, coordinates: ArrayLike, values: ArrayLike) -> None:
        """Refused: just-in-time mapping."""
        self._refuse("write_and_map_data", "just-in-time mapping")

    def map_and_read_data(
        self, mesh_name: str, data_name: str, coordinates: ArrayLike, relative_read_time: float
    ) -> NDArray[np.float64]:
        """Refused: just-in-time mapping."""
        self._refuse("map_and_read_data", "just-in-time mapping")

    def write_gradient_data(self, mesh_name: str, data_name: str, vertex_ids: ArrayLike, gradients: ArrayLike) -> None:
        """Refused: gradients."""
        self._refuse("write_gradient_data", "mapping with gradients")

    def set_mesh_access_region(self, mesh_name: str, bounding_box: Sequence[float]) -> None:
        """Refused: direct mesh access."""
        self._refuse("set_mesh_access_region", "direct mesh access")

    def get_mesh_vertex_ids_and_coordinates(self, mesh_name: str) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """Refused: direct mesh access."""
        self._refuse("get_mesh_vertex_ids_and_coordinates", "direct mesh access")

    def _refuse(self, call: str, what: str) -> NoReturn:
        raise CouplingError(f"{call}() needs {what}, which the embedded backend does not know; libprecice does it")

    def get_mesh_dimensions(self, mesh_name: str) -> int:
        """Spatial dimensions of a mesh: 2 or 3."""
        raise NotImplementedError

    def get_data_dimensions(self, mesh_name: str, data_name: str) -> int:
        """Components of a data: 1, or the mesh's dimensions."""
        raise NotImplementedError
