"""Which files belong to the latest run, what they say by now, and what that is in each time window."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from precice_lb.case import Configuration, parse_configuration
from precice_lb.dataset.windows import Ranks, Reduction
from precice_lb.exceptions import ConfigurationError, DataError, StoreError
from precice_lb.ingest.profiling import find_profiles
from precice_lb.ingest.profiling.enrich import ProfileTail, WaitsTail
from precice_lb.ingest.profiling.files import Header
from precice_lb.ingest.profiling.find import profiled_participant
from precice_lb.store.rank_file import Tail
from precice_lb.store.reader import distinct_ranks, group_interval, group_runs, read_file, stores_below
from precice_lb.store.records import RankFile
from precice_lb.store.schema import SPOOL_SUFFIX

LATEST = 8
"""Time windows that count as the latest ones."""

# Rows of all ranks of a participant that are read at once, where its files are complete.
_AT_ONCE = 1 << 23

# Windows whose rows are kept, so that what a rank of one participant records late still meets that of the others.
_KEPT = 32

SEARCH_SHARE = 0.02
"""Share of the time that a search of a whole tree may take, unless it is quick."""

_QUICK_SECONDS = 0.05

# Of a time window that all ranks have completed: seconds without waiting for partners and without the transfer floor,
# seconds of waiting, wall seconds, and coupling iterations; NaN where not measured.
_ROW = np.dtype([("window", "<i8"), *((name, "<f8") for name in ("busy", "wait", "wall", "iterations"))])

T = TypeVar("T")
Array = NDArray[np.float64]


class Series:
    """What a participant did in each time window, reduced over its ranks; grows as the run goes on.

    Every wait counts in the window of the call that waits. So the second participant of a serial scheme, whose wait is
    for the window after, is one window off what `precice_lb.dataset.load_runs` says; its compute seconds are the same.
    """

    def __init__(self) -> None:
        # One of `_ROW` for each window, rising.
        self.rows: NDArray[np.void] = np.empty(0, _ROW)
        # The least of an iteration so far, but for the first windows; NaN if there was none.
        self.least_wait = self.least_overhead = np.nan
        # Why waits were not measured, with the number of ranks.
        self.problems: dict[str, int] = {}

    @property
    def last_window(self) -> int:
        """The last of the windows; 0 if there is none."""
        return int(self.rows["window"][-1]) if len(self.rows) else 0

    def add(self, group: Sequence[RankFile], warmup: int) -> None:
        """Take the windows that all ranks, each with at least its rows since then, have completed after the last."""
        # Nothing is worked out before every rank has completed another window.
        for store in group:
            rows = store.advances
            if not len(rows) or rows["window"][-1] <= self.last_window:
                return
        ranks = Ranks(group)
        new = ranks.windows > self.last_window
        if not new.any():
            return
        times = Reduction(ranks, warmup, whole=False)
        self.problems = times.problems
        rows = np.zeros(np.count_nonzero(new), _ROW)
        rows["window"], rows["iterations"] = ranks.windows[new], ranks.iterations[new]
        for name, values in (("wait", times.wait), ("busy", times.busy), ("wall", times.wall)):
            rows[name] = ranks.of_windows(values)[new]
        rows["wall"] = np.where(np.isfinite(rows["busy"]), rows["busy"] + rows["wait"], rows["wall"])
        self.rows = np.concatenate([self.rows, rows])
        self.least_wait = float(np.fmin(self.least_wait, times.least_wait))
        self.least_overhead = float(np.fmin(self.least_overhead, times.least_overhead))

    def compute(self, floor: float) -> Array:
        """Compute seconds of each window, shape (W,), with the transfer floor in seconds per iteration."""
        transfer = (floor if np.isfinite(self.least_wait) else 0.0) * self.rows["iterations"]
        return np.asarray(self.rows["busy"] + transfer)


class LiveRun:
    """A coupled run, read as it goes on."""

    def __init__(self, ranks: Sequence[Sequence[Tail]], notes: Sequence[str]) -> None:
        by_name = {str(group[0].store.metadata["participant"]): list(group) for group in ranks}
        self.ranks = dict(sorted(by_name.items()))
        self.all_ranks = [rank for group in ranks for rank in group]
        self.key = _key(rank.path for rank in self.all_ranks)
        self.series = {name: Series() for name in self.ranks}
        self._notes = tuple(notes)
        first = next(iter(self.ranks.values()))[0].store
        self.configuration = first.configuration
        sizes = " ".join(f"{name}:{data['size']}" for name, data in self.metadata.items())
        self.name = str(first.metadata.get("run") or sizes)

    @property
    def metadata(self) -> dict[str, dict[str, Any]]:
        """Metadata of each participant's first rank."""
        return {name: group[0].store.metadata for name, group in self.ranks.items()}

    @cached_property
    def parsed(self) -> Configuration | None:
        """What ``precice-config.xml`` says; None where it cannot be read."""
        try:
            return parse_configuration(self.configuration)
        except ConfigurationError:
            return None

    @property
    def missing(self) -> list[str]:
        """Participants of the configuration of which there are no files."""
        return [] if self.parsed is None else [name for name in self.parsed.participants if name not in self.ranks]

    @property
    def notes(self) -> tuple[str, ...]:
        """What could not be read, and why: of its ranks the first."""
        return (*self._notes, *[rank.problem for rank in self.all_ranks if rank.problem][:1])

    @property
    def begun_unix_ns(self) -> int:
        """When its first rank was started."""
        return min(int(rank.store.metadata["started_unix_ns"]) for rank in self.all_ranks)

    @property
    def has_ended(self) -> bool:
        """Whether all participants came to the end of the coupling."""
        return all(self.state(name) == "ended" for name in self.ranks)

    def state(self, participant: str) -> str:
        """Tell what a participant does: ``running``, ``ended``, or ``stopped`` before the end of the coupling."""
        states = {rank.state for rank in self.ranks[participant]}
        return next(state for state in ("running", "stopped", "ended") if state in states)

    def update(self, warmup: int) -> None:
        """Read on, one participant after the other, until nothing is left in their files."""
        for name, group in self.ranks.items():
            series, is_more = self.series[name], True
            while is_more:
                for rank in group:
                    rank.update()
                series.add([rank.store for rank in group], warmup)
                for rank in group:
                    rank.forget(series.last_window - _KEPT)
                is_more = any(rank.has_more for rank in group)


class Searches:
    """Repeats searches of whole trees, of which there may be many files, in a bounded share of the time."""

    def __init__(self) -> None:
        #: Seconds that all of them have taken.
        self.seconds = 0.0
        # What was found, and from when on that is looked for again.
        self._results: dict[str, tuple[Any, float]] = {}

    def __call__(self, what: str, search: Callable[[], T]) -> T:
        """Search, or return what was found last."""
        begin = time.monotonic()
        result: T
        result, due = self._results.get(what, (None, -math.inf))
        if begin >= due:
            result = search()
            took = time.monotonic() - begin
            self.seconds += took
            pause = took / SEARCH_SHARE if took > _QUICK_SECONDS else 0.0
            self._results[what] = result, begin + took + pause
        return result


class RunFiles:
    """Finds the latest run below a directory, and keeps it as long as no newer one is there."""

    def __init__(self, directory: Path, searches: Searches) -> None:
        self._directory = directory
        self._searches = searches
        self._files: frozenset[Path] = frozenset()
        self._run: LiveRun | None = None

    def latest(self) -> LiveRun | None:
        """Find the latest run, where there is one."""
        paths = self._searches("stores", lambda: stores_below(self._directory))
        files, run = _key(paths), self._run
        if run is not None and any(group[0].is_replaced for group in run.ranks.values()):
            run = None
        if run is None or run.missing or files != self._files:
            self._files = files
            groups, problems = self._newest(paths)
            ranks = [rank for group in groups for rank in group]
            if run is None or run.key != _key(rank.path for rank in ranks):
                for rank in ranks:
                    if rank.head is None:
                        rank.update()
                known = [[rank for rank in group if rank.head is not None] for group in groups]
                self._run = LiveRun([group for group in known if group], problems) if any(known) else None
                return self._run
        return run

    def _newest(self, paths: Iterable[Path]) -> tuple[list[list[Tail]], list[str]]:
        """Group the ranks of the run that began last, unread, and say which files cannot be read."""
        stores: list[RankFile] = []
        problems = []
        for path in paths:
            try:
                stores += read_file(path)
            except (StoreError, OSError) as error:
                problems.append(str(error))
        runs = group_runs(distinct_ranks(stores))
        latest = runs[-1] if runs else []
        groups = [[_tail(store, len(group)) for store in group] for group in latest]
        recorded = {str(group[0].metadata["participant"]) for group in latest}
        begun = min((group_interval(group)[0] for group in latest), default=None)
        return [*groups, *self._profiled(recorded, begun)], problems

    def _profiled(self, recorded: set[str], begun: int | None) -> list[list[Tail]]:
        """Ranks without a recorder, from preCICE's profiling files that were written to since the run began."""
        headers = [
            header for header in self._searches("profiles", self._profiles) if header.participant not in recorded
        ]
        if begun is None:
            begun = max((header.unix_us for header in headers), default=0) * 1000
        groups: dict[str, list[Header]] = {}
        for header in headers:
            # Somebody may remove it after it was found.
            with contextlib.suppress(FileNotFoundError):
                if header.path.stat().st_mtime_ns >= begun:
                    groups.setdefault(header.participant, []).append(header)
        tails: list[list[Tail]] = []
        for group in groups.values():
            try:
                participant = profiled_participant(group[0], [self._directory])
            except DataError:
                continue
            tails.append([ProfileTail(header, participant) for header in group])
        return tails

    def _profiles(self) -> list[Header]:
        try:
            return find_profiles([self._directory])[0]
        except DataError:
            return []


def _tail(store: RankFile, ranks: int) -> Tail:
    """Follow a recorded rank; a spool is read for its head before any other participant's rows are forgotten."""
    if store.path.suffix == SPOOL_SUFFIX:
        return WaitsTail(store.path)
    return WaitsTail(store, most=max(_AT_ONCE // ranks, 4096))


def _key(paths: Iterable[Path]) -> frozenset[Path]:
    """Name files without their suffix, which changes when a rank ends."""
    return frozenset(path.with_suffix("") for path in paths)
