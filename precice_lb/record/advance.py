"""The call that recording makes slower: ``advance`` of a recorded participant, in as few steps as possible.

After a wait for a partner the caches are cold, and every look-up of an attribute costs a multiple of what it costs in a
loop. So everything it needs is a variable of its own, and all that can wait is done at the flush.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from precice_lb.record.recorder import Recorder


def timed_advance(
    base: Any, recorder: Recorder, base_advance: Callable[[Any, Any], Any] | None = None
) -> Callable[[Any, Any], Any]:
    """Make the ``advance`` of one participant, of the backend's class ``base`` or what stands around that's."""
    base_advance = base.advance if base_advance is None else base_advance
    base_is_complete = base.is_time_window_complete
    clock, cpu, real = time.perf_counter_ns, time.process_time_ns, float
    take = recorder.take
    left = 1

    # Nothing is caught here: it would be the exception of a signal handler, which is the solver's.
    def advance(self: Any, computed_timestep_length: Any) -> Any:
        nonlocal left
        dt = computed_timestep_length
        cpu_begin = cpu()
        begin = clock()
        result = base_advance(self, dt)
        # The clock comes first. What is no float may be changed by the solver before the flush.
        end = clock()
        complete = base_is_complete(self)
        take((begin, end, dt if dt.__class__ is real else real(dt), complete, cpu_begin, cpu()))
        if complete:
            left -= 1
            if left <= 0:
                left = recorder.flush_due()
        else:
            recorder.stayed()
        return result

    return advance
