"""Meshes and data as the solver sees them: the calls that set, write and read."""

from __future__ import annotations

import enum

import numpy as np
from numpy.typing import ArrayLike, NDArray

from precice_lb.embedded.assemble import Parts
from precice_lb.embedded.calls import OtherCalls, as_array, as_text
from precice_lb.embedded.clock import TOLERANCE
from precice_lb.embedded.errors import CouplingError, ShapeError
from precice_lb.embedded.mesh import Field, Mesh
from precice_lb.embedded.profiling import Profiler

__all__ = ["Access", "State"]


class State(enum.Enum):
    """How far a participant has come."""

    CONSTRUCTED = "before initialize()"
    INITIALIZED = "after initialize()"
    FINALIZED = "after finalize()"
    FAILED = "after an error"


class Access(OtherCalls):
    """Base of `Participant`."""

    def __init__(self, name: str, parts: Parts, profiler: Profiler) -> None:
        super().__init__(profiler)
        self._name = name
        self._parts = parts
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
            if not self._parts.coupling.is_ongoing:
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
                f'vertices of mesh "{field.mesh}", found {np.shape(values)}'
            )
        self._parts.meshes[field.mesh].check_ids(ids, "write", field.data)
        with self._profiler.api_event(f"writeData.{field.mesh}_{field.data}"):
            field.written[ids] = array

    def read_data(
        self, mesh_name: str, data_name: str, vertex_ids: ArrayLike, relative_read_time: float
    ) -> NDArray[np.float64]:
        """Read values at vertices, shape (n,), at a time counted from the current one (simulated seconds).

        They have the shape (n,) for scalar and (n, dimensions) for vector data.
        """
        self._require_initialized("read_data")
        coupling = self._parts.coupling
        ahead = float(relative_read_time)
        if not 0.0 <= ahead <= coupling.max_step + TOLERANCE:
            raise CouplingError(
                f"expected a relative read time in [0, {coupling.max_step:g}], inside what is left of the time window, "
                f"found {ahead:g}"
            )
        field = self._field_of_solver(mesh_name, data_name, self._parts.reads, "read")
        ids = as_array(vertex_ids, "vertex_ids", "read_data", np.int32)
        if len(ids) == 0:
            return np.empty(0)
        if len(field.waveform) == 0:
            raise CouplingError(
                f'data "{field.data}" cannot be read from mesh "{field.mesh}": nobody sends it there; check <exchange> '
                "and <mapping:…> in the configuration"
            )
        self._parts.meshes[field.mesh].check_ids(ids, "read", field.data)
        with self._profiler.api_event(f"readData.{field.mesh}_{field.data}"):
            values: NDArray[np.float64] = field.waveform.at(coupling.time + ahead)[ids]
        return values[:, 0] if field.components == 1 else values

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
        if (field.mesh, field.data) not in fields:
            raise CouplingError(
                f'participant "{self._name}" does not {what} data "{field.data}" on mesh "{field.mesh}": add '
                f'<{what}-data name="{field.data}" mesh="{field.mesh}" /> to the configuration'
            )
        return field
