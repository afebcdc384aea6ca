"""From the coupling to seconds per time window."""

from __future__ import annotations

from precice_lb.schedule.graph import replay_residuals
from precice_lb.schedule.schedule import Schedule
from precice_lb.schedule.traces import (
    AutomaticPredictor,
    Point,
    Trace,
    schedule_of_traces,
)

__all__ = [
    "AutomaticPredictor",
    "Point",
    "Schedule",
    "Trace",
    "replay_residuals",
    "schedule_of_traces",
]
