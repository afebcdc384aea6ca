"""Profiling files of solvers in any language become stores like recorded ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from precice_lb.dataset import CoupledRun, load_runs
from precice_lb.exceptions import DataError
from precice_lb.ingest.profiling.calls import WAITS_UNKNOWN, Profile
from precice_lb.ingest.profiling.files import Header
from precice_lb.ingest.profiling.find import ProfiledParticipant, find_profiles, profiled_participant
from precice_lb.ingest.profiling.tables import IterationsLog
from precice_lb.store.columns import Integers, Rows
from precice_lb.store.rank_file import read_rank_file
from precice_lb.store.schema import store_filename
from precice_lb.store.spool import StoreWriter
from precice_lb.text import checked_list, numbered, plural


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


def import_profiling(
    directories: Sequence[str | Path],
    output: str | Path,
    *,
    configuration: str | Path | None = None,
    metadata: Mapping[str, Any] | None = None,
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
        Profiling files, or directories that are searched for them with everything below.
    output : path
        The store directory; made if missing.
    configuration : path, optional
        The ``precice-config.xml``; by default the one beside or above the profiling files.
    metadata : mapping, optional
        What else the stores shall say of the run: ``run``, ``warmup_windows``, ``degrees_of_freedom``, ``parameters``.
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
    roots = [Path(directory) for directory in checked_list(directories, "directories", "paths", DataError)]
    headers, notes = find_profiles(roots)
    chosen = None if configuration is None else Path(configuration)
    threads = threads or {}
    if unknown := sorted(set(threads) - {header.participant for header in headers}):
        known = ", ".join(dict.fromkeys(header.participant for header in headers))
        raise DataError(f"threads: expected one of the participants {known}, found {unknown[0]!r}")
    stores: list[Path] = []
    missing, stopped = [], []
    try:
        # The files of one participant in one folder share almost everything.
        for (folder, name), group in groupby(headers, lambda header: header.group):
            files = list(group)
            participant = profiled_participant(files[0], roots, chosen, headers, alone=alone)
            more = {**(metadata or {}), **({"threads": threads[name]} if name in threads else {})}
            begun, ranks, windows = max(header.unix_us for header in files), set(), []
            for header in files:
                profile = Profile(header, participant.case, user_events=True).read()
                try:
                    if header.unix_us + profile.last_us < begun:
                        raise DataError(f"{header.path}: left by an earlier run, which ended before the latest began")
                    profile.require_calls()
                except DataError as error:
                    notes.append(str(error))
                    continue
                counted = _counted(header, participant, profile)
                notes += [counted.note] if counted.note else []
                if not profile.tells_waits:
                    notes.append(f"{folder}: {name}: {WAITS_UNKNOWN}")
                path, complete = _write(Path(output), header, participant, profile, counted, more)
                stores.append(path)
                ranks.add(header.rank)
                windows += [] if profile.finalized else [complete]
            if absent := sorted(set(range(files[0].size)) - ranks):
                missing.append(
                    f"{folder}: expected files of all {plural(files[0].size, 'rank')} of {name}, found {len(ranks)} of "
                    f"{files[0].size} ranks, without {numbered(absent)}"
                )
            if any(windows):
                stopped.append(
                    f"{folder}: expected {name} to have come to its end, found that it was stopped or still runs; read "
                    f"up to time window {min(filter(None, windows))}"
                )
        if not stores:
            raise DataError(notes[-1])
        return ImportResult(stores, list(dict.fromkeys([*missing, *notes, *stopped])))
    except BaseException:
        for path in stores:
            path.unlink(missing_ok=True)
        raise


def profiled_runs(
    sources: Sequence[Path], *, configuration: Path | None = None, warmup: int | None = None
) -> tuple[list[CoupledRun], list[str]]:
    """Give the coupled runs of profiling files, and what has to be said of them; nothing is written beside these."""
    with TemporaryDirectory(prefix="precice-lb-") as scratch:
        notes = import_profiling(sources, scratch, configuration=configuration, alone=True).notes
        # Stores are soon gone: the directories of the solvers tell runs apart.
        runs = load_runs([scratch], warmup=warmup, place=lambda store: Path(store.metadata["working_directory"]))
        return runs, notes


class _Counted(NamedTuple):
    """Calls of ``advance`` by windows."""

    calls: Rows
    # Iterations of each window, where there are several.
    iterations: Integers | None
    # What has to be said of them, and what counts as a window where these are not known.
    note: str = ""
    unit: str = ""


def _write(
    output: Path,
    header: Header,
    participant: ProfiledParticipant,
    profile: Profile,
    counted: _Counted,
    more: Mapping[str, Any],
) -> tuple[Path, int]:
    """Write the store of a rank; return it and how many windows are complete."""
    path = output / store_filename(header.participant, header.rank, header.size)
    for earlier in (path, *path.parent.glob(f"{path.stem}.*{path.suffix}")):
        if earlier.exists() and read_rank_file(earlier).metadata["started_unix_ns"] == header.unix_us * 1000:
            raise DataError(
                f"{path}: expected no store of this run, found {header.path} imported before; give another directory"
            )
    rows = profile.advance_rows(counted.calls, counted.iterations)
    metadata = participant.metadata(header, more) | profile.receiving
    if counted.unit:
        metadata["window_unit"] = counted.unit
    if counted.note and (counted.unit or (counted.iterations is not None and not len(counted.iterations))):
        metadata["recording_problem"] = counted.note
    if not profile.tells_waits:
        metadata["timing_problem"] = WAITS_UNKNOWN
    writer = StoreWriter(output, metadata, participant.configuration)
    try:
        try:
            writer.append(
                rows,
                names={"sections": profile.user_names},
                initialize=profile.initialize_rows(),
                sections=profile.section_rows(rows["window"]),
            )
        finally:
            writer.close(finished=profile.finalized, ended_unix_ns=1000 * (header.unix_us + profile.last_us))
    except BaseException:
        writer.path.unlink(missing_ok=True)
        raise
    return writer.path, int(rows["window_complete"].sum())


def _counted(header: Header, participant: ProfiledParticipant, profile: Profile) -> _Counted:
    """Count coupling iterations and time windows, as the iterations log of the run or the configuration says."""
    name, folder, roles, calls = header.participant, header.path.parent, participant.case.roles, profile.calls
    schemes, is_implicit = roles.schemes(name), profile.is_implicit
    if roles.configuration is not None:
        is_implicit = any(scheme.is_implicit for scheme in schemes)
    # Up to preCICE 3.1 nothing in the file tells which calls end an iteration.
    tells_ends = profile.tells_waits or not profile.finalized
    if is_implicit is False or (is_implicit is None and not participant.logs):
        windows = None if tells_ends or len(schemes) != 1 else schemes[0].windows
        thinned = calls if windows is None else _ending(calls, windows)
        if thinned is not None:
            return _Counted(thinned, None)
        note = (
            f"{header.path}: expected a multiple of {windows} calls of advance, as many as time windows, found "
            f"{len(calls)}, and nothing in it tells which end one; every call counts as a time window"
        )
        return _Counted(calls, None, note, "call of advance")
    log_name = f"precice-{name}-iterations.log"
    problem = f"expected {log_name} beside {folder}, found none"
    best: _Counted | None = None
    most = -1
    for log in participant.logs:
        iterations = IterationsLog(log).iterations()
        total = int(iterations.sum())
        ending = calls if tells_ends else _ending(calls, total)
        if ending is None or (profile.finalized and (ending["exchanges"] > 0).sum() != total):
            problem = f"expected {log_name} of the run in {folder}, found one with another number of iterations"
            continue
        note = "" if log.name == log_name else f"{problem}; took those of its partner, {log}"
        if not total:
            holds = "no window" if log.stat().st_size else "an empty file"
            note = (
                f"{log}: expected the coupling iterations of each time window, found {holds}: the run ended before its "
                "first window was complete, which leaves nothing to learn from; let it run longer"
            )
        if total > most:
            best, most = _Counted(ending, iterations, note), total
    if best is not None:
        return best
    return _Counted(calls, None, f"{problem}; every coupling iteration counts as a time window", "coupling iteration")


def _ending(calls: Rows, count: int) -> Rows | None:
    """Let so many calls end a coupling iteration, with as many steps each; None where that cannot be."""
    if not count or len(calls) % count:
        return None
    calls = calls.copy()
    calls["exchanges"] = (np.arange(len(calls)) + 1) % (len(calls) // count) == 0
    return calls
