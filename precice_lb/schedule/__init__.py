"""From the coupling to seconds per time window."""

from __future__ import annotations

from precice_lb.schedule.graph import replay_residuals
from precice_lb.schedule.schedule import Schedule
from precice_lb.schedule.traces import (
    AutomaticPredictor,
    Point,
    Trace,
    cycle_windows,
    recorded_traces,
    schedule_of_traces,
)

__all__ = [
    "AutomaticPredictor",
    "Point",
    "Schedule",
    "Trace",
    "cycle_windows",
    "recorded_traces",
    "replay_residuals",
    "schedule_of_traces",
]
