"""From store files to coupled runs: waits and own cost per participant and time window."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from precice_lb.dataset.records import CoupledRun, ParticipantRun
from precice_lb.exceptions import DataError
from precice_lb.store.reader import RankStore, read_runs

__all__ = ["DEFAULT_WARMUP_WINDOWS", "Complete", "load_runs"]

Complete: TypeAlias = Callable[[Sequence[RankStore]], Sequence[RankStore]]
"""Takes the ranks of one participant, sorted; returns them with what was measured beside the store."""

DEFAULT_WARMUP_WINDOWS = 1
"""Time windows left out where neither the caller nor the run says how many."""

_SERIAL_SCHEME = re.compile(r"<\s*coupling-scheme:serial-")


def load_runs(
    sources: Sequence[str | Path], *, warmup: int | None = None, complete: Complete | None = None
) -> list[CoupledRun]:
    """Read coupled runs from their stores.

    Parameters
    ----------
    sources : sequence of path
        Store files, or directories that are searched with everything below them.
    warmup : int, optional
        Time windows to leave out; by default what each run says, else `DEFAULT_WARMUP_WINDOWS`.
    complete : callable, optional
        Adds what was measured beside the stores, such as `precice_lb.ingest.profiling.enrich`.

    Returns
    -------
    list of CoupledRun
        In the order they started, of one or several cases.

    Raises
    ------
    StoreError
        If a source holds no store, or a file cannot be read as one.
    DataError
        If ``warmup`` is negative.
    """
    if warmup is not None and warmup < 0:
        raise DataError(f"warmup: expected a number of time windows of at least 0, found {warmup}")
    return [_coupled_run(run, warmup, complete) for run in read_runs(sources)]


def _coupled_run(groups: Sequence[Sequence[RankStore]], warmup: int | None, complete: Complete | None) -> CoupledRun:
    """Join the participants of one coupled run."""
    if complete is not None:
        groups = [complete(group) for group in groups]
    groups = sorted(groups, key=lambda group: str(group[0].metadata["participant"]))
    first = groups[0][0]
    if warmup is None:
        warmup = max(group[0].metadata.get("warmup_windows", DEFAULT_WARMUP_WINDOWS) for group in groups)
    tables = [_RankTable.of(group) for group in groups]
    # In a serial scheme a partner's data is never already there, so no wait shows the bare transfer.
    floor = 0.0
    if not _SERIAL_SCHEME.search(first.configuration):
        waits = [table.wait[table.windows > warmup].min(initial=math.inf) for table in tables if table.receives]
        floor = min((wait for wait in waits if math.isfinite(wait)), default=0.0)
    participants = {table.name: table.participant_run(floor, warmup) for table in tables}
    degrees: dict[str, float] = {}
    for group in groups:
        degrees.update(group[0].metadata.get("degrees_of_freedom", {}))
    name = first.metadata.get("run") or " ".join(f"{part.participant}:{part.ranks}" for part in participants.values())
    return CoupledRun(name, participants, first.configuration, first.metadata["case"], degrees, int(warmup))


@dataclass(frozen=True, eq=False)
class _RankTable:
    """Seconds of one participant by rank and window, shape (ranks, W); NaN where unknown."""

    name: str
    metadata: dict[str, Any]
    windows: NDArray[np.int64]
    iterations: NDArray[np.float64]
    wall: NDArray[np.float64]
    solve: NDArray[np.float64]
    mapping: NDArray[np.float64]
    waits: NDArray[np.float64]

    @classmethod
    def of(cls, group: Sequence[RankStore]) -> _RankTable:
        """Sum the rows of each rank by window, over the windows that all recorded ranks completed."""
        metadata = group[0].metadata
        rows = [store.advances for store in group]
        complete = [np.unique(row["window"][row["window_complete"]]) for row in rows]
        windows = complete[0]
        for other in complete[1:]:
            windows = np.intersect1d(windows, other, assume_unique=True)
        shape = metadata["size"], len(windows)
        solve, advance, mapping, waits = (np.full(shape, np.nan) for _ in range(4))
        iterations = np.ones(len(windows))
        for store, row in zip(group, rows, strict=True):
            row = row[np.isin(row["window"], windows)]
            index = np.searchsorted(windows, row["window"])
            rank = store.metadata["rank"]
            for target, column in (
                (solve, "solve_ns"),
                (advance, "advance_ns"),
                (mapping, "mapping_ns"),
                (waits, "wait_ns"),
            ):
                target[rank] = _seconds_by_window(row[column], index, len(windows))
            np.maximum.at(iterations, index, row["iteration"])
        return cls(metadata["participant"], metadata, windows, iterations, solve + advance, solve, mapping, waits)

    @property
    def receiving(self) -> NDArray[np.bool_]:
        """Ranks that ever waited, hence receive data; all that were measured if none did (nothing is received)."""
        measured: NDArray[np.bool_] = np.asarray(np.isfinite(self.waits).any(axis=1))
        waited: NDArray[np.bool_] = measured & (np.nan_to_num(self.waits).sum(axis=1) > 0)
        return waited if waited.any() else measured

    @property
    def receives(self) -> bool:
        """Whether some rank waited for a partner."""
        return bool((np.nan_to_num(self.waits) > 0).any())

    @property
    def wait(self) -> NDArray[np.float64]:
        """Seconds per window the participant waited: the least wait of a receiving rank, shape (W,)."""
        ranks = self.receiving
        return self.waits[ranks].min(axis=0) if ranks.any() else np.full(len(self.windows), np.nan)

    def participant_run(self, floor: float, warmup: int) -> ParticipantRun:
        """Own cost from wall and wait; ``floor`` is the wait that the transfer alone takes, in seconds per window."""
        ranks = self.receiving
        if ranks.any():
            own = (self.wall[ranks] - self.waits[ranks]).max(axis=0) + (floor if self.receives else 0.0)
        else:
            own = np.full(len(self.windows), np.nan)
        steady = self.windows > warmup
        overhead = self.wall - self.solve - self.mapping - self.waits
        known = np.isfinite(self.wall).all(axis=1)
        wall = self.wall[known].max(axis=0) if known.any() else np.full(len(self.windows), np.nan)
        return ParticipantRun(
            participant=self.name,
            ranks=int(self.metadata["size"]),
            windows=self.windows,
            window_seconds=wall,
            own_seconds=own,
            wait_seconds=self.wait,
            iterations=self.iterations,
            rank_solve=_mean(self.solve[:, steady]),
            rank_mapping=_mean(self.mapping[:, steady]),
            rank_wait=_mean(self.waits[:, steady]),
            rank_overhead=_mean(overhead[:, steady]),
            metadata=self.metadata,
        )


def _seconds_by_window(nanoseconds: NDArray[np.int64], index: NDArray[np.intp], windows: int) -> NDArray[np.float64]:
    """Sum nanoseconds by window; a window with an unmeasured row is NaN."""
    values = np.where(nanoseconds >= 0, nanoseconds * 1e-9, np.nan)
    return np.bincount(index, weights=values, minlength=windows).astype(np.float64)


def _mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return values.mean(axis=1) if values.shape[1] else np.full(len(values), np.nan)
