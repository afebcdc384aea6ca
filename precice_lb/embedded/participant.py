"""preCICE's ``Participant`` (pyprecice 3.4) on the embedded backend."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from precice_lb.embedded.access import Access, State, as_text
from precice_lb.embedded.allowed import check_supported
from precice_lb.embedded.assemble import assemble
from precice_lb.embedded.communication import Channel, IntraComm
from precice_lb.embedded.coupling import FIRST_GUESSES, Action
from precice_lb.embedded.errors import CouplingError, refused
from precice_lb.embedded.files import Profiler
from precice_lb.embedded.m2n import Links, exchange_meshes
from precice_lb.embedded.rendezvous import connect, timeout_seconds
from precice_lb.embedded.timeline import TOLERANCE
from precice_lb.exceptions import ConfigurationError
from precice_lb.precice_xml import read_configuration

__all__ = ["Participant"]


class Participant(Access):
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
        If the configuration is missing, malformed or contradicts itself.
    UnknownToBackendError
        If it asks for what libprecice does and this backend does not: tag and line are named.
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
        name = as_text(solver_name)
        try:
            self._configuration = read_configuration(as_text(configuration_file_name))
            check_supported(self._configuration, name, solver_process_size)
        except ConfigurationError as error:
            raise refused(error) from None
        self._timeout = timeout_seconds()
        self._intra = IntraComm(name, solver_process_index, solver_process_size, communicator)
        profiler = Profiler(self._configuration, name, solver_process_index, solver_process_size)
        profiler.begin("construction")
        super().__init__(name, assemble(self._configuration, name), profiler)
        self._channels: dict[str, Channel] = {}
        self._links = Links(self._intra, self._channels, profiler)
        self._guess = "hold"
        # Serves as destructor and at interpreter exit, whichever comes first.
        self._close = weakref.finalize(self, _close, self._channels, self._intra, profiler)
        if self._intra.is_primary:
            print(
                f'precice_lb: participant "{self._name}" is coupled by the embedded backend, which is for trying, '
                "testing and teaching, not for production",
                flush=True,
            )
        profiler.end("construction")
        profiler.enter_solver("solver.initialize")

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

    def guess_first(self, kind: str) -> None:
        """Start the time windows of an implicit scheme from an extrapolation of those before; not in preCICE's API.

        All participants have to ask for the same before `initialize`.

        Parameters
        ----------
        kind
            ``hold`` (the last value, as without this call), ``linear`` or ``quadratic``.

        Raises
        ------
        CouplingError
            If it is called too late, or with another kind, or if the first participant prescribes the time window size.
        """
        if self._state is not State.CONSTRUCTED:
            raise CouplingError("guess_first() has to be called before initialize()")
        if kind not in FIRST_GUESSES:
            known = ", ".join(f'"{name}"' for name in FIRST_GUESSES)
            raise CouplingError(f'expected one of {known} in guess_first(), found "{kind}"')
        if any(scheme.window_size_from_first for scheme in self._configuration.coupling_schemes):
            raise CouplingError(
                'expected time windows of a fixed size for guess_first(), found method="first-participant" in '
                f"{self._configuration.path}: there, the end of the next time window is not known"
            )
        self._guess = kind

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
        self._profiler.leave_solver()
        try:
            with self._profiler.event("initialize"):
                self._initialize()
        except BaseException:
            self._fail()
            raise
        self._state = State.INITIALIZED
        self._profiler.enter_solver("solver.advance")

    def _initialize(self) -> None:
        for mesh in self._parts.meshes.values():
            if mesh.provided:
                self._profiler.add_data("initialize", f"meshSize{mesh.name}", mesh.size)
        self._meet_partners()
        meshes = list(self._parts.meshes.values())
        exchange_meshes(self._configuration, self._name, self._links, meshes, self._parts.mappings)
        for mesh in meshes:
            mesh.locked = True
        for watch_point in self._parts.watch_points:
            watch_point.initialize(self._intra)
        for field in self._parts.writes.values():
            field.take_written(0.0)
        # preCICE computes read mappings later; here partners would wait for the import of scipy then.
        self._map([partial(mapping.compute, self._intra) for mapping in self._parts.mappings])
        self._map([field.run for field in self._parts.write_maps])
        with self._profiler.event("initalizeCouplingScheme"):
            self._coupling.initialize(self._links, self._guess)
        self._map([field.run for field in self._parts.read_maps])
        self._write_watch_points()
        self._links.end_phase()

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
        self._profiler.leave_solver()
        try:
            with self._profiler.event("advance"):
                self._advance(at_window_end)
        except BaseException:
            self._fail()
            raise
        self._profiler.enter_solver("solver.advance")

    def _advance(self, at_window_end: bool) -> None:
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

    def _meet_partners(self) -> None:
        failure = None
        if self._intra.is_primary:
            try:
                text = self._configuration.text
                self._channels.update(connect(self._name, self._parts.appointments, text, self._timeout, self._guess))
            except CouplingError as error:
                failure = str(error)
        self._intra.agree(failure)

    def _fail(self) -> None:
        """Let the partners notice at once, whatever this process does next."""
        self._state = State.FAILED
        self._close.detach()
        self._profiler.close()
        for channel in self._channels.values():
            channel.abort()


def _close(channels: dict[str, Channel], intra: IntraComm, profiler: Profiler) -> None:
    profiler.leave_solver()
    profiler.begin("finalize")
    for channel in channels.values():
        channel.finish()
    intra.close()
    profiler.end("finalize")
    profiler.close()
