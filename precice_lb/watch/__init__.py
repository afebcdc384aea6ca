"""A live view of a running simulation through the files that it writes: read only, from any process or node."""

from __future__ import annotations

from precice_lb.watch.observer import Observer, watch_run
from precice_lb.watch.snapshot import Snapshot

__all__ = ["Observer", "Snapshot", "watch_run"]
