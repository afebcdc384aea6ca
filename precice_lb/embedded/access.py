"""Meshes and data as the solver sees them: the calls that set, write and read, and those that need no partner."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from precice_lb.embedded.assemble import Parts
from precice_lb.embedded.errors import CouplingError, ShapeError
from precice_lb.embedded.files import Profiler
from precice_lb.embedded.mesh import Field, Mesh
from precice_lb.embedded.timeline import TOLERANCE

__all__ = ["Access", "State", "as_text"]


class State(enum.Enum):
    """How far a participant has come."""

    CONSTRUCTED = "before initialize()"
    INITIALIZED = "after initialize()"
    FINALIZED = "after finalize()"
    FAILED = "after an error"


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
    def refuse(self: Access, *arguments: Any, **named: Any) -> NoReturn:
        raise CouplingError(f"{call}() needs {what}, which the embedded backend does not know; libprecice does it")

    refuse.__doc__ = f"Refused: {what}."
    refuse.__name__ = call
    return refuse


class Access:
    """Base of `Participant`."""

    def __init__(self, name: str, parts: Parts, profiler: Profiler) -> None:
        self._profiler = profiler
        self._sections: list[str] = []
        self._name = name
        self._parts = parts
        self._coupling = parts.coupling
        self._state = State.CONSTRUCTED

    # Meshes.

    def get_mesh_dimensions(self, mesh_name: str) -> int:
        """Spatial dimensions of a mesh: 2 or 3."""
        return self._mesh(mesh_name).dimensions

    def get_data_dimensions(self, mesh_name: str, data_name: str) -> int:
        """Components of a data: 1, or the mesh's dimensions."""
        return self._field(mesh_name, data_name).components

    def get_mesh_vertex_size(self, mesh_name: str) -> int:
        """Count this rank's vertices of a mesh; of a received mesh those that this rank needs."""
        mesh = self._mesh(mesh_name)
        if not mesh.provided and self._state is not State.INITIALIZED:
            raise CouplingError(f'initialize() has to be called before the received mesh "{mesh.name}" is known')
        return mesh.size

    def set_mesh_vertex(self, mesh_name: str, position: ArrayLike) -> int:
        """Add one vertex, shape (dimensions,), and return its id."""
        mesh = self._mesh_to_modify(mesh_name)
        array = as_array(position, "position", "set_mesh_vertex", np.float64)
        if array.shape != (mesh.dimensions,):
            raise ShapeError(
                f'expected a position of shape ({mesh.dimensions},) for mesh "{mesh.name}" in set_mesh_vertex(), found '
                f"{array.shape}"
            )
        return int(mesh.add_vertices(array[np.newaxis, :].copy())[0])

    def set_mesh_vertices(self, mesh_name: str, positions: ArrayLike) -> NDArray[np.int32]:
        """Add vertices, shape (n, dimensions), and return their ids, shape (n,)."""
        mesh = self._mesh_to_modify(mesh_name)
        array = as_array(positions, "positions", "set_mesh_vertices", np.float64)
        if len(array) == 0:
            array = np.zeros((0, mesh.dimensions))
        if array.ndim != 2 or array.shape[1] != mesh.dimensions:
            raise ShapeError(
                f'expected positions of shape (n, {mesh.dimensions}) for mesh "{mesh.name}" in set_mesh_vertices(), '
                f"found {array.shape}"
            )
        # A copy: the solver may change its array afterwards.
        return mesh.add_vertices(array.copy())

    # Data.

    def write_data(self, mesh_name: str, data_name: str, vertex_ids: ArrayLike, values: ArrayLike) -> None:
        """Write values, shape (n,) for scalar and (n, dimensions) for vector data, at vertices, shape (n,)."""
        if self._state is not State.CONSTRUCTED:
            self._require_initialized("write_data")
            if not self._coupling.is_ongoing:
                raise CouplingError(
                    "write_data() cannot be called when is_coupling_ongoing() is false: nobody would use the data"
                )
        field = self._field_of_solver(mesh_name, data_name, self._parts.writes, "write")
        ids = as_array(vertex_ids, "vertex_ids", "write_data", np.int32)
        array = as_array(values, "values", "write_data", np.float64)
        if len(array) == 0 and len(ids) == 0:
            return
        if field.components == 1:
            array = array.reshape(-1, 1)
        if array.shape != (len(ids), field.components):
            raise CouplingError(
                f'expected values of shape ({len(ids)}, {field.components}) for data "{field.data}" at {len(ids)} '
                f'vertices of mesh "{field.mesh.name}", found {np.shape(values)}'
            )
        field.mesh.check_ids(ids, "write", field.data)
        with self._profiler.api_event(f"writeData.{field.mesh.name}_{field.data}"):
            field.written[ids] = array

    def read_data(
        self, mesh_name: str, data_name: str, vertex_ids: ArrayLike, relative_read_time: float
    ) -> NDArray[np.float64]:
        """Read values at vertices, shape (n,), at a time counted from the current one (simulated seconds).

        They have the shape (n,) for scalar and (n, dimensions) for vector data.
        """
        self._require_initialized("read_data")
        ahead = float(relative_read_time)
        if not 0.0 <= ahead <= self._coupling.max_step + TOLERANCE:
            raise CouplingError(
                f"expected a relative read time in [0, {self._coupling.max_step:g}], inside what is left of the time "
                f"window, found {ahead:g}"
            )
        field = self._field_of_solver(mesh_name, data_name, self._parts.reads, "read")
        ids = as_array(vertex_ids, "vertex_ids", "read_data", np.int32)
        if len(ids) == 0:
            return np.empty(0)
        if len(field.waveform) == 0:
            raise CouplingError(
                f'data "{field.data}" cannot be read from mesh "{field.mesh.name}": nobody sends it there; check '
                "<exchange> and <mapping:…> in the configuration"
            )
        field.mesh.check_ids(ids, "read", field.data)
        with self._profiler.api_event(f"readData.{field.mesh.name}_{field.data}"):
            values: NDArray[np.float64] = field.waveform.at(self._coupling.time + ahead)[ids]
        return values[:, 0] if field.components == 1 else values

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

    reset_mesh = _refused("reset_mesh", "remeshing")
    write_and_map_data = _refused("write_and_map_data", "just-in-time mapping")
    map_and_read_data = _refused("map_and_read_data", "just-in-time mapping")
    write_gradient_data = _refused("write_gradient_data", "mapping with gradients")
    set_mesh_access_region = _refused("set_mesh_access_region", "direct mesh access")
    get_mesh_vertex_ids_and_coordinates = _refused("get_mesh_vertex_ids_and_coordinates", "direct mesh access")

    # Names.

    def _require_initialized(self, call: str) -> None:
        if self._state is not State.INITIALIZED:
            raise CouplingError(
                f"{call}() has to be called between initialize() and finalize(), found {self._state.value}"
            )

    def _mesh(self, mesh_name: str) -> Mesh:
        name = as_text(mesh_name)
        if (mesh := self._parts.meshes.get(name)) is None:
            known = ", ".join(f'"{mesh}"' for mesh in self._parts.meshes)
            raise CouplingError(f'expected a mesh that participant "{self._name}" uses ({known}), found "{name}"')
        return mesh

    def _mesh_to_modify(self, mesh_name: str) -> Mesh:
        mesh = self._mesh(mesh_name)
        if not mesh.provided:
            raise CouplingError(
                f'participant "{self._name}" does not provide mesh "{mesh.name}" and cannot modify it: add '
                f'<provide-mesh name="{mesh.name}" />'
            )
        if mesh.locked:
            raise CouplingError(f'mesh "{mesh.name}" is locked: modify it before initialize()')
        return mesh

    def _field(self, mesh_name: str, data_name: str) -> Field:
        mesh = self._mesh(mesh_name)
        name = as_text(data_name)
        if (field := mesh.fields.get(name)) is None:
            known = ", ".join(f'"{data}"' for data in mesh.fields)
            raise CouplingError(f'expected data of mesh "{mesh.name}" ({known or "it has none"}), found "{name}"')
        return field

    def _field_of_solver(
        self, mesh_name: str, data_name: str, fields: dict[tuple[str, str], Field], what: str
    ) -> Field:
        field = self._field(mesh_name, data_name)
        if (field.mesh.name, field.data) not in fields:
            raise CouplingError(
                f'participant "{self._name}" does not {what} data "{field.data}" on mesh "{field.mesh.name}": add '
                f'<{what}-data name="{field.data}" mesh="{field.mesh.name}" /> to the configuration'
            )
        return field
