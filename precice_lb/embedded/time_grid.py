"""The times at which a quasi-Newton acceleration looks at waveforms (preCICE's ``time/TimeGrids.cpp``)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from precice_lb.embedded.clock import TOLERANCE
from precice_lb.embedded.coupling_data import CouplingData

__all__ = ["TimeGrid"]

Array = NDArray[np.float64]


class TimeGrid:
    """Times of the first time window's samples, moved along with the window.

    Parameters
    ----------
    data
        Coupling data.
    reduced
        Whether only the last sample of each counts.
    """

    def __init__(self, data: Sequence[CouplingData], *, reduced: bool) -> None:
        self._data = data
        times = [np.array(one.field.waveform.times) for one in data]
        self._times = [grid[-1:] if reduced else grid for grid in times]

    def move_to_window(self) -> None:
        """Translate and scale the times to the current time window."""
        for number, (one, old) in enumerate(zip(self._data, self._times, strict=True)):
            new = np.array(one.field.waveform.times)
            if len(old) == 1:
                self._times[number] = new[-1:]
            else:
                self._times[number] = (old - old[0]) / (old[-1] - old[0]) * (new[-1] - new[0]) + new[0]

    def _after(self, window_start: float) -> list[tuple[CouplingData, Array]]:
        return [
            (one, times[times - window_start > TOLERANCE]) for one, times in zip(self._data, self._times, strict=True)
        ]

    def sizes(self, window_start: float) -> list[int]:
        """Entries of each data on this rank."""
        return [len(times) * one.field.vertices * one.field.components for one, times in self._after(window_start)]

    def values(self, window_start: float, *, previous: bool = False) -> Array:
        """All data at all times after the window's start as one vector; of the previous iteration if asked."""
        parts = [np.zeros(0)]
        for one, times in self._after(window_start):
            waveform = one.previous if previous else one.field.waveform
            parts += [waveform.at(time).ravel() for time in times]
        return np.concatenate(parts)

    def store(self, vector: Array, window_start: float) -> None:
        """Put a vector back as the samples of the data."""
        position = 0
        for one, times in self._after(window_start):
            waveform, size = one.field.waveform, one.field.vertices * one.field.components
            waveform.trim_after(window_start)
            for time in times:
                waveform.put(float(time), vector[position : position + size].reshape(-1, one.field.components))
                position += size
