"""Traces of one cycle of a coupling: meetings in preCICE's program order, and between them what was recorded.

Stores tell what a participant computed before each ``advance`` and how long it waited in it, not for whom: a rank
receives from several partners in one call. With whom it meets, and in which order, is what the exchanges of the
configuration say.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from precice_lb.exceptions import ScheduleError
from precice_lb.precice_xml.records import Configuration
from precice_lb.schedule.program import Operation, Program, check_supported, period_of, programs_of
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
    return Trace(tuple(points), since, tuple(_points(program.initial)))


def _points(steps: Iterable[Operation]) -> list[Point]:
    return [_point(step, 0.0) for step in steps if step.kind != "work"]


def _point(step: Operation, seconds: float) -> Point:
    assert step.channel is not None
    assert step.kind != "work"
    partner = step.channel.target if step.kind == "send" else step.channel.source
    return Point(seconds, (partner,), step.kind)
