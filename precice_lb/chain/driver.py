"""A chain of jobs: segments one after the other, each at the split that was decided from those before it."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from precice_lb.calibrate.campaign import Event, Report, logged, print_event
from precice_lb.calibrate.design import Proposal, space_filling_splits, split_key
from precice_lb.calibrate.design_study import schedule_of
from precice_lb.calibrate.launchers import Launcher, make_launcher
from precice_lb.calibrate.processes import signals_interrupt
from precice_lb.calibrate.result import measured_runs
from precice_lb.calibrate.solver_mpi import mpi_mismatches
from precice_lb.calibrate.state import FAILURES, CampaignState, RunRecord, SegmentNote, campaign_lock
from precice_lb.calibrate.study import Study
from precice_lb.chain.decide import Question, decide
from precice_lb.chain.measured import earlier_samples, segment_of
from precice_lb.chain.page import ChainPage
from precice_lb.chain.records import Decision, Segment
from precice_lb.chain.segments import SegmentRuns, note_of
from precice_lb.chain.windows import ChainWindows
from precice_lb.dataset import CoupledRun, load_runs
from precice_lb.dataset.samples import pooled_iterations
from precice_lb.exceptions import CalibrationError, TooFewRunsError
from precice_lb.ingest.profiling import enrich
from precice_lb.plural import counts_text, plural

__all__ = ["Chain", "Decide", "open_chain", "run_chain"]

Decide = Callable[[Sequence[Segment], Question], Decision]
_NOT_OF_CHAINS = ("runs.windows", "meshes")
_REPAIRABLE = ("prepare", "templates")


class Chain:
    """A study's chain in its directory: makes, concludes and decides on segments; all it knows is in its files.

    A segment is `entered <enter>`, its directory made and its solvers started by ``runs``, which also conclude it;
    `decide` then says what comes next. Each of these steps may be done by another process.
    """

    def __init__(
        self,
        study: Study,
        directory: Path,
        state: CampaignState,
        launcher: Launcher,
        windows: ChainWindows,
        decider: Decide = decide,
    ) -> None:
        self.study = study
        self.directory = directory
        self.state = state
        self.windows = windows
        self.runs = SegmentRuns(study, launcher, state, directory, self.windows)
        #: Tries before this one count for nothing: whoever starts a chain again has seen to why they failed.
        self.since = next((at for at, run in enumerate(state.runs) if run.outcome == "running"), len(state.runs))
        self._decider = decider
        self._read: dict[str, CoupledRun] = {}
        self._earlier: list[CoupledRun] | None = None

    @property
    def windows_done(self) -> int:
        """Time windows of finished segments."""
        return sum(note_of(record).windows for record in self.state.finished)

    @property
    def total_segments(self) -> int:
        """How many segments there will be, as far as their length is known."""
        left = self.windows.total - self.windows_done
        return len(self.state.finished) + -(-left // max(self.windows.of_next(self.segments()), 1))

    def segments(self) -> list[Segment]:
        """Return what the finished segments measured."""
        iterations = pooled_iterations(self._all_runs())
        return [segment_of(record, self.read(record), iterations) for record in self.state.finished]

    def read(self, record: RunRecord) -> CoupledRun:
        """Return what a finished run recorded."""
        if record.name not in self._read:
            (self._read[record.name],) = load_runs([self.directory / record.directory / "stores"], complete=enrich)
        return self._read[record.name]

    def decide(self) -> Decision | None:
        """Return the next segment's split, None at the end of the chain.

        Raises
        ------
        TooFewRunsError
            When a segment failed as often as the study allows and there is no split to go back to.
        """
        if self.windows_done >= self.windows.total:
            return None
        tries = itertools.takewhile(lambda run: run.outcome != "finished", reversed(self.state.runs[self.since :]))
        failures = [run for run in tries if run.outcome in FAILURES]
        if failures:
            return self._after_failure(failures)
        segments = self.segments()
        return self._decider(segments, self._question(segments)) if segments else self._start()

    def _start(self) -> Decision:
        study, start = self.study, self.windows.chain.start
        if start is not None:
            return Decision(dict(start), "start", "as chain.start says")
        (split,) = space_filling_splits(study.bounds, study.budget.ranks, 1, study.allow)
        return Decision(split, "start", "in the middle of what is possible, since nothing is measured yet")

    def _after_failure(self, failures: Sequence[RunRecord]) -> Decision:
        """Try again, go back to the last split that worked, or stop; the latest failure comes first."""
        last = failures[0]
        note, fault = note_of(last), self._fault(last)
        here = split_key(last.split)
        count = sum(1 for _ in itertools.takewhile(lambda run: split_key(run.split) == here, failures))
        retries = self.study.runs.retries
        if count <= retries:
            return Decision(dict(last.split), note.kind, f"retry {count} of {retries}: {last.error}")
        worked = self.state.finished
        if not worked or here in {split_key(run.split) for run in worked}:
            raise TooFewRunsError(f"segment {note.number} failed, the state before it is intact: {fault}")
        return Decision(dict(worked[-1].split), "undo", f"back to the last split that worked: {fault}")

    def _fault(self, run: RunRecord) -> str:
        why = f": {' | '.join(run.why)}" if run.why else ""
        return f"{counts_text(run.split)} in {self.directory / run.directory}: {run.error}{why}"

    def _question(self, segments: Sequence[Segment]) -> Question:
        study = self.study
        iterations = pooled_iterations(self._all_runs())
        worked = {split_key(run.split) for run in self.state.finished}
        failed = {split_key(run.split) for run in self.state.runs if run.outcome in FAILURES} - worked
        return Question(
            schedule=schedule_of(study, iterations),
            budget=study.budget.ranks,
            lowest={name: low for name, (low, _) in study.bounds.items()},
            highest={name: high for name, (_, high) in study.bounds.items()},
            windows_left=self.windows.total - self.windows_done,
            segment_windows=self.windows.of_next(segments),
            allow=study.allow,
            earlier=earlier_samples(self._existing(), iterations),
            failed=[dict(key) for key in sorted(failed)],
        )

    def _existing(self) -> list[CoupledRun]:
        if self._earlier is None:
            self._earlier, _ = measured_runs(self.study.existing_runs)
        return self._earlier

    def _all_runs(self) -> list[CoupledRun]:
        return [*self._existing(), *(self.read(record) for record in self.state.finished)]

    def enter(self, decision: Decision) -> RunRecord:
        """Enter the next segment into the state, before anything of it exists."""
        note = SegmentNote(
            number=len(self.state.finished) + 1,
            start_window=self.windows_done,
            windows=self.windows.of_next(self.segments(), decision.split),
            kind=decision.kind,
        )
        return self.runs.new(Proposal(decision.split, decision.text), note)

    def write(self, decision: Decision | None = None, problem: str | None = None) -> None:
        """Write ``chain.json``, with what comes next, or why the chain stopped."""
        page = ChainPage(self.study.path, self.windows.total, self.windows_done, decision, problem)
        finished = self.state.finished
        page.save(self.directory, list(zip(finished, self.segments(), map(self.read, finished), strict=True)))


def chain_identity(study: Study) -> dict[str, Any]:
    """Return what must stay as it is while a chain goes on.

    Lengths may change, and what is repaired after a failure: how a segment is prepared, collected and carried on.
    """
    identity = study.identity()
    for key in _NOT_OF_CHAINS:
        identity.pop(key, None)
    for participant in identity["participants"].values():
        for key in _REPAIRABLE:
            del participant[key]
    return {**identity, "chain": True}


@contextlib.contextmanager
def open_chain(study: Study, directory: Path, decider: Decide = decide) -> Iterator[Chain]:
    """Hold a chain's directory, made where it is not there, and read the chain's state."""
    windows = ChainWindows(study)
    directory = Path(directory).expanduser().resolve()
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CalibrationError(f"{directory}: the chain's directory cannot be made: {error}") from error
    launcher = make_launcher(study.launcher.name, study.launcher_options, directory)
    with campaign_lock(directory), signals_interrupt():
        identity = chain_identity(study)
        state = CampaignState.load(directory) or CampaignState(identity)
        state.take_identity(identity, directory, resumes=launcher.resumes)
        state.settings = study.settings()
        try:
            yield Chain(study, directory, state, launcher, windows, decider)
        finally:
            launcher.close()


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
        As of `precice_lb.calibrate.run_campaign`.
    TooFewRunsError
        A segment failed, as often as the study allows, and not for its new split; called again, the chain goes on.
    KeyboardInterrupt
        As of `precice_lb.calibrate.run_campaign`.
    """
    with open_chain(study, directory, decider) as chain:
        directory = chain.directory
        tell = logged(report or print_event, directory)
        chain.runs.reserve()
        cut_short = chain.runs.clear_up(lambda run: tell(_waiting(run)))
        chain.state.save(directory)
        tell(_begun(chain, cut_short))
        is_checked = False
        while (decision := _decided(chain)) is not None:
            chain.write(decision)
            if not is_checked:
                chain.runs.check_room()
                for mismatch in mpi_mismatches(study, chain.runs.launcher):
                    tell(Event("warning", f"warning: {mismatch}"))
                is_checked = True
            record = chain.enter(decision)
            total = chain.total_segments
            tell(_segment_begun(chain, record, total))
            chain.runs.do(record)
            chain.write()
            tell(_segment_ended(chain, record, total))
        chain.write()
        tell(Event("ended", f"the chain has come to its end: {plural(chain.windows.total, 'window')}"))
        return ChainPage.path(directory)


def _decided(chain: Chain) -> Decision | None:
    """Decide; a chain that has to stop says so in its page."""
    try:
        return chain.decide()
    except TooFewRunsError as problem:
        chain.write(problem=str(problem))
        raise


def _begun(chain: Chain, cut_short: int) -> Event:
    done, total = chain.windows_done, chain.windows.total
    text = f"chain in {chain.directory}: {plural(total, 'window')}"
    text += f", {done} done in {plural(len(chain.state.finished), 'segment')}" if done else ""
    text += f", {cut_short} cut short and set aside" if cut_short else ""
    return Event("started", text, number=len(chain.state.finished), total=chain.total_segments)


def _waiting(run: RunRecord) -> Event:
    text = f"waiting for job {run.job} of the interrupted chain: {counts_text(run.split)} ranks"
    return Event("resumed", text, run)


def _segment_begun(chain: Chain, run: RunRecord, total: int) -> Event:
    note = note_of(run)
    windows = f"windows {note.start_window + 1} to {note.start_window + note.windows} of {chain.windows.total}"
    text = f"segment {note.number} of {total}: {counts_text(run.split)} ranks, {windows} ({note.kind}: {run.reason})"
    return Event("run started", text, run, note.number, total)


def _segment_ended(chain: Chain, run: RunRecord, total: int) -> Event:
    note = note_of(run)
    text = f"segment {note.number} of {total}: {run.outcome} after {run.seconds:.1f} s"
    if run.outcome == "finished":
        text += f", {chain.segments()[-1].window_seconds:.4g} s per window"
    else:
        text += f": {' | '.join((run.error or '', *run.reasons))}"
    left = chain.windows.total - chain.windows_done
    return Event("run finished", text, run, note.number, total, f"{plural(left, 'window')} left")
