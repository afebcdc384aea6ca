"""The segments of a chain of jobs: how long they are, what they take over and leave, and how they ran."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from precice_lb.campaign.launchers import Launcher
from precice_lb.campaign.plan import RunPlan
from precice_lb.campaign.prepare import LEFT_OUT, copy_tree, entries_of, run_in
from precice_lb.campaign.processes import Outcome, stop_token
from precice_lb.campaign.runs import SET_ASIDE_SUFFIX, CampaignRuns, blaming
from precice_lb.campaign.state import CampaignResult, RunRecord, SegmentNote, measurements_of
from precice_lb.campaign.study import Study
from precice_lb.case import read_configuration
from precice_lb.case.coupling import Roles
from precice_lb.chain.document import Segment
from precice_lb.dataset import CoupledRun, ParticipantRun, load_runs
from precice_lb.dataset.runs import flaws
from precice_lb.dataset.series import LEAST_WINDOWS, mean_of, spread_of
from precice_lb.exceptions import CalibrationError, PreciceLBError, StudyError
from precice_lb.ingest.profiling import enrich
from precice_lb.text import plural


class ChainWindows:
    """Counts the time windows of a study's chain: the longest ones, where coupling schemes differ."""

    def __init__(self, study: Study) -> None:
        if study.chain is None:
            raise StudyError(f"{study.path}: expected the table [chain], found none; configs/README.md has its keys")
        self.chain = study.chain
        configuration = read_configuration(study.configuration_path)
        self._size = configuration.longest_window
        total = study.chain.total or configuration.windows
        if total is None:
            raise StudyError(
                f"chain.total: expected the number of time windows of the whole chain, since {configuration.path.name} "
                "does not say how many there are, found none"
            )
        self.total = total
        if math.isnan(self._size):
            raise StudyError(
                f"{study.path}: expected a configuration with a time-window-size, found one whose windows the first "
                "participant sizes; give them a size to run it in segments"
            )

    def start_time(self, window: int) -> str:
        """Write the coupling time after so many windows, without what rounding would add to it."""
        return f"{float(window * Decimal(repr(self._size))):.15g}"


def note_of(record: RunRecord) -> SegmentNote:
    """Return what a run is in its chain."""
    if record.segment is None:
        raise CalibrationError(f"run {record.name}: expected a segment of a chain, found a campaign's run")
    return record.segment


class SegmentRuns(CampaignRuns):
    """Does the segments of a chain in ``directory``; what a finished one left is never written to again."""

    def __init__(self, study: Study, launcher: Launcher, state: CampaignResult, windows: ChainWindows) -> None:
        super().__init__(study, launcher, state)
        self._windows = windows
        #: What a segment's job does at its end.
        self.last_line = ""

    def plan(self, record: RunRecord) -> RunPlan:
        """Return what the launcher is given of a segment."""
        return replace(super().plan(record), last_line=self.last_line)

    def check_room(self) -> None:
        """Refuse a study whose largest segment finds no place."""
        self.launcher.check_cores(self.largest)

    def _taken_up(self, record: RunRecord, report: Callable[[RunRecord], None]) -> Outcome | None:
        """Go on with a segment whose solvers ended well, but whose state was not collected."""
        if note_of(record).ended:
            stop_token(record.token)
            return Outcome(record.seconds)
        return super()._taken_up(record, report)

    def collect_again(self) -> RunRecord | None:
        """Conclude the last segment again where only what follows its run had failed, which may be mended by now."""
        last = self.state.runs[-1] if self.state.runs else None
        if last is None or last.outcome != "failed" or not note_of(last).ended:
            return None
        for path in (self.directory / last.directory).glob(f"stores/**/*{SET_ASIDE_SUFFIX}"):
            path.rename(path.with_name(path.name.removesuffix(SET_ASIDE_SUFFIX)))
        last.log_tail, last.reasons, last.blamed = [], [], []
        self.conclude(last, Outcome(last.seconds))
        return last

    def _lengths(self, record: RunRecord) -> tuple[int, int]:
        """Windows of a segment; at most half of them are warm-up."""
        windows = note_of(record).windows
        return windows, min(self.study.runs.warmup_windows, windows // 2)

    def _place(self, record: RunRecord) -> Mapping[str, object]:
        note = note_of(record)
        return {"segment": note.number, "start_time": self._windows.start_time(note.start_window)}

    def _prepare(self, plan: RunPlan, record: RunRecord) -> None:
        """Note how long it takes, too."""
        began = time.monotonic()
        super()._prepare(plan, record)
        note_of(record).prepare_seconds = round(time.monotonic() - began, 3)

    def _take_over(self, case: Path) -> None:
        """Lay in what the last segment left."""
        if finished := self.state.finished:
            before = self.directory / finished[-1].directory / "case"
            _lay_in(before, case, self._carried(before))

    def _problem(self, record: RunRecord, outcome: Outcome) -> str | None:
        """Also check the windows, collect the state, and see that the next segment will find what it needs."""
        if problem := super()._problem(record, outcome) or self._cut_short(record):
            return problem
        note = note_of(record)
        note.ended = True
        self.state.save()
        began = time.monotonic()
        try:
            self._collect(record)
            self._check_carried(self.directory / record.directory / "case")
        except (OSError, PreciceLBError) as problem:
            return str(problem)
        note.collect_seconds = round(time.monotonic() - began, 3)
        return None

    def _cut_short(self, record: RunRecord) -> str | None:
        """Say who recorded fewer windows than the segment has; its `<max-time>` is no excuse."""
        place = self.directory / record.directory
        try:
            (run,) = load_runs([place / "stores"], complete=enrich)
        except (PreciceLBError, ValueError) as problem:
            return f"the segment's stores cannot be read: {problem}"
        if unfinished := flaws(run).get("not finished"):
            return unfinished[0]
        roles = Roles(read_configuration(place / "case" / self.study.case.configuration))
        for name, part in run.participants.items():
            windows = min(scheme.max_time_windows or 0 for scheme in roles.schemes(name))
            if len(part.windows) < windows:
                return f"{name} was to run {plural(windows, 'time window')}, but recorded {len(part.windows)}"
        return None

    def _collect(self, record: RunRecord) -> None:
        plan = self.plan(record)
        for participant, task in zip(self.study.participants, plan.tasks, strict=True):
            for command in participant.collect:
                with blaming(record, participant.name):
                    collecting = replace(task, log=plan.directory / "collect.log")
                    run_in(self.study, participant, plan, collecting, command, "collect")

    def _carried(self, case: Path) -> list[Path]:
        """Find what a segment leaves to the next one, relative to its case."""
        if not self._windows.chain.carry:
            return [path.relative_to(case) for path in sorted(case.iterdir()) if not path.is_symlink()]
        matches = {pattern: sorted(case.glob(pattern)) for pattern in self._windows.chain.carry}
        if lacking := [pattern for pattern, paths in matches.items() if not paths]:
            raise CalibrationError(
                f"chain.carry: {lacking[0]!r} matches nothing that the segment left in {case}: correct the pattern, "
                "or let the solvers or collect write it"
            )
        return list(dict.fromkeys(path.relative_to(case) for paths in matches.values() for path in paths))

    def _check_carried(self, case: Path) -> None:
        """Refuse a segment that left everything as it found it: the next one would run the same again."""
        carried = [case / path for path in self._carried(case)]
        began = (case / self.study.case.configuration).stat().st_mtime_ns
        files = [file for path in carried for file in (path.rglob("*") if path.is_dir() else [path])]
        if self._windows.chain.carry and not any(file.lstat().st_mtime_ns >= began for file in files):
            raise CalibrationError(
                f"expected the segment to write some of what chain.carry names, found nothing changed of it in {case}: "
                "let the solvers or collect write their state there"
            )


def _lay_in(before: Path, case: Path, carried: list[Path]) -> None:
    """Copy what a segment left over the next one's copy of the case."""
    for path in carried:
        linked = next((parent for parent in path.parents if (case / parent).is_symlink()), None)
        if linked is not None:
            raise CalibrationError(
                f"chain.carry: {path} lies in {linked}, which is a link in the copies of the case: take it out of "
                "case.link, or out of chain.carry"
            )
    # Measurements of preCICE that were carried would be taken for the next segment's.
    copy_tree(before, case, entries_of(before, only=frozenset(carried), left_out=LEFT_OUT))
    for path in carried:
        if (case / path).is_symlink() and not (case / path).exists():
            target = (case / path).readlink()
            raise CalibrationError(f"chain.carry: {path} is a link to {target}, which is not carried: add a pattern")


# The latest windows are this part of those after warm-up.
_LATEST = 4


def segment_of(record: RunRecord, run: CoupledRun, iterations: Mapping[str, float]) -> Segment:
    """Return what a finished run says of its segment; its windows count with ``iterations`` coupling iterations."""
    note = note_of(record)
    costs = {name: _costs(run, name, iterations[name]) for name in run.participants}
    seconds, errors, latest = (dict(zip(costs, column, strict=True)) for column in zip(*costs.values(), strict=True))
    walls = [mean_of(part.window_seconds[run.steady(name)])[0] for name, part in run.participants.items()]
    inside = max(float(np.nansum(part.window_seconds)) for part in run.participants.values())
    change = note.prepare_seconds + note.collect_seconds
    return Segment(
        segment=note.number,
        run=record.name,
        start_window=note.start_window,
        split=dict(record.split),
        windows=note.windows,
        window_seconds=float(np.nanmax(walls)),
        seconds=seconds,
        standard_errors=errors,
        latest=latest,
        wait_share={name: _wait_share(part, run.steady(name)) for name, part in run.participants.items()},
        border_seconds=max(record.seconds - inside, 0.0) + change,
        change_seconds=change,
        kind=note.kind,
        decision=record.reason,
    )


def _costs(run: CoupledRun, name: str, iterations: float) -> tuple[float, float, float]:
    """Seconds, their standard error and the latest seconds: as in a campaign's samples, medians per iteration."""
    windows = run.participants[name].compute_per_iteration[run.steady(name)]
    windows = windows[np.isfinite(windows)]
    if not len(windows):
        return math.nan, math.nan, math.nan
    seconds = float(np.median(windows)) * iterations
    latest = windows[-max(len(windows) // _LATEST, LEAST_WINDOWS) :]
    return seconds, spread_of(windows).error * seconds, float(np.median(latest)) * iterations


def _wait_share(part: ParticipantRun, steady: NDArray[np.bool_]) -> float:
    known = steady & np.isfinite(part.wait_seconds) & np.isfinite(part.window_seconds)
    wall = float(part.window_seconds[known].sum())
    return float(part.wait_seconds[known].sum()) / wall if wall > 0 else math.nan


def earlier_samples(runs: Sequence[CoupledRun], iterations: Mapping[str, float]) -> dict[str, NDArray[np.float64]]:
    """Return ranks, seconds and standard errors of runs made before, by participant, shape (n, 3) each."""
    if not runs:
        return {}
    frames = measurements_of(runs, iterations).frames
    return {name: np.column_stack([rows.cores, rows.seconds, rows.standard_error]) for name, rows in frames.items()}
