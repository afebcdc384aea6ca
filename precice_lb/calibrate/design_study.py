"""The design that a study asks for: adaptive, from what its runs have measured so far, or the splits that it names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from precice_lb.calibrate.design import CalibrationDesign, Proposal, Split, split_key, spread_splits
from precice_lb.calibrate.evidence import failed_splits
from precice_lb.calibrate.result import measured_runs, measurements_of
from precice_lb.calibrate.state import CampaignState, RunRecord, spent
from precice_lb.calibrate.study import Study
from precice_lb.calibrate.versions import chosen, combinations_of, constraints_of
from precice_lb.dataset import CoupledRun
from precice_lb.dataset.samples import pooled_iterations
from precice_lb.exceptions import ScheduleError
from precice_lb.names import with_versions, without_versions
from precice_lb.plural import plural
from precice_lb.schedule import Schedule
from precice_lb.split import Machine

# Runs of each combination of versions, before any of them is left out.
INITIAL_RUNS = 2
# A version whose best split is faster than the best one's with less probability is not measured any further.
LEAST_CHANCE = 0.05


@dataclass(frozen=True)
class FixedDesign:
    """Splits fixed beforehand, measured in order."""

    splits: tuple[Split, ...]
    #: Given for each of them.
    reason: str
    conclusion: None = None

    @property
    def total(self) -> int:
        """Number of splits."""
        return len(self.splits)

    def ask(self, tried: Collection[Mapping[str, int]]) -> Proposal | None:
        """Return the first split that is not among ``tried``, runs that failed in this call included, or None."""
        known = {split_key(split) for split in tried}
        for number, split in enumerate(self.splits, start=1):
            if split_key(split) not in known:
                ranks, versions = without_versions(split)
                return Proposal(ranks, f"{self.reason} {number} of {self.total}", versions=versions)
        return None


class VersionsDesign:
    """Measures every combination at its first splits, then those that may be the best one, the likeliest first."""

    def __init__(self, designs: Sequence[tuple[Mapping[str, str], AdaptiveDesign]]) -> None:
        self._designs = designs
        #: Why the last answer was None.
        self.conclusion: str | None = None

    @property
    def total(self) -> int:
        """Largest number of runs."""
        return self._designs[0][1].total

    def ask(self, tried: Collection[Mapping[str, int]]) -> Proposal | None:
        """Return the split and versions whose measurement is worth most, or None; keys of ``tried`` name versions."""
        if len(tried) >= self.total:
            self.conclusion = f"{len(tried)} runs made, as many as runs.maximum allows"
            return None
        own: dict[int, list[Split]] = {at: [] for at in range(len(self._designs))}
        for split in tried:
            ranks, ran = without_versions(split)
            for at, (versions, _) in enumerate(self._designs):
                if ran == versions:
                    own[at].append(ranks)
        answers: dict[int, Proposal | None] = {}
        for at, (versions, design) in enumerate(self._designs):
            answers[at] = answer = design.ask(own[at])
            if answer is not None and len(own[at]) < INITIAL_RUNS:
                return _named(answer, versions)
        told = {}
        for at, (_, design) in enumerate(self._designs):
            if design.design is not None and design.design.runs:
                told[at] = design.design.recommended_windows
        order = sorted(told, key=lambda at: float(told[at].mean()))
        reasons = []
        for at in order:
            versions, design = self._designs[at]
            chance = float(np.mean(told[at] < told[order[0]])) if at != order[0] else 1.0
            if chance < LEAST_CHANCE:
                reasons.append(f"{_text(versions)} is faster with a probability of {100 * chance:.0f} % only")
            elif (answer := answers[at]) is not None:
                return _named(answer, versions)
            else:
                reasons.append(f"{_text(versions)}: {design.conclusion}")
        self.conclusion = "; ".join(reasons) or "every split that comes into question failed"
        return None


def _named(proposal: Proposal, versions: Mapping[str, str]) -> Proposal:
    return replace(proposal, versions=dict(versions), reason=f"{_text(versions)}: {proposal.reason}")


def _text(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def design_of(study: Study, directory: Path) -> FixedDesign | AdaptiveDesign | VersionsDesign:
    """Return the design of a study, with its campaign's directory: its own splits, or an adaptive one."""
    combinations = combinations_of(study)
    if study.splits is not None:
        splits = (
            with_versions(split, versions)
            for versions in combinations
            for split in chosen(study, versions).splits or ()
            # Others were refused, but for what has been found out since.
            if all(split[name] <= most for name, (_, most) in study.bounds.items())
        )
        return FixedDesign(tuple(splits), "split of the study,")
    if any(combinations):
        return VersionsDesign([(each, AdaptiveDesign(chosen(study, each), directory, each)) for each in combinations])
    return AdaptiveDesign(study, directory)


class AdaptiveDesign:
    """Measures what is worth most for the decision, from what the campaign's runs have measured so far.

    It keeps nothing between questions: all it knows is in the campaign's directory, so that a campaign goes on after a
    kill as if nothing had happened.
    """

    def __init__(self, study: Study, directory: Path, versions: Mapping[str, str] | None = None) -> None:
        self._study = study
        self._directory = directory
        # Only runs of these count.
        self._versions = dict(versions or {})
        #: What the last answer was chosen by.
        self.design: CalibrationDesign | None = None
        #: Why the last answer was None.
        self.conclusion: str | None = None

    @property
    def total(self) -> int:
        """Largest number of runs."""
        return self._study.runs.maximum

    def ask(self, tried: Collection[Mapping[str, int]]) -> Proposal | None:
        """Return the split whose measurement is worth most, or None; failed runs of this call are ``tried``."""
        study, runs = self._study, self._study.runs
        state = CampaignState.load(self._directory)
        every = state.runs if state is not None else []
        records = [record for record in every if record.versions == self._versions]
        finished = [record for record in records if record.outcome == "finished"]
        done = Counter(split_key(record.split) for record in finished)
        failed = [dict(key) for key in (Counter(map(split_key, tried)) - done).elements()]
        if len(finished) + len(failed) >= runs.maximum:
            return self._stop(f"{plural(len(finished) + len(failed), 'run')} made, as many as runs.maximum allows")
        minutes, core_hours = spent(every)
        if runs.minutes is not None and minutes >= runs.minutes:
            return self._stop(f"the runs took {minutes:.3g} minutes, of {runs.minutes:g} allowed")
        if runs.core_hours is not None and core_hours >= runs.core_hours:
            return self._stop(f"the runs took {core_hours:.3g} core-hours, of {runs.core_hours:g} allowed")
        small = self._small_mesh(finished, failed)
        if small is not None:
            return small
        each = [measured_runs([self._directory / record.directory / "stores"]) for record in finished]
        earlier, _ = measured_runs(study.existing_runs)
        earlier = [run for run in earlier if run.versions == self._versions]
        self.design = design = self._design([*earlier, *(run for found, _ in each for run in found)])
        # A participant's own number of ranks, where one of its runs failed in this call.
        alone = [
            found.ranks
            for found in failed_splits(records)
            if len(found.ranks) < len(study.names) and any(found.ranks.items() <= split.items() for split in failed)
        ]
        pairs = zip(finished, each, strict=True)
        silent = [record.split for record, (found, _) in pairs if record.mesh is None and not found]
        for split in (*failed, *alone, *silent):
            design.skip(split)
        answer = design.ask()
        if answer is None:
            return self._stop(design.reason)
        reason = design.reason
        if silent:
            problem = next((problem for _, told in each for problem in told), "no windows in their stores")
            reason += f"; {len(silent)} of {len(finished)} finished runs cannot be learned from: {problem}"
        return Proposal(answer, reason)

    def _small_mesh(self, finished: Sequence[RunRecord], failed: Sequence[Split]) -> Proposal | None:
        """Return a run on a smaller mesh, the first in the study first, while some are missing.

        Runs on smaller meshes cost little and show how participants scale; the curve over ranks and sizes is then
        corrected by a few runs of the case itself (the multi-step method of Totounferoush 2022, section 3.4).
        """
        study = self._study
        for index, mesh in enumerate(study.meshes):
            done = [split_key(record.split) for record in finished if record.mesh == index]
            tried = {*done, *map(split_key, failed)}
            for split in spread_splits(study.limits, mesh.runs):
                if len(done) < mesh.runs and split_key(split) not in tried:
                    case = ", ".join(f"{name} = {value:g}" for name, value in mesh.parameter.items())
                    reason = f"small mesh, {case}, {len(done) + 1} of {mesh.runs}"
                    return Proposal(split, reason, mesh=index)
        return None

    def _design(self, runs: Sequence[CoupledRun]) -> CalibrationDesign:
        study = self._study
        # Every run counts with the iterations of all: how many its windows needed is no noise of its cost.
        iterations = pooled_iterations(runs)
        budget, machine = study.budget.ranks, Machine(allow=study.allow)
        if study.budget.kinds:
            budget, machine = constraints_of(study)
        elif not study.machine.threads:
            machine = replace(machine, cores_per_node=study.machine.cores_per_node)
        design = CalibrationDesign(
            study.names,
            budget,
            coupling=schedule_of(study, iterations),
            minimum_ranks={name: low for name, (low, _) in study.bounds.items()},
            maximum_ranks={name: high for name, (_, high) in study.bounds.items()},
            # The campaign counts its own runs.
            maximum_runs=len(runs) + 1,
            target_regret=study.runs.target_regret,
            parameter=study.parameter,
            machine=machine,
        )
        # Kinds of nodes may have more than one run is to take.
        design.admits = lambda split: sum(split.values()) <= study.budget.ranks
        if whole := [run for run in runs if set(run.participants) == set(study.names)]:
            design.add(measurements_of(whole, iterations))
        return design

    def _stop(self, reason: str) -> Proposal | None:
        self.conclusion = reason
        return None


def schedule_of(study: Study, iterations: Mapping[str, float]) -> Schedule:
    """Read the coupling; where it needs what no run has measured yet, all participants count as working at once."""
    try:
        schedule = Schedule.from_config(study.configuration_path, iterations or None)
        # The study's bounds have them already, in cores where it has threads.
        schedule.accepted_ranks = {}
        return schedule
    except ScheduleError:
        return Schedule.parallel(study.names)
