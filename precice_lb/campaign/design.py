"""Ask and tell: the first splits of a campaign, then those worth most, and when to stop; for a study, with its runs."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from precice_lb.campaign.state import (
    CampaignResult,
    RunRecord,
    core_hours_of,
    failed_splits,
    measured_runs,
    measurements_of,
)
from precice_lb.campaign.study import Study
from precice_lb.campaign.worth import TARGET_REGRET, Array, PosteriorSplits
from precice_lb.case.machine import whole_number
from precice_lb.dataset import CoupledRun, MeasuredRun, Measurements, ParticipantRun, Samples
from precice_lb.dataset.samples import pooled_iterations
from precice_lb.exceptions import CalibrationError, DataError, InfeasibleError, ScheduleError
from precice_lb.models.posterior import counted_noise
from precice_lb.recommend import Recommendation, recommend_split
from precice_lb.recommend.limits import in_proportion, node_ranks
from precice_lb.recommend.sources import check_samples
from precice_lb.schedule import Schedule
from precice_lb.schedule.schedule import schedule_of
from precice_lb.split import Machine
from precice_lb.split.admissible import limits_of
from precice_lb.text import checked_list, plural

Split = dict[str, int]

# What two runs leave out of sight, such as the noise, nobody expects.
LEAST_RUNS = 3
# What the windows of a run leave open of its seconds, as a part of the noise between runs: a reading then errs by
# 5 % more than if it had windows without end, the root of 1 + 1/9.
NEEDED_PART = 1 / 3
NOTHING_LEFT = "every split that comes into question failed, or is above the budget"
# Runs of each combination of versions, before any of them is left out.
INITIAL_RUNS = 2
# A version whose best split is faster than the best one's with less probability is not measured any further.
LEAST_CHANCE = 0.05


@dataclass(frozen=True)
class Proposal:
    """The next split to measure, and why this one, in one line."""

    split: Split
    reason: str
    #: The version of each participant that has any.
    versions: Mapping[str, str] = field(default_factory=dict)
    #: By participant, the relative standard error of its seconds that is small enough.
    needed: Mapping[str, float] = field(default_factory=dict)


class CalibrationDesign:
    """Chooses what to measure: first the even split, then those worth most for the decision.

    Ask for a split, run it, tell the seconds, until the answer is None; then take the recommendation. Runs that were
    made without asking may be told as well, before and in between.

    Parameters
    ----------
    participants : sequence of str
        Names.
    budget : int
        Ranks to give out in all.
    coupling : {"parallel", "serial"}, path of a ``precice-config.xml``, or Schedule
        How the participants wait for each other.
    seed : int
        The same calls with the same seed give the same splits.
    maximum_runs : int
        Runs at most, told ones included.
    target_regret : float
        Another run is not worth it when the recommended split is expected to be slower than the best one by less than
        this, relative, or when a run is expected to lower that by less than a tenth of this: the answer is stable.
        Neither counts before three runs.
    machine : Machine, optional
        What the machine has and demands, as of `recommend_split`. Where it says how many cores a node has, the
        first split is on whole nodes.
    **words
        Fields of `Machine`, such as ``allow``, ``minimum`` and ``maximum``, beside or in place of it.

    Attributes
    ----------
    reason : str
        Why the last answer of `ask` is what it is, in one line.

    Raises
    ------
    PreciceLBError
        Bounds that leave no split, a coupling that cannot be read, or names that it does not have.
    """

    def __init__(
        self,
        participants: Sequence[str],
        budget: int,
        *,
        coupling: str | Path | Schedule = "parallel",
        seed: int = 0,
        maximum_runs: int = 8,
        target_regret: float = TARGET_REGRET,
        machine: Machine | None = None,
        **words: Any,
    ) -> None:
        names = tuple(checked_list(participants, "participants", "names", DataError))
        self.schedule = schedule_of(coupling, names)
        if set(self.schedule.participants) != set(names) or len(set(names)) < len(names):
            known = ", ".join(self.schedule.participants)
            raise ScheduleError(
                f"expected the participants of the coupling ({known}), found {', '.join(names) or 'none'}"
            )
        self.names = self.schedule.participants
        demands = replace(machine or Machine(), **words)
        if self.schedule.accepted_ranks and not demands.accepted_ranks:
            demands = replace(demands, accepted_ranks=self.schedule.accepted_ranks)
        self.budget, constraints = demands.constraints(whole_number(budget, "budget", 1))
        self.seed = whole_number(seed, "seed", 0)
        self._limits = limits_of(self.names, self.budget, constraints=constraints)
        self.maximum_runs = maximum_runs
        self.target_regret = target_regret
        self.reason = ""
        #: Whether a split may be asked for, beside what bounds say: by default any.
        self.admits: Callable[[Split], bool] = bool
        self._observed = Measurements(dict.fromkeys(self.names, Samples([], [])))
        self._skipped: list[Split] = []
        # What follows from these, until there are more.
        self._recommended: Recommendation | None = None
        self._posterior_of_runs: PosteriorSplits | None = None

    @property
    def runs(self) -> int:
        """Runs told so far."""
        return len(self._observed.frames[self.names[0]])

    @property
    def expected_regret(self) -> float:
        """Logarithm of the recommended split's window time over that of the best one, as expected after what was told.

        That is by what share it is slower, where that is small. NaN before the first run.
        """
        return self._posterior().expected_regret if self.runs else math.nan

    def tell(
        self,
        split: Mapping[str, int],
        seconds: Mapping[str, float],
        *,
        standard_errors: Mapping[str, float] | None = None,
    ) -> None:
        """Add a run.

        Parameters
        ----------
        split : mapping from participant to int
            Its ranks.
        seconds : mapping from participant to float
            Compute seconds per time window, without waiting for partners.
        standard_errors : mapping from participant to float, optional
            Of these, in seconds, where known.

        Raises
        ------
        DataError
            Other participants, ranks that are not whole numbers from 1, seconds that are not positive.
        """
        for what, values in (("ranks", split), ("seconds", seconds)):
            if {*values} != {*self.names}:
                known = ", ".join(map(str, values)) or "none"
                raise DataError(f"expected {what} of {', '.join(self.names)}, found {known}")
        rows = check_samples({name: [(split[name], seconds[name])] for name in self.names})
        errors = dict.fromkeys(self.names, math.nan) | dict(standard_errors or {})
        compute = {name: float(seconds[name]) for name in self.names}
        window = float(self.schedule.window_seconds(compute))
        frames = {name: Samples(row[:, 0], row[:, 1], standard_error=errors[name]) for name, row in rows.items()}
        run = MeasuredRun(
            name=f"run {self.runs + 1}",
            split={name: int(split[name]) for name in self.names},
            window_seconds={name: window / self.schedule.windows[name] for name in self.names},
            standard_errors=dict.fromkeys(self.names, math.nan),
            compute_seconds=compute,
            parameters={},
        )
        self.add(replace(self._observed, frames=frames, runs=(run,)))

    def add(self, measurements: Measurements) -> None:
        """Add what recorded runs measured, in which each participant has one row per run; their windows count too.

        Parameters
        ----------
        measurements : Measurements
            Of the case itself, whatever parameters they state.
        """
        frames = {
            name: Samples.concat([self._observed.frames[name], replace(frame, parameters={})])
            for name, frame in measurements.frames.items()
        }
        self._observed = replace(measurements, frames=frames, runs=(*self._observed.runs, *measurements.runs))
        self._recommended = self._posterior_of_runs = None

    def ask(self) -> Split | None:
        """Return the split to measure next, or None when another run is not worth it; `reason` says why."""
        try:
            split, self.reason = self._worth_most() if self.runs else self._first()
        except InfeasibleError:
            split, self.reason = None, NOTHING_LEFT
        return split

    def skip(self, split: Mapping[str, int]) -> None:
        """Take note that a split cannot be measured; it is not asked for again, and not recommended.

        Parameters
        ----------
        split : mapping from participant to int
            Ranks; of some participants alone, all splits in which these have so many.
        """
        if dict(split) not in self._skipped:
            self._skipped.append(dict(split))
            self._recommended = self._posterior_of_runs = None

    def recommendation(self) -> Recommendation:
        """Recommend a split from what was told.

        Returns
        -------
        Recommendation

        Raises
        ------
        CalibrationError
            Nothing was told.
        PreciceLBError
            As of `precice_lb.recommend_split`.
        """
        if not self.runs:
            raise CalibrationError("expected at least one run to recommend from, found none; tell one first")
        if self._recommended is None:
            self._recommended = recommend_split(
                self.measurements(),
                self.budget,
                coupling=self.schedule,
                seed=self.seed,
                machine=self._limits.constraints,
                failed=self._skipped,
            )
        return self._recommended

    def needed(self) -> dict[str, float]:
        """Return by participant the relative standard error of a run's seconds that leaves its reading as good.

        It is a part of the noise that runs differ by, as the posterior knows it after what was told.
        """
        models = self.recommendation().models if self.runs else {}
        levels = {name: getattr(models.get(name), "levels_", None) for name in self.names}
        return {name: NEEDED_PART * counted_noise(known) for name, known in levels.items()}

    def measurements(self) -> Measurements:
        """Return what was told as a table."""
        # Sorted, so that the order of runs never matters.
        frames = self._observed.frames.items()
        return self._observed.rows({name: np.lexsort((f.standard_error, f.seconds, f.cores)) for name, f in frames})

    def _first(self) -> tuple[Split | None, str]:
        """Return the split with as many ranks for all as limits allow, on whole nodes where there are any."""
        constraints, alike = self._limits.constraints, dict.fromkeys(self.names, 1.0)
        ranks = {name: node_ranks(self._observed, name, self._limits) for name in self.names}
        nodes = {name: int(count) for name, count in ranks.items() if count is not None}
        skipped = replace(constraints, excluded=(*constraints.excluded, *self._skipped))
        for part, multiple in itertools.product((1, 2, 4, 8), (nodes or constraints.multiple, constraints.multiple)):
            with contextlib.suppress(InfeasibleError):
                limits = limits_of(self.names, self.budget // part, constraints=constraints)
                if self.admits(split := in_proportion(limits, alike, replace(skipped, multiple=multiple))[1]):
                    return split, "the even split, since nothing is measured yet"
        return None, NOTHING_LEFT

    def _worth_most(self) -> tuple[Split | None, str]:
        if self.runs >= self.maximum_runs:
            return None, f"{plural(self.runs, 'run')} made, as many as allowed"
        posterior = self._posterior()
        if self._limits.lowest == self._limits.highest:
            return None, "only one split is possible"
        if self.runs >= LEAST_RUNS and (why := posterior.enough(self.target_regret)):
            return None, why
        run = next((run for run in posterior.runs if self.admits(run.split)), None)
        if run is None:
            return None, NOTHING_LEFT
        place = "the recommended split" if run.split == self.recommendation().split else "a split"
        now = posterior.expected_regret
        return run.split, f"{place}: expected regret {100 * now:.2f} %, after this run {100 * run.regret:.2f} %"

    def _posterior(self) -> PosteriorSplits:
        if self._posterior_of_runs is None:
            self._posterior_of_runs = PosteriorSplits(self.recommendation())
        return self._posterior_of_runs


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
        self._named = [
            (split, versions)
            for versions, one in self._studies
            for split in one.splits or ()
            # Others were refused, but for what has been found out since.
            if all(split[name] <= most for name, (_, most) in study.bounds.items())
        ]
        #: Largest number of runs.
        self.total = len(self._named) if study.splits is not None else study.runs.maximum
        if study.has_one_split:
            self.total = len(self._studies)
        #: Why the last answer was None; None where the study's splits are measured.
        self.conclusion: str | None = None

    @cached_property
    def _existing(self) -> list[CoupledRun]:
        return existing_runs(self._study)

    def ask(self, failed: Sequence[RunRecord] = ()) -> Proposal | None:
        """Return what to measure next, or None; nothing is tried again that failed in this call."""
        tried = [*self._state.finished, *failed]
        if self._study.splits is not None:
            done = [(run.split, run.versions) for run in tried]
            for number, (split, versions) in enumerate(self._named, 1):
                if (split, versions) not in done:
                    needed = dict.fromkeys(split, NEEDED_PART * counted_noise())
                    return Proposal(split, f"split of the study, {number} of {self.total}", versions, needed)
            return None
        runs, core_hours = self._study.runs, core_hours_of(self._state.runs)
        answer: Proposal | str
        if len(tried) >= runs.maximum:
            answer = f"{plural(len(tried), 'run')} made, as many as runs.maximum allows"
        elif runs.core_hours is not None and core_hours >= runs.core_hours:
            answer = f"the runs took {core_hours:.3g} core-hours, of {runs.core_hours:g} allowed"
        else:
            answer = self._next(tried, failed)
        self.conclusion = answer if isinstance(answer, str) else None
        return None if isinstance(answer, str) else answer

    def _next(self, tried: Sequence[RunRecord], failed: Sequence[RunRecord]) -> Proposal | str:
        """Return what to measure next, or why nothing: of the combination that may be the best one, if any may."""
        candidates: list[tuple[Array, Proposal | str]] = []
        for versions, study in self._studies:
            which = "".join(f"{name} {version}: " for name, version in versions.items())
            design, doubt = self._design(study, versions, [run.split for run in failed if run.versions == versions])
            split, windows = design.ask(), np.array(math.inf)
            answer: Proposal | str = f"{which}{design.reason}"
            if split is not None:
                answer = Proposal(split, f"{answer}{doubt}", versions, design.needed())
                if sum(run.versions == versions for run in tried) < INITIAL_RUNS:
                    return answer
            if design.runs and versions:
                one = design.recommendation()
                windows = one.expected.window(one.split)
            candidates.append((windows, answer))
        candidates.sort(key=lambda candidate: float(np.mean(candidate[0])))
        likely = [answer for windows, answer in candidates if np.mean(windows <= candidates[0][0]) >= LEAST_CHANCE]
        return next((answer for answer in likely if isinstance(answer, Proposal)), "; ".join(map(str, likely)))

    def _design(
        self, study: Study, versions: Mapping[str, str], failed: Sequence[Mapping[str, int]]
    ) -> tuple[CalibrationDesign, str]:
        """Return the design of one combination, told all that was measured, and what it could not learn from."""
        records = [record for record in self._state.runs if record.versions == versions]
        runs = [run for run in self._existing if run.versions == versions]
        # A participant's own number of ranks, where one of its runs failed in this call.
        alone = [
            counts
            for counts in (failure.ranks for failure in failed_splits(records))
            if len(counts) < len(study.names) and any(counts.items() <= split.items() for split in failed)
        ]
        silent: list[Mapping[str, int]] = []
        problems: list[str] = []
        for record in (record for record in records if record.outcome == "finished"):
            if not self._read.get(record.name):
                self._read[record.name], why = measured_runs([self._state.directory / record.directory / "stores"])
                problems += why
            runs += self._read[record.name]
            silent += [] if self._read[record.name] else [record.split]
        # Every run counts with the iterations of all: how many its windows needed is no noise of its cost.
        iterations = pooled_iterations(runs)
        budget, machine = study.budget, Machine(allow=study.allow, cores_per_node=study.machine.cores_per_node)
        if study.machine.kinds:
            budget, machine = study.constraints
        design = CalibrationDesign(
            study.names,
            budget,
            coupling=coupling_of(study, iterations),
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
        for split in (*failed, *alone, *silent):
            design.skip(split)
        problem = "".join(problems[:1]) or "no windows in their stores"
        return design, f"; {plural(len(silent), 'finished run')} cannot be learned from: {problem}" if silent else ""


def existing_runs(study: Study) -> list[CoupledRun]:
    """Read the runs made before that the study names, of the same case: others say nothing of what to measure."""

    def is_of_case(part: ParticipantRun) -> bool:
        stated = part.metadata.get("parameters") or {}
        return all(stated.get(key, value) == value for key, value in study.case.parameter.items())

    return [run for run in measured_runs(study.existing_runs)[0] if all(map(is_of_case, run.participants.values()))]


def coupling_of(study: Study, iterations: Mapping[str, float]) -> Schedule:
    """Read the coupling; where it needs what no run has measured yet, all participants count as working at once."""
    try:
        schedule = Schedule.from_config(study.configuration_path, iterations or None)
        # The study's bounds have them already, in cores where it has threads.
        schedule.accepted_ranks = {}
        return schedule
    except ScheduleError:
        return Schedule.parallel(study.names)
