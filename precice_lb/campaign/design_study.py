"""What the campaign of a study measures next, from what its runs have measured so far."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from precice_lb.campaign.design import CalibrationDesign, Proposal
from precice_lb.campaign.state import (
    CampaignResult,
    RunRecord,
    core_hours_of,
    failed_splits,
    measured_runs,
    measurements_of,
)
from precice_lb.campaign.study import Study
from precice_lb.dataset import CoupledRun
from precice_lb.dataset.samples import pooled_iterations
from precice_lb.exceptions import ScheduleError
from precice_lb.schedule import Schedule
from precice_lb.split import Machine
from precice_lb.text import plural

Array = NDArray[np.float64]
# Runs of each combination of versions, before any of them is left out.
INITIAL_RUNS = 2
# A version whose best split is faster than the best one's with less probability is not measured any further.
LEAST_CHANCE = 0.05


class StudyDesign:
    """What a campaign measures next: the splits that its study names, or what is worth most for the decision.

    With versions, every combination of them at its first splits, then those that may be the best one. Between
    questions it keeps what it has read of finished runs, no more: all it knows is in the state of the campaign, so that
    this goes on after a kill as if nothing had happened.
    """

    def __init__(self, study: Study, state: CampaignResult) -> None:
        self._study, self._state = study, state
        self._read: dict[str, list[CoupledRun]] = {}
        self._studies = [(versions, study.chosen(versions)) for versions in study.combinations]
        named = [
            (split, versions)
            for versions, one in self._studies
            for split in one.splits or ()
            # Others were refused, but for what has been found out since.
            if all(split[name] <= most for name, (_, most) in study.bounds.items())
        ]
        self._named = [
            Proposal(split, f"split of the study, {number} of {len(named)}", versions)
            for number, (split, versions) in enumerate(named, 1)
        ]
        #: Largest number of runs.
        self.total = study.runs.maximum if study.splits is None else len(named)
        if study.has_one_split:
            self.total = len(self._studies)
        #: Why the last answer was None; None where the study's splits are measured.
        self.conclusion: str | None = None

    @cached_property
    def _existing(self) -> list[CoupledRun]:
        """Runs of the same case made before, which the study names; a recommendation learns from others too."""
        asked = self._study.case.parameter.items()

        def is_of_case(run: CoupledRun) -> bool:
            stated = next(iter(run.participants.values())).metadata.get("parameters") or {}
            return all(stated.get(key, value) == value for key, value in asked)

        return [*filter(is_of_case, measured_runs(self._study.existing_runs)[0])]

    def ask(self, failed: Sequence[RunRecord] = ()) -> Proposal | None:
        """Return what to measure next, or None; nothing is tried again that failed in this call."""
        tried = [*self._state.finished, *failed]
        if self._study.splits is not None:
            done = [(run.split, run.versions) for run in tried]
            return next((p for p in self._named if (p.split, p.versions) not in done), None)
        answer = self._over(len(tried)) or self._next(tried, failed)
        self.conclusion = answer if isinstance(answer, str) else None
        return None if isinstance(answer, str) else answer

    def _over(self, tried: int) -> str | None:
        """Say which limit of the campaign is reached, if any."""
        runs, core_hours = self._study.runs, core_hours_of(self._state.runs)
        if tried >= runs.maximum:
            return f"{plural(tried, 'run')} made, as many as runs.maximum allows"
        if runs.core_hours is not None and core_hours >= runs.core_hours:
            return f"the runs took {core_hours:.3g} core-hours, of {runs.core_hours:g} allowed"
        return None

    def _next(self, tried: Sequence[RunRecord], failed: Sequence[RunRecord]) -> Proposal | str:
        """Return what to measure next, or why nothing: of the combination that may be the best one, if any may."""
        candidates: list[tuple[Array, Proposal | str]] = []
        for versions, study in self._studies:
            which = ", ".join(f"{name} {version}" for name, version in versions.items())
            design, doubt = self._design(study, versions, [run.split for run in failed if run.versions == versions])
            split = design.ask()
            answer: Proposal | str = f"{which}: {design.reason}" if which else design.reason
            if split is not None:
                answer = Proposal(split, f"{answer}{doubt}", versions=versions)
                if sum(run.versions == versions for run in tried) < INITIAL_RUNS:
                    return answer
            candidates.append((design.recommended_windows if design.runs and which else np.array(math.inf), answer))
        candidates.sort(key=lambda candidate: float(np.mean(candidate[0])))
        best = candidates[0][0]
        likely = [answer for windows, answer in candidates if np.mean(windows <= best) >= LEAST_CHANCE]
        return next((answer for answer in likely if isinstance(answer, Proposal)), "; ".join(map(str, likely)))

    def _design(
        self, study: Study, versions: Mapping[str, str], failed: Sequence[Mapping[str, int]]
    ) -> tuple[CalibrationDesign, str]:
        """Return the design of one combination, told all that was measured, and what it could not learn from."""
        records = [record for record in self._state.runs if record.versions == versions]
        runs = [run for run in self._existing if run.versions == versions]
        silent: list[Mapping[str, int]] = []
        problems: list[str] = []
        for record in (record for record in records if record.outcome == "finished"):
            if not self._read.get(record.name):
                self._read[record.name], why = measured_runs([self._state.directory / record.directory / "stores"])
                problems += why
            runs += self._read[record.name]
            silent += [] if self._read[record.name] else [record.split]
        # A participant's own number of ranks, where one of its runs failed in this call.
        alone = [
            counts
            for counts in (failure.ranks for failure in failed_splits(records))
            if len(counts) < len(study.names) and any(counts.items() <= split.items() for split in failed)
        ]
        design = _design_of(study, runs)
        for split in (*failed, *alone, *silent):
            design.skip(split)
        problem = next(iter(problems), "no windows in their stores")
        return design, f"; {plural(len(silent), 'finished run')} cannot be learned from: {problem}" if silent else ""


def _design_of(study: Study, runs: Sequence[CoupledRun]) -> CalibrationDesign:
    # Every run counts with the iterations of all: how many its windows needed is no noise of its cost.
    iterations = pooled_iterations(runs)
    budget, machine = study.budget, Machine(allow=study.allow, cores_per_node=study.machine.cores_per_node)
    if study.machine.kinds:
        budget, machine = study.constraints
    design = CalibrationDesign(
        study.names,
        budget,
        coupling=schedule_of(study, iterations),
        # The campaign counts its own runs.
        maximum_runs=len(runs) + 1,
        target_regret=study.runs.target_regret,
        machine=machine,
        minimum={name: low for name, (low, _) in study.bounds.items()},
        maximum={name: high for name, (_, high) in study.bounds.items()},
    )
    # Kinds of nodes may have more than one run is to take.
    design.admits = lambda split: sum(split.values()) <= study.budget
    if whole := [run for run in runs if set(run.participants) == set(study.names)]:
        design.add(measurements_of(whole, iterations))
    return design


def schedule_of(study: Study, iterations: Mapping[str, float]) -> Schedule:
    """Read the coupling; where it needs what no run has measured yet, all participants count as working at once."""
    try:
        schedule = Schedule.from_config(study.configuration_path, iterations or None)
        # The study's bounds have them already, in cores where it has threads.
        schedule.accepted_ranks = {}
        return schedule
    except ScheduleError:
        return Schedule.parallel(study.names)
