"""One run of a campaign: its copy of the case, what starts it, how it ended, and whether it measured what it claims."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from precice_lb.campaign.design import Proposal
from precice_lb.campaign.enough import Enough, look
from precice_lb.campaign.evidence import explain, unmeasured, wrong_size
from precice_lb.campaign.launchers import Launcher
from precice_lb.campaign.plan import FIRST_SEGMENT, RunPlan, file_name
from precice_lb.campaign.prepare import LEFT_OUT, copy_tree, entries_of, prepare_in, tasks_of
from precice_lb.campaign.processes import Outcome, stop_token
from precice_lb.campaign.schedulers import LostError
from precice_lb.campaign.state import CampaignResult, RunRecord, SegmentNote
from precice_lb.campaign.study import Study
from precice_lb.case import patch_configuration
from precice_lb.exceptions import CalibrationError, PreciceLBError
from precice_lb.layout import Layout
from precice_lb.store.spool import note_stop

# A store of a run that did not end well is kept under a name that no reader takes for a measurement.
SET_ASIDE_SUFFIX = ".unfinished"


class CampaignRuns:
    """Does the runs of a campaign, one after the other; the state is saved before and after each."""

    def __init__(self, study: Study, launcher: Launcher, state: CampaignResult) -> None:
        self.study = study
        self.launcher = launcher
        self.state = state
        self.directory = state.directory

    @property
    def largest(self) -> int:
        """Ranks of the largest run, or cores where participants have threads."""
        return min(self.study.budget, sum(high for _, high in self.study.bounds.values()))

    def check_room(self) -> None:
        """Refuse a study whose largest run finds no place."""
        splits = self.study.splits
        self.launcher.check_cores(max(sum(split.values()) for split in splits) if splits else self.largest)

    def clear_up(self, report: Callable[[RunRecord], None]) -> int:
        """See to what a killed campaign left running; return how many runs were cut short.

        A job that still waits, runs or has ended is waited for, after ``report`` was told of it; anything else is
        stopped and set aside.
        """
        cut_short = 0
        for record in [run for run in self.state.runs if run.outcome == "running"]:
            if (outcome := self._taken_up(record, report)) is not None:
                self.conclude(record, outcome)
                continue
            self.launcher.stop(record.token, record.job)
            stop_token(record.token)
            self.set_aside(record)
            cut_short += 1
        return cut_short

    def _taken_up(self, record: RunRecord, report: Callable[[RunRecord], None]) -> Outcome | None:
        """Wait for a run that goes on, or has ended, without this process; None where it is to be stopped."""
        plan, scheduler = self.plan(record), self.launcher.scheduler
        if scheduler is None:
            return None
        # A kill may have come between the submission and the note of its number.
        record.job = record.job or scheduler.find(scheduler.job_name(plan))
        if record.job is None:
            return None
        report(record)
        return self.launcher.run(replace(plan, enough=self._enough(record)), lambda number: None, record.job)

    def new(self, proposal: Proposal, segment: SegmentNote | None = None) -> RunRecord:
        """Enter a run into the state, before anything of it exists: a kill at any moment leaves nothing unknown."""
        record = self.record(proposal, segment)
        self.state.runs.append(record)
        self.state.save()
        return record

    def record(self, proposal: Proposal, segment: SegmentNote | None = None) -> RunRecord:
        """Describe the next run, which nothing knows of yet."""
        number = max((run.number for run in self.state.runs), default=0) + 1
        split, versions = dict(proposal.split), dict(proposal.versions)
        names = (f"{file_name(n)}{versions.get(n, '')}{layout.name}" for n, layout in self._layouts(split).items())
        name = f"{number:03d}-{'-'.join(names)}"[:120]
        token, started = secrets.token_hex(8), datetime.now(timezone.utc).isoformat(timespec="seconds")
        words = proposal.reason
        needed = dict(proposal.needed) if self.launcher.can_stop and not self.study.runs.all_windows else {}
        place = f"runs/{name}"
        return RunRecord(
            number, name, split, place, token, started, words, segment=segment, versions=versions, needed=needed
        )

    def do(self, record: RunRecord) -> None:
        """Do one run and record how it ended."""

        def note(job: str) -> None:
            record.job = job
            self.state.save()

        if self.make(record):
            with self._attempted(record):
                outcome = self.launcher.run(replace(self.plan(record), enough=self._enough(record)), note)
            if record.error is None:
                self.conclude(record, outcome)

    def make(self, record: RunRecord) -> bool:
        """Make a run's directory; False where that failed, which is then recorded as the run's end."""
        plan = self.plan(record)
        with self._attempted(record):
            self.launcher.check(plan.tasks)
            self._prepare(plan, record)
        return record.error is None

    def conclude(self, record: RunRecord, outcome: Outcome) -> None:
        """Record how a run ended: as it did, or with what is wrong with what it left."""
        run_directory = self.directory / record.directory
        record.seconds = round(outcome.seconds, 3)
        if outcome.enough:
            for path in run_directory.glob("stores/**/*.spool"):
                note_stop(path, outcome.enough)
        record.error = self._problem(record, outcome)
        record.outcome = "finished"
        if record.error is not None:
            record.outcome = "lost" if outcome.lost else "timeout" if outcome.timed_out else "failed"
            _set_aside(run_directory)
            if not outcome.lost:
                explain(record, run_directory, outcome, self._layouts(record.split))
        elif record.segment is None and (seen := look(run_directory / "stores", record.split)) is not None:
            record.windows, record.ended = seen.windows, outcome.enough or f"no more to run; {seen.words}"
        self.state.save()

    def _enough(self, record: RunRecord) -> Callable[[], str]:
        """Return what says that a run has gone on long enough."""
        return Enough(self.directory / record.directory / "stores", record.needed) if record.needed else str

    def _problem(self, record: RunRecord, outcome: Outcome) -> str | None:
        """Say what went wrong, or what is wrong with the measurements; None where nothing is."""
        run, layouts = self.directory / record.directory, self._layouts(record.split)
        problem = "; ".join(filter(None, [outcome.error, wrong_size(run, layouts)]))
        configuration = run / "case" / self.study.case.configuration
        return problem or unmeasured(run, layouts, configuration, self._metadata(record), record.versions)

    def _layouts(self, split: Mapping[str, int]) -> dict[str, Layout]:
        return {name: self.study.layout(name, cores) for name, cores in split.items()}

    @contextlib.contextmanager
    def _attempted(self, record: RunRecord) -> Iterator[None]:
        """Note an interrupt in the state, and take what cannot be done for the end of the run."""
        try:
            yield
        except KeyboardInterrupt:
            self.set_aside(record)
            self.state.save()
            raise
        except (OSError, PreciceLBError) as problem:
            if isinstance(problem, OSError) and problem.errno in {errno.ENOSPC, errno.EDQUOT}:
                # Half a copy would keep the disk full for the runs to come, and for the campaign's state.
                shutil.rmtree(self.directory / record.directory / "case", ignore_errors=True)
            text = f"the run could not be prepared: {problem}"
            self.conclude(record, Outcome(0.0, text, lost=isinstance(problem, LostError)))

    def set_aside(self, record: RunRecord) -> None:
        """Take a run for interrupted: what it recorded is no measurement."""
        record.outcome, record.error = "interrupted", "the campaign was interrupted during this run"
        _set_aside(self.directory / record.directory)

    def plan(self, record: RunRecord) -> RunPlan:
        """Return what the launcher is given of a run."""
        run, study = self.directory / record.directory, self.study.chosen(record.versions)
        tasks = tasks_of(study, record.split, run / "case", run, self._place(record))
        # A command's own scripts shall find this Python and its mpiexec under their plain names.
        beside = str(Path(sys.executable).parent)
        variables = {
            "PATH": os.pathsep.join(filter(None, [beside, os.environ.get("PATH")])),
            # One core per rank is what a split counts; libraries would start a thread per core in each rank.
            **({} if "OMP_NUM_THREADS" in os.environ else {"OMP_NUM_THREADS": "1"}),
            **self.study.case.environment,
            "PRECICE_LB_DIR": str(run / "stores"),
            "PRECICE_LB_METADATA": json.dumps(self._metadata(record)),
        }
        return RunPlan(record.name, run, tasks, record.token, variables, self.study.runs.time_limit_seconds)

    def _metadata(self, record: RunRecord) -> dict[str, Any]:
        return {
            # Unique among campaigns: runs of the same name are taken for one coupled run.
            "run": f"{record.name}-{record.token}",
            "warmup_windows": self._lengths(record)[1],
            "degrees_of_freedom": self.study.degrees_of_freedom,
            "parameters": dict(self.study.case.parameter),
        }

    def _prepare(self, plan: RunPlan, record: RunRecord) -> None:
        """Copy the case, add what the run takes over, prepare all of that, and patch the configuration."""
        study, case, link = self.study.chosen(record.versions), plan.directory / "case", self.study.case.link
        source, restart = study.case_directory, study.restart_path
        plan.directory.mkdir(parents=True)
        # The campaign's own directory may lie in the case, as others' may.
        copy_tree(source, case, entries_of(source, link=link, without=self.directory, left_out=LEFT_OUT))
        if restart is not None:
            copy_tree(restart, case, entries_of(restart, link=link))
        self._take_over(case)
        for participant, task in zip(study.participants, plan.tasks, strict=True):
            with blaming(record, participant.name):
                prepare_in(study, participant, plan, replace(task, log=plan.directory / "prepare.log"))
        # Last, so that its time tells what the solvers wrote from what they found.
        configuration, exchange = case / study.case.configuration, plan.directory / "exchange"
        # Might be a link to a file that is not ours to change.
        configuration.unlink()
        patch_configuration(
            study.configuration_path,
            configuration,
            max_time_windows=self._lengths(record)[0],
            exchange_directory=str(exchange),
            network=study.case.network,
        )
        exchange.mkdir()
        (plan.directory / "stores").mkdir()

    def _take_over(self, case: Path) -> None:
        """Add what earlier runs left to the copy of a case: nothing in a campaign."""

    def _place(self, record: RunRecord) -> Mapping[str, object]:
        """Return placeholders for where in a chain a run is."""
        return FIRST_SEGMENT

    def _lengths(self, record: RunRecord) -> tuple[int, int]:
        """Return the time windows of a run, and how many of them are warm-up."""
        return self.study.runs.windows, self.study.runs.warmup_windows


@contextlib.contextmanager
def blaming(record: RunRecord, name: str) -> Iterator[None]:
    """Note whose command it was where one fails."""
    try:
        yield
    except CalibrationError:
        record.blamed = [name]
        raise


def _set_aside(run_directory: Path) -> None:
    for path in list(run_directory.glob("stores/**/*")):
        if path.suffix in (".h5", ".spool"):
            path.rename(path.with_name(path.name + SET_ASIDE_SUFFIX))
