"""Ask and tell: the first splits of a campaign, then those worth most, and when to stop."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.campaign.worth import TARGET_REGRET, PosteriorSplits
from precice_lb.case.machine import whole_number
from precice_lb.dataset import MeasuredRun, Measurements, Samples
from precice_lb.exceptions import CalibrationError, DataError, InfeasibleError, ScheduleError
from precice_lb.recommend import Recommendation, recommend
from precice_lb.recommend.limits import in_proportion, node_ranks
from precice_lb.recommend.sources import check_samples
from precice_lb.schedule import Schedule
from precice_lb.schedule.schedule import schedule_of
from precice_lb.split import Machine
from precice_lb.split.admissible import limits_of
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
        names = tuple(participants)
        self.schedule = schedule_of(coupling, names)
        if set(self.schedule.participants) != set(names) or len(set(names)) < len(names):
            raise ScheduleError(
                f"expected the participants of the coupling ({', '.join(self.schedule.participants)}), "
                f"found {', '.join(names) or 'none'}"
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
        errors = standard_errors or {}
        compute = {name: float(seconds[name]) for name in self.names}
        window, windows = float(self.schedule.window_seconds(compute)), self.schedule.windows
        frames = {
            name: Samples(row[:, 0], row[:, 1], standard_error=errors.get(name, math.nan)) for name, row in rows.items()
        }
        run = MeasuredRun(
            name=f"run {self.runs + 1}",
            split={name: int(split[name]) for name in self.names},
            window_seconds={name: window / windows[name] for name in self.names},
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
        if self.runs >= self.maximum_runs:
            return self._stop(f"{plural(self.runs, 'run')} made, as many as allowed")
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
                machine=self._limits.constraints,
                failed=self._skipped,
            )
        return self._recommended

    def measurements(self) -> Measurements:
        """Return what was told as a table."""
        # Sorted, so that the order of runs never matters.
        orders = {
            name: np.lexsort((frame.standard_error, frame.seconds, frame.cores))
            for name, frame in self._observed.frames.items()
        }
        return self._observed.rows(orders)

    def _first(self) -> Split | None:
        """Return the split with as many ranks for all as limits allow, on whole nodes where there are any."""
        constraints, alike = self._limits.constraints, dict.fromkeys(self.names, 1.0)
        ranks = {name: node_ranks(self._observed, name, self._limits) for name in self.names}
        nodes = {name: int(count) for name, count in ranks.items() if count is not None}
        skipped = replace(constraints, excluded=(*constraints.excluded, *self._skipped))
        for part, multiple in itertools.product(
            (1, 2, 4, 8), [nodes, constraints.multiple] if nodes else [constraints.multiple]
        ):
            with contextlib.suppress(InfeasibleError):
                limits = limits_of(self.names, self.budget // part, constraints=constraints)
                if self.admits(split := in_proportion(limits, alike, replace(skipped, multiple=multiple))[1]):
                    self.reason = "the even split, since nothing is measured yet"
                    return split
        return self._stop(NOTHING_LEFT)

    def _worth_most(self) -> Split | None:
        posterior = self._posterior()
        if all(len(counts) == 1 for counts in self._limits.counts.values()):
            return self._stop("only one split is possible")
        if self.runs >= LEAST_RUNS and (why := posterior.enough(self.target_regret)):
            return self._stop(why)
        run = next((run for run in posterior.runs if self.admits(run.split)), None)
        if run is None:
            return self._stop(NOTHING_LEFT)
        place = "the recommended split" if run.split == self.recommendation().split else "a split"
        now = posterior.expected_regret
        self.reason = f"{place}: expected regret {100 * now:.2f} %, after this run {100 * run.regret:.2f} %"
        return run.split

    def _posterior(self) -> PosteriorSplits:
        if self._posterior_of_runs is None:
            self._posterior_of_runs = PosteriorSplits(self.recommendation())
        return self._posterior_of_runs

    def _stop(self, reason: str) -> Split | None:
        self.reason = reason
        return None
