"""When which fields are exchanged: explicit coupling schemes, in preCICE's program order.

As preCICE's ``cplscheme/BaseCouplingScheme.cpp``, ``SerialCouplingScheme.cpp``, ``ParallelCouplingScheme.cpp`` and, for
several schemes at one participant, ``CompositionalCouplingScheme.cpp``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from precice_lb.embedded.clock import TOLERANCE, Clock
from precice_lb.embedded.errors import CouplingError
from precice_lb.embedded.m2n import Link
from precice_lb.embedded.mesh import Field

__all__ = ["Composition", "ParallelExplicit", "Scheme", "SerialExplicit"]


class Scheme(ABC):
    """One participant's side of the coupling with one partner.

    Parameters
    ----------
    first
        Whether this participant is the first of the two.
    window_seconds
        Time window size (simulated seconds).
    max_time, max_windows
        Ends of the simulation (simulated seconds, number of time windows); None where there is none.
    sends, receives
        Fields to exchange.
    sends_initial, receives_initial
        Whether the fields of that direction are exchanged in ``initialize`` as well.
    """

    def __init__(
        self,
        *,
        first: bool,
        window_seconds: float,
        max_time: float | None,
        max_windows: int | None,
        sends: Sequence[Field],
        receives: Sequence[Field],
        sends_initial: bool,
        receives_initial: bool,
    ) -> None:
        self.first = first
        self.sends_initial = sends_initial
        self.window_complete = False
        self._clock = Clock(window_seconds, max_time)
        self._max_windows = max_windows
        self._window = 1
        self._sends = sends
        self._receives = receives
        self._receives_initial = receives_initial

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

    def add_step(self, seconds: float) -> bool:
        """Step forward by what the solver computed; True at the end of the time window.

        Raises
        ------
        CouplingError
            If the step leaves the time window.
        """
        if self.max_step - seconds < -TOLERANCE:
            raise CouplingError(
                f"expected a time step of at most {self.max_step:g} in advance(), found {seconds:g}, which exceeds "
                "what is left of this time window: let the solver take dt = min(solver_dt, get_max_time_step_size())"
            )
        self._clock.progress_by(seconds)
        return self._clock.at_window_end

    def stay_in_window(self) -> None:
        """Do what ``advance`` does for a step that does not end the time window."""
        self.window_complete = False

    def first_exchange(self, link: Link) -> None:
        """First phase of the ``advance`` that ends a time window."""
        self.window_complete = False
        self._window += 1
        self._exchange_first(link)

    def second_exchange(self, link: Link) -> None:
        """Second phase of it: afterwards the next time window has begun."""
        self._exchange_second(link)
        self.window_complete = True
        self._clock.complete_window()

    @abstractmethod
    def initialize(self, link: Link) -> None:
        """Exchange what ``initialize`` exchanges."""

    @abstractmethod
    def _exchange_first(self, link: Link) -> None: ...

    @abstractmethod
    def _exchange_second(self, link: Link) -> None: ...

    def _start_from_zero(self) -> None:
        for field in self._receives:
            field.waveform.put(self.time, np.zeros((field.vertices, field.components)))

    def _send_initial(self, link: Link) -> None:
        if self.sends_initial:
            link.send(self._sends)

    def _receive_initial(self, link: Link) -> None:
        if self._receives_initial:
            link.receive(self._receives, self.time)


class ParallelExplicit(Scheme):
    """Both participants compute the same time window at the same time, with the partner's data of the last one."""

    def initialize(self, link: Link) -> None:
        """Exchange initial data; the first participant sends before it receives."""
        self._start_from_zero()
        if self.first:
            self._send_initial(link)
            self._receive_initial(link)
        else:
            self._receive_initial(link)
            self._send_initial(link)

    def _exchange_first(self, link: Link) -> None:
        if self.first:
            link.send(self._sends)
        else:
            link.receive(self._receives, self.time)

    def _exchange_second(self, link: Link) -> None:
        if self.first:
            link.receive(self._receives, self.time)
        else:
            link.send(self._sends)


class SerialExplicit(Scheme):
    """The second participant computes a time window after the first, with the first's data at its end.

    The second participant therefore has the data at both ends of its time window, and reads between them what the
    waveform makes of it.
    """

    def initialize(self, link: Link) -> None:
        """Exchange initial data; the second participant also waits for the first one's first time window."""
        self._start_from_zero()
        if self.first:
            self._receive_initial(link)
            self._send_initial(link)
        else:
            self._send_initial(link)
            self._receive_initial(link)
            link.receive(self._receives, self._clock.one_window_ahead)

    def _exchange_first(self, link: Link) -> None:
        link.send(self._sends)

    def _exchange_second(self, link: Link) -> None:
        if self.first:
            link.receive(self._receives, self.time)
        elif self.is_ongoing:
            # The size of a whole window even where max-time cuts the next one short: so does preCICE.
            link.receive(self._receives, self._clock.one_window_ahead)


class Composition:
    """All schemes of one participant, in the order of the configuration.

    Parameters
    ----------
    schemes
        Pairs of a partner's name and the scheme with it; all with the same time windows and end.
    """

    def __init__(self, schemes: Sequence[tuple[str, Scheme]]) -> None:
        self._schemes = [scheme for _, scheme in schemes]
        self._partners = [partner for partner, _ in schemes]
        self._links: list[Link] = []

    @property
    def needs_initial_data(self) -> bool:
        """Whether the solver must write initial data."""
        return any(scheme.sends_initial for scheme in self._schemes)

    @property
    def time(self) -> float:
        """Current simulated time."""
        return self._schemes[0].time

    @property
    def window_start(self) -> float:
        """Simulated time at which the current time window starts."""
        return min(scheme.window_start for scheme in self._schemes)

    @property
    def is_ongoing(self) -> bool:
        """Whether there is anything left to simulate."""
        return self._schemes[0].is_ongoing

    @property
    def window_complete(self) -> bool:
        """Whether the last ``advance`` completed a time window."""
        return any(scheme.window_complete for scheme in self._schemes)

    @property
    def max_step(self) -> float:
        """Largest step that stays in this time window (simulated seconds)."""
        return min(scheme.max_step for scheme in self._schemes)

    def initialize(self, links: dict[str, Link]) -> None:
        """Exchange initial data with each partner in turn."""
        self._links = [links[partner] for partner in self._partners]
        for scheme, link in zip(self._schemes, self._links, strict=True):
            scheme.initialize(link)

    def add_step(self, seconds: float) -> bool:
        """Step forward; True at the end of the time window."""
        ends = [scheme.add_step(seconds) for scheme in self._schemes]
        return any(ends)

    def stay_in_window(self) -> None:
        """Do what ``advance`` does for a step that does not end the time window."""
        for scheme in self._schemes:
            scheme.stay_in_window()

    def exchange(self) -> None:
        """Exchange what ``advance`` exchanges: the first phase of all schemes, then the second of all."""
        for scheme, link in zip(self._schemes, self._links, strict=True):
            scheme.first_exchange(link)
        for scheme, link in zip(self._schemes, self._links, strict=True):
            scheme.second_exchange(link)
