"""Values of one data field at a few points in time, and what lies between them.

preCICE's ``time/Waveform.cpp`` and, for degrees above 1, ``math/Bspline.cpp``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.embedded.clock import TOLERANCE

__all__ = ["Waveform"]

Array = NDArray[np.float64]


class Waveform:
    """Samples in time, and a spline in between: constant (degree 0) to cubic, at most one less than samples."""

    def __init__(self, degree: int) -> None:
        self._degree = degree
        self._times: list[float] = []
        self._samples: list[Array] = []
        self._spline: Any = None

    def __len__(self) -> int:
        return len(self._times)

    @property
    def last(self) -> Array:
        """The latest sample."""
        return self._samples[-1]

    @property
    def times(self) -> list[float]:
        """Times of all samples, rising (simulated seconds)."""
        return list(self._times)

    def samples(self) -> list[tuple[float, Array]]:
        """All samples with their times."""
        return list(zip(self._times, self._samples, strict=True))

    def copy(self) -> Waveform:
        """Return a waveform of the same samples, which are shared: no sample is ever changed in place."""
        other = Waveform(self._degree)
        other._times, other._samples, other._spline = list(self._times), list(self._samples), self._spline
        return other

    def has(self, time: float) -> bool:
        """Whether there is a sample at this time."""
        return any(abs(known - time) <= TOLERANCE for known in self._times)

    def put(self, time: float, sample: Array) -> None:
        """Store a sample, shape (vertices, components), in place of one at the same time."""
        self._spline = None
        for position, known in enumerate(self._times):
            if abs(known - time) <= TOLERANCE:
                self._samples[position] = sample
                return
        self._times.append(time)
        self._samples.append(sample)

    def clear(self) -> None:
        """Forget all samples."""
        self._keep(len(self._times), len(self._times))

    def clear_except_last(self) -> None:
        """Forget all samples but the latest: the next time window starts with it."""
        self._keep(max(len(self._times) - 1, 0), len(self._times))

    def trim_before(self, time: float) -> None:
        """Forget samples before a time."""
        self._keep(sum(known - time < -TOLERANCE for known in self._times), len(self._times))

    def trim_after(self, time: float) -> None:
        """Forget samples after a time."""
        self._keep(0, sum(known - time <= TOLERANCE for known in self._times))

    def _keep(self, first: int, end: int) -> None:
        self._times, self._samples = self._times[first:end], self._samples[first:end]
        self._spline = None

    def at(self, time: float) -> Array:
        """Values at a time, shape (vertices, components), not to be changed; outside the samples the nearest one."""
        degree = min(self._degree, len(self._times) - 1)
        after = next((i for i, known in enumerate(self._times) if known - time >= -TOLERANCE), len(self._times) - 1)
        if after == 0 or degree == 0 or abs(self._times[after] - time) <= TOLERANCE:
            return self._samples[after]
        if degree == 1:
            begin, end = self._times[after - 1], self._times[after]
            weight = min((time - begin) / (end - begin), 1.0)
            return (1.0 - weight) * self._samples[after - 1] + weight * self._samples[after]
        if self._spline is None:
            self._spline = _interpolation(np.array(self._times), np.stack(self._samples), degree)
        begin, end = self._times[0], self._times[-1]
        result: Array = self._spline(min((time - begin) / (end - begin), 1.0))
        return result


def _interpolation(times: Array, samples: Array, degree: int) -> Any:
    """B-spline through all samples over times scaled to [0, 1], its inner knots averages of `degree` times each.

    Knot averaging: de Boor, A Practical Guide to Splines (1978), chapter XIII.
    """
    # scipy costs a tenth of a second and more: only waveforms of a high degree pay for it.
    from scipy.interpolate import make_interp_spline

    scaled = (times - times[0]) / (times[-1] - times[0])
    inner = [scaled[j : j + degree].mean() for j in range(1, len(times) - degree)]
    knots = np.concatenate([np.zeros(degree + 1), inner, np.ones(degree + 1)])
    return make_interp_spline(scaled, samples, k=degree, t=knots)
