"""From store files to coupled runs, and what has to be said of one before its numbers are used."""

from __future__ import annotations

import dataclasses
import math
import os.path
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from precice_lb.case import parse_configuration
from precice_lb.case.coupling import period_of, roles_of
from precice_lb.dataset.records import WINDOW, CoupledRun, CoupledTime, ParticipantRun
from precice_lb.dataset.series import warmup_of
from precice_lb.dataset.windows import Ranks, Reduction
from precice_lb.exceptions import DataError, PreciceLBError
from precice_lb.store.reader import read_stores, runs_with_doubts
from precice_lb.store.records import Complete, RankFile
from precice_lb.text import plural

DEFAULT_WARMUP_WINDOWS = 1
"""Time windows left out at least where neither the caller nor the run says how many."""

# Work that sums to more than a serial iteration by less than this share is noise and transfer.
_HIDDEN_SHARE = 0.02
# Ranks that are killed together differ by less, as they write what they have recorded at times of their own.
_FEW_CALLS, _FEW_SHARE = 2, 0.1
# Longer directories are no help in a table.
_LONGEST = 40


_ITERATION = "coupling iteration"
_PLURALS = {WINDOW: "time windows", _ITERATION: "coupling iterations", "call of advance": "calls of advance"}


def load_runs(
    sources: Sequence[str | Path], *, warmup: int | None = None, complete: Complete | None = None
) -> list[CoupledRun]:
    """Read coupled runs from their stores.

    Parameters
    ----------
    sources : sequence of path
        Store files, or directories that are searched with everything below them.
    warmup : int, optional
        Time windows to leave out, of the longest where participants' windows differ. By default what each run says,
        else `DEFAULT_WARMUP_WINDOWS`, or more where more are unlike those that follow (`warmup_found`).
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
    grouped = runs_with_doubts(read_stores(sources))
    runs = [_coupled_run(run, warmup, complete) for run, _ in grouped]
    names = distinct_names([run.name for run in runs], [run.directory for run in runs])
    return [
        dataclasses.replace(run, name=name, grouping=doubt)
        for run, name, (_, doubt) in zip(runs, names, grouped, strict=True)
    ]


def _coupled_run(groups: Sequence[Sequence[RankFile]], warmup: int | None, complete: Complete | None) -> CoupledRun:
    """Join the participants of one coupled run."""
    named = {str(group[0].metadata["participant"]): group for group in groups}
    ranks = {name: Ranks(group, complete) for name, group in sorted(named.items())}
    lowest = {name: group.stores[0] for name, group in ranks.items()}
    first = next(iter(lowest.values()))
    stated = warmup
    if stated is None:
        stated = max(store.metadata.get("warmup_windows", DEFAULT_WARMUP_WINDOWS) for store in lowest.values())
    time = coupled_time(first.configuration, lowest)
    (participants, directories), left_out = _participants(ranks, stated, time), stated
    if warmup is None:
        left_out = max(stated, *(time.periods(name, warmup_found(part)) for name, part in participants.items()))
        if left_out > stated:
            participants, _ = _participants(ranks, left_out, time)
    return CoupledRun(
        name_of(named),
        participants,
        first.configuration,
        first.metadata["case"],
        {k: v for store in lowest.values() for k, v in store.metadata.get("degrees_of_freedom", {}).items()},
        int(left_out),
        int(stated),
        Path(os.path.commonpath(directories)),
        time=time,
    )


def name_of(groups: Mapping[str, Sequence[RankFile]]) -> str:
    """Name a run: as its metadata do, or by its participants, their ranks and threads."""
    stated = next(iter(groups.values()))[0].metadata.get("run")
    return str(stated) if stated else " ".join(_label(group) for _, group in sorted(groups.items()))


def _label(group: Sequence[RankFile]) -> str:
    threads = max(int(store.metadata.get("threads", 1)) for store in group)
    lowest = group[0].metadata
    return f"{lowest['participant']}:{lowest['size']}" + (f"x{threads}" if threads > 1 else "")


def _participants(
    ranks: Mapping[str, Ranks], warmup: int, time: CoupledTime
) -> tuple[dict[str, ParticipantRun], set[Path]]:
    """Reduce the ranks of all participants of a coupled run, without so many periods of warm-up; and where they are."""
    configuration = next(iter(ranks.values())).stores[0].configuration
    roles = roles_of(configuration)
    parts = {
        name: Reduction(group, warmup * time.of(name), second=name in roles.second) for name, group in ranks.items()
    }
    if roles.serial_pair and set(roles.serial_pair) == set(parts):
        floor = _settle_serial_pair(*(parts[name] for name in roles.serial_pair))
    else:
        waits = {name: part.least_wait for name, part in parts.items()}
        floor = transfer_floor(configuration, waits, {name: part.least_overhead for name, part in parts.items()})
    directories = {store.directory.absolute() for part in parts.values() for store in part.heads}
    return {name: part.run(floor) for name, part in parts.items()}, directories


def coupled_time(configuration: str, stores: Mapping[str, RankFile]) -> CoupledTime:
    """Find out of the configuration, and of what one rank of each participant recorded, what is alike."""
    units = {name: str(store.metadata.get("window_unit", WINDOW)) for name, store in stores.items()}
    time = _periods(configuration, stores)
    if set(units.values()) <= {WINDOW}:
        return time
    # Schemes iterate each for itself.
    if len(set(units.values())) == 1 and not time.windows and not _by_counts(stores).problem:
        return dataclasses.replace(time, unit=next(iter(units.values())))
    named = {unit: [name for name in units if units[name] == unit] for unit in dict.fromkeys(units.values())}
    counted = ", ".join(f"{' and '.join(names)} by {_PLURALS.get(unit, unit)}" for unit, names in named.items())
    logs = ", ".join(f"precice-{name}-iterations.log" for name in named.get(_ITERATION, ()))
    remedy = f"; put {logs} beside the profiling files, or give the precice-config.xml" if logs else ""
    return CoupledTime(problem=f"{counted}, which are not alike{remedy}")


def _periods(configuration: str, stores: Mapping[str, RankFile]) -> CoupledTime:
    """Count windows by the configuration; where that does not tell, those that were recorded have to be alike."""
    try:
        period = period_of(parse_configuration(configuration))
    except PreciceLBError:
        return _by_counts(stores)
    counts = {name: count for name, count in period.windows.items() if name in stores}
    if set(counts.values()) <= {1}:
        return CoupledTime()
    return CoupledTime(counts, "period" if math.isnan(period.length) else f"{period.length:.6g} of coupled time")


def _by_counts(stores: Mapping[str, RankFile]) -> CoupledTime:
    """Without a configuration: whoever came to the end together has as many windows, if these are alike."""
    ends = {name: int(s.advances["window"].max(initial=0)) for name, s in stores.items() if s.metadata["finished"]}
    if len(ends) < len(stores) or len(set(ends.values())) <= 1:
        return CoupledTime()
    counted = ", ".join(f"{plural(count, 'window')} of {name}" for name, count in ends.items())
    return CoupledTime(problem=f"there are {counted}, which are not alike; give the precice-config.xml (--config)")


def transfer_floor(configuration: str, least_waits: Mapping[str, float], least_overheads: Mapping[str, float]) -> float:
    """Seconds of the least wait in an iteration: what the transfer takes where data is already there.

    While a partner accelerates it is not: what the partner spent on that at least is no transfer. In a serial scheme it
    never is, so that no wait shows the bare transfer.
    """
    roles = roles_of(configuration)
    # Who waits for one that never waits need never find its data there. Without a configuration nothing is known, and
    # of one that a later preCICE could read no more than whether it is serial.
    is_serial = bool(roles.second) or (roles.configuration is None and "coupling-scheme:serial-" in configuration)
    if is_serial or not configuration or roles.never_waiting & least_waits.keys():
        return 0.0
    waits = []
    for name, wait in least_waits.items():
        accelerator = roles.accelerator(name)
        waits.append(wait - (0.0 if accelerator is None else least_overheads.get(accelerator, math.nan)))
    return max(min(filter(math.isfinite, waits), default=0.0), 0.0)


def _settle_serial_pair(first: Reduction, second: Reduction) -> float:
    """Let the work of two participants of a serial scheme sum to their iterations; return the seconds of one transfer.

    While one of them works, the other one does nothing but wait. What the wait lasts longer than that work is transfer.
    Where they share a core it lasts shorter: the one that sends is put aside as soon as its partner wakes up, so that
    its wait hides in ``waitAndSendData`` and looks like overhead. It is seen by what cannot be, work that sums to more
    than the iteration; what is too much is taken off the overhead of both, in proportion, never more than there is, and
    counts as waiting.
    """
    if not np.array_equal(first.ranks.iterations, second.ranks.iterations):
        return 0.0
    # The first participant waits for the second one's work of the same iteration.
    excess = second.busy - first.wait
    steady = first.steady & np.isfinite(excess)
    if not steady.any():
        return 0.0
    typical = float(np.median(excess[steady]))
    if not typical > _HIDDEN_SHARE * float(np.median((first.busy + first.wait)[steady])):
        return max(-typical, 0.0) / 2
    both = first.overhead + second.overhead
    share = np.divide(np.clip(excess, 0.0, both), both, out=np.zeros_like(both), where=both > 0)
    for part in (first, second):
        part.reclassify_as_wait(np.nan_to_num(share) * np.nan_to_num(part.overhead))
    return 0.0


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
    distinct = list(names)
    for name in dict.fromkeys(names):
        places = [place for place, other in enumerate(names) if other == name]
        if len(places) > 1:
            parts = _differing([directories[place] for place in places])
            for number, place in enumerate(places):
                distinct[place] = f"{name} ({parts[number]})" if parts else f"{name} #{number + 1}"
    return distinct


def _differing(directories: Sequence[Path | None]) -> list[str]:
    """Give what differs between paths, without what they begin and end with; nothing where that is no name of each."""
    known = [directory for directory in directories if directory is not None]
    if len(known) < len(directories):
        return []
    root = Path(os.path.commonpath(known))
    parts = [directory.relative_to(root).parts for directory in known]
    while all(len(part) > 1 for part in parts) and len({part[-1] for part in parts}) == 1:
        parts = [part[:-1] for part in parts]
    names = ["/".join(part) for part in parts]
    return names if len(set(names)) == len(names) and all(0 < len(name) <= _LONGEST for name in names) else []


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
        f"no records of {' and '.join(names)} were found beside those of {' and '.join(run.participants)}{where}",
        f"each participant's lie in the directory that it ran in: give {whose} too, or one above all",
    )


def cut_short(run: CoupledRun) -> str:
    """Say whose records end far earlier on one rank than on others, more than a kill explains; empty where none do."""
    calls = {name: part.rank_calls or {0: 0} for name, part in run.participants.items()}
    return "; ".join(
        f"the records of rank {min(counts, key=counts.__getitem__)} of {name} end after {min(counts.values())} of "
        f"{max(counts.values())} calls of advance, and with them what is used"
        for name, counts in calls.items()
        if min(counts.values()) + _FEW_CALLS < (1 - _FEW_SHARE) * max(counts.values())
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
    if not run.time.windows and run.time.unit != WINDOW:
        yield f"Run {run.name}: its time windows are not known; what is called one here is a {run.time.unit}."
    if run.incomplete:
        yield f"Run {run.name}: {run.incomplete} are known; the slowest may be missing."
    if cut := cut_short(run):
        yield f"Run {run.name}: {cut}."
    if run.grouping:
        yield f"Run {run.name}: {run.grouping}."
    absent, remedy = missing(run)
    if absent:
        yield f"Run {run.name}: {absent}; {remedy}."
