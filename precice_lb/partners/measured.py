"""What starting up took in a run, from preCICE's own profiling files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from precice_lb.ingest.profiling.files import Header
from precice_lb.ingest.profiling.find import find_profiles
from precice_lb.ingest.profiling.times import CallReader

__all__ = ["START_UP_EVENTS", "measured_start_up"]

START_UP_EVENTS = ("initialize", "connectPrimaries", "repartitioning", "connectSecondaries")
"""Events of preCICE's start-up; all but the first only with ``<profiling mode="all"/>``. ``repartitioning`` compares
boxes, opens the connections of two levels and filters meshes; ``connectSecondaries`` opens those of one level."""


def measured_start_up(sources: Iterable[str | Path]) -> dict[str, dict[str, float]]:
    """Read how long the parts of preCICE's start-up took.

    Parameters
    ----------
    sources : iterable of path
        Profiling files, or directories that are searched with everything below them.

    Returns
    -------
    dict of str to dict of str to float
        By participant: ``ranks``, and the seconds of each of `START_UP_EVENTS` that was recorded, of its slowest rank.
        They include waiting for the partner.

    Raises
    ------
    DataError
        If there is no profiling file, or one is damaged.
    """
    headers, _ = find_profiles(sources)
    told: dict[str, dict[str, float]] = {}
    for header in headers:
        parts = told.setdefault(header.participant, {})
        parts["ranks"] = float(header.size)
        for event, seconds in _start_up(header).items():
            parts[event] = max(parts.get(event, 0.0), seconds)
    return told


def _start_up(header: Header) -> dict[str, float]:
    """Seconds of one rank; what follows ``initialize`` is not read."""
    source = CallReader(header).events
    seconds: dict[str, float] = {}
    for events in source:
        names = [path[-1] if path else "" for path in source.paths]
        for event in START_UP_EVENTS:
            if event in seconds or event not in names:
                continue
            durations = events.durations[np.isin(events.paths, [n for n, name in enumerate(names) if name == event])]
            if len(durations):
                seconds[event] = float(durations[0]) * 1e-6
        if "initialize" in seconds:
            break
    return seconds
