"""A campaign: one coupled run per split, resumable at any moment, and the events that it tells while it runs."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Literal

from precice_lb.campaign.design import Proposal
from precice_lb.campaign.design_study import StudyDesign
from precice_lb.campaign.launchers import Launcher
from precice_lb.campaign.prepare import case_files, copied_files
from precice_lb.campaign.processes import signals_interrupt
from precice_lb.campaign.result import CampaignResult
from precice_lb.campaign.runs import CampaignRuns
from precice_lb.campaign.state import CampaignState, RunRecord, campaign_lock, spent
from precice_lb.campaign.study import Study
from precice_lb.campaign.versions import chosen
from precice_lb.exceptions import CalibrationError, TooFewRunsError
from precice_lb.layout import Layouts, counted_text, split_text
from precice_lb.names import say, with_versions
from precice_lb.plural import plural, span

LOG_FILE = "campaign.log"


def run_campaign(study: Study, directory: Path, *, report: Report | None = None) -> CampaignResult:
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
    with opened(study, directory, study.identity()) as (state, launcher, _):
        directory = launcher.directory
        tell = logged(report or print_event, directory)
        launcher.warn = lambda text: tell(Event("waiting", text))
        runs = CampaignRuns(study, launcher, state, directory)
        failed: list[RunRecord] = []
        cut_short = runs.clear_up(lambda run: tell(_resumed(study, run)))
        design = _designed(runs)
        state.save(directory)
        outdated = sum(run.outcome == "outdated" for run in state.runs)
        tell(campaign_started(directory, design.total, len(state.finished), cut_short, outdated))
        while proposal := design.ask([with_versions(run.split, run.versions) for run in (*state.finished, *failed)]):
            runs.check_room()
            number = len(state.finished) + len(failed) + 1
            run = _try(runs, proposal, tell, number, design.total)
            if run.outcome != "finished":
                refused = bool(failed) and not run.seconds and run.error == failed[-1].error
                failed.append(run)
                if run.serial:
                    design = _designed(runs)
                if study.runs.on_failure == "stop":
                    raise CalibrationError(
                        f"run {run.name} failed, and runs.on_failure says stop: {_fault(run, directory)}"
                    )
                # What no split gets past is not asked for each of them.
                if refused and not state.finished:
                    break
        if design.conclusion is not None:
            ended = plural(len(state.finished), "finished run")
            tell(Event("ended", f"calibration ends after {ended}: {design.conclusion}"))
        state.save(directory)
    if not state.finished and failed:
        raise TooFewRunsError(f"every run failed; the first, {failed[0].name}: {_fault(failed[0], directory)}")
    return CampaignResult(directory, tuple(state.runs), state.asked)


def _designed(runs: CampaignRuns) -> StudyDesign:
    """Make the design anew, without what runs have shown to be impossible."""
    runs.study = runs.study.narrowed(runs.state.runs)
    runs.state.asked = runs.study.asked()
    return StudyDesign(runs.study, runs.directory)


@contextlib.contextmanager
def opened(
    study: Study, directory: Path, identity: dict[str, Any], what: Literal["campaign", "chain"] = "campaign"
) -> Iterator[tuple[CampaignState, Launcher, list[str]]]:
    """Hold the directory of a campaign or a chain, made where it is not there: its state, who starts runs, new files.

    In a campaign files of the case must not change.
    """
    directory = Path(directory).expanduser().resolve()
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CalibrationError(f"{directory}: the {what}'s directory cannot be made: {error}") from error
    launcher = study.launcher.ready(directory)
    with campaign_lock(directory), signals_interrupt():
        state = CampaignState.load(directory) or CampaignState(identity)
        changed = state.take_files(case_files(study, directory, state.files))
        files = changed if what == "campaign" else []
        state.take_identity(identity, directory, resumes=launcher.resumes, files=files)
        try:
            yield state, launcher, changed
        except KeyboardInterrupt:
            kept = plural(len(state.finished), "finished run" if what == "campaign" else "finished segment")
            raise KeyboardInterrupt(f"{kept} kept in {directory}; the same command goes on from there") from None


def _try(runs: CampaignRuns, proposal: Proposal, tell: Report, number: int, total: int) -> RunRecord:
    """Measure a split, again as often as the study allows where it fails; return the last attempt.

    A run that is lost is repeated once in addition.
    """
    retries = runs.study.runs.retries
    if_failed = [f"retry {attempt} of {retries}" for attempt in range(1, retries + 1)]
    if_lost = ["once more, since the last run was lost"]
    while True:
        record = runs.new(proposal)
        tell(run_started(number, total, record, runs.study.layouts))
        runs.do(record)
        tell(run_finished(number, total, record, _used(runs, total - number)))
        reasons = if_lost if record.outcome == "lost" and if_lost else if_failed
        if record.outcome == "finished" or not reasons or record.serial:
            return record
        proposal = replace(proposal, reason=reasons.pop(0))


def _used(runs: CampaignRuns, left: int) -> str:
    """Say how many runs may follow, and what of the other limits all runs have used."""
    limits = runs.study.runs
    minutes, core_hours = spent(runs.state.runs)
    used = [f"{left} left"]
    used += [] if limits.minutes is None else [f"{minutes:.3g} of {limits.minutes:g} minutes used"]
    used += [] if limits.core_hours is None else [f"{core_hours:.3g} of {limits.core_hours:g} core-hours used"]
    return ", ".join(used)


def _fault(run: RunRecord, directory: Path) -> str:
    """Say what became of a failed run, and why by its log."""
    return f"{run.error}; log in {directory / run.directory}: {' | '.join(run.why) or 'its log is empty'}"


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
    number, total : int
        Of this run, of how many; of a campaign that starts, how many have finished.
    budget : str
        What of the campaign's limits is used after a run.
    unit : {"rank", "core"}
        What the numbers of the run's split count.
    notable : bool
        Of a run that ended: whether there is more to say than that it ended well.
    """

    kind: Literal["started", "resumed", "waiting", "run started", "run finished", "ended"]
    text: str
    run: RunRecord | None = None
    number: int = 0
    total: int = 0
    budget: str = ""
    unit: Literal["rank", "core"] = "rank"
    notable: bool = False

    def __str__(self) -> str:
        return self.text


Report = Callable[[Event], None]


def campaign_started(directory: Path, total: int, finished: int, cut_short: int, outdated: int = 0) -> Event:
    """Tell that a campaign begins or goes on; ``outdated`` runs failed before the study was changed."""
    text = f"calibration in {directory}: {plural(total, 'run')}"
    text += f", {finished} finished before" if finished else ""
    text += f", {cut_short} cut short and set aside" if cut_short else ""
    text += f", {outdated} failed before the study was changed, which no longer count" if outdated else ""
    return Event("started", text, number=finished, total=total)


def run_started(number: int, total: int, run: RunRecord, layouts: Mapping[str, Layouts] | None = None) -> Event:
    """Tell that a run begins."""
    text = f"run {number} of {total}: {_counted(run, layouts or {})} ({run.reason})"
    return Event("run started", text, run, number, total, unit="core" if layouts else "rank")


def run_finished(number: int, total: int, run: RunRecord, budget: str = "") -> Event:
    """Tell how a run ended."""
    text = f"run {number} of {total}: {run.outcome} after {run.seconds:.1f} s"
    text += f" ({budget})" if budget else ""
    text += "" if run.error is None else f": {' | '.join((run.error, *run.reasons))}"
    return Event("run finished", text, run, number, total, budget, notable=run.error is not None)


def _counted(run: RunRecord, layouts: Mapping[str, Layouts]) -> str:
    """Write the split of a run with its versions."""
    return counted_text(with_versions(run.split, run.versions), with_versions(layouts, run.versions))


def _resumed(study: Study, run: RunRecord) -> Event:
    text = f"waiting for job {run.job} of the interrupted campaign: {_counted(run, study.layouts)}"
    return Event("resumed", text, run)


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
    say(str(event), sys.stderr)


def dry_run(study: Study, directory: Path) -> Iterator[str]:
    """Tell in lines what the campaign of a study would run next, without starting or writing anything."""
    directory = Path(directory).expanduser().resolve()
    launcher = study.launcher.ready(directory)
    state = CampaignState.load(directory) or CampaignState(study.identity())
    if state.finished:
        state.take_identity(study.identity(), directory, resumes=launcher.resumes)
    study = study.narrowed(state.runs)
    runs, design = CampaignRuns(study, launcher, state, directory), StudyDesign(study, directory)
    tried = [with_versions(run.split, run.versions) for run in state.finished]
    proposal = design.ask(tried)
    yield f"nothing is started; this is what calibrate would do in {directory}"
    if proposal is None:
        yield f"nothing is left to run: {design.conclusion or 'each split of the study was measured'}"
        return
    runs.check_room()
    sizes = [entry.stat().st_size for entry in copied_files(study, directory).values()]
    yield f"each run works on a copy of {study.case_directory}: {plural(len(sizes), 'file')}, {sum(sizes) / 1e6:.1f} MB"
    bounds = (f"{name} {span(*ends, study.unit)}" for name, ends in study.bounds.items())
    yield f"bounds: {', '.join(bounds)}, {plural(study.budget, study.unit)} in all"
    left = design.total - len(tried)
    record = runs.record(proposal)
    plan = runs.plan(record)
    launcher.check(plan.tasks)
    total = left + len(tried)
    yield f"run {len(tried) + 1} of at most {total}: {_counted(record, study.layouts)} ({record.reason})"
    for participant in chosen(study, record.versions).participants:
        yield from (f"  {participant.name}, before: {command}" for command in participant.prepare)
    if launcher.scheduler is None:
        yield from (f"  {task.participant}: {shlex.join(task.command)}" for task in launcher.starts(plan))
    for path, content in launcher.files(plan).items():
        yield from (f"  {path}:", *_indented(content))
    if design.has_one_split:
        yield "only one split is possible: that run says what it takes"
    elif study.splits is None:
        yield "then: the split whose measurement is worth most by what was measured, until another run is not worth it"
    for split in study.splits or ():
        if split not in (record.split, *tried):
            yield f"then: {split_text(split, study.layouts)}"
    limits, largest = study.runs, min(study.budget, sum(high for _, high in study.bounds.values()))
    count = left * (1 + limits.retries)
    most = f"{count * largest * limits.time_limit_seconds / 3600:.3g} core-hours"
    most += f"; none begins after {limits.core_hours:g} core-hours (runs.core_hours)" if limits.core_hours else ""
    what = f"{plural(count, 'run')} of {limits.time_limit_seconds:g} s on {plural(largest, study.unit)}"
    yield f"at most {what}: {most}"


def _indented(text: str) -> list[str]:
    return [f"  {line}" for line in text.splitlines()]
