"""Couplings as callers name them, and what sets the window time, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from precice_lb.exceptions import ScheduleError
from precice_lb.schedule.schedule import Schedule

Coupling = str | Path | Schedule


def schedule_of(coupling: Coupling, names: Sequence[str]) -> Schedule:
    """Make a schedule of a standard name for these participants, of the path of a configuration, or of a schedule."""
    if isinstance(coupling, Schedule):
        return coupling
    if coupling in ("parallel", "serial"):
        return Schedule.parallel(names) if coupling == "parallel" else Schedule.serial(names)
    if not isinstance(coupling, str | Path) or not Path(coupling).is_file():
        raise ScheduleError(
            f'expected the coupling as "parallel", "serial" or the path of a configuration, found {coupling!r:.200}'
        )
    return Schedule.from_config(coupling)


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
