"""What the campaign of a study measures next, from what its runs have measured so far."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from precice_lb.campaign.design import CalibrationDesign, Proposal, Split, split_key, spread_splits
from precice_lb.campaign.result import failed_splits, measured_runs, measurements_of
from precice_lb.campaign.state import CampaignState, RunRecord, core_hours_of
from precice_lb.campaign.study import Study
from precice_lb.campaign.versions import chosen, combinations_of, constraints_of
from precice_lb.dataset import CoupledRun
from precice_lb.dataset.samples import pooled_iterations
from precice_lb.exceptions import ScheduleError
from precice_lb.names import with_versions, without_versions
from precice_lb.plural import plural
from precice_lb.schedule import Schedule
from precice_lb.split import Machine

Array = NDArray[np.float64]
# Runs of each combination of versions, before any of them is left out.
INITIAL_RUNS = 2
# A version whose best split is faster than the best one's with less probability is not measured any further.
LEAST_CHANCE = 0.05


class StudyDesign:
    """What a campaign measures next: the splits that its study names, or what is worth most for the decision.

    With versions, every combination of them at its first splits, then those that may be the best one, the likeliest
    first. It keeps nothing between questions: all it knows is in the campaign's directory, so that a campaign goes on
    after a kill as if nothing had happened.
    """

    def __init__(self, study: Study, directory: Path) -> None:
        self._study, self._directory = study, directory
        self._studies = [(versions, chosen(study, versions)) for versions in combinations_of(study)]
        self._named = [
            with_versions(split, each)
            for each, one in self._studies
            for split in one.splits or ()
            # Others were refused, but for what has been found out since.
            if all(split[name] <= most for name, (_, most) in study.bounds.items())
        ]
        #: Largest number of runs.
        self.total = study.runs.maximum if study.runs.splits is None else len(self._named)
        #: Whether nobody may have another number of ranks: then one run of each combination says what it takes.
        self.has_one_split = study.runs.splits is None and all(
            len(counts) == 1 for _, one in self._studies for counts in one.limits.counts.values()
        )
        if self.has_one_split:
            self.total = len(self._studies)
        #: Why the last answer was None; None where the study's splits are measured.
        self.conclusion: str | None = None

    def ask(self, tried: Collection[Mapping[str, int]]) -> Proposal | None:
        """Return what to measure next, or None; ``tried`` ended well, or failed in this call, keys name versions."""
        if self._study.runs.splits is not None:
            for number, split in enumerate(self._named, start=1):
                if split not in tried:
                    ranks, versions = without_versions(split)
                    return Proposal(ranks, f"split of the study, {number} of {self.total}", versions=versions)
            return None
        answer = self._over(tried) or self._next([without_versions(split) for split in tried])
        self.conclusion = answer if isinstance(answer, str) else None
        return None if isinstance(answer, str) else answer

    def _over(self, tried: Collection[Mapping[str, int]]) -> str | None:
        """Say which limit of the campaign is reached, if any."""
        runs, core_hours = self._study.runs, core_hours_of(self._records())
        if len(tried) >= runs.maximum:
            return f"{plural(len(tried), 'run')} made, as many as runs.maximum allows"
        if runs.core_hours is not None and core_hours >= runs.core_hours:
            return f"the runs took {core_hours:.3g} core-hours, of {runs.core_hours:g} allowed"
        return None

    def _records(self) -> list[RunRecord]:
        state = CampaignState.load(self._directory)
        return [] if state is None else state.runs

    def _next(self, tried: Sequence[tuple[Split, Mapping[str, str]]]) -> Proposal | str:
        """Return what to measure next, or why nothing: of the combination that may be the best one, if any may."""
        judged: list[tuple[float, Array, str, Proposal | str]] = []
        for versions, study in self._studies:
            own = [split for split, ran in tried if ran == versions]
            which = ", ".join(f"{name} {version}" for name, version in versions.items())
            answer, expected = self._of(study, versions, own)
            prefix = f"{which}: " if which else ""
            if isinstance(answer, Proposal):
                answer = replace(answer, versions=dict(versions), reason=prefix + answer.reason)
                if len(own) < INITIAL_RUNS:
                    return answer
            else:
                answer = prefix + answer
            judged.append((float(np.mean(expected)), expected, which, answer))
        judged.sort(key=lambda entry: entry[0])
        reasons = []
        for place, (_, expected, which, answer) in enumerate(judged):
            chance = float(np.mean(expected < judged[0][1])) if place else 1.0
            if chance < LEAST_CHANCE:
                reasons.append(f"{which} is faster with a probability of {100 * chance:.0f} % only")
            elif isinstance(answer, Proposal):
                return answer
            else:
                reasons.append(answer)
        return "; ".join(reasons)

    def _of(self, study: Study, versions: Mapping[str, str], tried: Sequence[Split]) -> tuple[Proposal | str, Array]:
        """Return what of a combination to measure next, or why nothing, and the windows that are expected of it."""
        records = [record for record in self._records() if record.versions == versions]
        finished = [record for record in records if record.outcome == "finished"]
        done = Counter(split_key(record.split) for record in finished)
        failed = [dict(key) for key in (Counter(map(split_key, tried)) - done).elements()]
        never = np.array(math.inf)
        if (small := self._small_mesh(study, finished, failed)) is not None:
            return small, never
        each = [measured_runs([self._directory / record.directory / "stores"]) for record in finished]
        earlier = [run for run in measured_runs(study.existing_runs)[0] if run.versions == versions]
        design = self._design(study, [*earlier, *(run for found, _ in each for run in found)])
        # A participant's own number of ranks, where one of its runs failed in this call.
        alone = [
            found.ranks
            for found in failed_splits(records)
            if len(found.ranks) < len(study.names) and any(found.ranks.items() <= split.items() for split in failed)
        ]
        pairs = zip(finished, each, strict=True)
        silent = [record.split for record, (found, _) in pairs if record.mesh is None and not found]
        for skipped in (*failed, *alone, *silent):
            design.skip(skipped)
        split, reason = design.ask(), design.reason
        expected = design.recommended_windows if design.runs and versions else never
        if split is None:
            return reason, expected
        if silent:
            problem = next((problem for _, told in each for problem in told), "no windows in their stores")
            reason += f"; {len(silent)} of {len(finished)} finished runs cannot be learned from: {problem}"
        return Proposal(split, reason), expected

    def _small_mesh(self, study: Study, finished: Sequence[RunRecord], failed: Sequence[Split]) -> Proposal | None:
        """Return a run on a smaller mesh, the first in the study first, while some are missing.

        Runs on smaller meshes cost little and show how participants scale; the curve over ranks and sizes is then
        corrected by a few runs of the case itself (the multi-step method of Totounferoush 2022, section 3.4).
        """
        for index, mesh in enumerate(study.runs.meshes):
            done = [split_key(record.split) for record in finished if record.mesh == index]
            tried = {*done, *map(split_key, failed)}
            for split in spread_splits(study.limits, mesh.runs):
                if len(done) < mesh.runs and split_key(split) not in tried:
                    case = ", ".join(f"{name} = {value:g}" for name, value in mesh.parameter.items())
                    reason = f"small mesh, {case}, {len(done) + 1} of {mesh.runs}"
                    return Proposal(split, reason, mesh=index)
        return None

    def _design(self, study: Study, runs: Sequence[CoupledRun]) -> CalibrationDesign:
        # Every run counts with the iterations of all: how many its windows needed is no noise of its cost.
        iterations = pooled_iterations(runs)
        budget, machine = study.budget, Machine(allow=study.allow)
        if study.machine.kinds:
            budget, machine = constraints_of(study)
        else:
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
            parameter={name: float(value) for name, value in study.case.parameter.items()},
            machine=machine,
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
