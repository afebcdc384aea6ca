"""Ask and tell: which split to measure next, when to stop, and what to recommend."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from precice_lb.calibrate.decision import Beliefs, learned
from precice_lb.calibrate.design import Split, allowed_counts, space_filling_splits
from precice_lb.dataset import Measurements
from precice_lb.exceptions import CalibrationError, DataError, ScheduleError
from precice_lb.plural import plural
from precice_lb.recommend import Recommendation, recommend
from precice_lb.recommend.limits import rank_bounds
from precice_lb.recommend.sources import check_samples
from precice_lb.schedule import Schedule
from precice_lb.schedule.recorded import schedule_of
from precice_lb.split import Constraints
from precice_lb.split.constraints import whole_number

Integers = NDArray[np.int64]

# Splits of the initial design, before there is anything to learn from.
INITIAL_RUNS = 2
# What two runs leave out of sight, such as the noise, nobody expects.
LEAST_RUNS = 3
# Rank counts at which every participant is to be measured: two do not show a curve bend.
DIFFERENT = 3


class CalibrationDesign:
    """Chooses what to measure: first splits that vary all participants, then those worth most for the decision.

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
        target_regret: float = 0.002,
        stable_regret: float = 0.0002,
        core_hours: float = math.inf,
        windows: int = 1,
        parameter: Mapping[str, float] | None = None,
    ) -> None:
        names = tuple(participants)
        self.schedule = schedule_of(coupling, names)
        if set(self.schedule.participants) != set(names) or len(set(names)) < len(names):
            raise ScheduleError(
                f"expected the participants of the coupling ({', '.join(self.schedule.participants)}), "
                f"found {', '.join(names) or 'none'}"
            )
        self.names = self.schedule.participants
        self.budget = whole_number(budget, "budget", 1)
        self.seed = whole_number(seed, "seed", 0)
        self.lowest, self.highest = rank_bounds(self.names, self.budget, minimum_ranks, maximum_ranks)
        self.allow: dict[str, list[int]] = {}
        demands = Constraints(allow=allow or {}, accepted_ranks=self.schedule.accepted_ranks or {})
        if demands != Constraints():
            self.allow = allowed_counts(demands, self.names, self.budget, self.lowest, self.highest)
            self.lowest = {name: counts[0] for name, counts in self.allow.items()}
            self.highest = {name: counts[-1] for name, counts in self.allow.items()}
        self.maximum_runs = maximum_runs
        self.target_regret = target_regret
        self.stable_regret = stable_regret
        self.core_hours = core_hours
        self.windows = windows
        self.parameter = dict(parameter or {})
        self.reason = ""
        # Of each participant's runs: ranks, seconds, standard error, and the parameters.
        self._rows: dict[str, list[tuple[float, ...]]] = {name: [] for name in self.names}
        self._spent = 0.0
        self._skipped: list[Split] = []
        # What follows from what was told.
        self._answer: tuple[Split | None, ...] = ()
        self._beliefs: Beliefs | None = None

    @property
    def runs(self) -> int:
        """Runs told so far."""
        return len(self._rows[self.names[0]])

    @property
    def own_runs(self) -> int:
        """Runs told so far that were of the case itself, with its own parameters."""
        return sum(row[3:] == self._values(self.parameter) for row in self._rows[self.names[0]])

    @property
    def expected_regret(self) -> float:
        """Window time of the recommended split over that of the best one, minus 1, as expected after what was told.

        NaN before the first run.
        """
        return self._belief().expected_regret if self.runs else math.nan

    @property
    def recommended_windows(self) -> NDArray[np.float64]:
        """Seconds per window of the recommended split, one for each drawn set of curves; after the first run."""
        beliefs = self._belief()
        return np.asarray(beliefs.drawn[:, beliefs.best], dtype=np.float64)

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
        for what, given in (("ranks", split), ("seconds", seconds)):
            if not isinstance(given, Mapping) or set(given) != set(self.names):
                found = ", ".join(map(str, given)) if isinstance(given, Mapping) else repr(given)
                raise DataError(f"expected {what} of {', '.join(self.names)}, found {found or 'none'}")
        rows = check_samples({name: [(split[name], seconds[name])] for name in self.names})
        stated, errors = self.parameter if parameter is None else parameter, standard_errors or {}
        if set(stated) != set(self.parameter):
            raise DataError(
                f"expected the parameters of the case ({', '.join(self.parameter) or 'none'}), "
                f"found {', '.join(map(str, stated)) or 'none'}"
            )
        for name, row in rows.items():
            error = float(errors.get(name, math.nan))
            self._rows[name].append((*map(float, row[0]), error, *self._values(stated)))
        ranks = sum(int(split[name]) for name in self.names)
        own = {name: float(seconds[name]) for name in self.names}
        self._spent += ranks * self.windows * float(self.schedule.window_seconds(own)) / 3600
        self._forget()

    def ask(self) -> Split | None:
        """Return the split to measure next, or None when another run is not worth it; `reason` says why."""
        self._answer = self._answer or (self._choose(),)
        (answer,) = self._answer
        return None if answer is None else dict(answer)

    def skip(self, split: Mapping[str, int]) -> None:
        """Take note that a split cannot be measured; it is not asked for again, and not recommended.

        Parameters
        ----------
        split : mapping from participant to int
            Ranks; of some participants alone, all splits in which these have so many.
        """
        if dict(split) not in self._skipped:
            self._skipped.append(dict(split))
            self._forget()

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
        return recommend(
            self.measurements(),
            self.budget,
            schedule=self.schedule,
            minimum_ranks=self.lowest,
            maximum_ranks=self.highest,
            random_state=self.seed,
            parameters=self.parameter or None,
            constraints=Constraints(allow=self.allow),
            failed=self._skipped,
        )

    def measurements(self) -> Measurements:
        """Return what was told as a table."""
        tables = self._tables()
        return Measurements(
            {name: rows[:, :2] for name, rows in tables.items()},
            {name: rows[:, 2] for name, rows in tables.items()},
            None,
            {},
            {},
            (),
            {name: {key: rows[:, 3 + at] for at, key in enumerate(self.parameter)} for name, rows in tables.items()},
        )

    def _choose(self) -> Split | None:
        if self.runs >= self.maximum_runs:
            return self._stop(f"{plural(self.runs, 'run')} made, as many as allowed")
        if self._spent >= self.core_hours:
            return self._stop(f"{self._spent:.3g} core-hours were spent, of {self.core_hours:.3g} allowed")
        if self.runs < INITIAL_RUNS:
            return self._initial()
        now = self.expected_regret
        enough = self.runs >= LEAST_RUNS and self.own_runs > 0
        if now <= self.target_regret and enough:
            return self._stop(f"the expected regret of {100 * now:.2f} % is below {100 * self.target_regret:.2g} %")
        beliefs = self._belief()
        splits = self._candidates(beliefs)
        if not len(splits):
            return self._stop("every split that comes into question failed")
        best, saved, _ = beliefs.next_run(splits)
        if saved[best] < self.stable_regret and enough:
            return self._stop(
                f"the answer is stable: another run is expected to lower the regret of {100 * now:.2f} % by less than "
                f"{100 * self.stable_regret:.2g} %"
            )
        place = "the recommended split" if (splits[best] == beliefs.recommended).all() else "a split"
        left = 1 - min(max(saved[best], 0.0) / max(beliefs.expected_regret, 1e-12), 1.0)
        self.reason = f"{place}: expected regret {100 * now:.2f} %, after this run {100 * now * left:.2f} %"
        return self._split(splits[best])

    def _initial(self) -> Split | None:
        """Give the split of the initial design that is farthest from what was measured."""
        shares = {name: max(self.lowest[name], self.budget // (2 * len(self.names))) for name in self.names}
        if sum(shares.values()) > self.budget or any(shares[name] > self.highest[name] for name in self.names):
            shares = dict(self.lowest)
        bounds = {name: (shares[name], self.highest[name]) for name in self.names}
        count = INITIAL_RUNS + len(self._skipped)
        splits = space_filling_splits(bounds, self.budget, count, self.allow)
        splits = [split for split in splits if not self._is_skipped(split)]
        if not splits:
            return self._stop("every split that comes into question failed")
        chosen = max(splits, key=self._distance)
        self.reason = f"initial design, {self.runs + 1} of {INITIAL_RUNS}"
        return chosen

    def _is_skipped(self, split: Split) -> bool:
        return any(skipped.items() <= split.items() for skipped in self._skipped)

    def _candidates(self, beliefs: Beliefs) -> Integers:
        """List splits to judge; where there are some, those at new rank counts of who was measured at few."""
        chosen = beliefs.candidates()
        free = [not self._is_skipped(self._split(beliefs.splits[at])) for at in chosen]
        splits = beliefs.splits[chosen[free]]
        new = np.ones(len(splits), dtype=np.bool_)
        for name, ranks in zip(self.names, splits.T, strict=True):
            measured = {row[0] for row in self._rows[name]}
            if len(measured) < DIFFERENT:
                new &= ~np.isin(ranks, list(measured))
        return np.asarray(splits[new] if new.any() else splits)

    def _belief(self) -> Beliefs:
        if self._beliefs is None:
            curves, noise = learned(self._tables(), self._values(self.parameter), self.seed)
            bounds = (self.budget, self.lowest, self.highest)
            self._beliefs = Beliefs(
                curves, noise, self.schedule, *bounds, self.seed, failed=self._skipped, allow=self.allow
            )
        return self._beliefs

    def _values(self, parameter: Mapping[str, float]) -> tuple[float, ...]:
        return tuple(float(parameter[key]) for key in self.parameter)

    def _tables(self) -> dict[str, NDArray[np.float64]]:
        """Give the rows of each participant, sorted, shape (runs, 3 + parameters)."""
        return {name: np.array(sorted(rows), dtype=np.float64) for name, rows in self._rows.items()}

    def _distance(self, split: Split) -> float:
        """Give the logarithmic distance of a split to the nearest one that was measured."""
        done = zip(*([row[0] for row in self._rows[name]] for name in self.names), strict=True)
        gaps = [sum(abs(math.log(split[n] / p)) for n, p in zip(self.names, ranks, strict=True)) for ranks in done]
        return min(gaps, default=0.0)

    def _forget(self) -> None:
        self._answer, self._beliefs = (), None

    def _split(self, ranks: Integers) -> Split:
        return {name: int(count) for name, count in zip(self.names, ranks, strict=True)}

    def _stop(self, reason: str) -> Split | None:
        self.reason = reason
        return None
