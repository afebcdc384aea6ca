"""From store files to coupled runs, and what has to be said of one before its numbers are used."""

from __future__ import annotations

import dataclasses
import math
import os.path
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from operator import attrgetter
from pathlib import Path

import numpy as np

from precice_lb.case import parse_configuration
from precice_lb.case.coupling import period_of, roles_of
from precice_lb.dataset.records import WINDOW, CoupledRun, CoupledTime, ParticipantRun
from precice_lb.dataset.series import warmup_of
from precice_lb.dataset.windows import Ranks, Reduction
from precice_lb.exceptions import DataError, PreciceLBError
from precice_lb.store.reader import Group, read_stores, runs_with_doubts
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


def load_runs(
    sources: Sequence[str | Path],
    *,
    warmup: int | None = None,
    complete: Complete | None = None,
    place: Callable[[RankFile], Path] = attrgetter("directory"),
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
    place : callable
        From a rank to the directory that tells its run from others of the same name; by default that of its store.

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
    return [
        dataclasses.replace(_coupled_run(ranks, warmup, complete), name=name, directory=directory, grouping=doubt)
        for name, ranks, directory, doubt in named_runs(sources, place)
    ]


def named_runs(
    sources: Sequence[str | Path], place: Callable[[RankFile], Path] = attrgetter("directory")
) -> list[tuple[str, dict[str, Group], Path, str]]:
    """Find the coupled runs in stores, in the order they started: name, ranks by participant, directory and doubt."""
    runs = []
    for groups, doubt in runs_with_doubts(read_stores(sources)):
        ranks = dict(sorted((str(group[0].metadata["participant"]), group) for group in groups))
        places = {place(store).absolute() for group in groups for store in group}
        runs.append((groups[0][0].metadata.get("run"), ranks, Path(os.path.commonpath(places)), doubt))
    labels = [str(stated) if stated else " ".join(map(_label, ranks.values())) for stated, ranks, *_ in runs]
    names = distinct_names(labels, [directory for _, _, directory, _ in runs])
    return [(name, *run[1:]) for name, run in zip(names, runs, strict=True)]


def _label(group: Group) -> str:
    """Say which participant a run has, with its ranks and threads, where nobody named it."""
    lowest, threads = group[0].metadata, max(int(store.metadata.get("threads", 1)) for store in group)
    return f"{lowest['participant']}:{lowest['size']}" + (f"x{threads}" if threads > 1 else "")


def _coupled_run(groups: Mapping[str, Group], warmup: int | None, complete: Complete | None) -> CoupledRun:
    """Join the participants of one coupled run, which has no name yet."""
    ranks = {name: Ranks(group, complete) for name, group in groups.items()}
    lowest = {name: group.stores[0] for name, group in ranks.items()}
    first = next(iter(lowest.values()))
    stated = warmup
    if stated is None:
        stated = max(store.metadata.get("warmup_windows", DEFAULT_WARMUP_WINDOWS) for store in lowest.values())
    time = _coupled_time(first.configuration, lowest)
    participants, left_out = _participants(ranks, stated, time), stated
    if warmup is None:
        left_out = max(stated, *(time.periods(name, warmup_found(part)) for name, part in participants.items()))
        if left_out > stated:
            participants = _participants(ranks, left_out, time)
    return CoupledRun(
        name="",
        participants=participants,
        configuration=first.configuration,
        case=first.metadata["case"],
        degrees_of_freedom={
            name: count
            for store in lowest.values()
            for name, count in store.metadata.get("degrees_of_freedom", {}).items()
        },
        warmup_windows=int(left_out),
        warmup_stated=int(stated),
        time=time,
    )


def _participants(ranks: Mapping[str, Ranks], warmup: int, time: CoupledTime) -> dict[str, ParticipantRun]:
    """Reduce the ranks of all participants of a coupled run, without so many periods of warm-up."""
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
    return {name: part.run(floor) for name, part in parts.items()}


def _coupled_time(configuration: str, stores: Mapping[str, RankFile]) -> CoupledTime:
    """Find out of the configuration, and of what one rank of each participant recorded, what is alike."""
    units = {name: str(store.metadata.get("window_unit", WINDOW)) for name, store in stores.items()}
    unit, windows = next(iter(units.values())), dict[str, int]()
    try:
        period = period_of(parse_configuration(configuration))
        windows = {name: count for name, count in period.windows.items() if name in stores}
        if max(windows.values(), default=1) > 1 and set(units.values()) == {WINDOW}:
            length = "period" if math.isnan(period.length) else f"{period.length:.6g} of coupled time"
            return CoupledTime(windows, length)
    except PreciceLBError:
        # Whoever came to the end together has as many windows, if these are alike.
        if all(store.metadata["finished"] for store in stores.values()):
            windows = {name: int(store.advances["window"].max(initial=0)) for name, store in stores.items()}
    if len(set(units.values())) == 1 and len(set(windows.values())) <= 1:
        return CoupledTime(unit=unit)
    counts = {name: f" ({windows[name]})" if windows.get(name, 1) > 1 else "" for name in stores}
    counted = ", ".join(f"{name} by {units[name]}{counts[name]}" for name in stores)
    logs = ", ".join(f"precice-{name}-iterations.log" for name in stores if units[name] == "coupling iteration")
    remedy = f"put {logs} beside the profiling files, or " if logs else ""
    return CoupledTime(problem=f"{counted}, which are not alike; {remedy}give the precice-config.xml (--config)")


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
        if len(places) == 1:
            continue
        paths = [directory.parts if (directory := directories[place]) is not None else () for place in places]
        begin, end = (
            sum(1 for _ in takewhile(lambda parts: len(set(parts)) == 1, zip(*side, strict=False)))
            for side in (paths, [path[::-1] for path in paths])
        )
        parts = ["/".join(path[begin : len(path) - end]) for path in paths]
        is_known = len(set(parts)) == len(parts) and all(0 < len(part) <= _LONGEST for part in parts)
        for number, (place, part) in enumerate(zip(places, parts, strict=True), start=1):
            distinct[place] = f"{name} ({part})" if is_known else f"{name} #{number}"
    return distinct


def flaws(run: CoupledRun) -> dict[str, tuple[str, str]]:
    """Say what is wrong with the records of a run and what to do, by kind."""
    parts = run.participants
    left = {
        name: len(part.windows)
        for name, part in parts.items()
        if not (part.metadata.get("finished", True) or "stopped" in part.metadata)
    }
    stopped, windows = " and ".join(left), plural(max(left.values(), default=0), "window")
    absent = " and ".join(name for name in roles_of(run.configuration).participants if name not in parts)
    where = "" if run.directory is None else f" in {run.directory}"
    kinds = {
        "not finished": (
            stopped and f"{stopped} did not come to the end (killed, failed or still running): {windows} recorded",
            "what was recorded is used; the solvers' logs say why",
        ),
        "missing ranks": (
            run.incomplete and f"there are {run.incomplete}",
            "the slowest may be missing: give all files",
        ),
        "missing": (
            absent and f"no records of {absent} were found beside those of {' and '.join(parts)}{where}",
            f"each participant's lie in the directory that it ran in: give {absent}'s too, or one above all",
        ),
        "uncertain grouping": (
            run.grouping,
            'name runs (PRECICE_LB_METADATA=\'{"run": "NAME"}\') or give each a PRECICE_LB_DIR of its own',
        ),
        "shared cores": (run.oversubscription, "run on as many cores as ranks, or with fewer ranks"),
    }
    for name, part in parts.items():
        calls = part.rank_calls or {0: 0}
        shortest, most = min(calls, key=calls.__getitem__), max(calls.values())
        if calls[shortest] + _FEW_CALLS < (1 - _FEW_SHARE) * most:
            text = f"the records of rank {shortest} of {name} end after {calls[shortest]} of {most} calls of advance"
            kinds[f"cut short: {name}"] = text, "copy the file of that rank anew, or record again"
    return {kind: (text, remedy) for kind, (text, remedy) in kinds.items() if text}


def remarks(runs: Sequence[CoupledRun]) -> tuple[str, ...]:
    """Say of each run what speaks against it as a sample, in one sentence each."""
    texts = []
    for run in runs:
        empty = [name for name in run.participants if not run.steady(name).any()]
        if empty:
            left_out = plural(run.warmup_windows, "window")
            texts.append(
                f"Run {run.name} is not used for {' and '.join(empty)}: no window is left after {left_out} of warm-up."
            )
        if not run.time.windows and run.time.unit != WINDOW:
            texts.append(f"Run {run.name}: its time windows are not known; what is called one is a {run.time.unit}.")
        # Of shared cores a recommendation speaks where it compares splits.
        texts += [
            f"Run {run.name}: {t}; {remedy}." for kind, (t, remedy) in flaws(run).items() if kind != "shared cores"
        ]
    return tuple(texts)
