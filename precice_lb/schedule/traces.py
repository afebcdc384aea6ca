"""Couplings as traces of one cycle: synchronisation points, and what is computed between them.

Traces may be seen instead of a configuration, for couplings that preCICE does not describe, such as the hub of a
climate model. What a constituent computes between two points is a fixed part of all that it computes in a cycle (D.
Kim, J. W. Larson, K. Chiu, Automatic performance prediction for load-balancing coupled models, 2013, section IV: the
fractions theta of equations 8 and 9).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from precice_lb.case.coupling import Operation, Program, receives, sends
from precice_lb.exceptions import ScheduleError
from precice_lb.schedule.schedule import Schedule

_DATA, _END = 0, 1
Floats = NDArray[np.float64]


class Point(NamedTuple):
    """One synchronisation point of a constituent.

    Attributes
    ----------
    seconds : float
        Computed since the point before.
    partners : tuple of str
        With whom.
    kind : {"exchange", "send", "receive"}
        In an exchange both sides wait for each other, as with synchronous sends. A send alone never waits.
    """

    seconds: float
    partners: tuple[str, ...]
    kind: Literal["exchange", "send", "receive"] = "exchange"


@dataclass(frozen=True)
class Trace:
    """One coupling cycle of a constituent.

    Attributes
    ----------
    points : tuple of Point
        In the order of the program.
    rest : float
        Seconds computed after the last point.
    initial : tuple of Point
        Passed once, before the first cycle: a message that is received here is one that a cycle sends for the next.
    """

    points: tuple[Point, ...]
    rest: float = 0.0
    initial: tuple[Point, ...] = ()

    @property
    def seconds(self) -> float:
        """Computed in the whole cycle, without waiting."""
        return sum(point.seconds for point in self.points) + self.rest


def schedule_of_traces(traces: Mapping[str, Trace], *, synchronized: bool = False) -> Schedule:
    """Make a schedule of recorded traces: cycles take the place of time windows.

    Parameters
    ----------
    traces : mapping from constituent to Trace
        Of all constituents.
    synchronized : bool
        Whether all wait for each other at the end of a cycle (Kim, Larson and Chiu, equation 9). Without it
        constituents go on to their next cycle, as most couplings do.

    Returns
    -------
    Schedule
        Its costs are the seconds that each constituent computes per cycle.

    Raises
    ------
    ScheduleError
        If traces do not fit together, or would never end.
    """
    if not traces:
        raise ScheduleError("expected the trace of at least one constituent, found none")
    # The work of each is the fraction of the constituent's seconds per cycle.
    programs = {}
    for name, trace in traces.items():
        others = [other for other in traces if other != name]
        # A constituent that computes nothing has no fractions; any will do.
        scale = 1 / trace.seconds if trace.seconds > 0 else 0.0
        steps = [step for point in trace.points for step in _steps(name, point, scale, others)]
        steps.append(Operation("work", share=trace.rest * scale))
        if synchronized:
            steps += sends(_END, name, others) + receives(_END, name, others)
        programs[name] = Program([step for point in trace.initial for step in _steps(name, point, 0.0, others)], steps)
    return Schedule([(1.0, programs)], f"as traced: {', '.join(traces)}", dict.fromkeys(traces, 1.0))


def _steps(name: str, point: Point, scale: float, others: Sequence[str]) -> list[Operation]:
    """Work up to a point, and what is exchanged there."""
    if unknown := [partner for partner in point.partners if partner not in others]:
        raise ScheduleError(f'trace of "{name}": expected partners among the others traced, found "{unknown[0]}"')
    work = [Operation("work", share=point.seconds * scale)] if point.seconds * scale else []
    sent = [] if point.kind == "receive" else sends(_DATA, name, point.partners)
    return work + sent + ([] if point.kind == "send" else receives(_DATA, name, point.partners))


class AutomaticPredictor:
    """Cycle time of a coupled model from the seconds that each constituent computes, learned from one traced cycle.

    D. Kim, J. W. Larson, K. Chiu, Automatic performance prediction for load-balancing coupled models, 2013, section IV:
    what is computed between two synchronisation points is a fixed fraction theta of the constituent's seconds per
    cycle; equations 8 and 9 carry the completion time from point to point, everybody waiting for whom they meet, and a
    factor alpha (equations 10 and 11) takes up what the recursion leaves out.

    Parameters
    ----------
    traces : mapping from constituent to Trace
        One cycle of each.
    alpha : float
        Measured over modelled cycle time; see `calibrated`.
    synchronized : bool
        Whether all constituents wait for each other at the end of a cycle, as equation 9 says. Otherwise the steady
        state of cycle after cycle counts, which also covers constituents that begin and end their loops at different
        times (which the paper handles by moving seconds from one end of a loop to the other, figure 3).

    Attributes
    ----------
    schedule : Schedule
        The same coupling without alpha, for the search for a split.

    Raises
    ------
    ScheduleError
        If traces do not fit together, or if alpha is not positive.
    """

    def __init__(self, traces: Mapping[str, Trace], *, alpha: float = 1.0, synchronized: bool = True) -> None:
        if not (np.isfinite(alpha) and alpha > 0):
            raise ScheduleError(f"expected a positive alpha, measured over modelled cycle time, found {alpha:g}")
        self.traces = dict(traces)
        self.alpha = float(alpha)
        self.synchronized = synchronized
        self.schedule: Schedule = schedule_of_traces(self.traces, synchronized=synchronized)

    @cached_property
    def fractions(self) -> dict[str, Floats]:
        """Theta of equation 8: by constituent, the part of its seconds before each point and after the last; sum 1."""
        return {
            name: np.array([*(point.seconds for point in trace.points), trace.rest]) / (trace.seconds or 1.0)
            for name, trace in self.traces.items()
        }

    def predict(self, seconds: Mapping[str, ArrayLike]) -> Floats:
        """Cycle time by equation 11.

        Parameters
        ----------
        seconds : mapping from constituent to array
            Seconds that each computes per cycle, of shapes that are broadcast against each other.

        Returns
        -------
        ndarray
            Seconds per cycle, in the broadcast shape.

        Raises
        ------
        ScheduleError
            As `Schedule.window_seconds`.
        """
        return self.alpha * self.schedule.window_seconds(seconds)

    def calibrated(self, measured: float, seconds: Mapping[str, float] | None = None) -> AutomaticPredictor:
        """Fit alpha to one measured cycle (equation 10).

        Parameters
        ----------
        measured : float
            Seconds of a cycle.
        seconds : mapping from constituent to float, optional
            What each computed in it; by default what the traces say.

        Returns
        -------
        AutomaticPredictor
            With that alpha.

        Raises
        ------
        ScheduleError
            If nobody computes anything, or as `Schedule.window_seconds`.
        """
        computed = seconds if seconds is not None else {name: trace.seconds for name, trace in self.traces.items()}
        modelled = float(self.predict(computed)) / self.alpha
        if not modelled > 0:
            raise ScheduleError("expected constituents that compute something, found none to fit alpha to")
        return AutomaticPredictor(self.traces, alpha=measured / modelled, synchronized=self.synchronized)
