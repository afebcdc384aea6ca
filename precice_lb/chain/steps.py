"""The steps of a chain: decide on a segment, make and run it, and conclude it; each by any process, in turn."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from precice_lb.campaign.campaign import Event, Report, logged, opened, print_event
from precice_lb.campaign.design import Proposal, coupling_of, existing_runs
from precice_lb.campaign.launchers import Launcher
from precice_lb.campaign.state import FAILURES, CampaignResult, RunRecord, SegmentNote, failed_splits
from precice_lb.campaign.study import Study
from precice_lb.case import Configuration
from precice_lb.chain.decide import DecisionProblem, decide
from precice_lb.chain.document import ChainDocument, Decision, Segment
from precice_lb.chain.segments import ChainWindows, SegmentRuns, earlier_samples, note_of, segment_of
from precice_lb.dataset import CoupledRun, load_runs
from precice_lb.dataset.samples import pooled_iterations
from precice_lb.exceptions import PreciceLBError, TooFewRunsError
from precice_lb.ingest.profiling import enrich
from precice_lb.layout import split_text
from precice_lb.recommend.limits import in_proportion
from precice_lb.text import first_of, plural

# How long the directory may be held by another process, such as the last line of the job before.
LOCK_SECONDS = 10.0
_NOT_OF_CHAINS = ("runs.windows",)
_REPAIRABLE = ("prepare", "templates")


class Chain:
    """A study's chain in its directory: makes, concludes and decides on segments; all it knows is in its files.

    `following` enters segments; ``runs`` makes their directories, starts their solvers and concludes them. Each
    of these steps may be done by another process.
    """

    def __init__(
        self,
        study: Study,
        state: CampaignResult,
        launcher: Launcher,
        windows: ChainWindows,
        emit: Report,
    ) -> None:
        self.study = study
        self.directory = launcher.directory
        self.state = state
        self.windows = windows
        self.runs = SegmentRuns(study, launcher, state, windows)
        self.emit = emit
        #: Tries before this one count for nothing: whoever starts a chain again has seen to why they failed.
        self.since = len(state.runs) if self.running is None else state.runs.index(self.running)
        self._read: dict[str, CoupledRun] = {}

    @property
    def running(self) -> RunRecord | None:
        """The segment that was made or started, and not concluded yet."""
        return next((run for run in self.state.runs if run.outcome == "running"), None)

    @property
    def windows_done(self) -> int:
        """Time windows of finished segments."""
        return sum(note_of(record).windows for record in self.state.finished)

    @property
    def windows_left(self) -> int:
        """Time windows until the end of the chain."""
        return max(self.windows.total - self.windows_done, 0)

    @property
    def next_windows(self) -> int:
        """Time windows of the next segment."""
        return min(self.windows.chain.windows, self.windows_left)

    @property
    def total_segments(self) -> int:
        """How many segments there will be."""
        return len(self.state.finished) + -(-self.windows_left // self.windows.chain.windows)

    def segments(self) -> list[Segment]:
        """Return what the finished segments measured."""
        iterations = pooled_iterations(self._all_runs())
        return [segment_of(record, self.read(record), iterations) for record in self.state.finished]

    def read(self, record: RunRecord) -> CoupledRun:
        """Return what a finished run recorded."""
        if record.name not in self._read:
            (self._read[record.name],) = load_runs([self.directory / record.directory / "stores"], complete=enrich)
        return self._read[record.name]

    def collect_again(self) -> None:
        """Conclude the last segment again where only what follows its run had failed, and tell what became of it."""
        if (run := self.runs.collect_again()) is not None:
            which = f"segment {note_of(run).number}, whose state could not be taken over, is collected again"
            self.emit(Event("resumed", f"{which}: {run.outcome}{f': {run.error}' if run.error else ''}", run))

    def following(self) -> Iterator[RunRecord]:
        """Decide on and enter one segment after the other, to the chain's end; one that has to stop says so."""
        while True:
            try:
                decision = self._decide()
            except PreciceLBError as problem:
                self.write(problem=str(problem))
                raise
            self.write(decision)
            if decision is None:
                self.emit(Event("ended", f"the chain has come to its end: {plural(self.windows.total, 'window')}"))
                return
            note = SegmentNote(
                number=len(self.state.finished) + 1,
                start_window=self.windows_done,
                windows=self.next_windows,
                kind=decision.kind,
            )
            yield self.runs.new(Proposal(decision.split, decision.decision), note)

    def begin(self, run: RunRecord) -> None:
        """Tell that a segment begins."""
        note = note_of(run)
        windows = f"windows {note.start_window + 1} to {note.start_window + note.windows} of {self.windows.total}"
        text = f"segment {note.number} of {self.total_segments}: {self.text(run.split)}, {windows} ({run.reason})"
        self.emit(Event("run started", text, run))

    def end(self, run: RunRecord) -> None:
        """Take a concluded segment into ``chain.json``, and tell how it ended."""
        self.write()
        text = f"segment {note_of(run).number} of {self.total_segments}: {run.outcome} after {run.seconds:.1f} s"
        if run.outcome == "finished":
            text += f", {self.segments()[-1].window_seconds:.4g} s per window"
        else:
            text += f": {' | '.join((run.error or '', *run.reasons))}"
        self.emit(Event("run finished", text, run))

    def _decide(self) -> Decision | None:
        """Return the next segment's split, None at the end of the chain.

        A `TooFewRunsError` says that a segment failed as often as the study allows, with no split to go back to.
        """
        if not self.windows_left:
            return None
        latest = reversed(self.state.runs[self.since :])
        tries = list(itertools.takewhile(lambda run: run.outcome != "finished", latest))
        if [run.outcome for run in tries[:2]] == ["lost", "lost"]:
            number, fault = note_of(tries[0]).number, self._fault(tries[0])
            raise TooFewRunsError(f"segment {number} was lost twice, the state before it is intact: {fault}")
        failures = [run for run in tries if run.outcome in FAILURES]
        if failures:
            return self._after_failure(failures)
        segments = self.segments()
        return decide(segments, self._question(segments)) if segments else self._start()

    def _start(self) -> Decision:
        study, start = self.study, self.windows.chain.start
        if start is not None:
            return Decision(study.split_of(start), "start", "start as chain.start says")
        _, split = in_proportion(study.limits, dict.fromkeys(study.names, 1.0))
        return Decision(split, "start", "start at the even split, since nothing is measured yet")

    def _after_failure(self, failures: Sequence[RunRecord]) -> Decision:
        """Try again, go back to the last split that worked, or stop; the latest failure comes first."""
        last = failures[0]
        note, fault = note_of(last), self._fault(last)
        count = len(list(itertools.takewhile(lambda run: run.split == last.split, failures)))
        retries = self.study.runs.retries
        if count <= retries:
            return Decision(dict(last.split), note.kind, f"retry {count} of {retries}: {last.error}")
        worked = self.state.finished
        if not worked or last.split in [run.split for run in worked]:
            raise TooFewRunsError(f"segment {note.number} failed, the state before it is intact: {fault}")
        back = dict(worked[-1].split)
        text = f"undo: back to {split_text(back, self.study.layouts)}, the last split that worked, from {fault}"
        return Decision(back, "undo", text)

    def _fault(self, run: RunRecord) -> str:
        why = f": {' | '.join(run.why)}" if run.why else ""
        return f"{split_text(run.split, self.study.layouts)} in {self.directory / run.directory}: {run.error}{why}"

    def _question(self, segments: Sequence[Segment]) -> DecisionProblem:
        study = self.study
        iterations = pooled_iterations(self._all_runs())
        return DecisionProblem(
            schedule=coupling_of(study, iterations),
            limits=study.limits,
            windows_left=self.windows_left,
            segment_windows=self.next_windows,
            earlier=earlier_samples(self._existing, iterations),
            failed=[split.ranks for split in failed_splits(self.state.runs)],
            layouts=self.study.layouts,
        )

    def text(self, split: Mapping[str, int]) -> str:
        """Write a split: so many ranks, or cores as ranks and threads."""
        return split_text(split, self.study.layouts) + ("" if self.study.layouts else " ranks")

    @cached_property
    def _existing(self) -> list[CoupledRun]:
        return existing_runs(self.study)

    def _all_runs(self) -> list[CoupledRun]:
        return [*self._existing, *(self.read(record) for record in self.state.finished)]

    def write(self, decision: Decision | None = None, problem: str | None = None) -> None:
        """Write ``chain.json``, with what comes next, or why the chain stopped."""
        done = self.windows_done
        document = ChainDocument(
            study=str(self.study.path),
            # The study may have been shortened.
            total_windows=max(self.windows.total, done),
            windows_done=done,
            segments=self.segments(),
            next=decision,
            problem=problem,
            unit="cores" if self.study.layouts else "ranks",
        )
        document.save(self.directory)


def forgotten_state(configuration: Configuration) -> str:
    """Say what coupling schemes do not keep at a border: data that nothing initialises, and quasi-Newton history."""
    texts = []
    for scheme in configuration.coupling_schemes:
        initialized = {(exchange.source, exchange.target) for exchange in scheme.exchanges if exchange.initialize}
        for exchange in scheme.exchanges:
            if not scheme.sends_ahead(exchange.source) and (exchange.source, exchange.target) not in initialized:
                texts.append(f"{exchange.target} reads {exchange.data} as zero")
    names = [scheme.acceleration or "" for scheme in configuration.coupling_schemes]
    return ", ".join([*texts, *(f"{name} has no history" for name in names if name.startswith("IQN"))])


def chain_identity(study: Study) -> dict[str, Any]:
    """Return what must stay as it is while a chain goes on.

    Lengths may change, and what is repaired after a failure: how a segment is prepared, collected and carried on.
    """
    identity = study.identity()
    for participant in identity["participants"].values():
        for key in _REPAIRABLE:
            del participant[key]
    return {key: value for key, value in identity.items() if key not in _NOT_OF_CHAINS} | {"chain": True}


@contextlib.contextmanager
def open_chain(study: Study, directory: Path, report: Report | None = None) -> Iterator[Chain]:
    """Hold a chain's directory, made where it is not there, and read the chain's state; events are logged there."""
    windows = ChainWindows(study)
    with opened(study, directory, chain_identity(study), "chain", LOCK_SECONDS) as (state, launcher, changed):
        state.asked = study.asked()
        emit = logged(report or print_event, launcher.directory)
        launcher.warn = lambda text: emit(Event("waiting", text))
        if changed:
            launcher.warn(f"the next segment has other files of the case than the last: {first_of(changed)}")
        yield Chain(study, state, launcher, windows, emit)
