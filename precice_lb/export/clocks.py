"""Setting the clocks of participants by each other: nothing can be received before it was sent."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import ConfigurationError
from precice_lb.export.runs import ExportedRun
from precice_lb.precice_xml import parse_configuration
from precice_lb.store.records import RankStore

__all__ = ["clock_shifts"]


def clock_shifts(run: ExportedRun) -> dict[str, int]:
    """Find by how much the clock of each participant has to be set for the order of sends and receives to hold.

    Where data goes from S to T in every time window, T cannot end the window before S begins to send. These are
    difference constraints, whose solution nearest below zero is that of shortest paths (Bellman and Ford). It is in ns
    to add to a participant's times, 0 where the clocks agree, or where nothing is known of who sends to whom.
    """
    shifts = dict.fromkeys(run.participants, 0)
    try:
        schemes = parse_configuration(run.configuration).coupling_schemes
    except ConfigurationError:
        return shifts
    pairs = {(e.source, e.target) for scheme in schemes for e in scheme.exchanges}
    calls = {name: _last_calls(group[0]) for name, group in run.participants.items()}
    # shift[source] - shift[target] <= the least time from the source's begin to the target's end.
    least: list[tuple[str, str, int]] = []
    for source, target in sorted(pairs):
        if source in calls and target in calls:
            _, ours, theirs = np.intersect1d(calls[source][0], calls[target][0], return_indices=True)
            if len(ours):
                between = calls[target][2][theirs] - calls[source][1][ours]
                least.append((source, target, int(between.min())))
    for _ in range(len(shifts)):
        for source, target, slack in least:
            shifts[source] = min(shifts[source], shifts[target] + slack)
    return shifts


def _last_calls(store: RankStore) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Windows with begin and end of the ``advance`` that completed them, in ns of Unix time."""
    rows = store.advances
    rows = rows[rows["window_complete"]]
    begin = rows["begin_ns"] + (store.metadata["started_unix_ns"] - store.metadata["started_clock_ns"])
    return rows["window"], begin, begin + rows["advance_ns"]
