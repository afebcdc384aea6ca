"""Ask and tell: the first splits of a campaign, then those worth most, and when to stop."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from precice_lb.campaign.worth import STABLE_REGRET, TARGET_REGRET, PosteriorSplits
from precice_lb.case.machine import whole_number
from precice_lb.dataset import MeasuredRun, Measurements, Samples
from precice_lb.exceptions import CalibrationError, DataError, InfeasibleError, ScheduleError
from precice_lb.recommend import Recommendation, recommend
from precice_lb.recommend.limits import in_proportion, node_ranks
from precice_lb.recommend.sources import check_samples
from precice_lb.schedule import Schedule
from precice_lb.schedule.schedule import schedule_of
from precice_lb.split import Machine
from precice_lb.split.admissible import Limits, limits_of
from precice_lb.text import plural

Split = dict[str, int]

# What two runs leave out of sight, such as the noise, nobody expects.
LEAST_RUNS = 3
NOTHING_LEFT = "every split that comes into question failed, or is above the budget"


@dataclass(frozen=True)
class Proposal:
    """The next split to measure, and why this one, in one line."""

    split: Split
    reason: str
    #: The version of each participant that has any.
    versions: Mapping[str, str] = field(default_factory=dict)


def even_split(limits: Limits, nodes: Mapping[str, int], skipped: Sequence[Mapping[str, int]]) -> Split:
    """Return the split with as many ranks for all as limits allow, on whole nodes where there are any."""
    constraints = replace(limits.constraints, excluded=(*limits.constraints.excluded, *skipped))
    alike = dict.fromkeys(limits.counts, 1.0)
    with contextlib.suppress(InfeasibleError):
        return in_proportion(limits, alike, replace(constraints, multiple=nodes or constraints.multiple))[1]
    return in_proportion(limits, alike, constraints)[1]


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
    minimum_ranks : int or mapping from participant to int
        Ranks that a participant gets at least.
    maximum_ranks : mapping from participant to int, optional
        Ranks that a participant gets at most.
    allow : mapping from participant to sequence of int, optional
        The only rank counts that are possible.
    seed : int
        The same calls with the same seed give the same splits.
    maximum_runs : int
        Runs at most, told ones included.
    target_regret : float
        Another run is not worth it when the recommended split is expected to be slower than the best one by less than
        this, relative, and there are three runs.
    stable_regret : float
        Nor when it is expected to lower that by less than this: the answer is stable.
    core_hours : float, optional
        Another run is not worth it when the runs have cost this much, in seconds told.
    windows : int
        Time windows of a run, for its cost.
    parameter : mapping from parameter to float, optional
        The case to recommend for, such as the size of its mesh, where runs of other sizes are to be told as well.
    machine : Machine, optional
        What the machine has and demands, as of `recommend_split`. Where it says how many cores a node has, the
        first split is on whole nodes.

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
        minimum_ranks: int | Mapping[str, int] = 1,
        maximum_ranks: Mapping[str, int] | None = None,
        allow: Mapping[str, Sequence[int]] | None = None,
        seed: int = 0,
        maximum_runs: int = 8,
        target_regret: float = TARGET_REGRET,
        stable_regret: float = STABLE_REGRET,
        core_hours: float = math.inf,
        windows: int = 1,
        parameter: Mapping[str, float] | None = None,
        machine: Machine | None = None,
    ) -> None:
        names = tuple(participants)
        self.schedule = schedule_of(coupling, names)
        if set(self.schedule.participants) != set(names) or len(set(names)) < len(names):
            raise ScheduleError(
                f"expected the participants of the coupling ({', '.join(self.schedule.participants)}), "
                f"found {', '.join(names) or 'none'}"
            )
        self.names = self.schedule.participants
        demands = machine or Machine()
        allow = {**demands.allow, **(allow or {})}
        demands = replace(
            demands, allow=allow, accepted_ranks=demands.accepted_ranks or self.schedule.accepted_ranks or {}
        )
        self.budget, constraints = demands.constraints(whole_number(budget, "budget", 1))
        self.seed = whole_number(seed, "seed", 0)
        self._limits = limits_of(self.names, self.budget, minimum_ranks, maximum_ranks, constraints)
        self.maximum_runs = maximum_runs
        self.target_regret = target_regret
        self.stable_regret = stable_regret
        self.core_hours = core_hours
        self.windows = windows
        self.parameter = dict(parameter or {})
        self.reason = ""
        #: Whether a split may be asked for, beside what bounds say: by default any.
        self.admits: Callable[[Split], bool] = bool
        none = Samples([], [], parameters=dict.fromkeys(self.parameter, np.empty(0)))
        # With the parameters of the case alone.
        self._observed = Measurements(dict.fromkeys(self.names, none))
        self._spent = 0.0
        self._skipped: list[Split] = []
        # What follows from these, until there are more.
        self._recommended: Recommendation | None = None
        self._posterior_of_runs: PosteriorSplits | None = None

    @property
    def runs(self) -> int:
        """Runs told so far."""
        return len(self._observed.frames[self.names[0]])

    @property
    def own_runs(self) -> int:
        """Runs told so far that were of the case itself, with its own parameters."""
        rows = zip(*self._observed.frames[self.names[0]].parameters.values(), strict=True)
        return [*rows].count(tuple(map(float, self.parameter.values()))) if self.parameter else self.runs

    @property
    def expected_regret(self) -> float:
        """Logarithm of the recommended split's window time over that of the best one, as expected after what was told.

        That is by what share it is slower, where that is small. NaN before the first run.
        """
        return self._posterior().expected_regret if self.runs else math.nan

    @property
    def recommended_windows(self) -> NDArray[np.float64]:
        """Seconds per window of the recommended split, one for each drawn set of curves; after the first run."""
        recommended = self.recommendation()
        return recommended.expected.window(recommended.split)

    def tell(
        self,
        split: Mapping[str, int],
        seconds: Mapping[str, float],
        *,
        standard_errors: Mapping[str, float] | None = None,
        parameter: Mapping[str, float] | None = None,
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
        parameter : mapping from parameter to float, optional
            Of a run of another size; by default those of the case.

        Raises
        ------
        DataError
            Other participants or parameters, ranks that are not whole numbers from 1, seconds that are not positive.
        """
        for what, values in (("ranks", split), ("seconds", seconds)):
            if not isinstance(values, Mapping) or set(values) != set(self.names):
                names = ", ".join(map(str, values)) if isinstance(values, Mapping) else repr(values)
                raise DataError(f"expected {what} of {', '.join(self.names)}, found {names or 'none'}")
        rows = check_samples({name: [(split[name], seconds[name])] for name in self.names})
        stated, errors = self.parameter if parameter is None else parameter, standard_errors or {}
        if set(stated) != set(self.parameter):
            raise DataError(
                f"expected the parameters of the case ({', '.join(self.parameter) or 'none'}), "
                f"found {', '.join(map(str, stated)) or 'none'}"
            )
        compute = {name: float(seconds[name]) for name in self.names}
        window, windows = float(self.schedule.window_seconds(compute)), self.schedule.windows
        parameters = {key: np.array([float(value)]) for key, value in stated.items()}
        frames = {
            name: Samples(row[:, 0], row[:, 1], standard_error=errors.get(name, math.nan), parameters=parameters)
            for name, row in rows.items()
        }
        run = MeasuredRun(
            name=f"run {self.runs + 1}",
            split={name: int(split[name]) for name in self.names},
            window_seconds={name: window / windows[name] for name in self.names},
            standard_errors=dict.fromkeys(self.names, math.nan),
            compute_seconds=compute,
            parameters={name: dict(stated) for name in self.names},
        )
        self._spent += sum(run.split.values()) * self.windows * window / 3600
        self.add(replace(self._observed, frames=frames, runs=(run,)))

    def add(self, measurements: Measurements) -> None:
        """Add what recorded runs measured, in which each participant has one row per run; their windows count too.

        Parameters
        ----------
        measurements : Measurements
            Of all of them. Parameters that they do not state are those of the case.
        """
        frames = dict(self._observed.frames)
        for name, frame in measurements.frames.items():
            stated = frame.parameters
            case = {key: stated.get(key, np.full(len(frame), float(value))) for key, value in self.parameter.items()}
            frames[name] = Samples.concat([frames[name], replace(frame, parameters=case)])
        self._observed = replace(measurements, frames=frames, runs=(*self._observed.runs, *measurements.runs))
        self._recommended = self._posterior_of_runs = None

    def ask(self) -> Split | None:
        """Return the split to measure next, or None when another run is not worth it; `reason` says why."""
        if self.runs >= self.maximum_runs:
            return self._stop(f"{plural(self.runs, 'run')} made, as many as allowed")
        if self._spent >= self.core_hours:
            return self._stop(f"{self._spent:.3g} core-hours were spent, of {self.core_hours:.3g} allowed")
        try:
            return self._worth_most() if self.runs else self._first()
        except InfeasibleError:
            return self._stop(NOTHING_LEFT)

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
            As of `precice_lb.recommend.recommend`.
        """
        if not self.runs:
            raise CalibrationError("expected at least one run to recommend from, found none; tell one first")
        if self._recommended is None:
            self._recommended = recommend(
                self.measurements(),
                self.budget,
                coupling=self.schedule,
                seed=self.seed,
                parameter={key: self._value(key) for key in self.parameter},
                machine=self._limits.constraints,
                failed=self._skipped,
            )
        return self._recommended

    def measurements(self) -> Measurements:
        """Return what was told as a table."""
        # Sorted, so that the order of runs never matters.
        orders = {
            name: np.lexsort((*reversed(frame.parameters.values()), frame.standard_error, frame.seconds, frame.cores))
            for name, frame in self._observed.frames.items()
        }
        return self._observed.rows(orders)

    def _first(self) -> Split | None:
        ranks = {name: node_ranks(self._observed, name, self._limits) for name in self.names}
        nodes = {name: int(count) for name, count in ranks.items() if count is not None}
        for part in (1, 2, 4, 8):
            limits = limits_of(self.names, self.budget // part, constraints=self._limits.constraints)
            if self.admits(split := even_split(limits, nodes, self._skipped)):
                self.reason = "the even split, since nothing is measured yet"
                return split
        return self._stop(NOTHING_LEFT)

    def _worth_most(self) -> Split | None:
        posterior = self._posterior()
        if self.own_runs and all(len(counts) == 1 for counts in self._limits.counts.values()):
            return self._stop("only one split is possible")
        now, enough = posterior.expected_regret, self.runs >= LEAST_RUNS and self.own_runs > 0
        if now <= self.target_regret and enough:
            return self._stop(f"the expected regret of {100 * now:.2f} % is below {100 * self.target_regret:.2g} %")
        runs = posterior.worth()
        if enough and max(run.saved for run in runs) < self.stable_regret:
            return self._stop(
                f"the answer is stable: another run is expected to lower the regret of {100 * now:.2f} % by less than "
                f"{100 * self.stable_regret:.2g} %"
            )
        run = next((run for run in runs if self.admits(run.split)), None)
        if run is None:
            return self._stop(NOTHING_LEFT)
        place = "the recommended split" if run.split == self.recommendation().split else "a split"
        self.reason = f"{place}: expected regret {100 * now:.2f} %, after this run {100 * run.regret:.2f} %"
        return run.split

    def _posterior(self) -> PosteriorSplits:
        if self._posterior_of_runs is None:
            self._posterior_of_runs = PosteriorSplits(self.recommendation())
        return self._posterior_of_runs

    def _value(self, key: str) -> float | None:
        """Give a parameter of the case; None where all runs were of another one: then these are what there is."""
        known = {value for frame in self._observed.frames.values() for value in frame.parameters[key].tolist()}
        return None if len(known) == 1 and self.parameter[key] not in known else self.parameter[key]

    def _stop(self, reason: str) -> Split | None:
        self.reason = reason
        return None
