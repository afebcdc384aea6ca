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
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.case.machine import Constraints
from precice_lb.exceptions import InfeasibleError, ModelError
from precice_lb.plural import counts_text
from precice_lb.schedule import Schedule
from precice_lb.schedule.schedule import Coupling, schedule_of
from precice_lb.split.admissible import limits_of
from precice_lb.split.resources import Layout, Resources, require_turns

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

    @cached_property
    def _rising(self) -> Floats:
        return -self.seconds

    def index_within(self, allowance: Integers) -> Integers:
        """Index of the last count within resources of shape (..., kinds); -1 where even the first takes too much."""
        found = [np.searchsorted(self.uses[:, k], allowance[..., k], side="right") for k in range(self.uses.shape[1])]
        return np.asarray(np.minimum.reduce(found) - 1)

    def index_reaching(self, seconds: float) -> int:
        """Index of the first count that needs at most `seconds`; the length of the curve where none does."""
        return int(np.searchsorted(self._rising, -seconds))

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
    constraints: Constraints
    machine: Resources
    layout: Layout
    # By participant, in the schedule's order.
    options: dict[str, Options]
    # How many curves there are of each participant.
    samples: int

    @property
    def is_feasible(self) -> bool:
        """Whether the machine holds the least of everyone."""
        return bool(self.layout.fits(np.stack([option.uses[0] for option in self.options.values()])))

    @property
    def versions(self) -> dict[str, str]:
        """Which version of option participant that has any it is about."""
        return {name: option.version for name, option in self.options.items() if option.version}

    @property
    def smallest_budget(self) -> int:
        """Smallest budget that suffices for the least of everyone."""
        return self.machine.budget_for(self.layout.total(np.stack([o.uses[0] for o in self.options.values()]))) or 0

    def curves(self, sample: int | None = None) -> list[Curve]:
        """Take the running minima of one sample, or of the mean over all."""
        return [
            o.curve(o.seconds.mean(axis=0) if sample is None else o.seconds[min(sample, len(o.seconds) - 1)])
            for o in self.options.values()
        ]


def uses_of(curves: Sequence[Curve], choice: Sequence[int]) -> Integers:
    """Resources that the chosen counts take, shape (participants, kinds)."""
    return np.stack([curve.uses[index] for curve, index in zip(curves, choice, strict=True)])


def uses_at(own: Sequence[Curve | Options], indices: Integers) -> Integers:
    """Resources of splits given as indices, (splits, participants), shape (splits, participants, kinds)."""
    return np.stack([option.uses[indices[:, i]] for i, option in enumerate(own)], axis=1)


def within(curves: Sequence[Curve], layout: Layout, indices: Integers) -> Integers:
    """Last count that option participant may have while the others keep theirs, as indices; -1 where it has none."""
    room = layout.allowance(uses_at(curves, indices))
    return np.stack([curve.index_within(room[:, i]) for i, curve in enumerate(curves)], axis=1)


def fitting(curves: Sequence[Curve], layout: Layout, tried: Sequence[Integers], filled: Integers) -> Integers:
    """Keep of splits given as indices those that fit, and add some in option of which one takes what is left."""
    size = len(curves)
    takers = np.where(np.eye(size, dtype=np.bool_)[:, None], within(curves, layout, filled), filled)
    splits = np.vstack([*tried, takers.reshape(-1, size)])
    splits = splits[((splits >= 0) & (splits < [len(curve.ranks) for curve in curves])).all(axis=1)]
    return splits[layout.fits(uses_at(curves, splits))]


def costs_at(curves: Sequence[Curve], indices: Integers) -> Floats:
    """Seconds of option participant of splits given as indices, both of shape (splits, participants)."""
    return np.stack([curve.seconds[indices[:, i]] for i, curve in enumerate(curves)], axis=1)


def ranks_of(curves: Sequence[Curve], choice: Sequence[int]) -> list[int]:
    """Give the ranks of option participant."""
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
            f"expected times of {', '.join(names)}, the participants of the coupling, "
            f"found {', '.join(times) or 'none'}"
        )
    if isinstance(budget, bool) or not float(budget).is_integer():
        raise InfeasibleError(f"expected a whole number as budget, found {budget!r}")
    constraints = constraints or Constraints()
    if schedule.accepted_ranks and not constraints.accepted_ranks:
        constraints = replace(constraints, accepted_ranks=schedule.accepted_ranks)
    if constraints.cores is not None or constraints.nodes is not None:
        unit = "cores" if constraints.nodes is None else "nodes"
        raise InfeasibleError(
            f"expected the budget once, found {budget} and {unit} in the constraints; say "
            f'unit="{unit}" instead of these'
        )
    versions: dict[str, dict[str, Times]] = {
        name: dict(value) if isinstance(value := times[name], Mapping) else {"": value} for name in names
    }
    lengths = {
        (name, version): int(np.shape(values)[-1])
        for name, values_of in versions.items()
        for version, values in values_of.items()
        if not callable(values) and np.ndim(values)
    }
    limits = limits_of(versions, int(budget), minimum_ranks, maximum_ranks, constraints, lengths)
    require_turns(constraints, schedule)
    options: dict[str, tuple[Options, ...]] = {}
    for name, own in limits.admitted.items():
        for one in own:
            if falls := np.flatnonzero((np.diff(one.takes, axis=0) < 0).any(axis=1)).tolist():
                raise InfeasibleError(
                    f"expected pairs of {name} that never take fewer nodes or GPUs with more cores, found such with "
                    f"{one.counts[falls[0]]} and {one.counts[falls[0] + 1]} cores; leave one out"
                )
        options[name] = tuple(
            Options(one.version, one.counts, one.takes,
                    _seconds(name, versions[name][one.version], one.counts) * (1.0 + constraints.overhead(name)))
            for one in own
        )  # fmt: skip
    samples = {len(o.seconds) for own in options.values() for o in own} - {1}
    if len(samples) > 1:
        raise ModelError(f"expected as many samples of every participant's times, found {sorted(samples)}")
    most = max(samples, default=1)
    combined = (dict(zip(options, options_of, strict=True)) for options_of in product(*options.values()))
    problems = [
        Problem(schedule, constraints, limits.machine, limits.layout, options_of, most) for options_of in combined
    ]
    return [problem for problem in problems if problem.is_feasible]


def _seconds(name: str, values: Times, ranks: Integers) -> Floats:
    if callable(values):
        seconds = np.asarray(values(ranks), dtype=np.float64)
    else:
        known = np.asarray(values, dtype=np.float64)
        seconds = known[..., ranks - 1] if known.ndim else known
    if seconds.ndim not in (1, 2) or seconds.shape[-1:] != ranks.shape or not seconds.size:
        raise ModelError(
            f'expected one time for each number of ranks from {ranks[0]} for "{name}", found an array of shape '
            f"{np.shape(seconds)}"
        )
    rows = np.atleast_2d(seconds)
    wrong = ~(np.isfinite(rows) & (rows > 0)).all(axis=0)
    if wrong.any():
        first = int(np.argmax(wrong))
        bad = rows[:, first][~(np.isfinite(rows[:, first]) & (rows[:, first] > 0))][0]
        raise ModelError(
            f'expected positive, finite seconds per window of "{name}", found {bad} at {ranks[first]} '
            "ranks; bound the ranks or use another model"
        )
    return rows


def without_excluded(problems: Sequence[Problem]) -> list[tuple[Problem, Problem]]:
    """Divide problems of one curve each into such that have no excluded split and every other one once: whole, part."""
    whole = problems[0]
    if whole.samples > 1:
        raise ModelError(
            f"expected one time for each number of ranks, found {whole.samples} samples; give their means, or the "
            "measurements to recommend_split, which draws curves itself"
        )
    parts = [(problem, problem) for problem in problems]
    for split in whole.constraints.excluded:
        parts = [(problem, rest) for problem, part in parts for rest in _without(part, split)]
    if not parts:
        splits = "; ".join(map(counts_text, whole.constraints.excluded))
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
