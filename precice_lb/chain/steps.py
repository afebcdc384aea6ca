"""The steps of a chain: decide on a segment, make and run it, and conclude it; each by any process, in turn."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from precice_lb.campaign.campaign import opened
from precice_lb.campaign.design import Proposal
from precice_lb.campaign.design_study import schedule_of
from precice_lb.campaign.launchers import Launcher
from precice_lb.campaign.state import FAILURES, CampaignResult, RunRecord, SegmentNote, failed_splits, measured_runs
from precice_lb.campaign.study import Study
from precice_lb.chain.decide import DecisionProblem, decide
from precice_lb.chain.document import ChainDocument, Decision, Segment
from precice_lb.chain.segments import ChainWindows, SegmentRuns, earlier_samples, entry_of, note_of, segment_of
from precice_lb.dataset import CoupledRun, ParticipantRun, load_runs
from precice_lb.dataset.samples import pooled_iterations
from precice_lb.exceptions import TooFewRunsError
from precice_lb.ingest.profiling import enrich
from precice_lb.layout import split_text
from precice_lb.recommend.limits import in_proportion

Decide = Callable[[Sequence[Segment], DecisionProblem], Decision]
# How long the directory may be held by another process, such as the last line of the job before.
LOCK_SECONDS = 10.0
_NOT_OF_CHAINS = ("runs.windows",)
_REPAIRABLE = ("prepare", "templates")


class Chain:
    """A study's chain in its directory: makes, concludes and decides on segments; all it knows is in its files.

    A segment is `entered <enter>`, its directory made and its solvers started by ``runs``, which also conclude it;
    `decide` then says what comes next. Each of these steps may be done by another process.
    """

    def __init__(
        self,
        study: Study,
        state: CampaignResult,
        launcher: Launcher,
        windows: ChainWindows,
        decider: Decide,
        changed: Sequence[str],
    ) -> None:
        self.study = study
        self.directory = launcher.directory
        self.state = state
        self.windows = windows
        self.runs = SegmentRuns(study, launcher, state, windows)
        #: Files of the case that are not what they were when the chain was last at work.
        self.changed = changed
        #: Tries before this one count for nothing: whoever starts a chain again has seen to why they failed.
        self.since = len(state.runs) if self.running is None else state.runs.index(self.running)
        self._decider = decider
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
        latest = reversed(self.state.runs[self.since :])
        tries = list(itertools.takewhile(lambda run: run.outcome != "finished", latest))
        if [run.outcome for run in tries[:2]] == ["lost", "lost"]:
            number, fault = note_of(tries[0]).number, self._fault(tries[0])
            raise TooFewRunsError(f"segment {number} was lost twice, the state before it is intact: {fault}")
        failures = [run for run in tries if run.outcome in FAILURES]
        if failures:
            return self._after_failure(failures)
        segments = self.segments()
        return self._decider(segments, self._question(segments)) if segments else self._start()

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
            schedule=schedule_of(study, iterations),
            budget=study.budget,
            lowest={name: low for name, (low, _) in study.bounds.items()},
            highest={name: high for name, (_, high) in study.bounds.items()},
            windows_left=self.windows.total - self.windows_done,
            segment_windows=self.windows.of_next(segments),
            allow=study.allow,
            earlier=earlier_samples(self._existing, iterations),
            failed=[split.ranks for split in failed_splits(self.state.runs)],
            layouts=self.study.layouts,
        )

    def text(self, split: Mapping[str, int]) -> str:
        """Write a split: so many ranks, or cores as ranks and threads."""
        return split_text(split, self.study.layouts) + ("" if self.study.layouts else " ranks")

    @cached_property
    def _existing(self) -> list[CoupledRun]:
        # Those on smaller meshes say nothing of this case.
        runs, _ = measured_runs(self.study.existing_runs)
        return [run for run in runs if all(map(self._is_of_case, run.participants.values()))]

    def _is_of_case(self, part: ParticipantRun) -> bool:
        stated = part.metadata.get("parameters") or {}
        return all(stated.get(name, value) == value for name, value in self.study.case.parameter.items())

    def _all_runs(self) -> list[CoupledRun]:
        return [*self._existing, *(self.read(record) for record in self.state.finished)]

    def enter(self, decision: Decision) -> RunRecord:
        """Enter the next segment into the state, before anything of it exists."""
        note = SegmentNote(
            number=len(self.state.finished) + 1,
            start_window=self.windows_done,
            windows=self.windows.of_next(self.segments(), decision.split),
            kind=decision.kind,
        )
        return self.runs.new(Proposal(decision.split, decision.decision), note)

    def write(self, decision: Decision | None = None, problem: str | None = None) -> None:
        """Write ``chain.json``, with what comes next, or why the chain stopped."""
        finished, done = self.state.finished, self.windows_done
        document = ChainDocument(
            study=str(self.study.path),
            # The study may have been shortened.
            total_windows=max(self.windows.total, done),
            windows_done=done,
            segments=[
                entry_of(record, segment, self.read(record))
                for record, segment in zip(finished, self.segments(), strict=True)
            ],
            next=decision,
            problem=problem,
            unit="cores" if self.study.layouts else "ranks",
        )
        document.save(self.directory)


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
def open_chain(study: Study, directory: Path, decider: Decide = decide) -> Iterator[Chain]:
    """Hold a chain's directory, made where it is not there, and read the chain's state."""
    windows = ChainWindows(study)
    with opened(study, directory, chain_identity(study), "chain", LOCK_SECONDS) as (state, launcher, changed):
        state.asked = study.asked()
        yield Chain(study, state, launcher, windows, decider, changed)
