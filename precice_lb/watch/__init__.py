"""A live view of a running simulation through the files that it writes: read only, from any process or node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from precice_lb.rooms import lazily

if TYPE_CHECKING:
    from precice_lb.watch.observer import Observer, watch_run
    from precice_lb.watch.snapshot import Snapshot

__all__ = ["Observer", "Snapshot", "watch_run"]

__getattr__ = lazily(__name__, observer=__all__, snapshot=__all__, view=("watch_blocks",))
