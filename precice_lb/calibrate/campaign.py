"""A campaign: one coupled run per split, resumable at any moment, and the events that it tells while it runs."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from types import FrameType

from precice_lb.calibrate.design import FixedDesign, Proposal
from precice_lb.calibrate.design_study import AdaptiveDesign, design_of
from precice_lb.calibrate.launchers import make_launcher
from precice_lb.calibrate.processes import NOTICEABLE
from precice_lb.calibrate.result import CampaignResult
from precice_lb.calibrate.runs import CampaignRuns
from precice_lb.calibrate.solver_mpi import mpi_mismatches
from precice_lb.calibrate.state import CampaignState, RunRecord, campaign_lock, spent
from precice_lb.calibrate.study import Study
from precice_lb.exceptions import CalibrationError, TooFewRunsError
from precice_lb.plural import counts_text, plural

__all__ = [
    "CampaignEnded",
    "CampaignStarted",
    "CampaignWarned",
    "Event",
    "Report",
    "RunFinished",
    "RunResumed",
    "RunStarted",
    "logged",
    "print_event",
    "run_campaign",
]

LOG_FILE = "campaign.log"


def run_campaign(
    study: Study, directory: Path, *, report: Report | None = None, learner: str | None = None
) -> CampaignResult:
    """Run, or go on with, the campaign of a study.

    Finished runs are not repeated. Runs that failed in an earlier call are tried once more; one that fails now is
    recorded with what its logs say of it, tried again as often as the study says, and then the campaign goes on with
    the next split or stops, as the study says, too. Every event also stands in ``campaign.log``, with its time.

    Parameters
    ----------
    study
        What to measure.
    directory
        Where the campaign lives: ``campaign.json``, ``campaign.log`` and one directory per run under ``runs/``.
    report
        Called with each event; plain lines on standard error by default.
    learner
        Who is to learn from the runs, kept for those who read the campaign again.

    Returns
    -------
    CampaignResult

    Raises
    ------
    CalibrationError
        When the directory holds runs of another study or is in use, the launcher is missing, the largest run has more
        ranks than there are cores, every run failed, or one did and the study says to stop then.
    KeyboardInterrupt
        On an interrupt, a hang-up or a termination signal, after the run in progress has been stopped. The state is
        kept: the next call resumes.
    """
    began = time.monotonic()
    directory = Path(directory).expanduser().resolve()
    design = design_of(study, directory)
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CalibrationError(f"{directory}: the campaign's directory cannot be made: {error}") from error
    launcher = make_launcher(study.launcher.name, study.launcher_options, directory)
    tell = logged(report or print_event, directory)
    with campaign_lock(directory), _signals_interrupt():
        state = CampaignState.load(directory) or CampaignState(study.identity())
        state.take_identity(study.identity(), directory, resumes=launcher.resumes)
        runs = CampaignRuns(study, launcher, state, directory)
        tried: list[RunRecord] = []
        try:
            runs.reserve()
            state.settings = study.settings(learner)
            cut_short = runs.clear_up(lambda run: tell(RunResumed(run)))
            state.save(directory)
            outdated = sum(run.outcome == "outdated" for run in state.runs)
            tell(CampaignStarted(directory, design.total, len(state.finished), cut_short, outdated))
            while (proposal := _next(design, state, tried)) is not None:
                if not tried:
                    runs.check_room()
                    for mismatch in mpi_mismatches(study, launcher):
                        tell(CampaignWarned(mismatch))
                number = len(state.finished) + sum(run.outcome != "finished" for run in tried) + 1
                _try(runs, proposal, tried, tell, number, design.total)
                if tried[-1].outcome != "finished" and study.runs.on_failure == "stop":
                    why = " | ".join(tried[-1].why) or "its log is empty"
                    raise CalibrationError(
                        f"run {tried[-1].name} failed, and runs.on_failure says stop: {tried[-1].error}; "
                        f"log in {directory / tried[-1].directory}: {why}"
                    )
            if design.conclusion is not None:
                tell(CampaignEnded(len(state.finished), design.conclusion))
        finally:
            launcher.close()
    if not state.finished and tried:
        first = tried[0]
        why = " | ".join(first.why) or "its log is empty"
        raise TooFewRunsError(
            f"every run failed; the first, {first.name}: {first.error}; log in {directory / first.directory}: {why}"
        )
    return CampaignResult(directory, tuple(state.runs), time.monotonic() - began, study.existing_runs)


def _try(runs: CampaignRuns, proposal: Proposal, tried: list[RunRecord], tell: Report, number: int, total: int) -> None:
    """Measure a split, again as often as the study allows where it fails; only the last attempt counts as tried."""
    for attempt in range(runs.study.runs.retries + 1):
        if attempt:
            proposal = replace(proposal, reason=f"retry {attempt} of {runs.study.runs.retries}")
        record = runs.new(proposal)
        tell(RunStarted(number, total, record))
        runs.do(record)
        tell(RunFinished(number, total, record, _used(runs, total - number)))
        if record.outcome == "finished":
            break
    tried.append(record)


def _used(runs: CampaignRuns, left: int) -> str:
    """Say how many runs may follow, and what of the other limits all runs have used."""
    limits = runs.study.runs
    minutes, core_hours = spent(runs.state.runs)
    used = [f"{left} left"]
    used += [] if limits.minutes is None else [f"{minutes:.3g} of {limits.minutes:g} minutes used"]
    used += [] if limits.core_hours is None else [f"{core_hours:.3g} of {limits.core_hours:g} core-hours used"]
    return ", ".join(used)


def _next(design: FixedDesign | AdaptiveDesign, state: CampaignState, tried: list[RunRecord]) -> Proposal | None:
    failed = [run for run in tried if run.outcome != "finished"]
    return design.ask([run.split for run in (*state.finished, *failed)])


@contextlib.contextmanager
def _signals_interrupt() -> Iterator[None]:
    """Let termination and hang-up do what an interrupt does: stop the run in order, keep the state."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@dataclass(frozen=True)
class CampaignStarted:
    """A campaign began or went on; ``outdated`` runs failed before the study was changed and no longer count."""

    directory: Path
    total: int
    finished: int
    #: Runs that were cut short and are done anew.
    set_aside: int
    outdated: int = 0

    def __str__(self) -> str:
        text = f"calibration in {self.directory}: {plural(self.total, 'run')}"
        if self.finished:
            text += f", {self.finished} finished before"
        if self.set_aside:
            text += f", {self.set_aside} cut short and set aside"
        if self.outdated:
            text += f", {self.outdated} failed before the study was changed, which no longer count"
        return text


@dataclass(frozen=True)
class RunStarted:
    """Run ``number`` of ``total`` begins."""

    number: int
    total: int
    run: RunRecord

    def __str__(self) -> str:
        return f"run {self.number} of {self.total}: {counts_text(self.run.split)} ranks ({self.run.reason})"


@dataclass(frozen=True)
class RunFinished:
    """Run ``number`` of ``total`` ended; ``budget`` says what of the campaign's limits is used."""

    number: int
    total: int
    run: RunRecord
    budget: str = ""

    def __str__(self) -> str:
        run = self.run
        text = f"run {self.number} of {self.total}: {run.outcome} after {run.seconds:.1f} s"
        if self.budget:
            text += f" ({self.budget})"
        if run.other_load is not None and run.other_load >= NOTICEABLE:
            text += f"; other programs kept {run.other_load:.1f} cores busy, which this run may have measured too"
        return text if run.error is None else f"{text}: {' | '.join((run.error, *run.reasons))}"


@dataclass(frozen=True)
class RunResumed:
    """A run that an interrupted campaign had submitted is waited for."""

    run: RunRecord

    def __str__(self) -> str:
        return f"waiting for job {self.run.job} of the interrupted campaign: {counts_text(self.run.split)} ranks"


@dataclass(frozen=True)
class CampaignWarned:
    """Something speaks against the runs that are to come: what, and what to do."""

    text: str

    def __str__(self) -> str:
        return f"warning: {self.text}"


@dataclass(frozen=True)
class CampaignEnded:
    """No other run is worth it: why, and how many have finished."""

    runs: int
    reason: str

    def __str__(self) -> str:
        return f"calibration ends after {plural(self.runs, 'finished run')}: {self.reason}"


Event = CampaignStarted | CampaignWarned | RunStarted | RunFinished | RunResumed | CampaignEnded
Report = Callable[[Event], None]


def logged(report: Report, directory: Path) -> Report:
    """Give a report that also adds each event as a line with its time (UTC) to ``campaign.log``.

    A log that cannot be written, such as on a full disk, stops no campaign.
    """

    def tell(event: Event) -> None:
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        with contextlib.suppress(OSError), (directory / LOG_FILE).open("a", encoding="utf-8") as file:
            file.write(f"{now} {event}\n")
        report(event)

    return tell


def print_event(event: Event) -> None:
    """Print an event as one plain line on standard error, so that standard output stays free for results."""
    print(event, file=sys.stderr, flush=True)
