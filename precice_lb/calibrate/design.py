"""Which split to measure next: what the posterior says of all of them, what a run is worth, when to stop.

The curves that a recommendation was decided on are possible truths. For each of them the best split is known, and so is
what another split would lose there: the logarithm of its window over the best one's, which is the rule of the decision
too. In the mean over the curves it is the expected regret. A run at a split would read each participant's seconds with
noise; curves that disagree with the reading would count for less, and another split might be recommended. Reading many
possible truths in turn gives the expected regret after the run (the expected value of sample information; Raiffa and
Schlaifer 1961, chapter 4; the present curves are reweighted for each reading, in place of a new posterior).
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.dataset import Measurements
from precice_lb.dataset.records import MeasuredRun
from precice_lb.exceptions import CalibrationError, DataError, InfeasibleError, ScheduleError
from precice_lb.models.measurements import USUAL_NOISE
from precice_lb.plural import plural
from precice_lb.recommend import Recommendation, recommend
from precice_lb.recommend.decide import node_ranks
from precice_lb.recommend.limits import Limits, limits_of
from precice_lb.recommend.posterior import Curves, excluded_splits, geometric_mean
from precice_lb.recommend.sources import check_samples
from precice_lb.schedule import Schedule
from precice_lb.schedule.recorded import schedule_of
from precice_lb.split import Constraints, Machine
from precice_lb.split.constraints import check_names, whole_number
from precice_lb.split.problem import Curve, problem_of, split_of, uses_at
from precice_lb.split.solve import Solver

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
Split = dict[str, int]

# Another run is not worth it where the expected regret is below the first, or it would lower that by less than the
# second: the answer is stable.
TARGET_REGRET, STABLE_REGRET = 0.002, 0.0002
# What two runs leave out of sight, such as the noise, nobody expects.
LEAST_RUNS = 3
# Rank counts at which every participant is to be measured: two do not show a curve bend.
DIFFERENT = 3
# Splits of either kind whose measurement is judged, and those among which a decision after it is made.
CANDIDATES, ALTERNATIVES = 12, 64
# Possible truths that are read when a run is judged.
READINGS = 256
# Counts of each of two participants up to which all splits are compared; beyond, so many in geometric steps.
ALL_COUNTS = 384
# Of how many drawn curves the best split of one comes into question: with few and with many participants.
THINNING, THINNING_OF_MANY, MANY = 5, 32, 8
# Ratio of most to least in the first splits that show how participants scale.
SPREAD = 3.0
NOTHING_LEFT = "every split that comes into question failed, or is above the budget"


@dataclass(frozen=True)
class Proposal:
    """The next split to measure, and why this one, in one line."""

    split: Split
    reason: str
    #: Index of the small mesh of the study that the run is on; None for the case itself.
    mesh: int | None = None
    #: The version of each participant that has any.
    versions: Mapping[str, str] = field(default_factory=dict)


def split_key(split: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """Return a hashable form of a split that does not depend on the order of the participants."""
    return tuple(sorted(split.items()))


def allowed_counts(
    constraints: Constraints, names: Sequence[str], budget: int, lowest: Mapping[str, int], highest: Mapping[str, int]
) -> dict[str, list[int]]:
    """List the rank counts of each participant that its bounds and the constraints leave."""
    check_names(constraints, dict.fromkeys(names, ()))
    limits = Limits(budget, lowest, highest, constraints)
    counts = {name: limits.counts(name).tolist() for name in names}
    if (needed := sum(each[0] for each in counts.values())) > budget:
        raise InfeasibleError(
            f"expected a budget of {plural(needed, 'rank')} or more for the fewest that are allowed, found {budget}"
        )
    return counts


def spread_splits(limits: Limits, count: int, nodes: Mapping[str, int] | None = None) -> Iterator[Split]:
    """Give splits that show how participants scale, of which nobody knows anything: on whole nodes where there are any.

    All participants are alike, so that the even split is the best and, in the mean, the nearest to what may be best.
    In the others the shares are in geometric progression, and each has the most in turn; then again with the square of
    the ratio, and so on. Fewer than ``count`` only where no more exist.
    """
    names = list(limits.lowest)
    shape = np.linspace(-0.5, 0.5, len(names)) if len(names) > 1 else np.zeros(1)
    found: list[Split] = []
    demanded = limits.constraints.multiple
    multiples = (nodes, demanded) if nodes else (demanded,)
    for at in range(count):
        weights = SPREAD ** (np.roll(shape, at) * -(-at // len(names)))
        shares = dict(zip(names, weights.tolist(), strict=True))
        excluded = (*limits.constraints.excluded, *found)
        for multiple in multiples:
            free = dataclasses.replace(limits.constraints, excluded=excluded, multiple=multiple)
            with contextlib.suppress(InfeasibleError):
                found.append(dataclasses.replace(limits, constraints=free).in_proportion(shares)[1])
                yield found[-1]
                break


class PosteriorSplits:
    """What the posterior of a recommendation says of all splits, and what measuring another one is worth.

    What the windows of one run leave open of its seconds is the median of the errors, or ``within`` as told, relative.
    """

    def __init__(self, found: Recommendation, within: Mapping[str, float] | None = None) -> None:
        self.expected, self.names = found.expected, found.expected.names
        self._seed = found.expected.seed
        # Relative standard deviation of the seconds that a run would tell.
        self.noise = {n: _noise(found, n, None if within is None else within[n]) for n in self.names}
        self._measured = {
            name: set(found.measurements.samples[name][found.measured_here(name), 0].tolist()) for name in self.names
        }
        nodes = {name: node_ranks(found.measurements, name, found.limits) for name in self.names}
        self._nodes = {name: int(ranks) for name, ranks in nodes.items() if ranks is not None}
        chosen = self.expected.counts([found.split])
        #: Splits that come into question, shape (k, participants).
        self.splits = np.unique(np.vstack([chosen, _in_question(found, self._nodes)]), axis=0)
        #: Seconds per window for each set of curves and each of these, shape (curves, k).
        self.windows = self.expected.windows(self.splits, replay=False)
        logs = np.log(self.windows)
        #: What each would lose for each set of curves, as a logarithm, shape (curves, k).
        self.losses = logs - logs.min(axis=1, keepdims=True)
        #: Index of the recommended split, and of the best one by these windows.
        self.recommended = int(np.flatnonzero((self.splits == chosen).all(axis=1))[0])
        self.best = int(np.argmin(logs.mean(axis=0)))

    @property
    def expected_regret(self) -> float:
        """Of the recommended split: the logarithm of its window time over that of the best split, in the mean."""
        return float(self.losses[:, self.recommended].mean())

    def core_seconds(self, rows: Integers) -> Array:
        """Seconds per window times ranks of some of the splits, shape (rows,)."""
        return np.asarray(geometric_mean(self.windows[:, rows]) * self.splits[rows].sum(axis=1), dtype=np.float64)

    def worth(self) -> tuple[Integers, Array]:
        """List splits to measure, those first that save most per core-second, and the regret that each would save.

        Where none saves anything, the cheapest first: it is near the recommended one.
        """
        rows = self.candidates()
        saved, cost = self.saved(rows), self.core_seconds(rows)
        order = np.argsort(-saved / cost if saved.max() > 0 else cost, kind="stable")
        return rows[order], saved[order]

    def candidates(self) -> Integers:
        """List splits to judge: the recommended one, those that may be best, and others over the whole range.

        Where there are some, those at new counts of who was measured at few, and of these those on whole nodes.
        """
        every = _evenly(np.argsort(self.splits[:, 0], kind="stable"), CANDIDATES)
        likely = _evenly(np.sort(np.argmin(self.losses, axis=1)), CANDIDATES)
        chosen = np.unique(np.concatenate([every, likely, [self.recommended]]))
        few = [name for name in self.names if len(self._measured[name]) < DIFFERENT]
        if not few:
            return np.asarray(chosen)
        new = np.ones(len(self.splits), dtype=np.bool_)
        whole = np.full(len(new), bool(self._nodes))
        for name, ranks in zip(self.names, self.splits.T, strict=True):
            new &= name not in few or ~np.isin(ranks, list(self._measured[name]))
            whole &= ranks % self._nodes.get(name, 1) == 0
        if (new & whole).any():
            ranks = np.where(new & whole, self.splits.sum(axis=1), 0)
            return _evenly(np.flatnonzero(ranks == ranks.max()), 2 * CANDIDATES)
        return np.asarray(chosen[new[chosen]] if new[chosen].any() else chosen)

    def saved(self, rows: Integers) -> Array:
        """Give the expected regret that one more run at each of some splits would save, shape (rows,)."""
        alternatives = self._alternatives()
        losses, curves = self.losses[:, alternatives], len(self.losses)
        truths = np.arange(curves) if curves <= READINGS else np.arange(READINGS) * curves // READINGS
        # Common random numbers for all splits, so that their difference is not one of luck.
        rng = np.random.default_rng([self._seed, len(self.names)])
        draws = rng.standard_normal((len(self.names), len(truths)))
        at_truth = np.arange(len(truths))
        every = {
            name: np.log(self.expected.curves[name](ranks)) / self.noise[name]
            for name, ranks in zip(self.names, self.splits[rows].T, strict=True)
        }
        found = []
        for at in range(len(rows)):
            logs = np.array([np.broadcast_to(every[name][:, at], curves) for name in self.names])
            read = logs[:, truths] + draws
            log_weights = read.T @ logs - 0.5 * (logs * logs).sum(axis=0)
            # What is read must not be recognised.
            log_weights[at_truth, truths] = -np.inf
            weights = np.exp(log_weights - log_weights.max(axis=1, keepdims=True))
            chosen = np.argmin(weights @ losses, axis=1)
            # For the same truths, so that their luck is not the split's.
            found.append(float((self.losses[truths, self.best] - losses[truths, chosen]).mean()))
        return np.array(found)

    def _alternatives(self) -> Integers:
        """List splits that are best for some curves, and the best one: among them a decision is made."""
        best, times = np.unique(np.argmin(self.losses, axis=1), return_counts=True)
        if len(best) > ALTERNATIVES:
            # Evenly over the curves: as dense as the splits are probable.
            best = np.unique(_evenly(np.repeat(best, times), ALTERNATIVES))
        return np.union1d(best, [self.best])


def _noise(found: Recommendation, name: str, within: float | None) -> float:
    """Relative standard deviation of a run's seconds: between runs as learned, and what its windows leave open."""
    if within is None:
        errors = found.measurements.errors(name) / np.asarray(found.measurements.samples[name])[:, 1]
        within = float(np.nanmedian(errors)) if np.isfinite(errors).any() else 0.0
    return math.hypot(getattr(found.models[name], "noise_", USUAL_NOISE), within)


def _in_question(found: Recommendation, nodes: Mapping[str, int]) -> Integers:
    """List splits that may be the best one, or tell of it: with two participants all that spend the budget."""
    limits, names = found.limits, found.expected.names
    step = THINNING if len(names) <= MANY else THINNING_OF_MANY
    # What sharing cores costs is in the curves already.
    shared = tuple(dataclasses.replace(group, overhead=0.0) for group in limits.constraints.shared)
    problem = problem_of(
        {name: partial(_some, curve, step) for name, curve in found.expected.curves.items()}, limits.budget,
        found.expected.schedule, limits.lowest, limits.highest, dataclasses.replace(limits.constraints, shared=shared),
    )  # fmt: skip
    options = [each for (each,) in problem.options.values()]
    # More ranks than are fastest for any of the curves are of no use.
    own = [Curve(o.ranks, o.uses, o.seconds[0]).take(slice(int(o.seconds.argmin(axis=1).max()) + 1)) for o in options]
    here = np.array([np.searchsorted(c.ranks, found.split[n]) for n, c in zip(names, own, strict=True)])
    last = [len(curve.ranks) - 1 for curve in own]
    likely = [here[None]]
    if len(names) > 2:
        solver = Solver(problem, quick=True)
        for curves in map(problem.curves, range(problem.samples)):
            split = split_of(curves, solver.bounded(curves).choice)
            likely.append(np.array([[np.searchsorted(c.ranks, split[n][1]) for n, c in zip(names, own, strict=True)]]))
    every = [np.minimum(np.vstack(likely), last)]
    lines = [*every]
    for at, curve in enumerate(own):
        lines.append(np.tile(every[0][0], (len(_steps(curve, len(names))), 1)))
        lines[-1][:, at] = _steps(curve, len(names))
    if nodes:
        full = [curve.ranks - curve.ranks % nodes.get(name, 1) for name, curve in zip(names, own, strict=True)]
        down = [np.searchsorted(curve.ranks, counts) for curve, counts in zip(own, full, strict=True)]
        every.append(np.stack([each[column] for each, column in zip(down, np.vstack(lines).T, strict=True)], axis=1))
    # Runs may have fewer ranks than the budget: they cost less. And one participant after the other takes what is left.
    every += lines
    indices = np.vstack(lines)
    room = problem.layout.allowance(uses_at(own, indices))
    for taker, curve in enumerate(own):
        every.append(indices.copy())
        every[-1][:, taker] = curve.index_within(room[:, taker])
    indices = np.unique(np.vstack(every), axis=0)
    indices = indices[(indices >= 0).all(axis=1)]
    indices = indices[problem.layout.fits(uses_at(own, indices))]
    splits = np.stack([curve.ranks[indices[:, at]] for at, curve in enumerate(own)], axis=1)
    return splits[~excluded_splits(splits, names, limits.constraints)]


def _some(curve: Curves, step: int, ranks: Integers) -> Array:
    return curve(ranks)[::step]


def _steps(curve: Curve, participants: int) -> Integers:
    """Give all indices of a curve, or of a long one, and with more than two participants, those in geometric steps."""
    size, count = len(curve.ranks), ALL_COUNTS if participants <= 2 else 2 * ALL_COUNTS // participants**2
    return np.arange(size) if size <= count else np.unique(np.geomspace(1, size, count).astype(np.int64)) - 1


def _evenly(values: NDArray[Any], count: int) -> Integers:
    """Take so many of some values, from the first to the last in even steps."""
    return np.asarray(values[np.linspace(0, len(values) - 1, count).round().astype(np.int64)])


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
        What the machine has and demands, as of `recommend_split`. Where it says how many cores a node has, splits on
        whole nodes are asked for first.

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
        demands = dataclasses.replace(
            demands, allow=allow, accepted_ranks=demands.accepted_ranks or self.schedule.accepted_ranks or {}
        )
        self.budget, self._machine = demands.constraints(whole_number(budget, "budget", 1))
        self.seed = whole_number(seed, "seed", 0)
        self._bounds = minimum_ranks, maximum_ranks
        self._limits, _ = limits_of(self.names, self.budget, *self._bounds, self._machine)
        if self._machine.unit == "ranks":
            # Refuses what cannot be.
            allowed_counts(self._machine, self.names, self.budget, self._limits.lowest, self._limits.highest)
        self.maximum_runs = maximum_runs
        self.target_regret = target_regret
        self.stable_regret = stable_regret
        self.core_hours = core_hours
        self.windows = windows
        self.parameter = dict(parameter or {})
        self.reason = ""
        #: Whether a split may be asked for, beside what bounds say: by default any.
        self.admits: Callable[[Split], bool] = bool
        # Of each participant's runs: ranks, seconds, standard error, and the parameters.
        self._rows: dict[str, list[tuple[float, ...]]] = {name: [] for name in self.names}
        self._spent = 0.0
        self._skipped: list[Split] = []
        # What runs say beside that, such as their windows.
        self._recorded = Measurements({}, {}, None, {}, {}, (), {})
        # What follows from what was told.
        self._answer: tuple[Split | None, ...] = ()
        self._found: Recommendation | None = None
        self._posterior_of_runs: PosteriorSplits | None = None

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
        """Logarithm of the recommended split's window time over that of the best one, as expected after what was told.

        That is by what share it is slower, where that is small. NaN before the first run.
        """
        return self._posterior().expected_regret if self.runs else math.nan

    @property
    def recommended_windows(self) -> NDArray[np.float64]:
        """Seconds per window of the recommended split, one for each drawn set of curves; after the first run."""
        found = self.recommendation()
        return found.expected.window(found.split)

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
        own = {name: float(seconds[name]) for name in self.names}
        window, windows = float(self.schedule.window_seconds(own)), self.schedule.windows
        for name, row in rows.items():
            error = float(errors.get(name, math.nan))
            self._rows[name].append((*map(float, row[0]), error, *self._values(stated)))
        run = MeasuredRun(
            name=f"run {self.runs}",
            split={name: int(split[name]) for name in self.names},
            window_seconds={name: window / windows[name] for name in self.names},
            standard_errors=dict.fromkeys(self.names, math.nan),
            compute_seconds=own,
            parameters={name: dict(stated) for name in self.names},
        )
        self._recorded = dataclasses.replace(self._recorded, runs=(*self._recorded.runs, run))
        self._spent += sum(run.split.values()) * self.windows * window / 3600
        self._forget()

    def add(self, measurements: Measurements) -> None:
        """Add what recorded runs measured, in which each participant has one row per run; their windows count too.

        Parameters
        ----------
        measurements : Measurements
            Of all of them. Parameters that they do not state are those of the case.
        """
        self._recorded = dataclasses.replace(measurements, runs=(*self._recorded.runs, *measurements.runs))
        for name, rows in measurements.samples.items():
            columns = measurements.parameters.get(name, {})
            values = [columns.get(key, np.full(len(rows), value)) for key, value in self.parameter.items()]
            table = np.column_stack([rows[:, :2], measurements.errors(name), *values])
            self._rows[name] += [tuple(map(float, row)) for row in table]
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
        if self._found is None:
            self._found = recommend(
                self.measurements(),
                self.budget,
                coupling=self.schedule,
                minimum_ranks=self._bounds[0],
                maximum_ranks=self._bounds[1],
                seed=self.seed,
                parameter={key: self._value(key) for key in self.parameter},
                machine=self._machine,
                failed=self._skipped,
            )
        return self._found

    def measurements(self) -> Measurements:
        """Return what was told as a table."""
        # Sorted, so that the order of runs never matters.
        tables = {name: np.array(sorted(rows), dtype=np.float64) for name, rows in self._rows.items()}
        return dataclasses.replace(
            self._recorded,
            samples={name: rows[:, :2] for name, rows in tables.items()},
            standard_errors={name: rows[:, 2] for name, rows in tables.items()},
            parameters={
                n: {key: rows[:, 3 + at] for at, key in enumerate(self.parameter)} for n, rows in tables.items()
            },
        )

    def _choose(self) -> Split | None:
        if self.runs >= self.maximum_runs:
            return self._stop(f"{plural(self.runs, 'run')} made, as many as allowed")
        if self._spent >= self.core_hours:
            return self._stop(f"{self._spent:.3g} core-hours were spent, of {self.core_hours:.3g} allowed")
        try:
            return self._worth_most() if self.runs else self._first()
        except InfeasibleError:
            return self._stop(NOTHING_LEFT)

    def _first(self) -> Split | None:
        constraints = dataclasses.replace(self._machine, excluded=(*self._machine.excluded, *self._skipped))
        limits = dataclasses.replace(self._limits, constraints=constraints)
        nodes = {name: node_ranks(self._recorded, name, limits) for name in self.names}
        whole = {name: int(ranks) for name, ranks in nodes.items() if ranks is not None}
        smaller = (dataclasses.replace(limits, budget=limits.budget // part) for part in (1, 2, 4, 8))
        splits = (split for each in smaller for split in spread_splits(each, 2, whole))
        split = next(filter(self.admits, splits), None)
        if split is None:
            return self._stop(NOTHING_LEFT)
        self.reason = "the even split, since nothing is measured yet"
        return split

    def _worth_most(self) -> Split | None:
        posterior = self._posterior()
        if self.own_runs and len(list(spread_splits(self._limits, 2))) == 1:
            return self._stop("only one split is possible")
        now, enough = posterior.expected_regret, self.runs >= LEAST_RUNS and self.own_runs > 0
        if now <= self.target_regret and enough:
            return self._stop(f"the expected regret of {100 * now:.2f} % is below {100 * self.target_regret:.2g} %")
        rows, saved = posterior.worth()
        if saved.max() < self.stable_regret and enough:
            return self._stop(
                f"the answer is stable: another run is expected to lower the regret of {100 * now:.2f} % by less than "
                f"{100 * self.stable_regret:.2g} %"
            )
        for row, gain in zip(rows, saved, strict=True):
            split = {name: int(count) for name, count in zip(self.names, posterior.splits[row], strict=True)}
            if self.admits(split):
                place = "the recommended split" if row == posterior.recommended else "a split"
                left = 1 - min(max(gain, 0.0) / max(now, 1e-12), 1.0)
                self.reason = f"{place}: expected regret {100 * now:.2f} %, after this run {100 * now * left:.2f} %"
                return split
        return self._stop(NOTHING_LEFT)

    def _posterior(self) -> PosteriorSplits:
        if self._posterior_of_runs is None:
            self._posterior_of_runs = PosteriorSplits(self.recommendation())
        return self._posterior_of_runs

    def _value(self, key: str) -> float | None:
        """Give a parameter of the case; None where all runs were of another one: then these are what there is."""
        at = 3 + list(self.parameter).index(key)
        known = {row[at] for rows in self._rows.values() for row in rows}
        return None if len(known) == 1 and self.parameter[key] not in known else self.parameter[key]

    def _values(self, parameter: Mapping[str, float]) -> tuple[float, ...]:
        return tuple(float(parameter[key]) for key in self.parameter)

    def _forget(self) -> None:
        self._answer, self._found, self._posterior_of_runs = (), None, None

    def _stop(self, reason: str) -> Split | None:
        self.reason = reason
        return None
