"""A campaign: one coupled run per split, resumable at any moment, and the events that it tells while it runs."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from textwrap import indent
from typing import Any, Literal

from precice_lb.campaign.design import Proposal, StudyDesign
from precice_lb.campaign.launchers import Launcher
from precice_lb.campaign.prepare import case_files, copied_files
from precice_lb.campaign.processes import signals_interrupt
from precice_lb.campaign.read import read_study
from precice_lb.campaign.runs import CampaignRuns
from precice_lb.campaign.state import CampaignResult, RunRecord, campaign_lock, core_hours_of
from precice_lb.campaign.study import Study
from precice_lb.exceptions import CalibrationError, TooFewRunsError
from precice_lb.layout import counted_text, split_text
from precice_lb.text import plural, say, with_versions

LOG_FILE = "campaign.log"


def run_campaign(study: Study, directory: Path, *, report: Report | None = None) -> CampaignResult:
    """Run, or go on with, the campaign of a study.

    Finished runs are not repeated. Runs that failed in an earlier call are tried once more; one that fails now is
    recorded with what its logs say of it, tried again as often as the study says, and then the campaign goes on with
    the next split. Every event also stands in ``campaign.log``, with its time.

    Parameters
    ----------
    study
        What to measure.
    directory
        Where the campaign lives: ``campaign.json``, ``campaign.log`` and one directory per run under ``runs/``.
    report
        Called with each event; plain lines on standard error by default.

    Returns
    -------
    CampaignResult

    Raises
    ------
    CalibrationError
        When the directory holds runs of another study or is in use, the launcher is missing, the largest run has more
        ranks than there are cores, or every run failed.
    KeyboardInterrupt
        On an interrupt, a hang-up or a termination signal, after the run in progress has been stopped. The state is
        kept: the next call resumes.
    """
    with opened(study, directory, study.identity()) as (state, launcher, _):
        emit = logged(report or print_event, state.directory)
        launcher.warn = lambda text: emit(Event("waiting", text))
        runs = CampaignRuns(study, launcher, state)
        failed: list[RunRecord] = []
        wait = "waiting for job {} of the interrupted campaign: {}"
        cut_short = runs.clear_up(lambda run: emit(Event("resumed", wait.format(run.job, _counted(run, study)), run)))
        design = _designed(runs)
        state.save()
        done, total = len(state.finished), design.total
        text = f"calibration in {state.directory}: {plural(total, 'run')}"
        text += f", {done} finished before" if done else ""
        text += f", {cut_short} cut short and set aside" if cut_short else ""
        emit(Event("started", text))
        while proposal := design.ask(failed):
            runs.check_room()
            run = _try(runs, proposal, emit, len(state.finished) + len(failed) + 1, design.total)
            if run.outcome == "finished":
                continue
            refused = bool(failed) and not run.seconds and run.error == failed[-1].error
            failed.append(run)
            if run.serial:
                design = _designed(runs)
            # What no split gets past is not asked for each of them.
            if refused and not state.finished:
                break
        if design.conclusion is not None:
            ended = plural(len(state.finished), "finished run")
            emit(Event("ended", f"calibration ends after {ended}: {design.conclusion}"))
        state.save()
    if not state.finished and failed:
        first = failed[0]
        why = f"log in {state.directory / first.directory}: {' | '.join(first.why) or 'its log is empty'}"
        raise TooFewRunsError(f"every run failed; the first, {first.name}: {first.error}; {why}")
    return state


def calibrate(study: str | Path, settings: Sequence[str] = (), *, report: Report | None = None) -> CampaignResult:
    """Run, or go on with, the campaign of a study file where that says; see `read_study` and `run_campaign`.

    Parameters
    ----------
    study
        A TOML file.
    settings
        Keys that are to differ, such as ``machine.ranks=8``.
    report
        Called with each event.

    Returns
    -------
    CampaignResult
    """
    one = read_study(study, settings)
    return run_campaign(one, one.campaign_directory, report=report)


def _designed(runs: CampaignRuns) -> StudyDesign:
    """Make the design anew, without what runs have shown to be impossible."""
    runs.study = runs.study.narrowed(runs.state.runs)
    runs.state.asked = runs.study.asked()
    return StudyDesign(runs.study, runs.state)


@contextlib.contextmanager
def opened(
    study: Study,
    directory: Path,
    identity: dict[str, Any],
    what: Literal["campaign", "chain"] = "campaign",
    lock_seconds: float = 0.0,
) -> Iterator[tuple[CampaignResult, Launcher, list[str]]]:
    """Hold the directory of a campaign or a chain, made where it is not there: its state, who starts runs, new files.

    In a campaign files of the case must not change.
    """
    directory = Path(directory).expanduser().resolve()
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CalibrationError(f"{directory}: the {what}'s directory cannot be made: {error}") from error
    launcher = study.launcher.ready(directory)
    with campaign_lock(directory, lock_seconds), signals_interrupt():
        state = CampaignResult.load(directory) or CampaignResult(identity, directory=directory)
        changed = state.take_files(case_files(study, directory))
        state.take_identity(
            identity, resumes=launcher.scheduler is not None, files=changed if what == "campaign" else ()
        )
        try:
            yield state, launcher, changed
        except KeyboardInterrupt:
            kept = plural(len(state.finished), "finished run" if what == "campaign" else "finished segment")
            raise KeyboardInterrupt(f"{kept} kept in {directory}; the same command goes on from there") from None


def _try(runs: CampaignRuns, proposal: Proposal, emit: Report, number: int, total: int) -> RunRecord:
    """Measure a split, again as often as the study allows where it fails; return the last attempt.

    A run that is lost is repeated once in addition.
    """
    retries, limit, place = runs.study.runs.retries, runs.study.runs.core_hours, f"run {number} of {total}"
    if_failed = [f"retry {attempt} of {retries}" for attempt in range(1, retries + 1)]
    if_lost = ["once more, since the last run was lost"]
    while True:
        record = runs.new(proposal)
        text = f"{place}: {_counted(record, runs.study)} ({record.reason})"
        emit(Event("run started", text, record))
        runs.do(record)
        used = "" if limit is None else f", {core_hours_of(runs.state.runs):.3g} of {limit:g} core-hours used"
        text = f"{place}: {record.outcome} after {record.seconds:.1f} s ({total - number} left{used})"
        text += "" if record.error is None else f": {' | '.join((record.error, *record.reasons))}"
        text += f": {record.windows} of {runs.study.runs.windows} windows, {record.ended}" if record.ended else ""
        emit(Event("run finished", text, record))
        reasons = if_lost if record.outcome == "lost" and if_lost else if_failed
        if record.outcome == "finished" or not reasons or record.serial:
            return record
        proposal = replace(proposal, reason=reasons.pop(0))


@dataclass(frozen=True)
class Event:
    """Something that a campaign tells while it runs.

    Attributes
    ----------
    kind : {"started", "resumed", "waiting", "run started", "run finished", "ended"}
        What has happened.
    text : str
        That in one line, which is also the event as text.
    run : RunRecord or None
        The run that begins, ended, or is waited for.
    """

    kind: Literal["started", "resumed", "waiting", "run started", "run finished", "ended"]
    text: str
    run: RunRecord | None = None

    def __str__(self) -> str:
        return self.text


Report = Callable[[Event], None]


def _counted(run: RunRecord, study: Study) -> str:
    """Write the split of a run with its versions."""
    return counted_text(with_versions(run.split, run.versions), with_versions(study.layouts, run.versions))


def logged(report: Report, directory: Path) -> Report:
    """Give a report that also adds each event as a line with its time (UTC) to ``campaign.log``.

    A log that cannot be written, such as on a full disk, stops no campaign.
    """

    def emit(event: Event) -> None:
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        with contextlib.suppress(OSError), (directory / LOG_FILE).open("a", encoding="utf-8") as file:
            file.write(f"{now} {event}\n")
        report(event)

    return emit


def print_event(event: Event) -> None:
    """Print an event as one plain line on standard error, so that standard output stays free for results."""
    say(str(event), sys.stderr)


def dry_run(study: Study, directory: Path) -> Iterator[str]:
    """Tell in lines what the campaign of a study would run next, without starting or writing anything."""
    directory = Path(directory).expanduser().resolve()
    launcher = study.launcher.ready(directory)
    state = CampaignResult.load(directory) or CampaignResult(study.identity(), directory=directory)
    if state.finished:
        state.take_identity(study.identity(), resumes=launcher.scheduler is not None)
    study = study.narrowed(state.runs)
    runs, design, done = CampaignRuns(study, launcher, state), StudyDesign(study, state), len(state.finished)
    proposal = design.ask()
    yield f"nothing is started; this is what calibrate would do in {directory}"
    if proposal is None:
        yield f"nothing is left to run: {design.conclusion or 'each split of the study was measured'}"
        return
    runs.check_room()
    sizes = [entry.stat().st_size for entry in copied_files(study, directory).values()]
    yield f"each run works on a copy of {study.case_directory}: {plural(len(sizes), 'file')}, {sum(sizes) / 1e6:.1f} MB"
    record = runs.record(proposal)
    plan = runs.plan(record)
    launcher.check(plan.tasks)
    yield f"run {done + 1} of at most {design.total}: {_counted(record, study)} ({record.reason})"
    for participant in study.chosen(record.versions).participants:
        yield from (f"  {participant.name}, before: {command}" for command in participant.prepare)
    if launcher.scheduler is None:
        yield from (f"  {task.participant}: {shlex.join(task.command)}" for task in launcher.starts(plan))
    for path, content in launcher.files(plan).items():
        yield f"  {path}:\n{indent(content.rstrip(), '  ')}"
    for split in study.splits or ():
        if split not in (record.split, *(run.split for run in state.finished)):
            yield f"then: {split_text(split, study.layouts)}"
    limit, hours = study.runs.time_limit_seconds, study.runs.core_hours
    count = (design.total - done) * (1 + study.runs.retries)
    most = f"{count * runs.largest * limit / 3600:.3g} core-hours"
    most += f"; none begins after {hours:g} core-hours (runs.core_hours)" if hours else ""
    yield f"at most {plural(count, 'run')} of {limit:g} s on {plural(runs.largest, study.unit)}: {most}"
