"""When a coupling scheme exchanges what, in preCICE's program order.

preCICE's ``cplscheme/SerialCouplingScheme.cpp``, ``ParallelCouplingScheme.cpp`` and ``MultiCouplingScheme.cpp``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from precice_lb.embedded.coupling import Scheme
from precice_lb.embedded.coupling_data import CouplingData
from precice_lb.embedded.errors import CouplingError

__all__ = ["ParallelScheme", "SerialScheme"]


class ParallelScheme(Scheme):
    """All participants, two or any number, compute a time window at the same time, with data of the last iteration.

    The controller receives from all, judges the iteration, accelerates all data and sends to all.
    """

    def _exchange_initial(self) -> None:
        if self.first:
            self._send(initial=True)
            self._receive(self.time, initial=True)
        else:
            self._receive(self.time, initial=True)
            self._send(initial=True)

    def _exchange_first(self) -> None:
        if self.first:
            self._send()
        else:
            self._receive(self.time)

    def _exchange_second(self) -> None:
        if self.first:
            if self.is_implicit:
                self.has_converged = self._links.receive_convergence(self._controller)
            self._receive(self.time)
        else:
            if self.is_implicit:
                self._iterate()
                for partner in self._partners:
                    self._links.send_convergence(partner, self.has_converged)
            self._send()
        self._finish_iteration()


class SerialScheme(Scheme):
    """The second participant computes a time window after the first, with the first one's data at its end.

    The second participant therefore has the data at both ends of its time window, and reads between them what the
    waveform makes of it. It judges the iteration, and accelerates what it sends. With ``window_from_first`` the steps
    of the first participant are the time windows (``method="first-participant"``).
    """

    def __init__(self, *, window_from_first: bool, **others: Any) -> None:
        super().__init__(**others)
        self._window_from_first = window_from_first
        (self._partner,) = self._partners

    @property
    def _keeps_window_start(self) -> bool:
        return not self.first

    def _accelerated_data(self) -> Sequence[CouplingData]:
        return self._sends[self._partner]

    def _exchange_initial(self) -> None:
        if self.first:
            self._receive(self.time, initial=True)
            self._send(initial=True)
        else:
            self._send(initial=True)
            self._receive(self.time, initial=True)
            self._receive_window_size()
            self._clock.window_seconds = self._next_window_seconds
            self._receive_ahead()

    def _exchange_first(self) -> None:
        if self.first:
            if self._window_from_first:
                self._clock.window_seconds = self._clock.progress
                self._next_window_seconds = None
                self._links.send_number(self._partner, self._clock.progress)
        elif self.is_implicit:
            self._iterate()
            self._links.send_convergence(self._partner, self.has_converged)
        self._send()

    def _exchange_second(self) -> None:
        if self.first:
            if self.is_implicit:
                self.has_converged = self._links.receive_convergence(self._partner)
            self._receive(self.time)
        self._finish_iteration()
        if self.first:
            return
        if self.is_implicit and not self.has_converged:
            self._receive_window_size()
            self._receive(self.time)
        elif self.is_ongoing:
            self._receive_window_size()
            self._receive_ahead()

    def _receive_ahead(self) -> None:
        # The size of a whole window even where max-time cuts the next one short: so does preCICE.
        assert self._next_window_seconds is not None
        self._receive(self._clock.ahead(self._next_window_seconds))

    def _receive_window_size(self) -> None:
        if not self._window_from_first:
            return
        # preCICE has no profiling event for that.
        size = self._links.receive_number(self._partner)
        known = self._clock.window_seconds
        if known is not None and self.is_implicit and not self.has_converged and size != known:
            raise CouplingError(
                f"expected the time window size {known:g} of the first iteration again, found {size:g}: the first "
                "participant has to repeat its time step in every iteration"
            )
        self._next_window_seconds = size
