"""From store files to coupled runs, and what has to be said of one before its numbers are used."""

from __future__ import annotations

import dataclasses
import os.path
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from precice_lb.dataset.coupling import roles_of, settle_serial_pair, transfer_floor
from precice_lb.dataset.participants import participant_times
from precice_lb.dataset.records import CoupledRun, ParticipantRun
from precice_lb.dataset.series import warmup_of
from precice_lb.exceptions import DataError
from precice_lb.plural import plural
from precice_lb.store.reader import read_runs
from precice_lb.store.records import Complete, RankStore

__all__ = ["DEFAULT_WARMUP_WINDOWS", "distinct_names", "load_runs", "missing", "remarks", "unfinished", "warmup_found"]

DEFAULT_WARMUP_WINDOWS = 1
"""Time windows left out at least where neither the caller nor the run says how many."""

# Longer directories are no help in a table.
_LONGEST = 40


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
    directory = Path(os.path.commonpath([store.directory.absolute() for group in groups for store in group]))
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
        floor = settle_serial_pair(named[pair[0]], named[pair[1]])
    else:
        waits = {name: table.least_wait for name, table in named.items()}
        floor = transfer_floor(configuration, waits, {name: table.least_overhead for name, table in named.items()})
    return {name: table.run(floor) for name, table in named.items()}


def warmup_found(part: ParticipantRun) -> int:
    """Return the last window whose seconds per iteration are unlike those that follow, as `warmup_of` says.

    0 for none, where nothing was measured, or where the participant is negligible.
    """
    if part.negligible:
        return 0
    known = np.isfinite(part.compute_seconds)
    count = warmup_of(part.compute_per_iteration[known])
    return int(part.windows[known][count - 1]) if count else 0


def distinct_names(names: Sequence[str], directories: Sequence[Path | None]) -> list[str]:
    """Add to names that occur more than once the part of the runs' directories that differs, or a number."""
    groups: dict[str, list[int]] = defaultdict(list)
    for at, name in enumerate(names):
        groups[name].append(at)
    found = list(names)
    for name, places in groups.items():
        if len(places) == 1:
            continue
        parts = _differing([directories[at] for at in places])
        for number, at in enumerate(places):
            found[at] = f"{name} ({parts[number]})" if parts else f"{name} #{number + 1}"
    return found


def _differing(directories: Sequence[Path | None]) -> list[str]:
    """Give what differs between paths, without what they begin and end with; nothing where that is no name of each."""
    known = [directory for directory in directories if directory is not None]
    if len(known) < len(directories):
        return []
    root = Path(os.path.commonpath(known))
    parts = [directory.relative_to(root).parts for directory in known]
    while all(len(each) > 1 for each in parts) and len({each[-1] for each in parts}) == 1:
        parts = [each[:-1] for each in parts]
    names = ["/".join(each) for each in parts]
    if len(set(names)) < len(names) or not all(0 < len(each) <= _LONGEST for each in names):
        return []
    return names


def unfinished(run: CoupledRun) -> str:
    """Say who did not come to the end of the coupling, and after how many windows; empty where all did."""
    left = {
        name: len(part.windows) for name, part in run.participants.items() if not part.metadata.get("finished", True)
    }
    if not left:
        return ""
    windows = plural(max(left.values()), "window")
    return f"{' and '.join(left)} did not come to the end (killed, failed or still running): {windows} recorded"


def missing(run: CoupledRun) -> tuple[str, str]:
    """Say which participants of the configuration have no stores, and what to do; empty where none is missing."""
    names = [name for name in roles_of(run.configuration).participants if name not in run.participants]
    if not names:
        return "", ""
    where = f" in {run.directory}" if run.directory is not None else ""
    whose = f"{'that' if len(names) == 1 else 'those'} of {' and '.join(names)}"
    return (
        f"no stores of {' and '.join(names)} were found beside those of {' and '.join(run.participants)}{where}",
        f"each participant's stores lie in the directory that it ran in: give {whose} too, or one above all",
    )


def remarks(runs: Sequence[CoupledRun]) -> tuple[str, ...]:
    """Say of each run what speaks against it as a sample, in one sentence each."""
    return tuple(text for run in runs for text in _of_run(run))


def _of_run(run: CoupledRun) -> Iterator[str]:
    end = unfinished(run)
    empty = [name for name in run.participants if not run.steady(name).any()]
    if empty:
        whom = "" if len(empty) == len(run.participants) else f" for {' and '.join(empty)}"
        yield (
            f"Run {run.name} is not used{whom}: no window is left after a warm-up of "
            f"{plural(run.warmup_windows, 'window')}{f'; {end}' if end else ''}."
        )
    elif end:
        yield f"Run {run.name}: {end}; what was recorded is used."
    absent, remedy = missing(run)
    if absent:
        yield f"Run {run.name}: {absent}; {remedy}."
