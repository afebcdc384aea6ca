"""A chain whose jobs follow each other: what the last line of a job does, or whoever starts the first one.

The segment that ended is concluded, the next one decided on and made, and its job script written or submitted. Each
call holds the chain's directory; killed at any moment, the next one goes on from what is in it.
"""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from precice_lb.campaign.campaign import Event, Report, logged, print_event
from precice_lb.campaign.plan import RunPlan
from precice_lb.campaign.processes import Outcome, log_tail
from precice_lb.campaign.schedulers import EXIT_FILE, JOB_LOG, Scheduler, insist, outcome_of, read_exits
from precice_lb.campaign.state import RunRecord
from precice_lb.campaign.study import Study
from precice_lb.case import Configuration, read_configuration
from precice_lb.chain.decide import decide
from precice_lb.chain.document import CHAIN_FILE, Decision
from precice_lb.chain.segments import note_of
from precice_lb.chain.steps import Chain, Decide, open_chain
from precice_lb.exceptions import CalibrationError, PreciceLBError
from precice_lb.text import first_of, plural


def run_chain(study: Study, directory: Path, *, report: Report | None = None, decider: Decide = decide) -> Path:
    """Run, or go on with, a study's chain of jobs to its end.

    Parameters
    ----------
    study
        With a table ``[chain]``.
    directory
        Where the chain lives: ``campaign.json``, ``campaign.log``, ``chain.json`` and a directory per run in ``runs/``.
    report
        Called with each event; plain lines on standard error by default.
    decider
        Says the split of each segment but the first.

    Returns
    -------
    Path
        ``chain.json``.

    Raises
    ------
    StudyError
        The study has no chain, or does not say how long it is.
    CalibrationError
        As of `precice_lb.campaign.run_campaign`.
    TooFewRunsError
        A segment failed, as often as the study allows, and not for its new split; called again, the chain goes on.
    KeyboardInterrupt
        As of `precice_lb.campaign.run_campaign`.
    """
    with open_chain(study, directory, decider) as chain:
        emit = _opened(chain, report)
        chain.runs.launcher.warn = lambda text: emit(Event("waiting", text))
        cut_short = chain.runs.clear_up(
            lambda run: emit(
                Event("resumed", f"waiting for job {run.job} of the interrupted chain: {chain.text(run.split)}", run)
            )
        )
        chain.state.save()
        _collect_again(chain, emit)
        emit(_begun(chain, cut_short))
        for decision in _decisions(chain, emit):
            chain.runs.check_room()
            record = chain.enter(decision)
            emit(segment_begun(chain, record))
            chain.runs.do(record)
            chain.write()
            emit(segment_ended(chain, record))
        return chain.directory / CHAIN_FILE


def _opened(chain: Chain, report: Report | None) -> Report:
    """Give a report that is also logged, and say which files of the case changed, by which something may be mended."""
    emit = logged(report or print_event, chain.directory)
    if chain.changed:
        emit(Event("waiting", f"the next segment has other files of the case than the last: {first_of(chain.changed)}"))
    return emit


def _collect_again(chain: Chain, emit: Report) -> None:
    """Tell what became of a segment of which only that had failed."""
    if (run := chain.runs.collect_again()) is not None:
        text = f"segment {note_of(run).number}, whose state could not be taken over, is collected again: {run.outcome}"
        emit(Event("resumed", text + (f": {run.error}" if run.error else ""), run))


def _decisions(chain: Chain, emit: Report) -> Iterator[Decision]:
    """Decide on one segment after the other, to the chain's end; a chain that has to stop says so in its page."""
    while True:
        try:
            decision = chain.decide()
        except PreciceLBError as problem:
            chain.write(problem=str(problem))
            raise
        chain.write(decision)
        if decision is None:
            emit(Event("ended", f"the chain has come to its end: {plural(chain.windows.total, 'window')}"))
            return
        yield decision


def _begun(chain: Chain, cut_short: int) -> Event:
    done, total = chain.windows_done, chain.windows.total
    text = f"chain in {chain.directory}: {plural(total, 'window')}"
    text += f", {done} done in {plural(len(chain.state.finished), 'segment')}" if done else ""
    text += f", {cut_short} cut short and set aside" if cut_short else ""
    if forgotten := forgotten_state(read_configuration(chain.study.configuration_path)):
        text += f"; at the start of each segment {forgotten} (docs/how-to/restart.md)"
    return Event("started", text, number=len(chain.state.finished), total=chain.total_segments)


def forgotten_state(configuration: Configuration) -> str:
    """Say what coupling schemes do not keep at a border: data that nothing initialises, and quasi-Newton history."""
    schemes, zero = configuration.coupling_schemes, []
    for scheme in schemes:
        initialized = {(exchange.source, exchange.target) for exchange in scheme.exchanges if exchange.initialize}
        for exchange in scheme.exchanges:
            if not scheme.sends_ahead(exchange.source) and (exchange.source, exchange.target) not in initialized:
                zero.append(f"{exchange.target} reads {exchange.data} as zero")
    learned = [scheme.acceleration for scheme in schemes if (scheme.acceleration or "").startswith("IQN")]
    return ", ".join([*zero, *(f"{name} has no history" for name in learned)])


def segment_begun(chain: Chain, run: RunRecord) -> Event:
    """Tell that a segment begins."""
    note, total = note_of(run), chain.total_segments
    windows = f"windows {note.start_window + 1} to {note.start_window + note.windows} of {chain.windows.total}"
    text = f"segment {note.number} of {total}: {chain.text(run.split)}, {windows} ({run.reason})"
    return Event("run started", text, run, note.number, total)


def segment_ended(chain: Chain, run: RunRecord) -> Event:
    """Tell how a segment ended."""
    note, total = note_of(run), chain.total_segments
    text = f"segment {note.number} of {total}: {run.outcome} after {run.seconds:.1f} s"
    if run.outcome == "finished":
        text += f", {chain.segments()[-1].window_seconds:.4g} s per window"
    else:
        text += f": {' | '.join((run.error or '', *run.reasons))}"
    return Event("run finished", text, run, note.number, total)


JOB_FILE = "job.sbatch"
"""Link in the chain's directory to the script of the segment that comes next."""

# How long a command that submits may take.
_SUBMIT_SECONDS = 300.0
_POLL_SECONDS = 0.1


def next_segment(
    study: Study,
    directory: Path,
    *,
    submit: bool = False,
    lost: bool = False,
    report: Report | None = None,
    decider: Decide = decide,
) -> Path | None:
    """Conclude the segment that has ended, decide, and write the job of the next one.

    Parameters
    ----------
    study
        With a table ``[chain]``, and a launcher whose runs are jobs.
    directory
        Where the chain lives.
    submit
        Whether to submit the job; its last line is this call again.
    lost
        Whether the job of the segment that has begun is gone, which a template's batch system does not tell.
    report
        Called with each event; plain lines on standard error by default.
    decider
        Says the split of each segment but the first.

    Returns
    -------
    Path or None
        The job script; None at the end of the chain.

    Raises
    ------
    StudyError, CalibrationError, TooFewRunsError, KeyboardInterrupt
        As of `precice_lb.chain.next.run_chain`; also while the segment's job still waits or runs.
    """
    with open_chain(study, directory, decider) as chain:
        scheduler = chain.runs.launcher.scheduler
        if scheduler is None:
            raise CalibrationError(
                f"launcher.name: expected one whose runs are jobs, such as slurm or a template with script and submit, "
                f"found {study.launcher.name!r}; precice-lb chain runs a chain with it"
            )
        emit = _opened(chain, report)
        words = [sys.executable, "-m", "precice_lb", "chain", "next", str(study.path), "-o", str(chain.directory)]
        chain.runs.last_line = shlex.join([*words, *["--submit"] * submit])
        running = [run for run in chain.state.runs if run.outcome == "running"]
        if not running:
            _collect_again(chain, emit)
        for record in running:
            # Failures of all jobs since the last segment count, whichever process saw them.
            chain.since = max((n for n, run in enumerate(chain.state.runs, 1) if run.outcome == "finished"), default=0)
            if _is_ready(chain, record):
                return _handed_on(chain, record, scheduler, emit, submit=submit)
            outcome = _ended(chain, record, scheduler, lost=lost)
            if outcome is None:
                chain.runs.set_aside(record)
                chain.state.save()
                emit(Event("resumed", f"segment {note_of(record).number}: cut short, and set aside", record))
                continue
            chain.runs.conclude(record, outcome)
            chain.write()
            emit(segment_ended(chain, record))
        for decision in _decisions(chain, emit):
            record = chain.enter(decision)
            if chain.runs.make(record):
                _write_script(chain, record)
                return _handed_on(chain, record, scheduler, emit, submit=submit)
            emit(segment_ended(chain, record))
        (chain.directory / JOB_FILE).unlink(missing_ok=True)
        return None


def _script_of(chain: Chain, record: RunRecord) -> Path:
    """Return the script of a segment: the launcher's only file."""
    (script,) = chain.runs.launcher.files(chain.runs.plan(record))
    return script


def _write_script(chain: Chain, record: RunRecord) -> None:
    """Write a segment's script, by which it is known to be ready, and let the link point to it."""
    ((script, text),) = chain.runs.launcher.files(chain.runs.plan(record)).items()
    new = script.with_name(f"{script.name}.new")
    new.write_text(text, encoding="utf-8")
    new.replace(script)


def _is_ready(chain: Chain, record: RunRecord) -> bool:
    """Whether a segment is made, and was not submitted by us, nor started by anybody."""
    if record.job is not None or not _script_of(chain, record).is_file():
        return False
    plan, launcher = chain.runs.plan(record), chain.runs.launcher
    # A kill may have come between the submission and the note of its number.
    record.job = None if launcher.scheduler is None else launcher.scheduler.find(launcher.job_name(plan))
    return record.job is None and not read_exits(plan.directory / EXIT_FILE).begun


def _handed_on(chain: Chain, record: RunRecord, scheduler: Scheduler, emit: Report, *, submit: bool) -> Path:
    """Let the link point to a segment's script, submit it where that is asked for, and say so."""
    script, link = _script_of(chain, record), chain.directory / JOB_FILE
    new = link.with_name(f"{JOB_FILE}.new")
    new.unlink(missing_ok=True)
    new.symlink_to(os.path.relpath(script, chain.directory))
    new.replace(link)
    emit(segment_begun(chain, record))
    if submit:
        plan = chain.runs.plan(record)
        job = scheduler.submit(plan, script)
        if not scheduler.resumes:
            _wait_for_submission(scheduler, job, plan)
        # Empty where the command says no number: the job is there all the same.
        record.job = scheduler.number(job) or ""
        chain.state.save()
        emit(Event("resumed", f"submitted as job {record.job or 'of unknown number'}", record))
    else:
        emit(Event("resumed", f"ready to be submitted: {link}", record))
    return link


def _wait_for_submission(scheduler: Scheduler, job: str, plan: RunPlan) -> None:
    """Wait for a command of the user's own that submits, and that must return when the job is queued."""
    end = time.monotonic() + _SUBMIT_SECONDS
    while scheduler.live.intersection(states := scheduler.poll(job) or ()):
        if time.monotonic() > end:
            scheduler.close(job)
            raise CalibrationError(
                f"launcher.submit: found it running after {_SUBMIT_SECONDS:g} s, expected it to return once the job is "
                "queued: in a chain of jobs it must not wait for the job"
            )
        time.sleep(_POLL_SECONDS)
    if "COMPLETED" not in states:
        output = " | ".join(log_tail(plan.directory / JOB_LOG, lines=2)) or "it said nothing"
        raise CalibrationError(f"launcher.submit failed: {output}")


def _ended(chain: Chain, record: RunRecord, scheduler: Scheduler, *, lost: bool) -> Outcome | None:
    """Return how a segment's job ended; None where there was none, or something ended it before its last line."""
    plan, note = chain.runs.plan(record), note_of(record)
    if note.ended:
        # Its solvers did, and what follows was cut short.
        return Outcome(record.seconds)
    exits = read_exits(plan.directory / EXIT_FILE)
    outcome = exits.outcome(plan) if exits.ended else None
    if not scheduler.resumes:
        if (exits.begun or record.job is not None) and not exits.ended and not lost:
            how = "has begun" if exits.begun else "is submitted"
            raise CalibrationError(
                f"segment {note.number} {how} in {plan.directory} and not ended: wait for its job, or say --lost "
                "if that is gone"
            )
    elif record.job is not None:
        job = record.job
        states = insist(lambda: scheduler.poll(job))
        if scheduler.live.isdisjoint(states):
            if outcome is None or outcome.error is not None:
                outcome = outcome_of(scheduler, plan, job, states)
        elif outcome is None:
            raise CalibrationError(f"segment {note.number} waits or runs as job {job}: its last line goes on")
    if outcome is not None and outcome.lost and (exits.stopped is not None or not exits.ended):
        return None
    return outcome
