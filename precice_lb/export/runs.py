"""Recorded runs rank by rank, none of them in memory longer than it is looked at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from precice_lb.ingest.profiling import enrich
from precice_lb.store.reader import read_runs
from precice_lb.store.records import RankStore

__all__ = ["ExportedRun", "exported_runs"]


@dataclass(frozen=True, eq=False)
class ExportedRun:
    """One coupled run, with ranks by participant, sorted; their rows are read when asked for."""

    # The metadata ``run``, or one made from participants and ranks; different from those of the other runs.
    name: str
    participants: dict[str, Sequence[RankStore]]

    @property
    def configuration(self) -> str:
        """Text of ``precice-config.xml``."""
        return next(iter(self.participants.values()))[0].configuration

    def ranks(self) -> Iterator[tuple[str, RankStore]]:
        """Give each rank with its participant, with mapping and wait from preCICE's profiling files."""
        for name, group in self.participants.items():
            for store in group:
                yield name, enrich([store])[0]


def exported_runs(sources: Sequence[str | Path]) -> list[ExportedRun]:
    """Find the runs in stores, in the order they started."""
    runs: list[ExportedRun] = []
    names: set[str] = set()
    for groups in read_runs(sources, rows=False):
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
