"""One data field that a coupling scheme exchanges (preCICE's ``cplscheme/CouplingData.cpp``)."""

from __future__ import annotations

from precice_lb.embedded.mesh import Field
from precice_lb.embedded.waveform import Waveform

__all__ = ["CouplingData"]


class CouplingData:
    """A field with how it is exchanged and what it was in the last coupling iteration.

    Parameters
    ----------
    field
        The field.
    number
        Rank in the order in which preCICE numbers data: that of meshes and their ``<use-data>`` in the configuration.
    is_sent
        Whether this participant sends it; otherwise it receives it.
    substeps
        Whether all samples of a time window are exchanged, or only the last one.
    initialize
        Whether it is exchanged in ``initialize`` as well.
    """

    def __init__(self, field: Field, number: int, *, is_sent: bool, substeps: bool, initialize: bool) -> None:
        self.field = field
        self.number = number
        self.is_sent = is_sent
        self.substeps = substeps
        self.initialize = initialize
        self.previous: Waveform = field.waveform.copy()

    def store_iteration(self) -> None:
        """Remember the samples for the next iteration."""
        self.previous = self.field.waveform.copy()

    def move_to_next_window(self) -> None:
        """Forget all samples but the one at the end of the time window: the next one starts with it."""
        self.field.waveform.clear_except_last()
        self.previous = self.field.waveform.copy()
