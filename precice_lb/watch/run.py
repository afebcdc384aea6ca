"""Which files belong to the latest run, what they say by now, and what that is in each time window."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from precice_lb.case import Configuration, parse_configuration
from precice_lb.dataset.records import GUESSED, Columns, Guesses
from precice_lb.dataset.windows import Ranks, Reduction
from precice_lb.exceptions import ConfigurationError, DataError, StoreError
from precice_lb.ingest.profiling import find_profiles
from precice_lb.ingest.profiling.enrich import RowsFiller, WaitsFiller
from precice_lb.ingest.profiling.files import Header
from precice_lb.ingest.profiling.find import profiled_participant
from precice_lb.store.rank_file import Tail
from precice_lb.store.reader import distinct_ranks, group_interval, group_runs, read_file, stores_below
from precice_lb.store.records import RankFile
from precice_lb.store.schema import SPOOL_SUFFIX

# Windows whose rows are kept, so that what a rank of one participant records late still meets that of the others.
_KEPT = 32

SEARCH_SHARE = 0.02
"""Share of the time that a search of a whole tree may take, unless it is quick."""

_QUICK_SECONDS = 0.05

# Of a time window that all ranks have completed: seconds without waiting for partners and without the transfer floor,
# seconds of waiting, wall seconds, coupling iterations, and its first guess; NaN where not measured.
_ROW = np.dtype(
    [("window", "<i8"), *((name, "<f8") for name in ("busy", "wait", "wall", "iterations")), ("guess", GUESSED)]
)

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
        # How well a window was guessed may be written after its rows.
        latest = self.rows[np.searchsorted(self.rows["window"], ranks.windows[0]) :]
        guesses = Guesses(latest["window"])
        for store in group:
            guesses.add(store)
        latest["guess"] = guesses.rows
        self.least_wait = float(np.fmin(self.least_wait, times.least_wait))
        self.least_overhead = float(np.fmin(self.least_overhead, times.least_overhead))

    def guessed(self, warmup: int) -> Columns:
        """Return what tells the predictors of windows after warm-up."""
        rows = self.rows[self.rows["window"] > warmup]
        return rows["window"], rows["iterations"], rows["wall"], rows["guess"]

    def compute(self, floor: float) -> Array:
        """Compute seconds of each window, shape (W,), with the transfer floor in seconds per iteration."""
        transfer = (floor if np.isfinite(self.least_wait) else 0.0) * self.rows["iterations"]
        return np.asarray(self.rows["busy"] + transfer)


class LiveRun:
    """A coupled run, read as it goes on; its ranks by participant were updated once."""

    def __init__(self, ranks: Sequence[Sequence[Tail]], notes: Sequence[str]) -> None:
        by_name = {str(group[0].store.metadata["participant"]): list(group) for group in ranks}
        self.ranks = dict(sorted(by_name.items()))
        self._all = [rank for group in ranks for rank in group]
        self.key = _key(rank.path for rank in self._all)
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
        """What could not be read, and why."""
        problems = [rank.problem for rank in self._all if rank.problem]
        if not problems:
            return self._notes
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        return (*self._notes, f"{problems[0]}{more}")

    @property
    def start_up_seconds(self) -> float:
        """From the construction of the slowest participant to the end of its ``initialize``; NaN where unknown."""
        seconds = []
        for store in (group[0].store for group in self.ranks.values()):
            if len(store.initialize):
                row = store.initialize[0]
                end = int(row["begin_ns"]) + int(row["initialize_ns"])
                seconds.append((end - int(store.metadata["started_clock_ns"])) * 1e-9)
        return max(seconds, default=math.nan)

    @property
    def begun_unix_ns(self) -> int:
        """When its first rank was started."""
        return min(int(rank.store.metadata["started_unix_ns"]) for rank in self._all)

    @property
    def has_ended(self) -> bool:
        """Whether all participants came to the end of the coupling."""
        return all(self.state(name) == "ended" for name in self.ranks)

    def state(self, participant: str) -> str:
        """Tell what a participant does: ``running``, ``ended``, or ``stopped`` before the end of the coupling."""
        states = {rank.state for rank in self.ranks[participant]}
        return next(state for state in ("running", "stopped", "ended") if state in states)

    def update(self, warmup: int) -> None:
        """Take into the series what the ranks have read, until nothing is left in their files."""
        while True:
            for name, group in self.ranks.items():
                series = self.series[name]
                series.add([rank.store for rank in group], warmup)
                for rank in group:
                    rank.forget(series.last_window - _KEPT)
            if not (more := [rank for rank in self._all if rank.has_more]):
                return
            for rank in more:
                rank.update()

    def read(self) -> None:
        """Read the files once more."""
        for rank in self._all:
            rank.update()


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
        self._heads: dict[Path, list[RankFile]] = {}
        self._run: LiveRun | None = None

    def latest(self) -> LiveRun | None:
        """Find the latest run, where there is one, and read on in its files."""
        if self._run is not None and any(group[0].is_replaced for group in self._run.ranks.values()):
            self._run = None
        before = frozenset(self._heads)
        is_complete = self._run is not None and not self._run.missing
        problems = self._find(again=not is_complete)
        is_known = is_complete and before == frozenset(self._heads)
        groups = [] if is_known else self._groups()
        key = _key(rank.path for group in groups for rank in group)
        if self._run is not None and (is_known or self._run.key == key):
            self._run.read()
            return self._run
        for group in groups:
            for rank in group:
                rank.update()
        known = [[rank for rank in group if rank.head is not None] for group in groups]
        self._run = LiveRun([group for group in known if group], problems) if any(known) else None
        return self._run

    def earlier(self, run: LiveRun) -> list[Path]:
        """Find the stores of other runs of the same case, that all its participants took part in."""
        case = next(iter(run.metadata.values()))["case"]
        stores = [store for store in self._stores() if store.metadata["case"] == case]
        others: dict[Path, None] = {}
        for other in group_runs(stores):
            paths = [store.path for group in other for store in group]
            whole = {str(group[0].metadata["participant"]) for group in other} >= set(run.ranks)
            if whole and run.key.isdisjoint(_key(paths)):
                others.update(dict.fromkeys(paths))
        return list(others)

    def _find(self, *, again: bool) -> list[str]:
        """Read the heads of new files, ``again`` also of those not closed; what cannot be read is tried again."""
        problems = []
        paths = self._searches("stores", lambda: stores_below(self._directory))
        self._heads = {path: self._heads[path] for path in paths if path in self._heads}
        for path in paths:
            known = self._heads.get(path)
            if known is not None and not (again and any("ended_unix_ns" not in store.metadata for store in known)):
                continue
            try:
                self._heads[path] = read_file(path)
            except (StoreError, OSError) as error:
                problems.append(str(error))
        return problems

    def _stores(self) -> list[RankFile]:
        """Every rank of every launch once."""
        return distinct_ranks(store for heads in self._heads.values() for store in heads)

    def _groups(self) -> list[list[Tail]]:
        runs = group_runs(self._stores())
        latest = [list(group) for group in runs[-1]] if runs else []
        sources = [[it.path if it.path.suffix == SPOOL_SUFFIX else it for it in group] for group in latest]
        groups = [[Tail(source, WaitsFiller, tables=["guesses"]) for source in group] for group in sources]
        seen = {str(group[0].metadata["participant"]) for group in latest}
        begun = min((group_interval(group)[0] for group in latest), default=None)
        return [*groups, *self._profiled(seen, begun)]

    def _profiled(self, recorded: set[str], begun: int | None) -> list[list[Tail]]:
        """Ranks without a recorder, from preCICE's profiling files that were written to since the run began."""
        headers = [
            header for header in self._searches("profiles", self._profiles) if header.participant not in recorded
        ]
        if begun is None:
            begun = max((header.unix_us for header in headers), default=0) * 1000
        groups: dict[str, list[Header]] = {}
        for header in headers:
            if header.path.stat().st_mtime_ns >= begun:
                groups.setdefault(header.participant, []).append(header)
        tails = []
        for group in groups.values():
            try:
                participant = profiled_participant(group[0], [self._directory])
            except DataError:
                continue
            fillers = [RowsFiller(header, participant) for header in group]
            tails.append([Tail(filler.head, filler=filler) for filler in fillers])
        return tails

    def _profiles(self) -> list[Header]:
        try:
            return find_profiles([self._directory])[0]
        except DataError:
            return []


def _key(paths: Iterable[Path]) -> frozenset[Path]:
    """Name files without their suffix, which changes when a rank ends."""
    return frozenset(path.with_suffix("") for path in paths)
