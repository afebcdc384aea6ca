"""Two participants that never work at the same time: what their work and transfer sum to."""

from __future__ import annotations

import numpy as np

from precice_lb.dataset.participants import ParticipantTimes, move_to_wait, steady_iterations

__all__ = ["settle_serial_pair"]

# Work that sums to more than a serial iteration by less than this share is noise and transfer.
HIDDEN_SHARE = 0.02


def settle_serial_pair(first: ParticipantTimes, second: ParticipantTimes, warmup: int) -> float:
    """Let the work of two participants of a serial scheme sum to their iterations; return the seconds of one transfer.

    While one of them works, the other one does nothing but wait. What the wait lasts longer than that work is transfer.
    Where they share a core it lasts shorter: the one that sends is put aside as soon as its partner wakes up, so that
    its wait hides in ``waitAndSendData`` and looks like overhead. It is seen by what cannot be, work that sums to more
    than the iteration; what is too much is taken off the overhead of both, in proportion, never more than there is, and
    counts as waiting.
    """
    if not np.array_equal(first.layout.iterations, second.layout.iterations):
        return 0.0
    # The first participant waits for the second one's work of the same iteration.
    excess = second.busy - first.wait
    steady = steady_iterations(first.layout, warmup) & np.isfinite(excess)
    if not steady.any():
        return 0.0
    typical = float(np.median(excess[steady]))
    if not typical > HIDDEN_SHARE * float(np.median((first.busy + first.wait)[steady])):
        return max(-typical, 0.0) / 2
    both = first.overhead + second.overhead
    share = np.divide(np.clip(excess, 0.0, both), both, out=np.zeros_like(both), where=both > 0)
    for times in (first, second):
        hidden = np.where(np.isfinite(share), share, 0.0) * np.nan_to_num(times.overhead)
        times.busy = times.busy - hidden
        times.wait = times.wait + hidden
        times.hidden = float(np.median(hidden[steady]))
        move_to_wait(times, hidden, warmup)
    return 0.0
