"""preCICE's ``Participant`` (pyprecice 3.4) on the embedded backend."""

from __future__ import annotations

import contextlib
import enum
import math
import os
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from precice_lb.case import read_configuration
from precice_lb.embedded.assemble import Parts, check_supported
from precice_lb.embedded.communication import Connection, IntraComm, connect, timeout_seconds
from precice_lb.embedded.files import Profiler
from precice_lb.embedded.mesh import Field, Links, LocalMesh, exchange_meshes
from precice_lb.embedded.schemes import Action
from precice_lb.embedded.timeline import TOLERANCE, Array, CouplingError, RefusedConfigurationError, ShapeError
from precice_lb.exceptions import ConfigurationError
from precice_lb.text import say


class State(enum.Enum):
    """How far a participant has come."""

    CONSTRUCTED = "before initialize()"
    INITIALIZED = "after initialize()"
    FINALIZED = "after finalize()"
    FAILED = "after an error"


def as_array(values: Any, name: str, call: str, dtype: type[np.generic] | None = None) -> NDArray[Any]:
    """Return an array of anything that is like one; a TypeError, as in pyprecice, if it has no length or elements."""
    if not (hasattr(values, "__len__") and hasattr(values, "__getitem__")):
        raise TypeError(f"expected {call}() to get an array for {name}, found {type(values).__name__}")
    return np.asarray(values, dtype=dtype)


def as_rows(values: Any, name: str, mesh: LocalMesh, columns: int, call: str) -> NDArray[Any]:
    """Return an array of so many columns; a `ShapeError` if it has others."""
    array = as_array(values, name, call)
    if len(array) == 0:
        return np.zeros((0, columns))
    if array.ndim != 2 or array.shape[1] != columns:
        raise ShapeError(
            f'expected {name} of shape (n, {columns}) for mesh "{mesh.name}" in {call}(), found {array.shape}'
        )
    return array


def _refused(call: str, what: str) -> Callable[..., NoReturn]:
    def refuse(self: Participant, *arguments: Any, **named: Any) -> NoReturn:
        raise CouplingError(f"{call}() needs {what}, which the embedded backend does not know; libprecice does it")

    refuse.__doc__ = f"Refused: {what}."
    refuse.__name__ = call
    return refuse


class Participant:
    """A solver's side of a coupled simulation, with the calls and the behaviour of pyprecice's class.

    Parameters
    ----------
    solver_name
        Name of the participant in the configuration.
    configuration_file_name
        Path of the ``precice-config.xml``.
    solver_process_index, solver_process_size
        Rank of this process and number of ranks of the solver.
    communicator
        An mpi4py communicator of these ranks; ``MPI.COMM_WORLD`` if not given.

    Raises
    ------
    RefusedConfigurationError
        If the configuration is missing, malformed or contradicts itself, or asks for what libprecice does and this
        backend does not: tag and line are named.
    CouplingError
        If rank and size are not those of the communicator.

    Notes
    -----
    It is for trying, testing and teaching, not for production, and says so once. `advance` reports what is wrong on
    all ranks at the same call.
    """

    def __init__(
        self,
        solver_name: str,
        configuration_file_name: str,
        solver_process_index: int,
        solver_process_size: int,
        communicator: Any = None,
    ) -> None:
        name = os.fsdecode(solver_name)
        try:
            self._configuration = read_configuration(os.fsdecode(configuration_file_name))
            check_supported(self._configuration, name, solver_process_size)
        except ConfigurationError as error:
            raise RefusedConfigurationError(str(error)) from None
        self._timeout = timeout_seconds()
        self._intra = IntraComm(name, solver_process_index, solver_process_size, communicator)
        self._profiler = profiler = Profiler(self._configuration, name, solver_process_index, solver_process_size)
        profiler.begin("construction")
        self._sections: list[str] = []
        self._name = name
        self._parts = Parts(self._configuration, name)
        self._coupling = self._parts.coupling
        self._state = State.CONSTRUCTED
        self._channels: dict[str, Connection] = {}
        self._links = Links(self._intra, self._channels, profiler)
        # Serves as destructor and at interpreter exit, whichever comes first.
        self._close = weakref.finalize(self, _close, os.getpid(), self._channels, self._intra, profiler)
        if self._intra.is_primary:
            say(
                f'precice_lb: participant "{self._name}" is coupled by the embedded backend, which is for trying, '
                "testing and teaching, not for production",
            )
        profiler.end("construction")
        profiler.enter_solver("solver.initialize")

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
        return int(self.set_mesh_vertices(mesh_name, np.asarray([position], dtype=np.float64))[0])

    def set_mesh_vertices(self, mesh_name: str, positions: ArrayLike) -> NDArray[np.int32]:
        """Add vertices, shape (n, dimensions), and return their ids, shape (n,)."""
        mesh = self._mesh_to_modify(mesh_name)
        array = as_rows(positions, "positions", mesh, mesh.dimensions, "set_mesh_vertices")
        # A copy: the solver may change its array afterwards.
        return mesh.add_vertices(np.array(array, dtype=np.float64))

    # Data.

    def write_data(self, mesh_name: str, data_name: str, vertex_ids: ArrayLike, values: ArrayLike) -> None:
        """Write values, shape (n,) for scalar and (n, dimensions) for vector data, at vertices, shape (n,)."""
        if self._state is not State.CONSTRUCTED:
            self._require_initialized("write_data")
            if not self._coupling.is_ongoing:
                raise CouplingError(
                    "write_data() cannot be called when is_coupling_ongoing() is false: nobody would use the data"
                )
        field, ids = self._place(mesh_name, data_name, vertex_ids, self._parts.writes, "write")
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
        field.written[ids] = array

    def read_data(self, mesh_name: str, data_name: str, vertex_ids: ArrayLike, relative_read_time: float) -> Array:
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
        field, ids = self._place(mesh_name, data_name, vertex_ids, self._parts.reads, "read")
        if len(ids) == 0:
            return np.empty(0)
        if len(field.waveform) == 0:
            raise CouplingError(
                f'data "{field.data}" cannot be read from mesh "{field.mesh.name}": nobody sends it there; check '
                "<exchange> and <mapping:…> in the configuration"
            )
        values: Array = field.waveform.at(self._coupling.time + ahead)[ids]
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
        as_rows(vertices, "vertices", self._mesh_to_modify(mesh_name), 2, "set_mesh_edges")

    def set_mesh_triangle(
        self, mesh_name: str, first_vertex_id: int, second_vertex_id: int, third_vertex_id: int
    ) -> None:
        """Take a triangle."""
        self._mesh_to_modify(mesh_name)

    def set_mesh_triangles(self, mesh_name: str, vertices: ArrayLike) -> None:
        """Take triangles, vertex ids of shape (n, 3)."""
        as_rows(vertices, "vertices", self._mesh_to_modify(mesh_name), 3, "set_mesh_triangles")

    def set_mesh_quad(
        self, mesh_name: str, first_vertex_id: int, second_vertex_id: int, third_vertex_id: int, fourth_vertex_id: int
    ) -> None:
        """Take a quadrilateral."""
        self._mesh_to_modify(mesh_name)

    def set_mesh_quads(self, mesh_name: str, vertices: ArrayLike) -> None:
        """Take quadrilaterals, shape (n, 4)."""
        as_rows(vertices, "vertices", self._mesh_to_modify(mesh_name), 4, "set_mesh_quads")

    def set_mesh_tetrahedron(
        self, mesh_name: str, first_vertex_id: int, second_vertex_id: int, third_vertex_id: int, fourth_vertex_id: int
    ) -> None:
        """Take a tetrahedron."""
        self._mesh_to_modify(mesh_name)

    def set_mesh_tetrahedra(self, mesh_name: str, vertices: ArrayLike) -> None:
        """Take tetrahedra, shape (n, 4)."""
        as_rows(vertices, "vertices", self._mesh_to_modify(mesh_name), 4, "set_mesh_tetrahedra")

    # Profiling sections of the solver.

    def start_profiling_section(self, event_name: str) -> None:
        """Begin a profiling section."""
        name = os.fsdecode(event_name)
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

    def _mesh(self, mesh_name: str) -> LocalMesh:
        name = os.fsdecode(mesh_name)
        if (mesh := self._parts.meshes.get(name)) is None:
            known = ", ".join(f'"{mesh}"' for mesh in self._parts.meshes)
            raise CouplingError(f'expected a mesh that participant "{self._name}" uses ({known}), found "{name}"')
        return mesh

    def _mesh_to_modify(self, mesh_name: str) -> LocalMesh:
        mesh = self._mesh(mesh_name)
        if not mesh.provided:
            raise CouplingError(
                f'participant "{self._name}" does not provide mesh "{mesh.name}" and cannot modify it: add '
                f'<provide-mesh name="{mesh.name}" />'
            )
        if self._state is not State.CONSTRUCTED:
            raise CouplingError(f'mesh "{mesh.name}" is locked: modify it before initialize()')
        return mesh

    def _field(self, mesh_name: str, data_name: str) -> Field:
        mesh = self._mesh(mesh_name)
        name = os.fsdecode(data_name)
        if (field := mesh.fields.get(name)) is None:
            known = ", ".join(f'"{data}"' for data in mesh.fields)
            raise CouplingError(f'expected data of mesh "{mesh.name}" ({known or "it has none"}), found "{name}"')
        return field

    def _place(
        self, mesh_name: str, data_name: str, vertex_ids: ArrayLike, fields: Mapping[tuple[str, str], Field], what: str
    ) -> tuple[Field, NDArray[np.int32]]:
        """Find a field of the solver, and vertices of this rank."""
        field = self._field(mesh_name, data_name)
        mesh, data = field.mesh, field.data
        if (mesh.name, data) not in fields:
            raise CouplingError(
                f'participant "{self._name}" does not {what} data "{data}" on mesh "{mesh.name}": add '
                f'<{what}-data name="{data}" mesh="{mesh.name}" /> to the configuration'
            )
        ids = as_array(vertex_ids, "vertex_ids", f"{what}_data", np.int32)
        if len(wrong := np.flatnonzero((ids < 0) | (ids >= mesh.size))):
            raise CouplingError(
                f'cannot {what} data "{data}" on mesh "{mesh.name}": invalid vertex id {ids[wrong[0]]} at '
                f"vertices[{wrong[0]}], expected ids in [0, {mesh.size}) from set_mesh_vertex or set_mesh_vertices"
            )
        return field, ids

    # Status.

    def is_coupling_ongoing(self) -> bool:
        """Return whether there is anything left to simulate."""
        self._require_initialized("is_coupling_ongoing")
        return self._coupling.is_ongoing

    def is_time_window_complete(self) -> bool:
        """Return whether the last `advance` completed a time window."""
        self._require_initialized("is_time_window_complete")
        return self._coupling.window_complete

    def get_max_time_step_size(self) -> float:
        """Return the largest time step that stays in this time window (simulated seconds); 0 after the end."""
        self._require_initialized("get_max_time_step_size")
        return self._coupling.max_step

    def requires_initial_data(self) -> bool:
        """Return whether the solver must write initial data before `initialize`."""
        if self._state is not State.CONSTRUCTED:
            raise CouplingError("requires_initial_data() has to be called before initialize()")
        return self._coupling.fulfill(Action.INITIALIZE_DATA)

    def requires_writing_checkpoint(self) -> bool:
        """Return whether the solver must save its state: at the start of each time window of an implicit scheme."""
        self._require_initialized("requires_writing_checkpoint")
        return self._coupling.fulfill(Action.WRITE_CHECKPOINT)

    def requires_reading_checkpoint(self) -> bool:
        """Return whether the solver must go back to its saved state: the time window is repeated."""
        self._require_initialized("requires_reading_checkpoint")
        return self._coupling.fulfill(Action.READ_CHECKPOINT)

    # Steering.

    def initialize(self) -> None:
        """Meet the partners, exchange meshes and initial data, and map.

        In a serial scheme the second participant also waits for the first one's first time window.

        Raises
        ------
        CouplingError
            If it was called before, if initial data is missing, or if a partner does not come.
        """
        if self._state is not State.CONSTRUCTED:
            raise CouplingError(f"initialize() may only be called once, found a call {self._state.value}")
        if self._coupling.open_action is Action.INITIALIZE_DATA:
            raise CouplingError(
                "initial data has to be written before initialize(): call requires_initial_data() after the mesh is "
                "defined, and write_data() if it is true"
            )
        self._check_no_sections("initialize")
        with self._in_library("initialize"):
            for mesh in self._parts.meshes.values():
                if mesh.provided:
                    self._profiler.add_data("initialize", f"meshSize{mesh.name}", mesh.size)
            if self._intra.is_primary:
                with self._links.failure_kept():
                    described = self._configuration
                    self._channels.update(connect(self._name, described.m2ns, described.text, self._timeout))
            self._links.end_phase()
            meshes = list(self._parts.meshes.values())
            exchange_meshes(self._configuration, self._name, self._links, meshes, self._parts.mappings)
            for watch_point in self._parts.watch_points:
                watch_point.initialize(self._intra)
            for field in self._parts.writes.values():
                field.take_written(0.0)
            # preCICE computes read mappings later; here partners would wait for the import of scipy then.
            self._map([partial(mapping.compute, self._intra) for mapping in self._parts.mappings])
            self._map([field.run for field in self._parts.write_maps])
            with self._profiler.event("initalizeCouplingScheme"):
                self._coupling.initialize(self._links)
            self._map([field.run for field in self._parts.read_maps])
            self._write_watch_points()
            self._links.end_phase()
        self._state = State.INITIALIZED

    @contextlib.contextmanager
    def _in_library(self, call: str) -> Iterator[None]:
        """Record a call of which any failure ends the coupling."""
        self._profiler.leave_solver()
        try:
            with self._profiler.event(call):
                yield
        except BaseException:
            self._fail()
            raise
        self._profiler.enter_solver("solver.advance")

    def advance(self, computed_timestep_length: float) -> None:
        """Tell that a time step is done; at the end of a time window exchange and map data.

        Parameters
        ----------
        computed_timestep_length
            Length of the solver's time step (simulated seconds), at most `get_max_time_step_size`.

        Raises
        ------
        CouplingError
            If it is called out of order, if the step is not positive or leaves the time window, or if a partner is
            gone.
        """
        self._check_no_sections("advance")
        step = float(computed_timestep_length)
        self._require_initialized("advance")
        if not self._coupling.is_ongoing:
            raise CouplingError("advance() cannot be called when is_coupling_ongoing() is false")
        if not math.isfinite(step) or step <= TOLERANCE:
            raise CouplingError(f"expected a positive, finite time step in advance(), found {step:g}")
        # A step that is too long disturbs nothing.
        at_window_end = self._coupling.add_step(step)
        with self._in_library("advance"):
            # Without substeps, what was written before a window's last step is lost, as in preCICE.
            stepped_to = self._coupling.time if at_window_end or self._coupling.sends_substeps else None
            for field in self._parts.writes.values():
                field.take_written(stepped_to)
            if at_window_end:
                start = self._coupling.window_start
                self._map([partial(field.run, start) for field in self._parts.write_maps])
            with self._profiler.event("advanceCoupling"):
                self._coupling.exchange()
            if at_window_end:
                self._trim()
                self._map([field.run for field in self._parts.read_maps])
                if self._coupling.window_complete:
                    self._write_watch_points()
                self._links.end_phase()

    def _map(self, work: Sequence[Callable[[], None]]) -> None:
        if work:
            with self._profiler.event("mapping"):
                for one in work:
                    one()

    def _write_watch_points(self) -> None:
        for watch_point in self._parts.watch_points:
            watch_point.write(self._coupling.time)

    def _trim(self) -> None:
        """Forget the samples that the next iteration or time window brings anew (``handleDataAfterAdvance``)."""
        repeated = [mapped.target for mapped in self._parts.read_maps if mapped.source in self._coupling.repeated]
        if not self._coupling.window_complete:
            mapped_to = [mapped.target for mapped in self._parts.write_maps]
            for field in (*self._parts.writes.values(), *mapped_to, *repeated):
                field.waveform.trim_after(self._coupling.time)
            return
        for mesh in self._parts.meshes.values():
            for field in mesh.fields.values():
                field.waveform.trim_before(self._coupling.window_start)
        for field in repeated:
            if self._coupling.keeps_window_start:
                field.waveform.clear_except_last()
            else:
                field.waveform.clear()

    def finalize(self) -> None:
        """Say goodbye to the partners; the destructor does it, too.

        Raises
        ------
        CouplingError
            If it was called before.
        """
        if self._state is State.FINALIZED:
            raise CouplingError("finalize() may only be called once")
        self._close()
        self._state = State.FINALIZED

    def _fail(self) -> None:
        """Let the partners notice at once, whatever this process does next."""
        self._state = State.FAILED
        self._close.detach()
        self._profiler.close()
        for channel in self._channels.values():
            channel.abort()


def _close(process: int, channels: dict[str, Connection], intra: IntraComm, profiler: Profiler) -> None:
    # A forked process leaves the coupling to its parent: what it did to a connection or a file would be done to both.
    if os.getpid() != process:
        return
    profiler.leave_solver()
    profiler.begin("finalize")
    for channel in (*channels.values(), *intra.channels.values()):
        channel.finish()
    profiler.end("finalize")
    profiler.close()
