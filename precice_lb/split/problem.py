"""The optimisation problem: what each participant costs, and takes, at each admissible number of ranks.

Optima are found among the counts at which a participant is faster than with any fewer: more than that costs budget and
gains nothing. This makes times that do not fall everywhere (a poor decomposition, communication that outweighs the
work) harmless.

A split that is left out takes a corner out of the product of the participants' counts. What is left is divided into
products again: the first participant has another count, or the first has this one and the second another, and so on
(as Lawler 1972 and Murty 1968 divide the solutions that are left when the best one is taken out). So every method that
solves a problem exactly serves, and the best of their answers is the best split that is not left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.case.machine import Constraints
from precice_lb.exceptions import InfeasibleError, ModelError
from precice_lb.schedule import Schedule
from precice_lb.schedule.schedule import Coupling, schedule_of
from precice_lb.split.admissible import limits_of
from precice_lb.split.resources import Resources, require_turns
from precice_lb.text import counts_text

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Times = NDArray[np.float64] | Sequence[float] | Callable[[Integers], NDArray[np.float64]]


@dataclass(frozen=True)
class Curve:
    """The running minimum of a participant's times: the counts at which it gets faster than with any fewer."""

    # The counts.
    ranks: Integers
    # Resources that they take, shape (counts, kinds); none of the kinds ever falls.
    uses: Integers
    # Strictly falling seconds per window.
    seconds: Floats

    def index_within(self, allowance: Integers) -> Integers:
        """Index of the last count within resources of shape (..., kinds); -1 where even the first takes too much."""
        last = [np.searchsorted(self.uses[:, k], allowance[..., k], side="right") for k in range(self.uses.shape[1])]
        return np.asarray(np.minimum.reduce(last) - 1)

    def index_reaching(self, seconds: float) -> int:
        """Index of the first count that needs at most `seconds`; the length of the curve where none does."""
        return len(self.seconds) - int(np.searchsorted(self.seconds[::-1], seconds, side="right"))

    def take(self, chosen: Any) -> Curve:
        """Keep some of the counts: a slice, a mask or indices."""
        return Curve(self.ranks[chosen], self.uses[chosen], self.seconds[chosen])


#: Which count on its curve each participant has.
Choice = tuple[int, ...]


@dataclass(frozen=True)
class Options:
    """All that one version of a participant may get."""

    version: str
    # Rising counts, shape (counts,).
    ranks: Integers
    # Resources that they take, shape (counts, kinds).
    uses: Integers
    # Compute seconds per window, shape (samples, counts); one row where the times have no samples.
    seconds: Floats

    def curve(self, seconds: Floats) -> Curve:
        """Take the running minimum over the counts; of counts that take the same, only the fastest."""
        envelope = np.minimum.accumulate(seconds)
        chosen = np.flatnonzero(np.concatenate(([True], seconds[1:] < envelope[:-1])))
        # Whole nodes: several counts take the same, and the last of them is the fastest.
        more = (np.diff(self.uses[chosen], axis=0) > 0).any(axis=1)
        chosen = chosen[np.concatenate((more, [True]))]
        return Curve(self.ranks[chosen], self.uses[chosen], seconds[chosen])

    def take(self, chosen: NDArray[np.bool_]) -> Options:
        """Keep some of the counts."""
        return Options(self.version, self.ranks[chosen], self.uses[chosen], self.seconds[:, chosen])


@dataclass(frozen=True)
class Problem:
    """A schedule, a machine, and the options of one version of each participant."""

    schedule: Schedule
    machine: Resources
    # By participant, in the schedule's order.
    options: dict[str, Options]
    # How many curves there are of each participant.
    samples: int

    @property
    def least(self) -> Integers:
        """Resources that the least of everyone takes, shape (participants, kinds)."""
        return np.stack([option.uses[0] for option in self.options.values()])

    @property
    def is_feasible(self) -> bool:
        """Whether the machine holds the least of everyone."""
        return bool(self.machine.fits(self.least))

    @property
    def versions(self) -> dict[str, str]:
        """Which version of each participant that has any it is about."""
        return {name: option.version for name, option in self.options.items() if option.version}

    @property
    def smallest_budget(self) -> int:
        """Smallest budget that suffices for the least of everyone."""
        return self.machine.budget_for(self.machine.total(self.least)) or 0

    def curves(self, sample: int | None = None) -> list[Curve]:
        """Take the running minima of one sample, or of the mean over all."""
        return [
            o.curve(o.seconds.mean(axis=0) if sample is None else o.seconds[min(sample, len(o.seconds) - 1)])
            for o in self.options.values()
        ]


def uses_of(curves: Sequence[Curve], choice: Sequence[int]) -> Integers:
    """Resources that the chosen counts take, shape (participants, kinds)."""
    return np.stack([curve.uses[index] for curve, index in zip(curves, choice, strict=True)])


def uses_at(curves: Sequence[Curve | Options], indices: Integers) -> Integers:
    """Resources of splits given as indices, (splits, participants), shape (splits, participants, kinds)."""
    return np.stack([option.uses[indices[:, i]] for i, option in enumerate(curves)], axis=1)


def within(curves: Sequence[Curve], machine: Resources, indices: Integers) -> Integers:
    """Last count that each participant may have while the others keep theirs, as indices; -1 where it has none."""
    room = machine.allowance(uses_at(curves, indices))
    return np.stack([curve.index_within(room[:, i]) for i, curve in enumerate(curves)], axis=1)


def fitting(curves: Sequence[Curve], machine: Resources, tried: Sequence[Integers], filled: Integers) -> Integers:
    """Keep of splits given as indices those that fit, and add some in each of which one takes what is left."""
    size = len(curves)
    takers = np.where(np.eye(size, dtype=np.bool_)[:, None], within(curves, machine, filled), filled)
    splits = np.vstack([*tried, takers.reshape(-1, size)])
    splits = splits[((splits >= 0) & (splits < [len(curve.ranks) for curve in curves])).all(axis=1)]
    return splits[machine.fits(uses_at(curves, splits))]


def costs_at(curves: Sequence[Curve], indices: Integers) -> Floats:
    """Seconds of each participant of splits given as indices, both of shape (splits, participants)."""
    return np.stack([curve.seconds[indices[:, i]] for i, curve in enumerate(curves)], axis=1)


def ranks_of(curves: Sequence[Curve], choice: Sequence[int]) -> list[int]:
    """Give the ranks of each participant."""
    return [int(curve.ranks[index]) for curve, index in zip(curves, choice, strict=True)]


def problems_of(
    times: Mapping[str, Times | Mapping[str, Times]],
    budget: int,
    coupling: Coupling,
    minimum_ranks: int | Mapping[str, int] = 1,
    maximum_ranks: Mapping[str, int] | None = None,
    constraints: Constraints | None = None,
) -> list[Problem]:
    """Evaluate and check the times of all participants on the counts that budget and constraints admit.

    One problem for each combination of their versions that fits the machine.
    """
    schedule = schedule_of(coupling, tuple(times))
    names = schedule.participants
    if set(times) != set(names):
        raise ModelError(
            f"expected times of {', '.join(names)}, as the coupling says, found {', '.join(times) or 'none'}"
        )
    if isinstance(budget, bool) or not float(budget).is_integer():
        raise InfeasibleError(f"expected a whole number as budget, found {budget!r}")
    constraints = constraints or Constraints()
    if schedule.accepted_ranks and not constraints.accepted_ranks:
        constraints = replace(constraints, accepted_ranks=schedule.accepted_ranks)
    if constraints.cores is not None or constraints.nodes is not None:
        unit = "cores" if constraints.nodes is None else "nodes"
        raise InfeasibleError(
            f'expected the budget once, found {budget} and {unit} in the constraints; say unit="{unit}" instead'
        )
    versions: dict[str, dict[str, Times]] = {
        name: dict(value) if isinstance(value := times[name], Mapping) else {"": value} for name in names
    }
    every = [(name, version, values) for name, by_version in versions.items() for version, values in by_version.items()]
    lengths = {
        (name, v): int(np.shape(values)[-1]) for name, v, values in every if not callable(values) and np.ndim(values)
    }
    limits = limits_of(versions, int(budget), minimum_ranks, maximum_ranks, constraints, lengths)
    require_turns(constraints, schedule)
    options: dict[str, list[Options]] = {name: [] for name in names}
    for one in (row for rows in limits.admitted.values() for row in rows):
        if falls := np.flatnonzero((np.diff(one.takes, axis=0) < 0).any(axis=1)).tolist():
            raise InfeasibleError(
                f"expected pairs of {one.name} that never take fewer nodes with more cores, found such with "
                f"{one.counts[falls[0]]} and {one.counts[falls[0] + 1]} cores; leave one out"
            )
        seconds = _seconds(one.name, versions[one.name][one.version], one.counts)
        slower = 1.0 + constraints.overhead(one.name)
        options[one.name].append(Options(one.version, one.counts, one.takes, seconds * slower))
    samples = {len(option.seconds) for several in options.values() for option in several} - {1}
    if len(samples) > 1:
        raise ModelError(f"expected as many samples of every participant's times, found {sorted(samples)}")
    combined = (dict(zip(options, chosen, strict=True)) for chosen in product(*options.values()))
    problems = [Problem(schedule, limits.machine, chosen, max(samples, default=1)) for chosen in combined]
    return [problem for problem in problems if problem.is_feasible]


def _seconds(name: str, values: Times, ranks: Integers) -> Floats:
    seconds = np.asarray(values(ranks) if callable(values) else values, dtype=np.float64)
    if not callable(values) and seconds.ndim:
        seconds = seconds[..., ranks - 1]
    if seconds.ndim not in (1, 2) or seconds.shape[-1:] != ranks.shape or not seconds.size:
        raise ModelError(
            f'expected one time for each number of ranks from {ranks[0]} for "{name}", found an array of shape '
            f"{np.shape(seconds)}"
        )
    rows = np.atleast_2d(seconds)
    wrong = ~(np.isfinite(rows) & (rows > 0))
    if wrong.any():
        place, sample = np.argwhere(wrong.T)[0]
        raise ModelError(
            f'expected positive, finite seconds per window of "{name}", found {rows[sample, place]} at {ranks[place]} '
            "ranks; bound the ranks or use another model"
        )
    return rows


def parts_of(*arguments: Any) -> list[tuple[Problem, Problem]]:
    """Divide problems of one curve each into such that have no excluded split and every other one once: whole, part.

    Arguments as of `problems_of`.
    """
    problems = problems_of(*arguments)
    excluded = problems[0].machine.constraints.excluded
    if problems[0].samples > 1:
        raise ModelError(
            f"expected one time for each number of ranks, found {problems[0].samples} samples; give their means, or "
            "the measurements to recommend_split, which draws curves itself"
        )
    parts = [(problem, problem) for problem in problems]
    for split in excluded:
        parts = [(problem, rest) for problem, part in parts for rest in _without(part, split)]
    if not parts:
        splits = "; ".join(map(counts_text, excluded))
        raise InfeasibleError(
            f"expected a split beside those that must not be chosen ({splits}), found none within the bounds and the "
            "budget; give more ranks or wider bounds"
        )
    return parts


def _without(problem: Problem, split: Mapping[str, int]) -> list[Problem]:
    if not split or not all(ranks in problem.options[name].ranks for name, ranks in split.items()):
        return [problem]
    parts = []
    rest = problem.options
    for name, ranks in split.items():
        option = rest[name]
        equal = option.ranks == ranks
        if not equal.all():
            parts.append(replace(problem, options={**rest, name: option.take(~equal)}))
        rest = {**rest, name: option.take(equal)}
    return [part for part in parts if part.is_feasible]
