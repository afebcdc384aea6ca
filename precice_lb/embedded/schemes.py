"""When a coupling scheme exchanges what, in preCICE's program order, and all schemes of one participant together.

preCICE's ``cplscheme/SerialCouplingScheme.cpp``, ``ParallelCouplingScheme.cpp``, ``MultiCouplingScheme.cpp`` and
``CompositionalCouplingScheme.cpp``.
"""

from __future__ import annotations

from collections.abc import Sequence

from precice_lb.embedded.coupling import Action, Scheme
from precice_lb.embedded.errors import CouplingError
from precice_lb.embedded.m2n import Links
from precice_lb.embedded.mesh import CouplingData, Field

__all__ = ["Composition", "ParallelScheme", "SerialScheme"]


class ParallelScheme(Scheme):
    """All participants, two or any number, compute a time window at the same time, with data of the last iteration.

    The controller receives from all, judges the iteration, accelerates all data and sends to all.
    """

    def _exchange_first(self) -> None:
        if self.first:
            self._send()
        else:
            self._receive(self.clock.time)

    def _exchange_second(self) -> None:
        if self.first:
            if self.is_implicit:
                self._has_converged = self._links.receive_convergence(self._controller)
            self._receive(self.clock.time)
        else:
            if self.is_implicit:
                self._iterate()
                for partner in self._partners:
                    self._links.send_convergence(partner, self._has_converged)
            self._send()
        self._finish_iteration()


class SerialScheme(Scheme):
    """The second participant computes a time window after the first, with the first one's data at its end.

    The second participant therefore has the data at both ends of its time window, and reads between them what the
    waveform makes of it. It judges the iteration, and accelerates what it sends. The steps of the first participant may
    be the time windows (``method="first-participant"``).
    """

    @property
    def _partner(self) -> str:
        return self._partners[0]

    def _accelerated_data(self) -> Sequence[CouplingData]:
        return self.sends[self._partner]

    def _exchange_initial(self) -> None:
        super()._exchange_initial()
        if not self.first:
            self._receive_window_size()
            self.clock.window_seconds = self._next_window_seconds
            self._receive_ahead()

    def _exchange_first(self) -> None:
        if self.first:
            if self._window_from_first:
                self.clock.window_seconds = self.clock.progress
                self._next_window_seconds = None
                self._links.send_number(self._partner, self.clock.progress)
        elif self.is_implicit:
            self._iterate()
            self._links.send_convergence(self._partner, self._has_converged)
        self._send()

    def _exchange_second(self) -> None:
        if self.first:
            if self.is_implicit:
                self._has_converged = self._links.receive_convergence(self._partner)
            self._receive(self.clock.time)
        self._finish_iteration()
        if self.first:
            return
        if self.is_implicit and not self._has_converged:
            self._receive_window_size()
            self._receive(self.clock.time)
        elif self.is_ongoing:
            self._receive_window_size()
            self._receive_ahead()

    def _receive_ahead(self) -> None:
        # The size of a whole window even where max-time cuts the next one short: so does preCICE.
        assert self._next_window_seconds is not None
        self._receive(self.clock.ahead(self._next_window_seconds))

    def _receive_window_size(self) -> None:
        if not self._window_from_first:
            return
        # preCICE has no profiling event for that.
        size = self._links.receive_number(self._partner)
        known = self.clock.window_seconds
        if known is not None and self.is_implicit and not self._has_converged and size != known:
            raise CouplingError(
                f"expected the time window size {known:g} of the first iteration again, found {size:g}: the first "
                "participant has to repeat its time step in every iteration"
            )
        self._next_window_seconds = size


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
        sent = [data for scheme in schemes for each in scheme.sends.values() for data in each]
        #: Whether any data is sent with all its samples of a time window.
        self.sends_substeps = any(data.substeps for data in sent)
        received = self._implicit.receives.values() if self._implicit else ()
        #: Fields that come anew in every iteration.
        self.repeated: set[Field] = {data.field for each in received for data in each}
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

    def initialize(self, links: Links, guess: str) -> None:
        """Exchange initial data in each scheme in turn; the implicit one starts its time windows from a first guess."""
        for scheme in self._schemes:
            scheme.initialize(links)
        if self._implicit and guess != "hold":
            self._implicit.guess_first(guess)
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
