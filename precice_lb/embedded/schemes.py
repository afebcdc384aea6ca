"""When a coupling scheme exchanges what, in preCICE's program order.

preCICE's ``cplscheme/SerialCouplingScheme.cpp``, ``ParallelCouplingScheme.cpp`` and ``MultiCouplingScheme.cpp``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from precice_lb.embedded.coupling import Scheme
from precice_lb.embedded.coupling_data import CouplingData
from precice_lb.embedded.errors import CouplingError
from precice_lb.embedded.m2n import Link

__all__ = ["MultiScheme", "ParallelScheme", "SerialScheme"]


class _PairScheme(Scheme):
    """A scheme of two participants (``cplscheme/BiCouplingScheme.cpp``)."""

    def __init__(self, **others: Any) -> None:
        super().__init__(**others)
        (self._partner,) = self.partners
        self._sent = self._sends[self._partner]
        self._received = self._receives[self._partner]
        # One initialized data of a direction takes all of that direction with it.
        self._sends_initial = any(data.initialize for data in self._sent)
        self._receives_initial = any(data.initialize for data in self._received)

    @property
    def _link(self) -> Link:
        return self._links[self._partner]

    def _send(self) -> None:
        self._link.send(self._sent)

    def _receive(self) -> None:
        self._link.receive(self._received, self.time)

    def _send_initial(self) -> None:
        if self._sends_initial:
            self._send()

    def _receive_initial(self) -> None:
        if self._receives_initial:
            self._receive()


class ParallelScheme(_PairScheme):
    """Both participants compute the same time window at the same time, with the partner's data of the last iteration.

    The second one judges the iteration, and accelerates all data.
    """

    def _exchange_initial(self) -> None:
        if self.first:
            self._send_initial()
            self._receive_initial()
        else:
            self._receive_initial()
            self._send_initial()

    def _exchange_first(self) -> None:
        if self.first:
            self._send()
        else:
            self._receive()

    def _exchange_second(self) -> None:
        if self.first:
            if self.is_implicit:
                self.has_converged = self._link.receive_convergence()
            self._receive()
        else:
            if self.is_implicit:
                self._iterate()
                self._link.send_convergence(self.has_converged)
            self._send()
        if self.has_converged or not self.is_implicit:
            self._move_to_next_window()
        if self.is_implicit:
            self._store_iteration()


class SerialScheme(_PairScheme):
    """The second participant computes a time window after the first, with the first one's data at its end.

    The second participant therefore has the data at both ends of its time window, and reads between them what the
    waveform makes of it. It judges the iteration, and accelerates what it sends. With ``window_from_first`` the steps
    of the first participant are the time windows (``method="first-participant"``).
    """

    def __init__(self, *, window_from_first: bool = False, **others: Any) -> None:
        super().__init__(**others)
        self._window_from_first = window_from_first

    @property
    def _keeps_window_start(self) -> bool:
        return not self.first

    def _accelerated_data(self) -> Sequence[CouplingData]:
        return self._sent

    def _exchange_initial(self) -> None:
        if self.first:
            self._receive_initial()
            self._send_initial()
        else:
            self._send_initial()
            self._receive_initial()
            self._receive_window_size()
            self._clock.window_seconds = self._next_window_seconds
            self._receive_ahead()

    def _exchange_first(self) -> None:
        if self.first:
            if self._window_from_first:
                self._clock.window_seconds = self._clock.progress
                self._next_window_seconds = None
                self._link.send_number(self._clock.progress)
        elif self.is_implicit:
            self._iterate()
            self._link.send_convergence(self.has_converged)
        self._send()

    def _exchange_second(self) -> None:
        if self.first:
            if self.is_implicit:
                self.has_converged = self._link.receive_convergence()
            self._receive()
        if self.has_converged or not self.is_implicit:
            self._move_to_next_window()
        if self.is_implicit:
            self._store_iteration()
        if self.first:
            return
        if self.is_implicit and not self.has_converged:
            self._receive_window_size()
            self._receive()
        elif self.is_ongoing:
            self._receive_window_size()
            self._receive_ahead()

    def _receive_ahead(self) -> None:
        # The size of a whole window even where max-time cuts the next one short: so does preCICE.
        assert self._next_window_seconds is not None
        self._link.receive(self._received, self._clock.ahead(self._next_window_seconds))

    def _receive_window_size(self) -> None:
        if not self._window_from_first:
            return
        with self._profiler.event("waitAndReceiveData"):
            size = self._link.receive_number()
        known = self._clock.window_seconds
        if known is not None and self.is_implicit and not self.has_converged and size != known:
            raise CouplingError(
                f"expected the time window size {known:g} of the first iteration again, found {size:g}: the first "
                "participant has to repeat its time step in every iteration"
            )
        self._next_window_seconds = size


class MultiScheme(Scheme):
    """Any number of participants compute the same time window at the same time.

    The controller receives from all, judges the iteration, accelerates all data and sends to all. ``partners`` are the
    participants of the scheme that this one has an m2n with.
    """

    def __init__(self, *, controller: str, partners: Sequence[str], **others: Any) -> None:
        super().__init__(**others)
        self._controller = controller
        self._partners = sorted(partners)

    @property
    def partners(self) -> list[str]:
        """Whom this scheme talks to."""
        return self._partners

    def _exchange_initial(self) -> None:
        if self.first:
            self._send_all(initial=True)
            self._receive_all(initial=True)
        else:
            self._receive_all(initial=True)
            self._send_all(initial=True)

    def _exchange_first(self) -> None:
        if self.first:
            self._send_all()
        else:
            self._receive_all()

    def _exchange_second(self) -> None:
        if self.first:
            self.has_converged = self._links[self._controller].receive_convergence()
            self._receive_all()
        else:
            self._iterate()
            for partner in self._partners:
                self._links[partner].send_convergence(self.has_converged)
            self._send_all()
        if self.has_converged:
            self._move_to_next_window()
        self._store_iteration()

    def _send_all(self, *, initial: bool = False) -> None:
        for partner, sent in _of_interest(self._sends, initial):
            self._links[partner].send(sent)

    def _receive_all(self, *, initial: bool = False) -> None:
        for partner, received in _of_interest(self._receives, initial):
            self._links[partner].receive(received, self.time)


def _of_interest(
    exchanged: Mapping[str, Sequence[CouplingData]], initial: bool
) -> list[tuple[str, Sequence[CouplingData]]]:
    return [
        (partner, data)
        for partner, data in sorted(exchanged.items())
        if data and (not initial or any(one.initialize for one in data))
    ]
