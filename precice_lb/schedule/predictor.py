"""The automatic performance predictor of Kim, Larson and Chiu (2013)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from precice_lb.exceptions import ScheduleError
from precice_lb.schedule.schedule import Schedule
from precice_lb.schedule.traces import Trace, schedule_of_traces

__all__ = ["AutomaticPredictor"]

Floats = NDArray[np.float64]


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
        fractions = {}
        for name, trace in self.traces.items():
            seconds = np.array([*(point.seconds for point in trace.points), trace.rest])
            fractions[name] = seconds / trace.seconds if trace.seconds > 0 else seconds
        return fractions

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
        if self.synchronized:
            one = {name: np.ones(1) for name in self.schedule.participants}
            return np.asarray(self.alpha * self.schedule.replay_seconds(seconds, one))
        return np.asarray(self.alpha * self.schedule.window_seconds(seconds))

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
        own = seconds if seconds is not None else {name: trace.seconds for name, trace in self.traces.items()}
        modelled = float(self.predict(own)) / self.alpha
        if not modelled > 0:
            raise ScheduleError("expected constituents that compute something, found none to fit alpha to")
        return AutomaticPredictor(self.traces, alpha=measured / modelled, synchronized=self.synchronized)
