"""One coupling scheme at one participant: time windows, coupling iterations and checkpoints.

preCICE's ``cplscheme/BaseCouplingScheme.cpp``; what is exchanged when is in `precice_lb.embedded.schemes`.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from precice_lb.embedded.acceleration import Acceleration
from precice_lb.embedded.clock import TOLERANCE, Clock
from precice_lb.embedded.convergence import Convergence, Measure
from precice_lb.embedded.errors import CouplingError
from precice_lb.embedded.intracomm import IntraComm
from precice_lb.embedded.m2n import Links
from precice_lb.embedded.mesh import CouplingData
from precice_lb.embedded.watch import Table
from precice_lb.precice_xml.records import CouplingScheme

__all__ = ["Action", "Scheme"]


class Action(enum.Enum):
    """What a solver has to ask for, and do, before it goes on."""

    INITIALIZE_DATA = "requires_initial_data"
    WRITE_CHECKPOINT = "requires_writing_checkpoint"
    READ_CHECKPOINT = "requires_reading_checkpoint"


class Scheme(ABC):
    """One participant's side of a coupling.

    ``first`` is whether another one judges the iterations: the second of two participants, or the controller of a
    ``multi`` scheme. `partners` are those that this one has an m2n with, `data` all that it exchanges, by mesh and
    name. `measures` and `make_acceleration` are for the one that judges; it accelerates once the meshes are known.
    """

    def __init__(
        self,
        described: CouplingScheme,
        participant: str,
        partners: Sequence[str],
        data: Mapping[tuple[str, str], CouplingData],
        measures: Sequence[Measure],
        make_acceleration: Callable[[Sequence[CouplingData], IntraComm], Acceleration] | None,
    ) -> None:
        self.is_implicit = described.is_implicit
        self.window_complete = False
        self.has_converged = False
        self.required: set[Action] = set()
        self.fulfilled: set[Action] = set()
        self._participant = participant
        self._controller = described.controller or described.participants[1]
        self.first = participant != self._controller
        self._partners = sorted(partners)
        self._window_from_first = described.window_size_from_first
        self._next_window_seconds = None if self._window_from_first else described.time_window_size
        self._clock = Clock(self._next_window_seconds, described.max_time)
        self._max_windows = described.max_time_windows
        self._window = 1
        # In the order of preCICE, each once.
        self._data = sorted(data.values(), key=lambda one: one.number)
        ways = {(e.source, e.target, data[e.mesh, e.data]) for e in described.exchanges if (e.mesh, e.data) in data}
        self._sends = {to: [one for one in self._data if (participant, to, one) in ways] for to in self._partners}
        self._receives = {by: [one for one in self._data if (by, participant, one) in ways] for by in self._partners}
        self._convergence = Convergence(measures, described.max_iterations)
        self._make_acceleration = make_acceleration
        self._iteration = 1
        self._total_iterations = 1
        self._acceleration: Acceleration | None = None
        self._links: Links
        self._iterations_log: Table | None = None
        self._convergence_log: Table | None = None
        if any(one.initialize for each in self._sends.values() for one in each):
            self.required.add(Action.INITIALIZE_DATA)

    @property
    def time(self) -> float:
        """Current simulated time."""
        return self._clock.time

    @property
    def window_start(self) -> float:
        """Simulated time at which the current time window starts."""
        return self._clock.window_start

    @property
    def is_ongoing(self) -> bool:
        """Whether there is anything left to simulate."""
        windows_left = self._max_windows is None or self._max_windows >= self._window
        return windows_left and not self._clock.at_end

    @property
    def max_step(self) -> float:
        """Largest step that stays in this time window (simulated seconds), 0 after the end."""
        return self._clock.until_window_end if self.is_ongoing else 0.0

    @property
    def sends_substeps(self) -> bool:
        """Whether any data is sent with all its samples of a time window."""
        return any(data.substeps for each in self._sends.values() for data in each)

    def repeated_data(self) -> dict[CouplingData, bool]:
        """Return the data that comes anew in every iteration, and whether its sample at the window's start stays."""
        if not self.is_implicit:
            return {}
        keeps = self._keeps_window_start
        return {data: keeps for each in self._receives.values() for data in each}

    @property
    def _keeps_window_start(self) -> bool:
        return False

    def add_step(self, seconds: float) -> bool:
        """Step forward by what the solver computed; True at the end of the time window, which it may not leave."""
        if self._clock.window_seconds is None and seconds >= float(np.finfo(np.float64).max):
            raise CouplingError(
                "advance() cannot be called with the largest number there is: this participant prescribes the time "
                'window size (method="first-participant"), so it has to choose its own time step'
            )
        if self.max_step - seconds < -TOLERANCE:
            raise CouplingError(
                f"expected a time step of at most {self.max_step:g} in advance(), found {seconds:g}, which exceeds "
                "what is left of this time window: let the solver take dt = min(solver_dt, get_max_time_step_size())"
            )
        self._clock.progress_by(seconds)
        return self._clock.at_window_end

    def initialize(self, links: Links) -> None:
        """Exchange what ``initialize`` exchanges; the primary rank starts the logs of implicit schemes."""
        self._links = links
        for each in self._receives.values():
            for data in each:
                data.field.waveform.put(self.time, np.zeros((data.field.vertices, data.field.components)))
        if self.is_implicit:
            self._store_iteration()
            if self._make_acceleration is not None:
                self._acceleration = self._make_acceleration(self._accelerated_data(), links.intra)
            self.required.add(Action.WRITE_CHECKPOINT)
            if links.intra.is_primary:
                more = [] if self._acceleration is None else list(self._acceleration.log_entries())
                columns = ["TimeWindow", "TotalIterations", "Iterations", "Convergence", *more]
                self._iterations_log = Table(f"precice-{self._participant}-iterations.log", columns)
                if not self.first:
                    headers = [measure.header for measure in self._convergence.measures]
                    columns = ["TimeWindow", "Iteration", *headers]
                    self._convergence_log = Table(f"precice-{self._participant}-convergence.log", columns)
        self._exchange_initial()

    def first_exchange(self) -> None:
        """First phase of ``advance``."""
        self._check_actions()
        self.window_complete = False
        if self._clock.at_window_end:
            self._window += 1
            self._exchange_first()

    def second_exchange(self) -> None:
        """Second phase of it: at its end, the next time window has begun or this one begins again."""
        self._check_actions()
        if not self._clock.at_window_end:
            return
        self._exchange_second()
        if self.is_implicit:
            if self.has_converged:
                self._log_window()
                if self.is_ongoing:
                    self.required.add(Action.WRITE_CHECKPOINT)
            else:
                self.required.add(Action.READ_CHECKPOINT)
                self._window -= 1
            self._total_iterations += 1
            self._iteration = 1 if self.has_converged else self._iteration + 1
        self.window_complete = not self.is_implicit or self.has_converged
        if self.window_complete:
            self._clock.complete_window()
        else:
            self._clock.repeat_window()
        self._clock.window_seconds = self._next_window_seconds

    @abstractmethod
    def _exchange_initial(self) -> None: ...

    @abstractmethod
    def _exchange_first(self) -> None: ...

    @abstractmethod
    def _exchange_second(self) -> None: ...

    def _accelerated_data(self) -> Sequence[CouplingData]:
        return self._data

    def _send(self, *, initial: bool = False) -> None:
        for partner, data in self._sends.items():
            if _of_interest(data, initial):
                self._links.send_data(partner, data)

    def _receive(self, time: float, *, initial: bool = False) -> None:
        for partner, data in self._receives.items():
            if _of_interest(data, initial):
                self._links.receive_data(partner, data, time)

    def _finish_iteration(self) -> None:
        if self.has_converged or not self.is_implicit:
            for data in self._data:
                data.move_to_next_window()
        if self.is_implicit:
            self._store_iteration()

    def _store_iteration(self) -> None:
        for data in self._data:
            data.store_iteration()

    def _iterate(self) -> None:
        """Judge the iteration, and accelerate or take note (``doImplicitStep``)."""
        self.has_converged = self._convergence.has_converged(self._iteration, self._links.intra)
        if self._convergence_log is not None:
            residuals = [measure.residual for measure in self._convergence.measures]
            self._convergence_log.write([self._window - 1, self._iteration, *residuals])
        if self._acceleration is not None:
            with self._links.profiler.event("accelerate"):
                if self.has_converged:
                    self._acceleration.converged(self.window_start)
                else:
                    self._acceleration.accelerate(self.window_start)

    def _log_window(self) -> None:
        if self._iterations_log is None:
            return
        limit = self._convergence.max_iterations
        converged = limit is None or self._iteration < limit
        more = {} if self._acceleration is None else self._acceleration.log_entries()
        row = [self._window - 1, self._total_iterations, self._iteration, int(converged), *more.values()]
        self._iterations_log.write(row)

    def _check_actions(self) -> None:
        for action, what in (
            (Action.INITIALIZE_DATA, "initial data was not written"),
            (Action.READ_CHECKPOINT, "the iteration checkpoint was not read"),
            (Action.WRITE_CHECKPOINT, "the iteration checkpoint was not written"),
        ):
            if action in self.required - self.fulfilled:
                raise CouplingError(f"{what}: the solver has to call {action.value}() before advance()")
        self.required.clear()
        self.fulfilled.clear()


def _of_interest(data: Sequence[CouplingData], initial: bool) -> bool:
    # One initialized data of a direction takes all of that direction with it.
    return bool(data) and (not initial or any(one.initialize for one in data))
