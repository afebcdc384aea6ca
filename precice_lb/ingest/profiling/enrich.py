"""Joining recorded ranks with their profiling files, also while both grow: where the time in ``advance`` went."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from precice_lb.exceptions import DataError
from precice_lb.ingest.profiling.calls import WAITS_UNKNOWN, Profile
from precice_lb.ingest.profiling.files import Header, read_header
from precice_lb.ingest.profiling.find import (
    ProfiledCase,
    ProfiledParticipant,
    profile_candidates,
    profiled_case,
)
from precice_lb.ingest.profiling.tables import IterationsLog
from precice_lb.store.columns import ADVANCE_SPENDS, ADVANCES, NOT_MEASURED, Integers, Rows, encode_names
from precice_lb.store.rank_file import Tail
from precice_lb.store.records import RankFile

# Both clocks are tied to Unix time within milliseconds of each other; starting a solver anew takes longer than this.
_LARGEST_OFFSET_NS = 200_000_000
_SLACK_NS = 50_000
# preCICE keeps its first records in memory; rows wait for so many calls of advance before they go without their waits.
_MOST_UNMATCHED_CALLS = 128


def enrich(stores: Sequence[RankFile]) -> list[RankFile]:
    """Fill in what the recorder could not see, from each rank's own profiling file.

    The k-th recorded ``advance`` is the k-th in the file; that preCICE's interval lies within the recorder's for all
    of them, with one offset between the two clocks, is checked. Mapping that the solver asks for just in time counts
    as mapping, where the mode of profiling shows it: it is moved from ``solve_ns`` to ``advance_ns`` and
    ``mapping_ns``, so that their sum stays the wall time. Nothing on disk changes.

    Parameters
    ----------
    stores : sequence of RankFile
        Any ranks.

    Returns
    -------
    list of RankFile
        In the same order. Metadata ``timing_source`` says what was joined, ``timing_problem`` what is missing, why,
        and what to set; ``receives_data`` whether the rank waits for data. Ranks already joined are returned as they
        are, and so are those whose file has all waits, such as imported ones.
    """
    return [store if _is_told(store) else _joined(store) for store in stores]


def _is_told(store: RankFile) -> bool:
    """Whether the waits are known: the file was joined with a profiling file, or has the wait of every call."""
    waits = store.advances["wait_ns"]
    return "timing_source" in store.metadata or bool(len(waits) and (waits != NOT_MEASURED).all())


def _joined(store: RankFile) -> RankFile:
    case = profiled_case(store.configuration)
    try:
        profile = _profile_of(store, case, user_events=True)
        profile.require_calls()
        rows, which = _aligned(store, store.advances, profile)
    except DataError as error:
        return store.having({"timing_problem": str(error)})
    advances, initialize = store.advances.copy(), store.initialize.copy()
    advances[rows] = _filled(advances[rows], profile, profile.calls[which])
    if len(profile.initialize) and len(initialize):
        _fill(initialize, profile, profile.initialize)
    metadata = {**store.metadata, "timing_source": f"precice-profiling {profile.header.mode}", **profile.receiving}
    count = rows.stop - rows.start
    if not profile.tells_waits:
        metadata["timing_problem"] = f"{profile.header.path}: {WAITS_UNKNOWN}"
    elif count < len(advances):
        metadata["timing_problem"] = (
            f"{profile.header.path}: expected the times of {len(advances)} calls of advance, found {count}; "
            f"preCICE keeps records in memory until it writes them: where a run may be killed, {case.flush_remedy}"
        )
    own_sections, own_names = store.rows("sections"), store.names("sections")
    spent_sections, spent_names = _sections_in_advance(profile, advances["window"][rows], which.start)
    spent_sections["name"] += len(own_names)
    spent_sections["begin_ns"] += _zero_of(store, profile)
    return store.having(
        metadata,
        advances=advances,
        initialize=initialize,
        sections=np.concatenate([own_sections, spent_sections]),
        section_names=encode_names("section_names", [*own_names, *spent_names]),
    )


def _sections_in_advance(profile: Profile, windows: Integers, first: int) -> tuple[Rows, list[str]]:
    """Return preCICE's own events in ``advance`` as sections, and their names.

    The profiling file has the solver's own sections too. They are left out: the recorder has them already, and a name
    that a store has twice would be read as two sections.

    Parameters
    ----------
    profile : Profile
        The profiling file of the rank.
    windows : ndarray, shape (calls,)
        Time window of each call of ``advance`` in the store.
    first : int
        Number of calls in the profiling file before these.

    Returns
    -------
    sections : ndarray, shape (n,)
        Rows of the table of sections, whose ``name`` is a position in `names`.
    names : list of str
    """
    sections = profile.section_rows(windows, first)
    is_spent = np.char.startswith(np.array(profile.user_names, np.str_), ADVANCE_SPENDS)
    # Position among the names that are kept, by position among all.
    kept_position = np.cumsum(is_spent) - 1
    kept = sections[is_spent[sections["name"]]]
    kept["name"] = kept_position[kept["name"]]
    names = [name for name in profile.user_names if name.startswith(ADVANCE_SPENDS)]
    return kept, names


def _filled(rows: Rows, profile: Profile, calls: Rows) -> Rows:
    """Fill mapping and wait of the same calls in the profiling file into recorded rows."""
    rows = rows.copy()
    _fill(rows, profile, calls)
    rows["solve_ns"] -= calls["jit_us"] * 1000
    rows["advance_ns"] += calls["jit_us"] * 1000
    return rows


def _zero_of(store: RankFile, profile: Profile) -> int:
    """Zero of a profiling file on the recorder's clock, in ns."""
    data = store.metadata
    return int(profile.header.unix_us * 1000 - data["started_unix_ns"] + data["started_clock_ns"])


def _fill(rows: Rows, profile: Profile, calls: Rows) -> None:
    for column, times in (("wait_ns", profile.waited_ns(calls)), ("mapping_ns", profile.mapped_ns(calls))):
        rows[column] = np.where(rows[column] == NOT_MEASURED, times, rows[column])


def _profile_of(store: RankFile, case: ProfiledCase, *, user_events: bool) -> Profile:
    """Profiling file of the same rank and run: where the solver ran or, where it is not there any more, moved along."""
    data, problems = store.metadata, []
    beside, moved = profile_candidates(store, case.directory)
    there = [path for path in beside if path.exists()]
    # What lies where the solver ran may be of another run, or nothing is there any more: the case was moved.
    if there or not Path(data.get("working_directory", ".")).is_dir():
        there += [path for path in moved if path not in there and path.exists()]
    for path in there:
        try:
            header = read_header(path)
        except DataError as error:
            problems.append(str(error))
            continue
        if (header.participant, header.rank, header.size) != (data["participant"], data["rank"], data["size"]):
            problems.append(f"{path}: expected the profiling file of this rank, found one of another rank")
            continue
        profile = Profile(header, case, user_events=user_events).read()
        first, last = header.unix_us * 1000, (header.unix_us + profile.last_us) * 1000
        if first - _LARGEST_OFFSET_NS <= data["started_unix_ns"] <= last + _LARGEST_OFFSET_NS:
            return profile
        problems.append(
            f"{path}: expected the profiling file of this run, found one of another run; give each run a directory of "
            "its own, or copy its stores with precice-lb export --merged before the next one"
        )
    remedy = "keep preCICE's profiling files beside the run, and move them with its stores"
    if case.mode == "off":
        remedy = 'set <profiling mode="fundamental"/> instead of mode="off"'
    problems.append(f"{beside[0]}: expected preCICE's profiling file of this rank, found none; {remedy}")
    raise DataError(problems[0])


def _aligned(store: RankFile, advances: Rows, profile: Profile) -> tuple[slice, slice]:
    """Find which recorded rows are which calls in the file, as slices of one length."""
    begin = profile.calls["begin_us"] * 1000 + _zero_of(store, profile)
    end = begin + profile.calls["call_us"] * 1000
    row_begin = advances["begin_ns"]
    row_end = row_begin + advances["advance_ns"]
    # Where the first records of one of the two are lost, the clocks say which calls belong together.
    later_call = int(np.argmin(np.abs(begin - row_begin[0]))) if len(advances) else 0
    later_row = int(np.argmin(np.abs(row_begin - begin[0]))) if len(advances) else 0
    for row, call in dict.fromkeys([(0, 0), (0, later_call), (later_row, 0)]):
        count = min(len(advances) - row, len(begin) - call)
        rows, calls = slice(row, row + count), slice(call, call + count)
        least = int((row_begin[rows] - begin[calls]).max(initial=-_LARGEST_OFFSET_NS))
        most = int((row_end[rows] - end[calls]).min(initial=_LARGEST_OFFSET_NS))
        if least <= most + _SLACK_NS and abs(least) <= _LARGEST_OFFSET_NS:
            return rows, calls
    raise DataError(
        f"{profile.header.path}: expected the calls of advance that were recorded in {store.path.name}, found others; "
        "keep the profiling files of the recorded run"
    )


class WaitsTail(Tail):
    """A recorded rank, with mapping and wait as preCICE writes its profiling file, where the recorder was not told.

    Its metadata are ``timing_source`` and ``receives_data``, or ``timing_problem``.
    """

    def __init__(self, source: Path | RankFile, most: int = 4096) -> None:
        super().__init__(source, most)
        self._case: ProfiledCase | None = None
        self._profile: Profile | None = None
        # Rows that wait for their times.
        self._rows: Rows = ADVANCES.empty()
        self._is_aligned = False

    def filled(self, rows: Rows, *, is_last: bool) -> Rows:
        """Give those of the rows whose times are in the file by now; with ``is_last`` perhaps without their waits."""
        store = self.store
        if self._case is None:
            if "timing_source" in store.metadata or (rows["wait_ns"] != NOT_MEASURED).all():
                return rows
            self._case = profiled_case(store.configuration)
        self._rows = np.concatenate([self._rows, rows])
        try:
            if self._profile is None:
                self._profile = _profile_of(store, self._case, user_events=False)
            profile = self._profile.read()
            if not self._is_aligned and len(self._rows) and len(profile.calls):
                # What comes before is given up.
                mine, calls = _aligned(store, self._rows, profile)
                self._take(mine.start)
                profile.take(calls.start)
                self._is_aligned = True
        except DataError as error:
            if not is_last and self._case.mode != "off" and len(self._rows) < _MOST_UNMATCHED_CALLS:
                return self._take(0)
            self.metadata["timing_problem"] = str(error)
            return self._take(len(self._rows))
        self.metadata = {"timing_source": f"precice-profiling {profile.header.mode}", **profile.receiving}
        count = min(len(self._rows), len(profile.calls)) if self._is_aligned else 0
        done = _filled(self._take(count), profile, profile.take(count))
        return np.concatenate([done, self._take(len(self._rows))]) if is_last else done

    def _take(self, count: int) -> Rows:
        taken, self._rows = self._rows[:count], self._rows[count:]
        return taken


class ProfileTail(Tail):
    """A rank without a recorder: its rows of ``advance`` are made of its profiling file, as they appear."""

    def __init__(self, header: Header, participant: ProfiledParticipant) -> None:
        metadata = {**participant.metadata(header), "attempt": 1, "finished": False}
        super().__init__(RankFile(header.path, metadata, participant.configuration))
        self._profile = Profile(header, participant.case)
        self._log = IterationsLog(participant.logs[0]) if participant.logs else None

    @property
    def is_replaced(self) -> bool:
        """Whether the file is of another run by now."""
        try:
            return read_header(self.path).unix_us != self._profile.header.unix_us
        except DataError:
            return False

    def read(self) -> Rows:
        """Read what is new since the last call; calls whose window the iterations log does not tell yet come later."""
        profile = self._profile
        try:
            profile.read()
            iterations = None if self._log is None else self._log.iterations()
        except DataError as error:
            self.problem = str(error)
            return ADVANCES.empty()
        self.problem = ""
        self.head = self.store.having(initialize=profile.initialize_rows())
        self.metadata |= profile.receiving
        if profile.finalized:
            self.metadata |= {"finished": True, "ended_unix_ns": 1000 * (profile.header.unix_us + profile.last_us)}
        ended = self._count + np.cumsum(profile.calls["exchanges"] > 0)
        # Of calls that the log does not reach it is not known which window they belong to.
        count = len(ended) if iterations is None else int(np.searchsorted(ended, int(iterations.sum()), side="right"))
        rows = profile.advance_rows(profile.take(count), iterations, self._count)
        # Coupling iterations that ended in the calls so far.
        self._count = int(ended[:count].max(initial=self._count))
        return rows
