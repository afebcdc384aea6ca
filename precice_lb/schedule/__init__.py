"""From the coupling to seconds per time window."""

from __future__ import annotations

from precice_lb.schedule.recorded import cycle_windows, explain, recorded_traces
from precice_lb.schedule.replay import replay_residuals
from precice_lb.schedule.schedule import Schedule
from precice_lb.schedule.traces import AutomaticPredictor, Point, Trace, schedule_of_traces

__all__ = [
    "AutomaticPredictor",
    "Point",
    "Schedule",
    "Trace",
    "cycle_windows",
    "explain",
    "recorded_traces",
    "replay_residuals",
    "schedule_of_traces",
]
