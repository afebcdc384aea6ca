"""What a solver asks about the state of the coupling."""

from __future__ import annotations

from precice_lb.embedded.access import Access, State
from precice_lb.embedded.coupling import Action
from precice_lb.embedded.errors import CouplingError

__all__ = ["Status"]


class Status(Access):
    """Base of `Participant`."""

    def is_coupling_ongoing(self) -> bool:
        """Whether there is anything left to simulate."""
        self._require_initialized("is_coupling_ongoing")
        return self._parts.coupling.is_ongoing

    def is_time_window_complete(self) -> bool:
        """Whether the last `advance` completed a time window."""
        self._require_initialized("is_time_window_complete")
        return self._parts.coupling.window_complete

    def get_max_time_step_size(self) -> float:
        """Largest time step that stays in this time window (simulated seconds); 0 after the end."""
        self._require_initialized("get_max_time_step_size")
        return self._parts.coupling.max_step

    def requires_initial_data(self) -> bool:
        """Whether the solver must write initial data before `initialize`."""
        if self._state is not State.CONSTRUCTED:
            raise CouplingError("requires_initial_data() has to be called before initialize()")
        return self._parts.coupling.fulfill(Action.INITIALIZE_DATA)

    def requires_writing_checkpoint(self) -> bool:
        """Whether the solver must save its state: at the start of each time window of an implicit scheme."""
        self._require_initialized("requires_writing_checkpoint")
        return self._parts.coupling.fulfill(Action.WRITE_CHECKPOINT)

    def requires_reading_checkpoint(self) -> bool:
        """Whether the solver must go back to its saved state: the time window is repeated."""
        self._require_initialized("requires_reading_checkpoint")
        return self._parts.coupling.fulfill(Action.READ_CHECKPOINT)
