"""Coupling schemes at one participant: windows, iterations and when these have converged; who exchanges what when.

preCICE's ``cplscheme/BaseCouplingScheme.cpp`` with the measures in ``cplscheme/impl``, ``SerialCouplingScheme.cpp``,
``ParallelCouplingScheme.cpp``, ``MultiCouplingScheme.cpp`` and ``CompositionalCouplingScheme.cpp``.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from precice_lb.case.config import CouplingScheme
from precice_lb.embedded.acceleration import Acceleration
from precice_lb.embedded.communication import IntraComm
from precice_lb.embedded.files import LogFile
from precice_lb.embedded.mesh import CouplingData, Field, Links
from precice_lb.embedded.timeline import TOLERANCE, Clock, CouplingError


class Action(enum.Enum):
    """What a solver has to ask for, and do, before it goes on."""

    INITIALIZE_DATA = "requires_initial_data"
    WRITE_CHECKPOINT = "requires_writing_checkpoint"
    READ_CHECKPOINT = "requires_reading_checkpoint"


class Scheme:
    """One participant's side of a coupling in which all, two or any number, compute a time window at the same time.

    They do so with data of the last iteration. The one that judges receives from all, accelerates all data and sends to
    all. `SerialScheme` is the other kind.

    ``first`` is whether another one judges the iterations: the second of two participants, or the controller of a
    ``multi`` scheme. `partners` are those that this one has an m2n with, `data` all that it exchanges, by mesh and
    name, in the order of preCICE. The one that judges makes its acceleration once the meshes are known.
    """

    def __init__(
        self,
        described: CouplingScheme,
        participant: str,
        partners: Sequence[str],
        data: Mapping[tuple[str, str], CouplingData],
        make_acceleration: Callable[[Sequence[CouplingData], IntraComm], Acceleration] | None,
    ) -> None:
        self.is_implicit = described.is_implicit
        self.window_complete = False
        self._participant = participant
        self._controller = described.controller
        self.first = participant != self._controller
        self._sends_first = self.first != described.is_serial
        #: Whether received data keeps its sample at a time window's start: the next time window's has come by then.
        self.keeps_window_start = described.is_serial and not self.first
        self._partners = sorted(partners)
        self.clock = Clock(described.time_window_size, described.max_time)
        self._max_windows = np.inf if described.max_time_windows is None else described.max_time_windows
        self._window = 1
        self._data = list(data.values())
        ways = {(e.source, e.target, data[e.mesh, e.data]) for e in described.exchanges if (e.mesh, e.data) in data}
        self.sends = {to: [one for one in self._data if (participant, to, one) in ways] for to in self._partners}
        self.receives = {by: [one for one in self._data if (by, participant, one) in ways] for by in self._partners}
        measures = () if self.first else described.measures
        self._measures = [(measure, data[measure.mesh, measure.data]) for measure in measures]
        self._max_iterations = np.inf if described.max_iterations is None else described.max_iterations
        self._make_acceleration = None if self.first else make_acceleration
        self._has_converged = False
        self._iteration = 1
        self._total_iterations = 1
        self._acceleration: Acceleration | None = None
        self._links: Links
        self._iterations_log: LogFile | None = None
        self._convergence_log: LogFile | None = None

    @property
    def is_ongoing(self) -> bool:
        """Whether there is anything left to simulate."""
        return self._max_windows >= self._window and not self.clock.at_end

    @property
    def max_step(self) -> float:
        """Largest step that stays in this time window (simulated seconds), 0 after the end."""
        return self.clock.until_window_end if self.is_ongoing else 0.0

    def add_step(self, seconds: float) -> bool:
        """Step forward by what the solver computed; True at the end of the time window, which it may not leave."""
        if self.max_step - seconds < -TOLERANCE:
            raise CouplingError(
                f"expected a time step of at most {self.max_step:g} in advance(), found {seconds:g}, which exceeds "
                "what is left of this time window: let the solver take dt = min(solver_dt, get_max_time_step_size())"
            )
        self.clock.progress_by(seconds)
        return self.clock.at_window_end

    def initialize(self, links: Links) -> None:
        """Exchange what ``initialize`` exchanges; the primary rank starts the logs of implicit schemes."""
        self._links = links
        for group in self.receives.values():
            for data in group:
                data.field.waveform.put(self.clock.time, np.zeros((data.field.mesh.size, data.field.components)))
        if self.is_implicit:
            for data in self._data:
                data.store_iteration()
            if self._make_acceleration is not None:
                self._acceleration = self._make_acceleration(self._accelerated_data(), links.intra)
            if links.intra.is_primary:
                more = [] if self._acceleration is None else self._acceleration.log_entries()
                columns = ["TimeWindow", "TotalIterations", "Iterations", "Convergence", *more]
                self._iterations_log = LogFile(f"precice-{self._participant}-iterations.log", columns)
                if not self.first:
                    columns = ["TimeWindow", "Iteration", *(measure.header for measure, _ in self._measures)]
                    self._convergence_log = LogFile(f"precice-{self._participant}-convergence.log", columns)
        self._exchange_initial()

    def first_exchange(self) -> None:
        """First phase of ``advance``."""
        self.window_complete = False
        if self.clock.at_window_end:
            self._window += 1
            self._exchange_first()

    def second_exchange(self) -> Action | None:
        """Second phase: at its end, the next time window has begun or this one begins again; returns what to do."""
        if not self.clock.at_window_end:
            return None
        self._exchange_second()
        action = None
        if self.is_implicit:
            if self._has_converged:
                if self._iterations_log is not None:
                    more = [] if self._acceleration is None else self._acceleration.log_entries().values()
                    converged = int(self._iteration < self._max_iterations)
                    row = [self._window - 1, self._total_iterations, self._iteration, converged, *more]
                    self._iterations_log.write(row)
                action = Action.WRITE_CHECKPOINT if self.is_ongoing else None
            else:
                action = Action.READ_CHECKPOINT
                self._window -= 1
            self._total_iterations += 1
            self._iteration = 1 if self._has_converged else self._iteration + 1
        self.window_complete = not self.is_implicit or self._has_converged
        if self.window_complete:
            self.clock.complete_window()
        else:
            self.clock.repeat_window()
        return action

    def _exchange_initial(self) -> None:
        if self._sends_first:
            self._send(initial=True)
        self._receive(self.clock.time, initial=True)
        if not self._sends_first:
            self._send(initial=True)

    def _exchange_first(self) -> None:
        if self.first:
            self._send()
        else:
            self._receive(self.clock.time)

    def _exchange_second(self) -> None:
        if self.first:
            self._hear()
        else:
            self._judge()
            self._send()
        self._finish_iteration()

    def _accelerated_data(self) -> Sequence[CouplingData]:
        return self._data

    def _send(self, *, initial: bool = False) -> None:
        for partner, data in self.sends.items():
            if _of_interest(data, initial):
                self._links.send_data(partner, data)

    def _receive(self, time: float, *, initial: bool = False) -> None:
        for partner, data in self.receives.items():
            if _of_interest(data, initial):
                self._links.receive_data(partner, data, time)

    def _finish_iteration(self) -> None:
        for data in self._data:
            if self._has_converged or not self.is_implicit:
                # The next time window starts with the sample at the end of this one.
                data.field.waveform.clear_except_last()
            data.store_iteration()

    def _hear(self) -> None:
        """Wait for what the one that judges sends after an iteration."""
        if self.is_implicit:
            with self._links.profiler.event("receiveConvergence"):
                self._has_converged = bool(self._links.receive_number(self._controller))
        self._receive(self.clock.time)

    def _judge(self) -> None:
        """Judge an iteration, accelerate or take note (``doImplicitStep``), and tell all."""
        if not self.is_implicit:
            return
        residuals, converged = self._measure()
        self._has_converged = (bool(converged) and all(converged)) or self._iteration == self._max_iterations
        if self._convergence_log is not None:
            self._convergence_log.write([self._window - 1, self._iteration, *residuals])
        if self._acceleration is not None:
            with self._links.profiler.event("accelerate"):
                if self._has_converged:
                    self._acceleration.converged(self.clock.window_start)
                else:
                    self._acceleration.accelerate(self.clock.window_start)
        for partner in self._partners:
            with self._links.profiler.event("sendConvergence"):
                self._links.send(partner, [np.array([float(self._has_converged)])])

    def _measure(self) -> tuple[list[float], list[bool]]:
        """Residual of each measure, and whether it has converged, from 2-norms of its data's change and values."""
        squares = []
        for _, data in self._measures:
            now = data.field.waveform.last
            change = now - data.previous.last
            squares += [np.vdot(change, change), np.vdot(now, now)]
        norms = np.sqrt(self._links.intra.total(np.array(squares))).tolist() if squares else []
        residuals, converged = [], []
        for (measure, _), difference, norm in zip(self._measures, norms[::2], norms[1::2], strict=True):
            scale = norm if measure.kind == "relative" else 1.0
            residuals.append(float("inf") if scale <= TOLERANCE else difference / scale)
            converged.append(difference <= scale * measure.limit)
        return residuals, converged


def _of_interest(data: Sequence[CouplingData], initial: bool) -> bool:
    # One initialized data of a direction takes all of that direction with it.
    return bool(data) and (not initial or any(one.initialize for one in data))


class SerialScheme(Scheme):
    """The second participant computes a time window after the first, with the first one's data at its end.

    The second participant therefore has the data at both ends of its time window, and reads between them what the
    waveform makes of it. It judges the iteration, and accelerates what it sends.
    """

    def _accelerated_data(self) -> Sequence[CouplingData]:
        return self.sends[self._partners[0]]

    def _exchange_initial(self) -> None:
        super()._exchange_initial()
        if not self.first:
            self._receive(self.clock.ahead)

    def _exchange_first(self) -> None:
        if not self.first:
            self._judge()
        self._send()

    def _exchange_second(self) -> None:
        if self.first:
            self._hear()
        self._finish_iteration()
        if self.first:
            return
        if self.is_implicit and not self._has_converged:
            self._receive(self.clock.time)
        elif self.is_ongoing:
            self._receive(self.clock.ahead)


class Composition:
    """All schemes of a participant, in the order of the configuration; at most one of them is implicit.

    While the implicit one iterates, the explicit ones are on hold at the end of the time window. They exchange after
    it has converged, and after it has waited for the next window's first data.
    """

    def __init__(self, schemes: Sequence[Scheme]) -> None:
        self._explicit = [scheme for scheme in schemes if not scheme.is_implicit]
        self._implicit = next((scheme for scheme in schemes if scheme.is_implicit), None)
        # preCICE initialises the implicit one last.
        self._schemes = [*self._explicit, *([self._implicit] if self._implicit else [])]
        self._leading = self._implicit or self._explicit[0]
        self._on_hold = False
        sent = [data for scheme in schemes for group in scheme.sends.values() for data in group]
        #: Whether any data is sent with all its samples of a time window.
        self.sends_substeps = any(data.substeps for data in sent)
        received = self._implicit.receives.values() if self._implicit else ()
        #: Fields that come anew in every iteration.
        self.repeated: set[Field] = {data.field for group in received for data in group}
        self.keeps_window_start = self._leading.keeps_window_start
        self._require(Action.INITIALIZE_DATA if any(data.initialize for data in sent) else None)

    @property
    def _active(self) -> list[Scheme]:
        return [self._implicit] if self._on_hold and self._implicit else self._schemes

    @property
    def time(self) -> float:
        """Current simulated time; while iterating, that of the implicit scheme."""
        return self._leading.clock.time

    @property
    def window_start(self) -> float:
        """Simulated time at which the earliest current time window starts."""
        return min(scheme.clock.window_start for scheme in self._schemes)

    @property
    def is_ongoing(self) -> bool:
        """Whether there is anything left to simulate."""
        return self._leading.is_ongoing

    @property
    def window_complete(self) -> bool:
        """Whether the last ``advance`` completed a time window."""
        return any(scheme.window_complete for scheme in self._active)

    @property
    def max_step(self) -> float:
        """Largest step that stays in all current time windows (simulated seconds)."""
        return min(scheme.max_step for scheme in self._active)

    def _require(self, action: Action | None) -> None:
        self._required = action
        #: What the solver has to do and has not asked for.
        self.open_action = action

    def fulfill(self, action: Action) -> bool:
        """Take note that the solver has asked for an action; True if it has to do it."""
        if action is self._required:
            self.open_action = None
        return action is self._required

    def initialize(self, links: Links) -> None:
        """Exchange initial data in each scheme in turn."""
        for scheme in self._schemes:
            scheme.initialize(links)
        self._require(Action.WRITE_CHECKPOINT if self._implicit else None)

    def add_step(self, seconds: float) -> bool:
        """Step forward; True at the end of a time window, a `CouplingError` if the step leaves it."""
        implicit_ends = self._implicit.add_step(seconds) if self._implicit else False
        if self._on_hold:
            return implicit_ends
        explicit_ends = [scheme.add_step(seconds) for scheme in self._explicit]
        # Without explicit schemes there is nothing to hold.
        self._on_hold = implicit_ends and bool(self._explicit)
        return implicit_ends or any(explicit_ends)

    def exchange(self) -> None:
        """Exchange what ``advance`` exchanges."""
        if self.open_action is not None:
            done = "read" if self.open_action is Action.READ_CHECKPOINT else "written"
            raise CouplingError(
                f"the iteration checkpoint was not {done}: the solver has to call {self.open_action.value}() before "
                "advance()"
            )
        if self._implicit is None:
            self._exchange_explicit()
            return
        self._implicit.first_exchange()
        if not self._on_hold:
            for scheme in self._explicit:
                scheme.first_exchange()
        self._require(self._implicit.second_exchange())
        if not self._explicit or self._implicit.clock.time < self._explicit[0].clock.time:
            return
        self._exchange_explicit()
        self._on_hold = False

    def _exchange_explicit(self) -> None:
        for scheme in self._explicit:
            scheme.first_exchange()
        for scheme in self._explicit:
            scheme.second_exchange()
