"""A live view of a running simulation through the files that it writes: read only, from any process or node."""

from __future__ import annotations

from precice_lb.watch.observer import Observer, watch_run
from precice_lb.watch.snapshot import ParticipantState, Resplit, Snapshot

__all__ = ["Observer", "ParticipantState", "Resplit", "Snapshot", "watch_run"]
