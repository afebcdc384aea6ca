"""Traces of one cycle of a coupling: meetings in preCICE's program order, and between them what was recorded.

Stores tell what a participant computed before each ``advance`` and how long it waited in it, not for whom: a rank
receives from several partners in one call. With whom it meets, and in which order, is what the exchanges of the
configuration say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from precice_lb.exceptions import ScheduleError
from precice_lb.precice_xml.config import Configuration
from precice_lb.precice_xml.period import period_of
from precice_lb.schedule.program import Operation, Program, check_supported, programs_of
from precice_lb.schedule.schedule import Schedule
from precice_lb.schedule.traces import Point, Trace


def cycle_windows(configuration: Configuration) -> dict[str, int]:
    """Count the time windows of each participant in one cycle.

    Parameters
    ----------
    configuration : Configuration
        What ``precice-config.xml`` says.

    Returns
    -------
    dict of str to int
        A cycle is the shortest simulated time at whose end the windows of all coupling schemes end together.

    Raises
    ------
    ScheduleError
        As of `Schedule.from_config`.
    """
    check_supported(configuration)
    return {name: len(ends) for name, ends in period_of(configuration).steps.items()}


def recorded_traces(
    configuration: Configuration, seconds: Mapping[str, ArrayLike], acceleration: Mapping[str, float] | None = None
) -> dict[str, Trace]:
    """Make traces of what participants computed in each coupling iteration of each window of a cycle.

    Parameters
    ----------
    configuration : Configuration
        With whom they meet, and in which order.
    seconds : mapping from participant to array of shape (windows of its cycle, coupling iterations)
        Computed without waiting.
    acceleration : mapping from participant to float, optional
        As of `Schedule.from_config`.

    Returns
    -------
    dict of str to Trace
        In the order of the configuration.

    Raises
    ------
    ScheduleError
        If a participant or one of its windows is missing, iterations within one scheme differ, or the coupling has no
        schedule.
    """
    tables = {
        name: np.asarray(seconds[name], dtype=np.float64) for name in configuration.participants if name in seconds
    }
    for name, windows in cycle_windows(configuration).items():
        found = tables[name].shape if name in tables else None
        if found is None or len(found) != 2 or found[0] != windows or not found[1]:
            raise ScheduleError(
                f"{configuration.path}: expected the seconds of {name} in {windows} time windows by iterations, the "
                f"cycle of its coupling, found {'none' if found is None else f'shape {found}'}"
            )
    iterations = {}
    for index, scheme in enumerate(configuration.coupling_schemes):
        counts = {name: tables[name].shape[1] for name in scheme.participants}
        if scheme.is_implicit and len(set(counts.values())) > 1:
            raise ScheduleError(
                f"{configuration.path}:{scheme.line}: expected as many iterations of all participants of a coupling "
                f"scheme, found {', '.join(f'{count} of {name}' for name, count in counts.items())}"
            )
        iterations[index] = counts[scheme.participants[0]]
    programs = programs_of(configuration, iterations, acceleration)
    return {name: _trace(program, tables[name]) for name, program in programs.items()}


def _trace(program: Program, seconds: NDArray[np.float64]) -> Trace:
    """Put recorded seconds in place of the shares of a program, whose iterations all have as many steps of work."""
    shares = np.array([step.share for step in program.window if step.kind == "work"]).reshape(*seconds.shape, -1)
    work = iter((seconds[..., np.newaxis] * shares / shares.sum(axis=-1, keepdims=True)).ravel().tolist())
    points, since = [], 0.0
    for step in program.window:
        if step.kind == "work":
            since += next(work)
        else:
            points.append(_point(step, since))
            since = 0.0
    return Trace(tuple(points), since, tuple(_point(step, 0.0) for step in program.initial))


def _point(step: Operation, seconds: float) -> Point:
    assert step.channel is not None
    assert step.kind != "work"
    partner = step.channel.target if step.kind == "send" else step.channel.source
    return Point(seconds, (partner,), step.kind)


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
