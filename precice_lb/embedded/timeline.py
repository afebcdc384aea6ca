"""Simulated time: where a participant is in its time windows, values between samples; and errors of failed calls.

preCICE's ``cplscheme/impl/TimeHandler.cpp`` and ``utils/DoubleAggregator.hpp``, ``time/Waveform.cpp`` and, for degrees
above 1, ``math/Bspline.cpp``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import BackendError, UnsupportedConfigurationError

Array = NDArray[np.float64]

#: Two times closer than this (seconds) are the same: preCICE's ``math::NUMERICAL_ZERO_DIFFERENCE``.
TOLERANCE = 1e-14


class _KahanSum(NamedTuple):
    """W. Kahan, Further remarks on reducing truncation errors, Comm. ACM 8 (1965) 40.

    Ends of windows then fall on the same time step as in preCICE, rounding included.
    """

    value: float = 0.0
    compensation: float = 0.0

    def plus(self, value: float) -> _KahanSum:
        corrected = value - self.compensation
        total = self.value + corrected
        return _KahanSum(total, (total - self.value) - corrected)


class Clock:
    """Start of the current time window and progress in it (simulated seconds), cut off at the end of the simulation.

    Without `max_time` only the number of windows ends the simulation.
    """

    def __init__(self, window_seconds: float, max_time: float | None) -> None:
        self._window_seconds = window_seconds
        self._max_time = sys.float_info.max if max_time is None else max_time
        self._start = _KahanSum()
        self._progress = _KahanSum()

    @property
    def time(self) -> float:
        """Current simulated time."""
        return self._start.plus(self._progress.value).value

    @property
    def window_start(self) -> float:
        """Simulated time at which the current time window starts."""
        return self._start.value

    @property
    def ahead(self) -> float:
        """The simulated time a whole time window from now, even past the end of the simulation, as in preCICE."""
        return self._start.plus(self._progress.plus(self._window_seconds).value).value

    @property
    def until_window_end(self) -> float:
        """Simulated seconds left in this time window, which the end of the simulation may cut short."""
        return min(-self._progress.plus(-self._window_seconds).value, self._until_end)

    @property
    def _until_end(self) -> float:
        return -self._start.plus(self._progress.value).plus(-self._max_time).value

    @property
    def at_window_end(self) -> bool:
        """Whether the time window is done."""
        return abs(self.until_window_end) <= TOLERANCE

    @property
    def at_end(self) -> bool:
        """Whether the simulation is done, as far as time ends it."""
        return abs(self._until_end) <= TOLERANCE

    def progress_by(self, seconds: float) -> None:
        """Step forward inside the time window."""
        self._progress = self._progress.plus(seconds)

    def complete_window(self) -> None:
        """Move on to the next time window."""
        is_whole = abs(self._progress.value - self._window_seconds) <= TOLERANCE
        self._start = self._start.plus(self._window_seconds if is_whole else self._progress.value)
        self._progress = _KahanSum()

    def repeat_window(self) -> None:
        """Go back to the start of the time window, for another coupling iteration."""
        self._progress = _KahanSum()


class Waveform:
    """Samples in time, and a spline in between: constant (degree 0) to cubic, at most one less than samples."""

    def __init__(self, degree: int) -> None:
        self._degree = degree
        #: Times, rising (simulated seconds), with their samples; no sample is ever changed in place.
        self.samples: tuple[tuple[float, Array], ...] = ()
        self._spline: Any = None

    def __len__(self) -> int:
        return len(self.samples)

    @property
    def last(self) -> Array:
        """The latest sample."""
        return self.samples[-1][1]

    @property
    def times(self) -> list[float]:
        """Times of all samples, rising (simulated seconds)."""
        return [time for time, _ in self.samples]

    def put(self, time: float, sample: Array) -> None:
        """Store a sample, shape (vertices, components), in place of one at the same time."""
        time = next((known for known in self.times if abs(known - time) <= TOLERANCE), time)
        self._keep({**dict(self.samples), time: sample}.items())

    def clear(self) -> None:
        """Forget all samples."""
        self._keep(())

    def clear_except_last(self) -> None:
        """Forget all samples but the latest: the next time window starts with it."""
        self._keep(self.samples[-1:])

    def trim_before(self, time: float) -> None:
        """Forget samples before a time."""
        self._keep(one for one in self.samples if one[0] - time >= -TOLERANCE)

    def trim_after(self, time: float) -> None:
        """Forget samples after a time."""
        self._keep(one for one in self.samples if one[0] - time <= TOLERANCE)

    def _keep(self, samples: Iterable[tuple[float, Array]]) -> None:
        self.samples = tuple(samples)
        self._spline = None

    def at(self, time: float) -> Array:
        """Values at a time, shape (vertices, components), not to be changed; outside the samples the nearest one."""
        times, degree = self.times, min(self._degree, len(self) - 1)
        after = next((i for i, known in enumerate(times) if known - time >= -TOLERANCE), len(times) - 1)
        sample = self.samples[after][1]
        if after == 0 or degree == 0 or abs(times[after] - time) <= TOLERANCE:
            return sample
        begin = times[after - 1 if degree == 1 else 0]
        weight = min((time - begin) / (times[after if degree == 1 else -1] - begin), 1.0)
        if degree == 1:
            return (1.0 - weight) * self.samples[after - 1][1] + weight * sample
        if self._spline is None:
            self._spline = _interpolation(np.array(times), np.stack([one for _, one in self.samples]), degree)
        result: Array = self._spline(weight)
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


class CouplingError(BackendError, RuntimeError):
    """A call that preCICE would refuse, or a partner that is lost.

    pyprecice turns every error of preCICE into a ``RuntimeError``: solvers that catch it catch this one as well.
    """


class ShapeError(CouplingError, AssertionError):
    """An array of another shape than the call takes; pyprecice asserts it."""


class RefusedConfigurationError(UnsupportedConfigurationError, RuntimeError):
    """A configuration that preCICE or this backend refuses: pyprecice's error of one is a ``RuntimeError``, too."""
