"""What sets the window time, in words."""

from __future__ import annotations

from collections.abc import Mapping

from precice_lb.schedule.schedule import Schedule

__all__ = ["explain"]


def explain(schedule: Schedule, costs: Mapping[str, float]) -> str:
    """Say in one line what sets the window time and who waits for how long.

    Parameters
    ----------
    schedule : Schedule
        The coupling.
    costs : mapping from participant to float
        Compute seconds per window.

    Returns
    -------
    str
        Such as "Fluid → Solid → Fluid, 0.41 s; Solid waits 0.09 s per window": the critical cycle with the steady
        window time, then waits of more than a thousandth of it, the longest first.

    Raises
    ------
    ScheduleError
        As `Schedule.critical_cycle`.
    """
    cycle = schedule.critical_cycle(costs)
    seconds = float(schedule.window_seconds(costs))
    path = " → ".join([*cycle, cycle[0]] if len(cycle) > 1 else [f"{name} alone" for name in cycle])
    waits = sorted(((float(wait), name) for name, wait in schedule.waits(costs).items()), reverse=True)
    waiting = [f"{name} waits {wait:.3g} s" for wait, name in waits if wait > 1e-3 * seconds]
    return f"{path}, {seconds:.3g} s; {', '.join(waiting) or 'nobody waits'} per window"
