"""The machine's other load: cores that programs which are not the campaign's keep busy while a run measures."""

from __future__ import annotations

import os
import time

import psutil

__all__ = ["NOTICEABLE", "OtherLoad"]

#: Cores of other load from which on a run may have measured it too.
NOTICEABLE = 0.25
# Below, the kernel's ticks are too coarse.
_SHORTEST_SECONDS = 0.5


class OtherLoad:
    """Measures from its creation on: the cores' busy time less that of this process and what it waited for.

    Time that a virtual machine's host gave to others counts as other load.
    """

    def __init__(self) -> None:
        self._began, self._busy, self._own = time.monotonic(), _busy_seconds(), _own_seconds()

    def cores(self) -> float | None:
        """Tell how many cores others kept busy in the mean, once every process started here has ended.

        None where it is not known: it cannot be read, or in less than half a second.
        """
        elapsed, busy = time.monotonic() - self._began, _busy_seconds()
        if busy is None or self._busy is None or elapsed < _SHORTEST_SECONDS:
            return None
        own = _own_seconds() - self._own
        return max(busy - self._busy - own, 0.0) / elapsed


def _busy_seconds() -> float | None:
    """Busy time of all cores since the start of the machine; None where it cannot be read."""
    try:
        times = psutil.cpu_times()
    except (OSError, ValueError):
        return None
    # Not all systems have all of them; guests are in what users took.
    return sum(getattr(times, name, 0.0) for name in ("user", "nice", "system", "irq", "softirq", "steal"))


def _own_seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
