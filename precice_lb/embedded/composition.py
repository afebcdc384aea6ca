"""All coupling schemes of one participant: explicit ones together, and an implicit one that they wait for.

preCICE's ``cplscheme/CompositionalCouplingScheme.cpp``.
"""

from __future__ import annotations

from collections.abc import Sequence

from precice_lb.embedded.coupling import Action, Scheme
from precice_lb.embedded.coupling_data import CouplingData
from precice_lb.embedded.m2n import Links

__all__ = ["Composition"]


class Composition:
    """The schemes, in the order of the configuration; at most one of them is implicit.

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

    @property
    def _active(self) -> list[Scheme]:
        return [self._implicit] if self._on_hold and self._implicit else self._schemes

    @property
    def time(self) -> float:
        """Current simulated time; while iterating, that of the implicit scheme."""
        return self._leading.time

    @property
    def window_start(self) -> float:
        """Simulated time at which the earliest current time window starts."""
        return min(scheme.window_start for scheme in self._schemes)

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

    @property
    def sends_substeps(self) -> bool:
        """Whether any data is sent with all its samples of a time window."""
        return any(scheme.sends_substeps for scheme in self._schemes)

    def repeated_data(self) -> dict[CouplingData, bool]:
        """Return the data that comes anew in every iteration, and whether its sample at the window's start stays."""
        return self._implicit.repeated_data() if self._implicit else {}

    def is_required(self, action: Action) -> bool:
        """Whether the solver has to do something, whether or not it has already asked for it."""
        return any(action in scheme.required for scheme in self._active)

    def is_fulfilled(self, action: Action) -> bool:
        """Whether the solver has asked for what it has to do."""
        return any(action in scheme.fulfilled for scheme in self._active)

    def fulfill(self, action: Action) -> bool:
        """Take note that the solver has asked for an action; True if it has to do it."""
        required = self.is_required(action)
        for scheme in self._active:
            if action in scheme.required:
                scheme.fulfilled.add(action)
        return required

    def initialize(self, links: Links) -> None:
        """Exchange initial data in each scheme in turn."""
        for scheme in self._schemes:
            scheme.initialize(links)

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
        if self._implicit is None:
            self._exchange_explicit()
            return
        self._implicit.first_exchange()
        if not self._on_hold:
            for scheme in self._explicit:
                scheme.first_exchange()
        self._implicit.second_exchange()
        if not self._explicit or self._implicit.time < self._explicit[0].time:
            return
        self._exchange_explicit()
        self._on_hold = False

    def _exchange_explicit(self) -> None:
        for scheme in self._explicit:
            scheme.first_exchange()
        for scheme in self._explicit:
            scheme.second_exchange()
