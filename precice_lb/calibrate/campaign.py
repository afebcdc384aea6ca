"""A campaign: one coupled run per split, each in a directory of its own, resumable at any moment."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import FrameType

from precice_lb.calibrate.design import FixedDesign, Proposal
from precice_lb.calibrate.design_study import AdaptiveDesign, design_of
from precice_lb.calibrate.events import (
    CampaignEnded,
    CampaignStarted,
    CampaignWarned,
    Report,
    RunFinished,
    RunResumed,
    RunStarted,
    logged,
    print_event,
)
from precice_lb.calibrate.launchers import make_launcher
from precice_lb.calibrate.result import CampaignResult
from precice_lb.calibrate.runs import CampaignRuns
from precice_lb.calibrate.solver_mpi import mpi_mismatches
from precice_lb.calibrate.state import CampaignState, RunRecord, campaign_lock, spent
from precice_lb.calibrate.study import Study
from precice_lb.exceptions import CalibrationError, TooFewRunsError

__all__ = ["run_campaign"]


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
