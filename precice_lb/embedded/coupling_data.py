"""One data field that a coupling scheme exchanges (preCICE's ``cplscheme/CouplingData.cpp``)."""

from __future__ import annotations

import dataclasses

from precice_lb.embedded.mesh import Field
from precice_lb.embedded.waveform import Waveform

__all__ = ["CouplingData"]


@dataclasses.dataclass(eq=False)
class CouplingData:
    """A field with how it is exchanged (all samples or the last, also initially) and its last coupling iteration.

    ``number`` is its rank in the order in which preCICE numbers data: that of meshes and their ``<use-data>``.
    """

    field: Field
    number: int
    substeps: bool
    initialize: bool
    previous: Waveform = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.store_iteration()

    def store_iteration(self) -> None:
        """Remember the samples for the next iteration."""
        self.previous = self.field.waveform.copy()

    def move_to_next_window(self) -> None:
        """Forget all samples but the one at the end of the time window: the next one starts with it."""
        self.field.waveform.clear_except_last()
        self.store_iteration()
