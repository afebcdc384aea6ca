"""From store files to coupled runs: waits and compute time per participant and time window."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np

from precice_lb.dataset.coupling import roles_of
from precice_lb.dataset.names import common_directory, distinct_names
from precice_lb.dataset.participants import participant_times
from precice_lb.dataset.records import CoupledRun, ParticipantRun
from precice_lb.dataset.serial_pair import settle_serial_pair
from precice_lb.dataset.series import warmup_of
from precice_lb.exceptions import DataError
from precice_lb.store.reader import RankStore, read_runs

__all__ = ["DEFAULT_WARMUP_WINDOWS", "Complete", "load_runs", "warmup_found"]

Complete: TypeAlias = Callable[[Sequence[RankStore]], Sequence[RankStore]]
"""Takes the ranks of one participant, sorted; returns them with what was measured beside the store."""

DEFAULT_WARMUP_WINDOWS = 1
"""Time windows left out at least where neither the caller nor the run says how many."""


def load_runs(
    sources: Sequence[str | Path], *, warmup: int | None = None, complete: Complete | None = None
) -> list[CoupledRun]:
    """Read coupled runs from their stores.

    Parameters
    ----------
    sources : sequence of path
        Store files, or directories that are searched with everything below them.
    warmup : int, optional
        Time windows to leave out. By default what each run says, else `DEFAULT_WARMUP_WINDOWS`, or more where more are
        unlike those that follow (`warmup_found`).
    complete : callable, optional
        Adds what was measured beside the stores, such as `precice_lb.ingest.profiling.enrich`.

    Returns
    -------
    list of CoupledRun
        In the order they started, of one or several cases, each with another name.

    Raises
    ------
    StoreError
        If a source holds no store, or a file cannot be read as one.
    DataError
        If ``warmup`` is negative.
    """
    if warmup is not None and warmup < 0:
        raise DataError(f"warmup: expected a number of time windows of at least 0, found {warmup}")
    runs = [_coupled_run(run, warmup, complete) for run in read_runs(sources)]
    names = distinct_names([run.name for run in runs], [run.directory for run in runs])
    return [dataclasses.replace(run, name=name) for run, name in zip(runs, names, strict=True)]


def _coupled_run(groups: Sequence[Sequence[RankStore]], warmup: int | None, complete: Complete | None) -> CoupledRun:
    """Join the participants of one coupled run."""
    if complete is not None:
        groups = [complete(group) for group in groups]
    groups = sorted(groups, key=lambda group: str(group[0].metadata["participant"]))
    first = groups[0][0]
    stated = warmup
    if stated is None:
        stated = max(group[0].metadata.get("warmup_windows", DEFAULT_WARMUP_WINDOWS) for group in groups)
    participants = _participants(groups, first.configuration, stated)
    left_out = stated
    if warmup is None:
        left_out = max(stated, *(warmup_found(part) for part in participants.values()))
        if left_out > stated:
            participants = _participants(groups, first.configuration, left_out)
    degrees: dict[str, float] = {}
    for group in groups:
        degrees.update(group[0].metadata.get("degrees_of_freedom", {}))
    name = first.metadata.get("run") or " ".join(f"{part.participant}:{part.ranks}" for part in participants.values())
    directory = common_directory(store.directory.absolute() for group in groups for store in group)
    return CoupledRun(
        name, participants, first.configuration, first.metadata["case"], degrees, int(left_out), int(stated), directory
    )


def _participants(groups: Sequence[Sequence[RankStore]], configuration: str, warmup: int) -> dict[str, ParticipantRun]:
    """Reduce the ranks of all participants of a coupled run."""
    roles = roles_of(configuration)
    second = roles.second or ()
    tables = [participant_times(group, warmup, second=group[0].metadata["participant"] in second) for group in groups]
    named = {str(table.metadata["participant"]): table for table in tables}
    pair = roles.serial_pair
    if pair is not None and set(pair) == set(named):
        floor = settle_serial_pair(named[pair[0]], named[pair[1]], warmup)
    else:
        waits = {name: table.least_wait(warmup) for name, table in named.items()}
        floor = transfer_floor(configuration, waits, {name: table.least_overhead for name, table in named.items()})
    return {name: table.run(floor, warmup) for name, table in named.items()}


def warmup_found(part: ParticipantRun) -> int:
    """Index of the last window whose seconds per iteration are unlike those that follow, as `warmup_of` says.

    Parameters
    ----------
    part : ParticipantRun
        One participant of a coupled run.

    Returns
    -------
    int
        A window; 0 for none, where nothing was measured, or where the participant is negligible.
    """
    if part.negligible:
        return 0
    known = np.isfinite(part.compute_seconds)
    count = warmup_of(part.compute_per_iteration[known])
    return int(part.windows[known][count - 1]) if count else 0


def transfer_floor(configuration: str, least_waits: Mapping[str, float], least_overheads: Mapping[str, float]) -> float:
    """Seconds of the least wait in an iteration: what the transfer takes where data is already there.

    While a partner accelerates it is not: what the partner spent on that at least is no transfer. In a serial scheme it
    never is, so that no wait shows the bare transfer.

    Parameters
    ----------
    configuration : str
        Text of ``precice-config.xml``.
    least_waits, least_overheads : mapping from participant to float
        Seconds of its shortest wait and of its least overhead in an iteration after warm-up; NaN where not measured.

    Returns
    -------
    float
        From 0 on.
    """
    roles = roles_of(configuration)
    if roles.second is not None:
        return 0.0
    waits = []
    for name, wait in least_waits.items():
        accelerating = roles.accelerating.get(name)
        delay = 0.0 if accelerating is None else least_overheads.get(accelerating, math.nan)
        waits.append(wait - delay)
    return max(min(filter(math.isfinite, waits), default=0.0), 0.0)
