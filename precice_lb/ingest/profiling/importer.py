"""Profiling files of solvers in any language become stores like recorded ones."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, wait
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import numpy as np

from precice_lb.dataset import CoupledRun, load_runs
from precice_lb.exceptions import DataError
from precice_lb.ingest.profiling.calls import WAITS_UNKNOWN, Profile, profile_of
from precice_lb.ingest.profiling.case import ProfiledParticipant, profiled_participant
from precice_lb.ingest.profiling.files import Header
from precice_lb.ingest.profiling.find import find_profiles
from precice_lb.ingest.profiling.tables import read_iterations_log
from precice_lb.store.columns import Integers, Rows
from precice_lb.store.rank_file import read_rank_file
from precice_lb.store.schema import store_filename
from precice_lb.store.spool import StoreWriter
from precice_lb.text import numbered, plural

# Below this many bytes starting processes takes longer than importing.
_SMALL = 64 << 20


@dataclass(frozen=True)
class ImportResult:
    """What an import wrote.

    Attributes
    ----------
    stores : list of Path
        The store files, one per rank.
    notes : list of str
        What was left out, and what was taken for what.
    """

    stores: list[Path]
    notes: list[str]


@dataclass(frozen=True)
class _Task:
    """One rank's file, and what its store says besides."""

    header: Header
    participant: ProfiledParticipant
    output: Path
    more: Mapping[str, Any]
    # When the latest run of the participant in this folder began.
    latest_unix_us: int

    @property
    def path(self) -> Path:
        """Its store, unless that name is taken."""
        return self.output / store_filename(self.header.participant, self.header.rank, self.header.size)


@dataclass(frozen=True)
class _Done:
    """The store of a rank, None where it was left out, with the reason; windows, where the run came to no end."""

    header: Header
    path: Path | None
    notes: Sequence[str] = ()
    stopped_after: int = 0


def import_profiling(
    directories: Sequence[str | Path],
    output: str | Path,
    *,
    configuration: str | Path | None = None,
    metadata: Mapping[str, Any] | None = None,
    processes: int | None = None,
    threads: Mapping[str, int] | None = None,
    alone: bool = False,
) -> ImportResult:
    """Turn profiling files into store files.

    Of several runs in one folder the latest is taken. Time windows come from ``precice-<Participant>-iterations.log``,
    or that of a partner in the same implicit scheme; without one every coupling iteration is a window, which the store
    says.

    Parameters
    ----------
    directories : sequence of path
        Profiling files, databases of ``precice-profiling merge``, or directories that are searched for profiling files
        with everything below them.
    output : path
        The store directory; made if missing.
    configuration : path, optional
        The ``precice-config.xml``; by default the one beside or above the profiling files.
    metadata : mapping, optional
        What else the stores shall say of the run: ``run``, ``warmup_windows``, ``degrees_of_freedom``, ``parameters``.
    processes : int, optional
        How many processes read files, by default one per processor.
    threads : mapping from participant to int, optional
        Threads of each rank, which profiling files do not tell; 1 for others.
    alone : bool
        Whether files without a configuration, as somebody sends them, are taken as well.

    Returns
    -------
    ImportResult

    Raises
    ------
    DataError
        If there is no profiling file or no configuration, a file is damaged, or was imported into `output` before. No
        store is left behind then.
    """
    if processes is not None and processes < 1:
        raise DataError(f"processes: expected at least 1, found {processes}")
    roots = [Path(directory) for directory in directories]
    headers, notes = find_profiles(roots)
    chosen = None if configuration is None else Path(configuration)
    if unknown := sorted(set(threads or {}) - {header.participant for header in headers}):
        known = ", ".join(dict.fromkeys(header.participant for header in headers))
        raise DataError(f"threads: expected one of the participants {known}, found {unknown[0]!r}")
    tasks = []
    # The files of one participant in one folder share almost everything.
    for (_, name), group in groupby(headers, lambda header: header.group):
        ranks = list(group)
        participant = profiled_participant(ranks[0], roots, chosen, headers, alone=alone)
        more = {**(metadata or {}), **({"threads": threads[name]} if threads and name in threads else {})}
        tasks += [
            _Task(header, participant, Path(output), more, max(rank.unix_us for rank in ranks)) for header in ranks
        ]
    for header, path in ((task.header, task.path) for task in tasks):
        if path.exists() and _already_imported(path, header):
            raise DataError(
                f"{path}: expected no store of this run, found {header.path} imported before; give another directory"
            )
    done: list[_Done] = []
    try:
        done.extend(_all(tasks, processes or os.cpu_count() or 1))
        notes += [line for result in done for line in result.notes]
        stores = [result.path for result in done if result.path is not None]
        if not stores:
            raise DataError(notes[-1])
        missing, stopped = _incomplete(done)
        return ImportResult(stores, list(dict.fromkeys([*missing, *notes, *stopped])))
    except BaseException:
        for result in done:
            if result.path is not None:
                result.path.unlink(missing_ok=True)
        raise


def profiled_runs(
    sources: Sequence[Path], *, configuration: Path | None = None, warmup: int | None = None
) -> tuple[list[CoupledRun], list[str]]:
    """Give the coupled runs of profiling files, and what has to be said of them; nothing is written beside these."""
    with TemporaryDirectory(prefix="precice-lb-") as scratch:
        notes = import_profiling(sources, scratch, configuration=configuration, alone=True).notes
        # Stores that are soon gone name runs by the directories of the solvers.
        return load_runs([scratch], warmup=warmup, complete=lambda stores: [
            replace(store, path=Path(store.metadata["working_directory"]) / store.path.name) for store in stores
        ]), notes  # fmt: skip


def _already_imported(path: Path, header: Header) -> bool:
    earlier = [path, *path.parent.glob(f"{path.stem}.*{path.suffix}")]
    return any(read_rank_file(store).metadata["started_unix_ns"] == header.unix_us * 1000 for store in earlier)


def _all(tasks: Sequence[_Task], processes: int) -> Iterator[_Done]:
    """Import each file; in processes of their own where that pays."""
    size = sum(path.stat().st_size for path in {task.header.path for task in tasks})
    if min(processes, len(tasks)) == 1 or size < _SMALL:
        yield from map(_import_file, tasks)
        return
    with ProcessPoolExecutor(min(processes, len(tasks)), multiprocessing.get_context("spawn")) as pool:
        # A worker that an interrupt ends within a message would let all others wait for ever: this process ends them.
        is_main = threading.current_thread() is threading.main_thread()
        before = signal.signal(signal.SIGINT, signal.SIG_IGN) if is_main else None
        futures = [pool.submit(_import_file, task) for task in tasks]
        if is_main:
            signal.signal(signal.SIGINT, before)
        try:
            wait(futures)
        finally:
            pool.shutdown(cancel_futures=True)
            # What failed comes last, so that whoever removes the stores knows all of them.
            yield from (done.result() for done in futures if not done.cancelled() and done.exception() is None)
    for future in futures:
        future.result()


def _import_file(task: _Task) -> _Done:
    """Write one store."""
    header, case = task.header, task.participant.case
    profile = profile_of(header, case)
    ended_us = header.unix_us + profile.last_us
    if ended_us < task.latest_unix_us:
        return _Done(header, None, [f"{header.path}: left by an earlier run, which ended before the latest began"])
    try:
        profile.require_calls()
    except DataError as error:
        return _Done(header, None, [str(error)])
    calls, iterations, note, unit = _counted(task, profile)
    notes = [note] if note else []
    rows = profile.advance_rows(calls, iterations)
    metadata = task.participant.metadata(header, task.more) | profile.receiving
    if unit:
        metadata["window_unit"] = unit
    if note and (unit or (iterations is not None and not len(iterations))):
        metadata["recording_problem"] = note
    if not profile.waits:
        metadata["timing_problem"] = WAITS_UNKNOWN
        notes.append(f"{header.path.parent}: {header.participant}: {WAITS_UNKNOWN}")
    writer = StoreWriter(task.output, metadata, task.participant.configuration)
    try:
        try:
            writer.append(
                rows,
                names={"sections": profile.user_names},
                initialize=profile.initialize_rows(),
                sections=profile.section_rows(rows["window"]),
            )
        finally:
            writer.close(finished=profile.finalized, ended_unix_ns=ended_us * 1000)
    except BaseException:
        writer.path.unlink(missing_ok=True)
        raise
    return _Done(header, writer.path, notes, 0 if profile.finalized else int(rows["window_complete"].sum()))


_Counted: TypeAlias = tuple[Rows, Integers | None, str, str]


def _counted(task: _Task, profile: Profile) -> _Counted:
    """Count coupling iterations and time windows, as the iterations log of the run or the configuration says.

    Returned are calls of ``advance``, iterations of each window where there are several, what has to be said of them,
    and what counts as a window where these are not known.
    """
    name, folder, roles = task.header.participant, task.header.path.parent, task.participant.case.roles
    calls = profile.calls
    is_known, schemes = roles.configuration is not None, roles.schemes(name)
    is_implicit = any(scheme.is_implicit for scheme in schemes) if is_known else profile.is_implicit
    if is_implicit is False or (is_implicit is None and not task.participant.logs):
        tells_ends = not profile.finalized or profile.tells_windows or len(schemes) != 1
        windows = None if tells_ends else schemes[0].windows
        thinned = calls if windows is None else _ending(calls, windows)
        if thinned is not None:
            return thinned, None, "", ""
        note = (
            f"{task.header.path}: expected a multiple of {windows} calls of advance, as many as time windows, found "
            f"{len(calls)}, and nothing in it tells which end one; every call counts as a time window"
        )
        return calls, None, note, "call of advance"
    wanted = f"expected precice-{name}-iterations.log"
    problem = f"{wanted} beside {folder}, found none"
    fitting = []
    for log in task.participant.logs:
        iterations = read_iterations_log(log)
        total = int(iterations.sum())
        thinned = calls
        if not profile.tells_windows and profile.finalized:
            thinned = calls if (ends := _ending(calls, total)) is None else ends
        if profile.finalized and (thinned["exchanges"] > 0).sum() != total:
            problem = f"{wanted} of the run in {folder}, found one with another number of iterations"
            continue
        fitting.append((total, log, thinned, iterations))
    if fitting:
        total, log, thinned, iterations = max(fitting, key=lambda fit: fit[0])
        note = ""
        if not total:
            holds = "no window" if log.stat().st_size else "an empty file"
            note = (
                f"{log}: expected the coupling iterations of each time window, found {holds}: the run ended before its "
                "first window was complete, which leaves nothing to learn from; let it run longer"
            )
        elif log.name != f"precice-{name}-iterations.log":
            note = f"{problem}; took those of its partner, {log}"
        return thinned, iterations, note, ""
    fixed = roles.fixed_iterations(name)
    ended = int((calls["exchanges"] > 0).sum())
    if fixed and profile.tells_windows and (ended % fixed == 0 or not profile.finalized):
        return calls, np.full(ended // fixed, fixed, dtype=np.int64), "", ""
    return calls, None, f"{problem}; every coupling iteration counts as a time window", "coupling iteration"


def _ending(calls: Rows, count: int) -> Rows | None:
    """Let so many calls end a coupling iteration, with as many steps each; None where that cannot be."""
    if not count or len(calls) % count:
        return None
    calls = calls.copy()
    calls["exchanges"] = (np.arange(len(calls)) + 1) % (len(calls) // count) == 0
    return calls


def _incomplete(done: Sequence[_Done]) -> tuple[list[str], list[str]]:
    """Say who has ranks of which there is no file that can be used, and who did not come to the end of the coupling."""
    missing, stopped = [], []
    for (folder, name), group in groupby(done, lambda result: result.header.group):
        results = list(group)
        size, ranks = results[0].header.size, {result.header.rank for result in results if result.path is not None}
        if absent := sorted(set(range(size)) - ranks):
            missing.append(
                f"{folder}: expected files of all {plural(size, 'rank')} of {name}, found {len(ranks)} of {size} "
                f"ranks, without {numbered(absent)}"
            )
        if windows := [result.stopped_after for result in results if result.stopped_after]:
            stopped.append(
                f"{folder}: expected {name} to have come to its end, found that it was stopped or still runs; read "
                f"up to time window {min(windows)}"
            )
    return missing, stopped
