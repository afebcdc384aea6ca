"""Time inside and across time windows, as preCICE counts it.

The same sums in the same order as ``cplscheme/impl/TimeHandler.cpp`` and ``utils/DoubleAggregator.hpp`` (Kahan
summation), so that ends of windows fall on the same time step, rounding included.
"""

from __future__ import annotations

import copy
import sys

__all__ = ["TOLERANCE", "Clock"]

#: Two times closer than this (seconds) are the same: preCICE's ``math::NUMERICAL_ZERO_DIFFERENCE``.
TOLERANCE = 1e-14


class _KahanSum:
    """W. Kahan, Further remarks on reducing truncation errors, Comm. ACM 8 (1965) 40."""

    def __init__(self, value: float = 0.0) -> None:
        self.value = 0.0
        self._compensation = 0.0
        self.add(value)

    def add(self, value: float) -> None:
        corrected = value - self._compensation
        total = self.value + corrected
        self._compensation = (total - self.value) - corrected
        self.value = total

    def plus(self, value: float) -> _KahanSum:
        result = copy.copy(self)
        result.add(value)
        return result


class Clock:
    """Start of the current time window and progress in it (simulated seconds), cut off at the end of the simulation.

    ``window_seconds`` may be set; it is None at the participant whose steps are the time windows. ``max_time`` is None
    if only the number of windows ends the simulation.
    """

    def __init__(self, window_seconds: float | None, max_time: float | None) -> None:
        self.window_seconds = window_seconds
        self._max_time = max_time
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
    def progress(self) -> float:
        """Simulated seconds since the time window has started."""
        return self._progress.value

    def ahead(self, window_seconds: float) -> float:
        """Return the simulated time a whole time window from now, even past the end of the simulation."""
        return self._start.plus(self._progress.plus(window_seconds).value).value

    @property
    def until_window_end(self) -> float:
        """Simulated seconds left in this time window, which the end of the simulation may cut short."""
        if self.window_seconds is None:
            return self._until_end
        return min(-self._progress.plus(-self.window_seconds).value, self._until_end)

    @property
    def _until_end(self) -> float:
        if self._max_time is None:
            return sys.float_info.max
        return -self._start.plus(self._progress.value).plus(-self._max_time).value

    @property
    def at_window_end(self) -> bool:
        """Whether the time window is done: after every step of the participant whose steps are the time windows."""
        return self.window_seconds is None or abs(self.until_window_end) <= TOLERANCE

    @property
    def at_end(self) -> bool:
        """Whether the simulation is done, as far as time ends it."""
        return self._max_time is not None and abs(self._until_end) <= TOLERANCE

    def progress_by(self, seconds: float) -> None:
        """Step forward inside the time window."""
        self._progress.add(seconds)

    def complete_window(self) -> None:
        """Move on to the next time window."""
        size = self.window_seconds
        whole = size is not None and abs(self._progress.value - size) <= TOLERANCE
        self._start.add(size if size is not None and whole else self._progress.value)
        self._progress = _KahanSum()

    def repeat_window(self) -> None:
        """Go back to the start of the time window, for another coupling iteration."""
        self._progress = _KahanSum()
