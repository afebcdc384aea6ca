"""A chain from start to end: by one process that waits, or by jobs whose last line goes on with the next segment.

The segment that ended is concluded, the next one decided on and made, and run, or its job script written or submitted.
Each call holds the chain's directory; killed at any moment, the next one goes on from what is in it.
"""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

from precice_lb.campaign.campaign import Event, Report
from precice_lb.campaign.processes import Outcome
from precice_lb.campaign.schedulers import EXIT_FILE, LIVE, SlurmScheduler, insist, read_exits
from precice_lb.campaign.state import RunRecord
from precice_lb.campaign.study import Study
from precice_lb.case import read_configuration
from precice_lb.chain.document import CHAIN_FILE
from precice_lb.chain.segments import note_of
from precice_lb.chain.steps import Chain, forgotten_state, open_chain
from precice_lb.exceptions import CalibrationError
from precice_lb.text import plural


def run_chain(study: Study, directory: Path, *, report: Report | None = None) -> Path:
    """Run, or go on with, a study's chain of jobs to its end.

    Parameters
    ----------
    study
        With a table ``[chain]``.
    directory
        Where the chain lives: ``campaign.json``, ``campaign.log``, ``chain.json`` and a directory per run in ``runs/``.
    report
        Called with each event; plain lines on standard error by default.

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
    with open_chain(study, directory, report) as chain:
        waiting = "waiting for job {} of the interrupted chain: {}"
        cut_short = chain.runs.clear_up(
            lambda run: chain.emit(Event("resumed", waiting.format(run.job, chain.text(run.split)), run))
        )
        chain.state.save()
        chain.collect_again()
        done, total, finished = chain.windows_done, chain.windows.total, len(chain.state.finished)
        text = f"chain in {chain.directory}: {plural(total, 'window')}"
        text += f", {done} done in {plural(finished, 'segment')}" if done else ""
        text += f", {cut_short} cut short and set aside" if cut_short else ""
        if forgotten := forgotten_state(read_configuration(study.configuration_path)):
            text += f"; at the start of each segment {forgotten} (docs/how-to/restart.md)"
        chain.emit(Event("started", text))
        chain.runs.check_room()
        for record in chain.following():
            chain.begin(record)
            chain.runs.do(record)
            chain.end(record)
        return chain.directory / CHAIN_FILE


JOB_FILE = "job.sbatch"
"""Link in the chain's directory to the script of the segment that comes next."""


def next_segment(
    study: Study,
    directory: Path,
    *,
    submit: bool = False,
    report: Report | None = None,
) -> Path | None:
    """Conclude the segment that has ended, decide, and write the job of the next one.

    Parameters
    ----------
    study
        With a table ``[chain]``, and the launcher ``slurm``.
    directory
        Where the chain lives.
    submit
        Whether to submit the job; its last line is this call again.
    report
        Called with each event; plain lines on standard error by default.

    Returns
    -------
    Path or None
        The job script; None at the end of the chain.

    Raises
    ------
    StudyError, CalibrationError, TooFewRunsError, KeyboardInterrupt
        As of `precice_lb.chain.next.run_chain`; also while the segment's job still waits or runs.
    """
    with open_chain(study, directory, report) as chain:
        scheduler = chain.runs.launcher.scheduler
        if scheduler is None:
            raise CalibrationError(
                f"launcher.name: expected slurm, whose runs are jobs, found {study.launcher.name!r}; precice-lb chain "
                "runs a chain with it"
            )
        words = [sys.executable, "-m", "precice_lb", "chain", "next", str(study.path), "-o", str(chain.directory)]
        chain.runs.last_line = shlex.join([*words, *["--submit"] * submit])
        if (record := chain.running) is None:
            chain.collect_again()
        else:
            # Failures of all jobs since the last segment count, whichever process saw them.
            chain.since = max((n for n, run in enumerate(chain.state.runs, 1) if run.outcome == "finished"), default=0)
            if _is_ready(chain, record, scheduler):
                return _handed_on(chain, record, scheduler, submit=submit)
            if (outcome := _ended(chain, record, scheduler)) is not None:
                chain.runs.conclude(record, outcome)
                chain.end(record)
            else:
                chain.runs.set_aside(record)
                chain.state.save()
                chain.emit(Event("resumed", f"segment {note_of(record).number}: cut short, and set aside", record))
        for record in chain.following():
            if chain.runs.make(record):
                script = _script_of(chain, record)
                new = script.with_name(f"{script.name}.new")
                new.write_text(chain.runs.launcher.files(chain.runs.plan(record))[script], encoding="utf-8")
                new.replace(script)
                return _handed_on(chain, record, scheduler, submit=submit)
            chain.end(record)
        (chain.directory / JOB_FILE).unlink(missing_ok=True)
        return None


def _script_of(chain: Chain, record: RunRecord) -> Path:
    """Return the script of a segment, the launcher's only file: once it is there, the segment is ready."""
    (script,) = chain.runs.launcher.files(chain.runs.plan(record))
    return script


def _is_ready(chain: Chain, record: RunRecord, scheduler: SlurmScheduler) -> bool:
    """Whether a segment is made, and was not submitted by us, nor started by anybody."""
    if record.job is not None or not _script_of(chain, record).is_file():
        return False
    plan = chain.runs.plan(record)
    # A kill may have come between the submission and the note of its number.
    record.job = scheduler.find(scheduler.job_name(plan))
    return record.job is None and not read_exits(plan.directory / EXIT_FILE).begun


def _handed_on(chain: Chain, record: RunRecord, scheduler: SlurmScheduler, *, submit: bool) -> Path:
    """Let the link point to a segment's script, submit it where that is asked for, and say so."""
    script, link = _script_of(chain, record), chain.directory / JOB_FILE
    new = link.with_name(f"{JOB_FILE}.new")
    new.unlink(missing_ok=True)
    new.symlink_to(os.path.relpath(script, chain.directory))
    new.replace(link)
    chain.begin(record)
    if submit:
        record.job = scheduler.submit(script)
        chain.state.save()
        chain.emit(Event("resumed", f"submitted as job {record.job}", record))
    else:
        chain.emit(Event("resumed", f"ready to be submitted: {link}", record))
    return link


def _ended(chain: Chain, record: RunRecord, scheduler: SlurmScheduler) -> Outcome | None:
    """Return how a segment's job ended; None where there was none, or something ended it before its last line."""
    plan, note = chain.runs.plan(record), note_of(record)
    if note.ended:
        # Its solvers did, and what follows was cut short.
        return Outcome(record.seconds)
    exits = read_exits(plan.directory / EXIT_FILE)
    outcome = exits.outcome(plan) if exits.ended else None
    if job := record.job:
        states = insist(lambda: scheduler.poll(job))
        if LIVE.isdisjoint(states):
            if outcome is None or outcome.error is not None:
                outcome = scheduler.outcome(plan, job, states)
        elif outcome is None:
            raise CalibrationError(f"segment {note.number} waits or runs as job {job}: its last line goes on")
    if outcome is not None and outcome.lost and (exits.stopped is not None or not exits.ended):
        return None
    return outcome
