"""Recorded runs rank by rank, none of them in memory longer than it is looked at, with clocks set by each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import ConfigurationError
from precice_lb.ingest.profiling import enrich
from precice_lb.precice_xml import parse_configuration
from precice_lb.store.reader import read_runs
from precice_lb.store.records import RankFile


@dataclass(frozen=True, eq=False)
class ExportedRun:
    """One coupled run, with ranks by participant, sorted; their rows are read when asked for."""

    # The metadata ``run``, or one made from participants and ranks; different from those of the other runs.
    name: str
    participants: dict[str, Sequence[RankFile]]

    @property
    def configuration(self) -> str:
        """Text of ``precice-config.xml``."""
        return next(iter(self.participants.values()))[0].configuration

    def ranks(self) -> Iterator[tuple[str, RankFile]]:
        """Give each rank with its participant, with mapping and wait from preCICE's profiling files."""
        for name, group in self.participants.items():
            for store in group:
                yield name, enrich([store])[0]


def exported_runs(sources: Sequence[str | Path]) -> list[ExportedRun]:
    """Find the runs in stores, in the order they started."""
    runs: list[ExportedRun] = []
    names: set[str] = set()
    for groups in read_runs(sources):
        found = {str(group[0].metadata["participant"]): group for group in groups}
        participants = dict(sorted(found.items()))
        sizes = " ".join(f"{name}:{group[0].metadata['size']}" for name, group in participants.items())
        wanted = name = str(groups[0][0].metadata.get("run") or sizes)
        number = 2
        while name in names:
            name, number = f"{wanted} #{number}", number + 1
        names.add(name)
        runs.append(ExportedRun(name, participants))
    return runs


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


def _last_calls(store: RankFile) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Windows with begin and end of the ``advance`` that completed them, in ns of Unix time."""
    rows = store.advances
    rows = rows[rows["window_complete"]]
    begin = rows["begin_ns"] + (store.metadata["started_unix_ns"] - store.metadata["started_clock_ns"])
    return rows["window"], begin, begin + rows["advance_ns"]
