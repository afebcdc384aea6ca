"""A recommendation or a summary at the end of a run, written by whichever participant ends last.

Every participant's primary rank starts this in a process of its own after its solver's last call. The participant
that finds all others finished writes; if two find so at once, a lock lets one after the other in and the second sees
that the work is done.
"""

from __future__ import annotations

import hashlib
import io
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from precice_lb.case import Configuration, parse_configuration
from precice_lb.dataset import load_runs, measurements_from_runs
from precice_lb.dataset.measurements import stated_parameters
from precice_lb.exceptions import DataError, StoreError
from precice_lb.recommend import recommend_split
from precice_lb.recommend.result import RECOMMENDATION_FILE
from precice_lb.report.render import console, rendered, write_files, write_recommendation
from precice_lb.report.summary import summarise, summary_dict
from precice_lb.report.summary_view import answered, summary_blocks
from precice_lb.schedule import Schedule
from precice_lb.store.rank_file import read_rank_file
from precice_lb.store.reader import distinct_ranks, find_stores, group_ranks, group_runs, lock
from precice_lb.store.records import Complete, RankFile
from precice_lb.text import json_text

_Run: TypeAlias = Sequence[Sequence[RankFile]]

SUMMARY_NAME = "summary.txt"

TIMEOUT_SECONDS = 30.0
"""How long to wait for the ranks of one's own participant to close their stores."""

_LOCK_SECONDS = 120.0
_LOCK_NAME = ".precice-lb-at-end.lock"


def write_at_end(
    case_directory: str | Path,
    store: str | Path,
    participant: str,
    result: str = RECOMMENDATION_FILE,
    *,
    timeout: float = TIMEOUT_SECONDS,
    complete: Complete | None = None,
) -> list[Path]:
    """Write a recommendation, or a summary, if all participants of the run that just ended have finished.

    That is where this participant is the last one to end, and the ``result`` of this run is not in the case directory
    yet: `RECOMMENDATION_FILE` or `SUMMARY_NAME`.
    """
    case, stores = Path(case_directory), Path(store)
    launch = _wait_until_closed(stores, participant, timeout)
    run = _run_of(launch, [case, stores])
    configuration = parse_configuration(launch[0].configuration, launch[0].metadata.get("configuration_path", case))
    finished = {
        str(group[0].metadata["participant"])
        for group in run
        if _closed(group) and all(store.metadata["finished"] for store in group)
    }
    if finished != set(configuration.participants):
        return []
    case.mkdir(parents=True, exist_ok=True)
    path = case / _LOCK_NAME
    try:
        # The system frees it when the process ends, however it ends.
        locked = lock(path, _LOCK_SECONDS)
    except BlockingIOError:
        raise DataError(
            f"{path}: expected the lock to be free within {_LOCK_SECONDS:g} s, found it held; "
            "run precice-lb recommend instead"
        ) from None
    with locked:
        # The same for all participants of a run, another one for every further run.
        files = sorted((str(s.path.with_suffix("")), s.metadata["ended_unix_ns"]) for group in run for s in group)
        state = f"{result} {hashlib.sha256(repr(files).encode()).hexdigest()}"
        if path.read_text() == state and (case / result).exists():
            return []
        if result == SUMMARY_NAME:
            written = _summary(run, case, complete)
        else:
            written = _recommendation(run, case, stores, configuration, complete)
        path.write_text(state)
    return written


def _recommendation(
    run: _Run, case: Path, store: Path, configuration: Configuration, complete: Complete | None
) -> list[Path]:
    """Recommend by all runs of the case for as many ranks as this one had."""
    heads = [group[0].metadata for group in run]
    runs = load_runs([case, store], complete=complete)
    measurements = measurements_from_runs([earlier for earlier in runs if earlier.case == heads[0]["case"]])
    schedule = Schedule.from_config(configuration, measurements.iterations, measurements.overhead)
    total = sum(int(head["size"]) * int(head.get("threads", 1)) for head in heads)
    # The case that just ran, where runs state parameters such as the mesh level.
    parameters = stated_parameters(heads, measurements)
    recommendation = recommend_split(measurements, total, coupling=schedule, parameter=parameters)
    return write_recommendation(recommendation, case, [store])


def _summary(run: _Run, case: Path, complete: Complete | None) -> list[Path]:
    """Sum up this run alone."""
    runs = load_runs([store.path for group in run for store in group], complete=complete)
    screen, summaries = io.StringIO(), summarise(runs)
    answer = answered(summaries)
    console(screen).print(rendered(summary_blocks(summaries, answer)))
    values = [summary_dict(summary, answer) for summary in summaries]
    texts = {SUMMARY_NAME: screen.getvalue().encode(), "summary.json": json_text(values).encode()}
    return write_files(case, texts, "the summary")


def _wait_until_closed(directory: Path, participant: str, timeout: float) -> Sequence[RankFile]:
    """Wait for all ranks of the participant's latest launch to close their stores."""
    deadline, pause = time.monotonic() + timeout, 0.05
    while True:
        groups = group_ranks(store for store in _readable([directory]) if store.metadata["participant"] == participant)
        latest = max(groups, key=lambda group: group[0].metadata["started_unix_ns"], default=[])
        if latest and _closed(latest):
            return latest
        if time.monotonic() > deadline:
            ranks = latest[0].metadata["size"] if latest else "any"
            closed = sum("ended_unix_ns" in store.metadata for store in latest)
            raise StoreError(
                f"{directory}: expected {ranks} ranks of participant {participant!r} to close their stores within "
                f"{timeout:g} s, found {closed}; run precice-lb recommend when they have ended"
            )
        time.sleep(pause)
        pause = min(2.0 * pause, 1.0)


def _readable(sources: Sequence[Path]) -> list[RankFile]:
    """Read what can be read, which a file that is being created cannot yet; a spool and what replaces it are one."""
    files: list[RankFile] = []
    for source in sources:
        with suppress(StoreError):
            for path in find_stores([source]):
                with suppress(StoreError):
                    files.append(read_rank_file(path))
    return distinct_ranks(files)


def _closed(group: Sequence[RankFile]) -> bool:
    return len(group) == group[0].metadata["size"] and all("ended_unix_ns" in store.metadata for store in group)


def _run_of(launch: Sequence[RankFile], sources: Sequence[Path]) -> _Run:
    """Find the coupled run that a participant's stores belong to."""
    stores = {store.path: store for store in _readable(sources)}
    for run in group_runs(stores.values()):
        if any(store.path == launch[0].path for group in run for store in group):
            return run
    raise StoreError(f"{launch[0].path}: expected the store to be still there, found it gone")
