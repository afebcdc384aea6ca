"""A campaign: one coupled run per split, each in a directory of its own, resumable at any moment."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from types import FrameType

from precice_lb.calibrate.case import copy_case
from precice_lb.calibrate.commands import command_tokens
from precice_lb.calibrate.design import Design, FixedDesign, Proposal, spread_splits
from precice_lb.calibrate.events import CampaignStarted, Report, RunFinished, RunStarted, print_event
from precice_lb.calibrate.launch import Launcher, make_launcher, without_banner
from precice_lb.calibrate.processes import Outcome, ProcessSpec, log_tail, run_processes, stop_token
from precice_lb.calibrate.state import CampaignState, RunRecord, campaign_lock
from precice_lb.calibrate.study import RUN_VARIABLES, Study
from precice_lb.exceptions import CalibrationError, PreciceLBError
from precice_lb.precice_xml import patch_configuration

__all__ = ["CampaignResult", "design_of", "run_campaign"]

# A store of a run that did not end well is kept under a name that no reader takes for a measurement.
_SET_ASIDE_SUFFIX = ".unfinished"


@dataclass(frozen=True)
class CampaignResult:
    """What a campaign left: every run ever tried in ``directory``, and the wall ``seconds`` of this call."""

    directory: Path
    runs: tuple[RunRecord, ...]
    seconds: float

    @property
    def finished(self) -> tuple[RunRecord, ...]:
        """Runs that ended well."""
        return tuple(run for run in self.runs if run.outcome == "finished")

    @property
    def stores(self) -> tuple[Path, ...]:
        """Directories with the stores of the runs that ended well: the sources of a recommendation."""
        return tuple(self.directory / run.directory / "stores" for run in self.finished)


def design_of(study: Study) -> Design:
    """Return the design of a study: its own list of splits, or ``runs.maximum`` splits spread over the budget."""
    if study.runs.splits is not None:
        return FixedDesign(tuple(dict(split) for split in study.runs.splits), "split of the study,")
    splits = spread_splits(study.bounds, study.budget.ranks, study.runs.maximum)
    return FixedDesign(tuple(splits), "spread over the budget,")


def run_campaign(study: Study, directory: Path, *, report: Report | None = None) -> CampaignResult:
    """Run, or go on with, the campaign of a study.

    Finished runs are not repeated. Runs that failed in an earlier call are tried once more; one that fails now is
    recorded with the end of its log, and the campaign goes on with the next split.

    Parameters
    ----------
    study
        What to measure.
    directory
        Where the campaign lives: ``campaign.json`` and one directory per run under ``runs/``.
    report
        Called with each event; plain lines on standard error by default.

    Returns
    -------
    CampaignResult

    Raises
    ------
    CalibrationError
        When the directory holds or runs another campaign, the launcher is missing, or every run failed.
    KeyboardInterrupt
        On an interrupt, a hang-up or a termination signal, after the run in progress has been stopped. The state is
        kept: the next call resumes.
    """
    began = time.monotonic()
    report = report or print_event
    directory = Path(directory).expanduser().resolve()
    launcher = make_launcher(study.launcher.name, program=study.launcher.program, arguments=study.launcher.arguments)
    design = design_of(study)
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CalibrationError(f"{directory}: the campaign's directory cannot be made: {error}") from error
    with campaign_lock(directory), _signals_interrupt():
        state = CampaignState.load(directory) or CampaignState(study.identity())
        state.check_identity(study.identity(), directory)
        cut_short = _clear_up(state, directory)
        state.save(directory)
        report(CampaignStarted(directory, design.total, len(state.finished), cut_short))
        tried: list[RunRecord] = []
        while (proposal := _next(design, state, tried)) is not None:
            number = len(state.finished) + sum(run.outcome != "finished" for run in tried) + 1
            record = _new_record(state, proposal, directory)
            report(RunStarted(number, design.total, record.split, record.reason, directory / record.directory))
            _run(study, launcher, state, record, directory)
            tried.append(record)
            report(RunFinished(number, design.total, record.split, record.outcome, record.seconds, record.error))
    if not state.finished:
        first = tried[0]
        tail = " | ".join(first.log_tail[-4:]) or "its log is empty"
        raise CalibrationError(
            f"every run failed; the first, {first.name}: {first.error}; log in {directory / first.directory}: {tail}"
        )
    return CampaignResult(directory, tuple(state.runs), time.monotonic() - began)


def _next(design: Design, state: CampaignState, tried: list[RunRecord]) -> Proposal | None:
    return design.ask([run.split for run in (*state.finished, *tried)])


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


def _clear_up(state: CampaignState, directory: Path) -> int:
    """Stop and set aside what a killed campaign left running; return how many runs that were."""
    left = [run for run in state.runs if run.outcome == "running"]
    for run in left:
        if pids := stop_token(run.token):
            numbers = ", ".join(map(str, pids))
            raise CalibrationError(f"processes {numbers} of the interrupted run {run.name} cannot be stopped: end them")
        run.outcome = "interrupted"
        run.error = "the campaign was interrupted during this run"
        _set_aside(directory / run.directory)
    return len(left)


def _set_aside(run_directory: Path) -> None:
    for path in run_directory.glob("stores/**/*.h5"):
        path.rename(path.with_name(path.name + _SET_ASIDE_SUFFIX))


def _new_record(state: CampaignState, proposal: Proposal, directory: Path) -> RunRecord:
    number = max((run.number for run in state.runs), default=0) + 1
    ranks = "-".join(f"{_file_name(name)}{count}" for name, count in proposal.split.items())
    token = secrets.token_hex(8)
    name = f"{number:03d}-{ranks}"[:120]
    record = RunRecord(
        number=number,
        name=name,
        split=dict(proposal.split),
        directory=f"runs/{name}",
        token=token,
        started=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        reason=proposal.reason,
    )
    state.runs.append(record)
    # Before anything of the run exists, so that a kill at any moment leaves nothing unknown behind.
    state.save(directory)
    return record


def _run(study: Study, launcher: Launcher, state: CampaignState, record: RunRecord, directory: Path) -> None:
    """Do one run and record how it ended."""
    run_directory = directory / record.directory
    try:
        specs = _prepare(study, launcher, record, run_directory, directory)
        outcome = run_processes(specs, record.token, study.runs.time_limit_seconds)
        error = outcome.error or _nothing_measured(study, run_directory)
    except KeyboardInterrupt:
        record.outcome = "interrupted"
        record.error = "the campaign was interrupted during this run"
        _set_aside(run_directory)
        state.save(directory)
        raise
    except (OSError, shutil.Error, PreciceLBError) as problem:
        outcome = Outcome(0.0)
        error = f"the run could not be prepared: {problem}"
    record.seconds = round(outcome.seconds, 3)
    record.error = error
    record.outcome = "finished" if error is None else "timeout" if outcome.timed_out else "failed"
    if error is not None:
        _set_aside(run_directory)
        for name in outcome.participants:
            lines = without_banner(log_tail(_log(run_directory, name)))
            record.log_tail += [f"{name}: {line}" for line in lines]
    state.save(directory)


def _prepare(
    study: Study, launcher: Launcher, record: RunRecord, run_directory: Path, directory: Path
) -> list[ProcessSpec]:
    """Copy the case, patch its configuration, and put together what starts each participant."""
    case = run_directory / "case"
    run_directory.mkdir(parents=True)
    copy_case(study.case_directory, case, directory)
    configuration = case / study.case.configuration
    # Might be a link to a file that is not ours to change.
    configuration.unlink()
    patch_configuration(
        study.configuration_path,
        configuration,
        max_time_windows=study.runs.windows,
        exchange_directory=str(run_directory / "exchange"),
    )
    (run_directory / "exchange").mkdir()
    (run_directory / "stores").mkdir()
    environment = _environment(study, launcher, record, run_directory)
    specs = []
    for participant in study.participants:
        origin = study.case_directory / participant.directory
        tokens = launcher.tokens(
            command_tokens(participant.command, origin, study.case_directory),
            ranks=record.split[participant.name],
            participant=participant.name,
            environment=environment,
        )
        log = _log(run_directory, participant.name)
        specs.append(ProcessSpec(participant.name, tuple(tokens), case / participant.directory, environment, log))
    return specs


def _log(run_directory: Path, participant: str) -> Path:
    return run_directory / f"{_file_name(participant)}.log"


def _file_name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.]", "_", text)


def _environment(study: Study, launcher: Launcher, record: RunRecord, run_directory: Path) -> dict[str, str]:
    # Settings of a production run would spoil this one: no recording, another place, a report at its end.
    environment = {name: value for name, value in os.environ.items() if name not in RUN_VARIABLES}
    # A command's own scripts shall find this Python and its mpiexec under their plain names.
    beside = str(Path(sys.executable).parent)
    environment["PATH"] = os.pathsep.join(filter(None, [beside, environment.get("PATH")]))
    # One core per rank is what a split counts; libraries would start a thread per core of the machine in each rank.
    environment.setdefault("OMP_NUM_THREADS", "1")
    environment |= launcher.environment() | study.environment
    environment["PRECICE_LB_DIR"] = str(run_directory / "stores")
    environment["PRECICE_LB_METADATA"] = json.dumps(
        {
            # Unique among campaigns: runs of the same name are taken for one coupled run.
            "run": f"{record.name}-{record.token}",
            "warmup_windows": study.runs.warmup_windows,
            "degrees_of_freedom": study.degrees_of_freedom,
            "parameters": study.parameters,
        }
    )
    return environment


def _nothing_measured(study: Study, run_directory: Path) -> str | None:
    """Say which participants ended well but left neither a store nor profiling files to read their times from."""
    stores = [path.name for path in run_directory.glob("stores/**/*.h5")]
    stores += [path.name for path in run_directory.glob("case/**/precice-profiling/*")]
    silent = [name for name in study.names if not any(store.startswith(f"{name}-") for store in stores)]
    if not silent:
        return None
    return (
        f"{' and '.join(silent)} ended well but recorded nothing: start a Python solver with "
        "`python -m precice_lb run solver.py`"
    )
