"""A campaign: one coupled run per split, each in a directory of its own, resumable at any moment."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from precice_lb.calibrate.design import Design, Proposal, split_key
from precice_lb.calibrate.design_fixed import space_filling_splits
from precice_lb.calibrate.design_study import design_of
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
from precice_lb.calibrate.failures import failed_splits
from precice_lb.calibrate.launchers import make_launcher
from precice_lb.calibrate.measured import measured_runs, read_measurements, read_runs
from precice_lb.calibrate.runs import CampaignRuns
from precice_lb.calibrate.solver_mpi import mpi_mismatches
from precice_lb.calibrate.state import CampaignState, RunRecord, Settings, campaign_lock, spent
from precice_lb.calibrate.study import Study
from precice_lb.dataset import CoupledRun, Measurements
from precice_lb.exceptions import CalibrationError, TooFewRunsError
from precice_lb.plural import plural
from precice_lb.recommend.failed import FailedSplit

__all__ = ["CampaignResult", "load_campaign", "run_campaign"]

# Of one alone nobody sees how anything scales.
LEAST_SPLITS = 2


@dataclass(frozen=True)
class CampaignResult:
    """What a campaign left.

    Attributes
    ----------
    directory : Path
        Where it lives.
    runs : tuple of RunRecord
        Every run ever tried in it.
    seconds : float
        Wall time of this call.
    existing : tuple of Path
        Directories of stores of runs made before.
    """

    directory: Path
    runs: tuple[RunRecord, ...]
    seconds: float
    existing: tuple[Path, ...] = ()

    @property
    def finished(self) -> tuple[RunRecord, ...]:
        """Runs that ended well."""
        return tuple(run for run in self.runs if run.outcome == "finished")

    @property
    def failed_splits(self) -> tuple[FailedSplit, ...]:
        """Splits none of whose runs ended well."""
        return failed_splits(self.runs)

    def require_runs(self, study: Study) -> None:
        """Refuse to go on from fewer runs than a recommendation needs: at two splits, where the study has as many.

        Parameters
        ----------
        study : Study
            What was to be measured.

        Raises
        ------
        TooFewRunsError
            With why the first of the others failed.
        """
        wanted = study.runs.splits or _first_splits(study)
        needed = min(LEAST_SPLITS, len({split_key(split) for split in wanted}))
        splits = {split_key(run.split) for run in self.finished}
        if len(splits) >= needed or len(splits) + len(measured_runs(self.existing).runs) >= needed:
            return
        failed = self.failed_splits
        why = "" if not failed else f"; {failed[0].runs[0]} failed: {' | '.join(failed[0].reasons)}"
        raise TooFewRunsError(
            f"{self.directory}: expected runs at {plural(needed, 'split')} or more to recommend one, found "
            f"{plural(len(splits), 'split')} whose runs ended well{why}"
        )

    @property
    def stores(self) -> tuple[Path, ...]:
        """Directories with the stores of the runs that ended well: the sources of a recommendation."""
        return tuple(self.directory / run.directory / "stores" for run in self.finished)

    def measurements(self, warmup: int | None = None) -> Measurements:
        """Read what the runs measured, and the earlier runs that the study names.

        Parameters
        ----------
        warmup : int, optional
            Windows to leave out of each; by default what the run states, or more where more is unlike what follows.

        Returns
        -------
        Measurements

        Raises
        ------
        StoreError, DataError
            What cannot be read.
        """
        return read_measurements([*self.existing, *self.stores], warmup)

    def coupled_runs(self, warmup: int | None = None) -> list[CoupledRun]:
        """Read the runs themselves, as `measurements` counts them.

        Parameters
        ----------
        warmup : int, optional
            As of `measurements`.

        Returns
        -------
        list of CoupledRun

        Raises
        ------
        StoreError, DataError
            What cannot be read.
        """
        return read_runs([*self.existing, *self.stores], warmup)


def _first_splits(study: Study) -> list[dict[str, int]]:
    splits = space_filling_splits(study.bounds, study.budget.ranks, LEAST_SPLITS, study.allow)
    return splits[: study.runs.maximum]


def load_campaign(directory: Path) -> tuple[CampaignResult, Settings | None] | None:
    """Read what a campaign left, without its study file.

    Parameters
    ----------
    directory
        Where it lives.

    Returns
    -------
    result : CampaignResult
    settings : Settings or None
        What its study asked for when it ran last; None where the campaign was made before that was kept. None in place
        of both for a directory without a campaign.

    Raises
    ------
    CalibrationError
        When its state cannot be read, or none of its runs ended well.
    """
    directory = Path(directory).expanduser().resolve()
    state = CampaignState.load(directory)
    if state is None:
        return None
    existing = () if state.settings is None else tuple(map(Path, state.settings.existing))
    result = CampaignResult(directory, tuple(state.runs), 0.0, existing)
    if not result.finished and not result.existing:
        raise TooFewRunsError(f"{directory}: expected a campaign with runs that ended well, found none")
    return result, state.settings


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
    with campaign_lock(directory), _signals_interrupt(), logged(report or print_event, directory) as tell:
        state = CampaignState.load(directory) or CampaignState(study.identity())
        state.take_identity(study.identity(), directory, resumes=launcher.resumes)
        runs = CampaignRuns(study, launcher, state, directory)
        tried: list[RunRecord] = []
        try:
            runs.reserve()
            state.settings = study.settings(learner)
            cut_short = runs.clear_up(lambda run: tell(RunResumed(run.split, run.job or "", directory / run.directory)))
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
        record = runs.new(proposal)
        reason = record.reason if attempt == 0 else f"retry {attempt} of {runs.study.runs.retries}"
        tell(RunStarted(number, total, record.split, reason, runs.directory / record.directory))
        runs.do(record)
        used = _used(runs, total - number)
        load, why = record.other_load, tuple(record.reasons)
        tell(RunFinished(number, total, record.split, record.outcome, record.seconds, record.error, used, load, why))
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


def _next(design: Design, state: CampaignState, tried: list[RunRecord]) -> Proposal | None:
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
