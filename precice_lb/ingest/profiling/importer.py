"""Profiling files of solvers in any language become stores like recorded ones."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import DataError
from precice_lb.ingest.profiling.case import ProfiledCase
from precice_lb.ingest.profiling.files import Header
from precice_lb.ingest.profiling.find import find_profiles
from precice_lb.ingest.profiling.ranks import ProfiledParticipant, advance_rows, initialize_rows, profiled_participant
from precice_lb.ingest.profiling.times import CALL_DTYPE, CallReader
from precice_lb.ingest.profiling.windows import WindowCounter, read_iterations_log
from precice_lb.store.reader import read_store
from precice_lb.store.schema import store_filename
from precice_lb.store.writer import StoreWriter

__all__ = ["ImportResult", "import_profiling"]

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
    output: Path
    metadata: dict[str, Any]
    configuration: str
    case: ProfiledCase
    iterations: NDArray[np.int64] | None
    window_note: str | None


@dataclass(frozen=True)
class _Done:
    path: Path
    ended_unix_us: int
    advanced: bool
    fits: bool
    finished: bool
    windows: int


def import_profiling(
    directories: Sequence[str | Path],
    output: str | Path,
    *,
    configuration: str | Path | None = None,
    metadata: Mapping[str, Any] | None = None,
    processes: int | None = None,
) -> ImportResult:
    """Turn profiling files into store files.

    Of several runs in one folder the latest is taken. Time windows come from ``precice-<Participant>-iterations.log``;
    without it every coupling iteration is a window, which for an implicit scheme the store says.

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
    given = None if configuration is None else Path(configuration)
    tasks = _tasks(headers, roots, Path(output), given, metadata or {})
    done: list[_Done] = []
    try:
        done.extend(_all(tasks, processes or os.cpu_count() or 1))
        stores = _of_one_run(tasks, done, notes)
        if not stores:
            raise DataError(notes[-1])
        return ImportResult(stores, list(dict.fromkeys(notes)))
    except BaseException:
        for each in done:
            each.path.unlink(missing_ok=True)
        raise


def _tasks(
    headers: Sequence[Header], roots: Sequence[Path], output: Path, given: Path | None, more: Mapping[str, Any]
) -> list[_Task]:
    """Say of each file which run it belongs to; the files of one participant in one folder share almost everything."""
    shared: dict[tuple[Path, str], tuple[ProfiledParticipant, NDArray[np.int64] | None, str | None]] = {}
    tasks = []
    for header in headers:
        key = header.path.parent, header.participant
        if key not in shared:
            profiled = profiled_participant(header, roots, given)
            iterations = None if profiled.log is None else read_iterations_log(profiled.log)
            note = None
            if profiled.log is None and profiled.is_implicit is not False:
                note = (
                    f"expected precice-{header.participant}-iterations.log beside {header.path.parent}, found none; "
                    "every coupling iteration counts as a time window"
                )
            elif iterations is not None and not len(iterations):
                found = "no window" if profiled.log is not None and profiled.log.stat().st_size else "an empty file"
                note = (
                    f"{profiled.log}: expected the coupling iterations of each time window, found {found}: the run "
                    "ended before its first window was complete, which leaves nothing to learn from; let it run longer"
                )
            shared[key] = profiled, iterations, note
        profiled, iterations, note = shared[key]
        path = output / store_filename(header.participant, header.rank, header.size)
        if path.exists() and _already_imported(path, header):
            raise DataError(
                f"{path}: expected no store of this run, found {header.path} imported before; "
                "import it into another directory"
            )
        metadata = profiled.metadata(header, more)
        tasks.append(_Task(header, output, metadata, profiled.configuration, profiled.case, iterations, note))
    return tasks


def _already_imported(path: Path, header: Header) -> bool:
    earlier = [path, *path.parent.glob(f"{path.stem}.*{path.suffix}")]
    return any(read_store(each).metadata["started_unix_ns"] == header.unix_us * 1000 for each in earlier)


def _all(tasks: Sequence[_Task], processes: int) -> Iterator[_Done]:
    """Import each file; in processes of their own where that pays."""
    size = sum(task.header.path.stat().st_size for task in tasks)
    if min(processes, len(tasks)) == 1 or size < _SMALL:
        yield from map(_import_file, tasks)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(processes, len(tasks)), mp_context=context) as pool:
        yield from pool.map(_import_file, tasks)


def _import_file(task: _Task) -> _Done:
    """Write one store, block by block."""
    reader = CallReader(task.header)
    counter = WindowCounter(task.iterations)
    blocks = iter(reader)
    first = [rows for rows in [next(blocks, None)] if rows is not None]
    metadata = dict(task.metadata)
    receives = task.case.receives_data(task.header.participant, reader.mesh_sizes)
    if receives is not None:
        metadata["receives_data"] = receives
    if task.window_note is not None:
        metadata["recording_problem"] = task.window_note
    waits = task.case.waits(task.header.participant)
    writer = StoreWriter(task.output, metadata, task.configuration)
    finished, windows = False, 0
    try:
        initialized = False
        for calls in chain(first, blocks):
            if len(reader.initialize) and not initialized:
                initialized = True
                writer.write_initialize(initialize_rows(reader.initialize, waits))
            if len(calls):
                rows = advance_rows(calls, counter, waits)
                windows += int(rows["window_complete"].sum())
                writer.append(rows)
        profile = reader.profile(np.empty(0, dtype=CALL_DTYPE))
        finished = profile.finalized
        ended = task.header.unix_us + profile.last_us
    except BaseException:
        writer.close(finished=False, ended_unix_ns=task.metadata["started_unix_ns"])
        writer.path.unlink()
        raise
    writer.close(finished=finished, ended_unix_ns=ended * 1000)
    return _Done(writer.path, ended, "advance" in profile.totals, counter.fits(finished), finished, windows)


def _of_one_run(tasks: Sequence[_Task], done: list[_Done], notes: list[str]) -> list[Path]:
    """Leave out ranks of an earlier run of the same size, and count windows anew where a log is not of this run."""
    started: dict[tuple[Path, str], int] = {}
    for task in tasks:
        key = task.header.path.parent, task.header.participant
        started[key] = max(started.get(key, 0), task.header.unix_us)
    stores = []
    unfinished: dict[tuple[Path, str], int] = {}
    for position, task in enumerate(tasks):
        header, each = task.header, done[position]
        if each.ended_unix_us < started[header.path.parent, header.participant]:
            each.path.unlink()
            notes.append(f"{header.path}: left by an earlier run, which ended before the latest began")
            continue
        if not each.advanced:
            each.path.unlink()
            notes.append(
                f"{header.path}: expected records of advance, found none; the run ended before preCICE wrote them: "
                f"{task.case.flush_remedy}"
            )
            continue
        if not each.fits:
            each.path.unlink()
            note = (
                f"expected precice-{header.participant}-iterations.log of the run in {header.path.parent}, found one "
                "with another number of iterations; every coupling iteration counts as a time window"
            )
            without = _Task(header, task.output, task.metadata, task.configuration, task.case, None, note)
            done[position] = each = _import_file(without)
            notes.append(note)
        elif task.window_note is not None:
            notes.append(task.window_note)
        stores.append(each.path)
        if not each.finished and each.windows:
            key = header.path.parent, header.participant
            unfinished[key] = min(unfinished.get(key, each.windows), each.windows)
    notes += [
        f"{folder}: expected {name} to have come to its end, found that it was stopped or still runs; imported up to "
        f"time window {windows}"
        for (folder, name), windows in unfinished.items()
    ]
    return stores
