"""Ask and tell: which split to measure next, when to stop, and what to recommend."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from precice_lb.calibrate.decision import Beliefs, learned
from precice_lb.calibrate.design import Split, spread_splits
from precice_lb.dataset import Measurements
from precice_lb.exceptions import CalibrationError, DataError, ScheduleError
from precice_lb.plural import plural
from precice_lb.recommend import Recommendation, recommend
from precice_lb.recommend.bounds import rank_bounds, whole_number
from precice_lb.recommend.inputs import coupling_of
from precice_lb.recommend.sources import check_samples
from precice_lb.schedule import Schedule

__all__ = ["CalibrationDesign"]

Integers = NDArray[np.int64]

# Splits that are spread over the budget before there is anything to learn from.
SPREAD_RUNS = 2
# What two runs leave out of sight, such as the noise, nobody expects.
LEAST_RUNS = 3
# Rank counts at which every participant is to be measured: two do not show a curve bend.
DIFFERENT = 3
# Splits whose measurement is judged.
CANDIDATES = 12


class CalibrationDesign:
    """Chooses what to measure: first splits that vary all participants, then those worth most for the decision.

    Ask for a split, run it, tell the seconds, until the answer is None; then take the recommendation. Runs that were
    made without asking may be told as well, before and in between.

    Parameters
    ----------
    participants : sequence of str
        Names.
    total_ranks : int
        Ranks to give out in all.
    coupling : {"parallel", "serial"}, path of a ``precice-config.xml``, or Schedule
        How the participants wait for each other.
    minimum_ranks : int or mapping from participant to int
        Ranks that a participant gets at least.
    random_state : int
        Seed; the same calls give the same splits.
    maximum_ranks : mapping from participant to int, optional
        Ranks that a participant gets at most.
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
    parameters : mapping from parameter to float, optional
        Of the case to recommend for, such as the size of its mesh, where runs of other sizes are to be told as well.

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
        total_ranks: int,
        *,
        coupling: str | Path | Schedule = "parallel",
        minimum_ranks: int | Mapping[str, int] = 1,
        random_state: int = 0,
        maximum_ranks: Mapping[str, int] | None = None,
        maximum_runs: int = 8,
        target_regret: float = 0.002,
        stable_regret: float = 0.0002,
        core_hours: float = math.inf,
        windows: int = 1,
        parameters: Mapping[str, float] | None = None,
    ) -> None:
        names = tuple(participants)
        self.schedule = coupling_of(coupling, names)
        if set(self.schedule.participants) != set(names) or len(set(names)) < len(names):
            raise ScheduleError(
                f"expected the participants of the coupling ({', '.join(self.schedule.participants)}), "
                f"found {', '.join(names) or 'none'}"
            )
        self.names = self.schedule.participants
        self.total_ranks = whole_number(total_ranks, "total_ranks", 1)
        self.random_state = whole_number(random_state, "random_state", 0)
        self.minimum_ranks = minimum_ranks
        self.maximum_ranks = maximum_ranks
        self.lowest, self.highest = rank_bounds(self.names, self.total_ranks, minimum_ranks, maximum_ranks)
        self.maximum_runs = maximum_runs
        self.target_regret = target_regret
        self.stable_regret = stable_regret
        self.core_hours = core_hours
        self.windows = windows
        self.parameters = {key: float(value) for key, value in (parameters or {}).items()}
        self.reason = ""
        # Ranks, seconds, standard error, and the parameters.
        self._rows: dict[str, list[tuple[float, ...]]] = {name: [] for name in self.names}
        self._spent = 0.0
        self._skipped: list[Split] = []
        self._answers: dict[tuple[int, int], Split | None] = {}
        self._spread_splits: dict[int, list[Split]] = {}
        self._beliefs: dict[tuple[int, int, bool], Beliefs] = {}

    @property
    def runs(self) -> int:
        """Runs told so far."""
        return len(self._rows[self.names[0]])

    @property
    def own_runs(self) -> int:
        """Runs told so far that were of the case itself, with its own parameters."""
        return sum(row[3:] == tuple(self.parameters.values()) for row in self._rows[self.names[0]])

    @property
    def expected_regret(self) -> float:
        """Window time of the recommended split over that of the best one, minus 1, as expected after what was told.

        NaN before the first run.
        """
        return self._belief(usual_noise=True).expected_regret if self.runs else math.nan

    def tell(
        self,
        split: Mapping[str, int],
        seconds: Mapping[str, float],
        *,
        spread: Mapping[str, float] | None = None,
        parameters: Mapping[str, float] | None = None,
    ) -> None:
        """Add a run.

        Parameters
        ----------
        split : mapping from participant to int
            Its ranks.
        seconds : mapping from participant to float
            Compute seconds per time window, without waiting for partners.
        spread : mapping from participant to float, optional
            Standard errors of these, in seconds, where known.
        parameters : mapping from parameter to float, optional
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
        given = self.parameters if parameters is None else parameters
        if set(given) != set(self.parameters):
            raise DataError(
                f"expected the parameters of the case ({', '.join(self.parameters) or 'none'}), "
                f"found {', '.join(map(str, given)) or 'none'}"
            )
        values = [float(given[key]) for key in self.parameters]
        errors = spread or {}
        for name, row in rows.items():
            self._rows[name].append((*map(float, row[0]), float(errors.get(name, math.nan)), *values))
        ranks = sum(int(split[name]) for name in self.names)
        own = {name: float(seconds[name]) for name in self.names}
        self._spent += ranks * self.windows * float(self.schedule.window_seconds(own)) / 3600

    def ask(self) -> Split | None:
        """Return the split to measure next, or None when another run is not worth it; `reason` says why."""
        told = (self.runs, len(self._skipped))
        if told not in self._answers:
            self._answers = {told: self._choose()}
        answer = self._answers[told]
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
            self.total_ranks,
            schedule=self.schedule,
            minimum_ranks=self.minimum_ranks,
            maximum_ranks=self.maximum_ranks,
            random_state=self.random_state,
            parameters=self.parameters or None,
            failed=self._skipped,
        )

    def measurements(self) -> Measurements:
        """Return what was told as a table."""
        table = {name: np.array(sorted(rows), dtype=np.float64) for name, rows in self._rows.items()}
        return Measurements(
            {name: rows[:, :2] for name, rows in table.items()},
            {name: rows[:, 2] for name, rows in table.items()},
            None,
            {},
            {},
            (),
            {name: {key: rows[:, 3 + at] for at, key in enumerate(self.parameters)} for name, rows in table.items()},
        )

    def _choose(self) -> Split | None:
        if self.runs >= self.maximum_runs:
            return self._stop(f"{plural(self.runs, 'run')} made, as many as allowed")
        if self._spent >= self.core_hours:
            return self._stop(f"{self._spent:.3g} core-hours were spent, of {self.core_hours:.3g} allowed")
        if self.runs < SPREAD_RUNS:
            return self._spread()
        now = self.expected_regret
        enough = self.runs >= LEAST_RUNS and self.own_runs > 0
        if now <= self.target_regret and enough:
            return self._stop(f"the expected regret of {100 * now:.2f} % is below {100 * self.target_regret:.2g} %")
        beliefs = self._belief(usual_noise=False)
        splits = self._candidates(beliefs)
        if not len(splits):
            return self._stop("every split that comes into question failed")
        saved = beliefs.saved_by(splits)
        cost = beliefs.core_seconds(splits)
        # Where none saves anything, the cheapest: it is near the recommended one.
        best = int(np.argmax(saved / cost) if saved.max() > 0 else np.argmin(cost))
        if saved[best] < self.stable_regret and enough:
            return self._stop(
                f"the answer is stable: another run is expected to lower the regret of {100 * now:.2f} % by less than "
                f"{100 * self.stable_regret:.2g} %"
            )
        place = "the recommended split" if (splits[best] == beliefs.recommended).all() else "a split"
        left = 1 - min(max(saved[best], 0.0) / max(beliefs.expected_regret, 1e-12), 1.0)
        self.reason = f"{place}: expected regret {100 * now:.2f} %, after this run {100 * now * left:.2f} %"
        return self._split(splits[best])

    def _spread(self) -> Split | None:
        """Give the spread split that is farthest from what was measured."""
        shares = {name: max(self.lowest[name], self.total_ranks // (2 * len(self.names))) for name in self.names}
        if any(shares[name] > self.highest[name] for name in self.names):
            shares = dict(self.lowest)
        bounds = {name: (shares[name], self.highest[name]) for name in self.names}
        count = SPREAD_RUNS + len(self._skipped)
        if count not in self._spread_splits:
            self._spread_splits = {count: spread_splits(bounds, self.total_ranks, count)}
        splits = self._spread_splits[count]
        splits = [split for split in splits if not self._is_skipped(split)]
        if not splits:
            return self._stop("every split that comes into question failed")
        chosen = max(splits, key=self._distance)
        self.reason = f"spread over the budget, {self.runs + 1} of {SPREAD_RUNS}"
        return chosen

    def _is_skipped(self, split: Split) -> bool:
        return any(skipped.items() <= split.items() for skipped in self._skipped)

    def _distance(self, split: Split) -> float:
        """Logarithmic distance to the nearest split that was measured."""
        done = zip(*([row[0] for row in self._rows[name]] for name in self.names), strict=True)
        gaps = [sum(abs(math.log(split[n] / p)) for n, p in zip(self.names, ranks, strict=True)) for ranks in done]
        return min(gaps, default=0.0)

    def _candidates(self, beliefs: Beliefs) -> Integers:
        """List splits to judge: the recommended one, those that may be best, and others over the whole range."""
        order = np.argsort(beliefs.splits[:, 0], kind="stable")
        every = order[np.linspace(0, len(order) - 1, CANDIDATES).round().astype(np.intp)]
        likely = np.sort(np.argmin(beliefs.regrets, axis=1))
        likely = likely[np.linspace(0, len(likely) - 1, CANDIDATES).round().astype(np.intp)]
        chosen = np.unique(np.concatenate([every, likely, [beliefs.best]]))
        free = [not self._is_skipped(self._split(beliefs.splits[at])) for at in chosen]
        splits = beliefs.splits[chosen[free]]
        new = np.ones(len(splits), dtype=np.bool_)
        for name, ranks in zip(self.names, splits.T, strict=True):
            measured = {row[0] for row in self._rows[name]}
            if len(measured) < DIFFERENT:
                new &= ~np.isin(ranks, list(measured))
        return np.asarray(splits[new] if new.any() else splits)

    def _belief(self, *, usual_noise: bool) -> Beliefs:
        known = (self.runs, len(self._skipped), usual_noise)
        if known not in self._beliefs:
            self._beliefs = {key: value for key, value in self._beliefs.items() if key[:2] == known[:2]}
            curves, noise = {}, {}
            for index, (name, rows) in enumerate(self._rows.items()):
                table, parameters = np.array(sorted(rows)), list(self.parameters.values())
                seed = [self.random_state, index]
                curves[name], noise[name] = learned(table, parameters, seed, usual_noise=usual_noise)
            bounds = (self.total_ranks, self.lowest, self.highest)
            self._beliefs[known] = Beliefs(
                curves, noise, self.schedule, *bounds, self.random_state, failed=self._skipped
            )
        return self._beliefs[known]

    def _split(self, ranks: Integers) -> Split:
        return {name: int(count) for name, count in zip(self.names, ranks, strict=True)}

    def _stop(self, reason: str) -> Split | None:
        self.reason = reason
        return None
