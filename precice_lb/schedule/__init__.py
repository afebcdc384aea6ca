"""From the coupling to seconds per time window."""

from __future__ import annotations

from precice_lb.schedule.schedule import Schedule

__all__ = ["Schedule"]
