"""Values of one data field at a few points in time, and what lies between them (preCICE's ``time/Waveform.cpp``)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from precice_lb.embedded.clock import TOLERANCE

__all__ = ["Waveform"]


class Waveform:
    """Samples in time, constant (degree 0) or linear (degree 1) in between.

    Parameters
    ----------
    degree
        ``waveform-degree`` of the data: 0 or 1.
    """

    def __init__(self, degree: int) -> None:
        self._degree = degree
        self._times: list[float] = []
        self._samples: list[NDArray[np.float64]] = []

    def __len__(self) -> int:
        return len(self._times)

    @property
    def last(self) -> NDArray[np.float64]:
        """The latest sample."""
        return self._samples[-1]

    def samples(self) -> list[tuple[float, NDArray[np.float64]]]:
        """All samples with their times."""
        return list(zip(self._times, self._samples, strict=True))

    def has(self, time: float) -> bool:
        """Whether there is a sample at this time."""
        return any(abs(known - time) <= TOLERANCE for known in self._times)

    def put(self, time: float, sample: NDArray[np.float64]) -> None:
        """Store a sample, shape (vertices, components), in place of one at the same time."""
        for position, known in enumerate(self._times):
            if abs(known - time) <= TOLERANCE:
                self._samples[position] = sample
                return
        self._times.append(time)
        self._samples.append(sample)

    def trim_before(self, time: float) -> None:
        """Forget samples before a time."""
        first = sum(known - time < -TOLERANCE for known in self._times)
        del self._times[:first], self._samples[:first]

    def at(self, time: float) -> NDArray[np.float64]:
        """Values at a time, shape (vertices, components); not to be changed by the caller.

        A time past the last sample gives the last one, a time before the first the first one.
        """
        after = next((i for i, known in enumerate(self._times) if known - time >= -TOLERANCE), len(self._times) - 1)
        if after == 0 or self._degree == 0 or abs(self._times[after] - time) <= TOLERANCE:
            return self._samples[after]
        begin, end = self._times[after - 1], self._times[after]
        weight = min((time - begin) / (end - begin), 1.0)
        return (1.0 - weight) * self._samples[after - 1] + weight * self._samples[after]
