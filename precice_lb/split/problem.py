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

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.case.machine import Constraints, whole_number
from precice_lb.exceptions import InfeasibleError, ModelError
from precice_lb.schedule import Schedule
from precice_lb.schedule.schedule import Coupling, schedule_of
from precice_lb.split.admissible import Admissible, Resources, limits_of
from precice_lb.text import counts_text

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Times = NDArray[np.float64] | Sequence[float] | Callable[[Integers], NDArray[np.float64]]
#: Which count on its curve each participant has.
Choice = tuple[int, ...]


@dataclass(frozen=True)
class Curve:
    """Counts of a participant, what they take, and the seconds per window they need."""

    # Rising, shape (counts,).
    ranks: Integers
    # Shape (counts, kinds); none of the kinds ever falls.
    uses: Integers
    # Shape (counts,), or (samples, counts).
    seconds: Floats

    def take(self, chosen: Any) -> Curve:
        """Keep some of the counts: a slice, a mask or indices."""
        return Curve(self.ranks[chosen], self.uses[chosen], self.seconds[..., chosen])

    def falling(self) -> Curve:
        """Keep the counts that are faster than any fewer; of those that take the same, only the fastest."""
        faster = self.take(np.append(True, self.seconds[1:] < np.minimum.accumulate(self.seconds)[:-1]))
        takes_more = (faster.uses[1:] > faster.uses[:-1]).any(axis=1)
        # Whole nodes: several counts take the same, and the last of them is the fastest.
        return faster if takes_more.all() else faster.take(np.append(takes_more, True))

    def index_within(self, allowance: Integers) -> Integers:
        """Index of the last count within resources of shape (..., kinds); -1 where even the first takes too much."""
        last = [np.searchsorted(uses, room, side="right") for uses, room in zip(self.uses.T, allowance.T, strict=True)]
        return np.asarray(np.minimum.reduce(last).T - 1)

    def index_reaching(self, seconds: float) -> int:
        """Index of the first count of a falling curve that needs at most `seconds`; its length where none does."""
        return len(self.seconds) - int(self.seconds[::-1].searchsorted(seconds, side="right"))


@dataclass(frozen=True)
class Problem:
    """A schedule, a machine, and all that one version of each participant may get."""

    schedule: Schedule
    machine: Resources
    # By participant, in the schedule's order, each with seconds of shape (samples, counts) or of one row.
    options: dict[str, Curve]
    # Which version of each participant that has any it is about.
    versions: dict[str, str]

    @property
    def least(self) -> Integers:
        """Resources that the least of everyone takes, shape (kinds,)."""
        return self.machine.total(np.stack([option.uses[0] for option in self.options.values()]))

    @property
    def is_feasible(self) -> bool:
        """Whether the machine holds the least of everyone."""
        return bool((self.least <= self.machine.capacity).all())

    @property
    def samples(self) -> int:
        """How many curves there are of each participant."""
        return max(len(option.seconds) for option in self.options.values())

    def curves(self, sample: int | None = None) -> list[Curve]:
        """Take the falling curves of one sample, or of the mean over all."""
        return [
            replace(
                o, seconds=o.seconds.mean(axis=0) if sample is None else o.seconds[sample % len(o.seconds)]
            ).falling()
            for o in self.options.values()
        ]


def uses_at(curves: Sequence[Curve], indices: Any) -> Integers:
    """Resources of splits given as indices, (..., participants), shape (..., participants, kinds)."""
    places = np.moveaxis(np.asarray(indices), -1, 0)
    return np.stack([curve.uses[place] for curve, place in zip(curves, places, strict=True)], axis=-2)


def costs_at(curves: Sequence[Curve], indices: Integers) -> Floats:
    """Seconds of each participant of splits given as indices, both of shape (splits, participants)."""
    return np.stack([curve.seconds[place] for curve, place in zip(curves, indices.T, strict=True)], axis=1)


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


def ranks_of(curves: Sequence[Curve], choice: Sequence[int]) -> list[int]:
    """Give the ranks of each participant."""
    return [int(curve.ranks[index]) for curve, index in zip(curves, choice, strict=True)]


def problems_of(
    times: Mapping[str, Times | Mapping[str, Times]],
    budget: int,
    coupling: Coupling,
    constraints: Constraints | None = None,
) -> list[Problem]:
    """Evaluate and check the times of all participants on the counts that budget and constraints admit.

    One problem for each combination of their versions that fits the machine.
    """
    schedule = schedule_of(coupling, tuple(times))
    names = schedule.participants
    if set(times) != set(names):
        raise ModelError(f"expected times of {', '.join(names)}, found {', '.join(times) or 'none'}")
    budget = whole_number(budget, "budget", 0)
    constraints = constraints or Constraints()
    if schedule.accepted_ranks and not constraints.accepted_ranks:
        constraints = replace(constraints, accepted_ranks=schedule.accepted_ranks)
    if constraints.cores is not None or constraints.nodes is not None:
        unit = "cores" if constraints.nodes is None else "nodes"
        raise InfeasibleError(f'expected one budget, found {budget} and {unit} in the constraints; say unit="{unit}"')
    versions: dict[str, dict[str, Times]] = {
        name: dict(value) if isinstance(value := times[name], Mapping) else {"": value} for name in names
    }
    lengths = {
        (name, version): int(np.shape(values)[-1])
        for name, by_version in versions.items()
        for version, values in by_version.items()
        if not callable(values) and np.ndim(values)
    }
    limits = limits_of(versions, budget, constraints, lengths)
    _require_turns(constraints, schedule)
    options = [
        [(row.version, _option(row, versions[name][row.version], 1.0 + constraints.overhead(name))) for row in rows]
        for name, rows in limits.admitted.items()
    ]
    samples = {len(option.seconds) for several in options for _, option in several} - {1}
    if len(samples) > 1:
        raise ModelError(f"expected as many samples of every participant's times, found {sorted(samples)}")
    problems = []
    for chosen in product(*options):
        named = {name: version for name, (version, _) in zip(names, chosen, strict=True) if version}
        curves = {name: option for name, (_, option) in zip(names, chosen, strict=True)}
        problems.append(Problem(schedule, limits.machine, curves, named))
    return [problem for problem in problems if problem.is_feasible]


def _require_turns(constraints: Constraints, schedule: Schedule) -> None:
    """Refuse to share cores between participants that the coupling lets work at the same time."""
    for group in constraints.shared:
        for turn, later in combinations(group.turns, 2):
            for pair in product(turn, later):
                # In turns, if and only if their works add up: one cycle, once around per window, has both.
                work = {name: (name in pair) / count for name, count in schedule.windows.items()}
                if float(schedule.window_seconds(work)) < 2.0 - 1e-9:
                    raise InfeasibleError(
                        f"expected participants that never work at the same time to share cores, found "
                        f"{' and '.join(pair)}, which {schedule.description} lets overlap; give them cores of their own"
                    )


def _option(row: Admissible, values: Times, factor: float) -> Curve:
    """Evaluate and check the times of one version of a participant."""
    name, ranks = row.name, row.counts
    if (falls := np.flatnonzero((row.takes[1:] < row.takes[:-1]).any(axis=1))).size:
        raise InfeasibleError(
            f"expected pairs of {name} that never take fewer nodes with more cores, found such with "
            f"{ranks[falls[0]]} and {ranks[falls[0] + 1]} cores; leave one out"
        )
    seconds = np.asarray(values(ranks) if callable(values) else values, dtype=np.float64)
    if not callable(values) and seconds.ndim:
        seconds = seconds[..., ranks - 1]
    if seconds.ndim not in (1, 2) or seconds.shape[-1:] != ranks.shape or not seconds.size:
        raise ModelError(f'expected a time for each number of ranks of "{name}", found shape {np.shape(seconds)}')
    rows = np.atleast_2d(seconds)
    wrong = ~(np.isfinite(rows) & (rows > 0))
    if wrong.any():
        place, sample = np.argwhere(wrong.T)[0]
        raise ModelError(
            f'expected positive, finite seconds of "{name}", found {rows[sample, place]} at {ranks[place]} ranks'
        )
    return Curve(ranks, row.takes, rows * factor)


def parts_of(*arguments: Any, **words: Any) -> list[Problem]:
    """Divide problems of one curve each into such that have no excluded split, and every other one once.

    Arguments as of `problems_of`.
    """
    parts = problems_of(*arguments, **words)
    if parts[0].samples > 1:
        raise ModelError(
            f"expected one time for each number of ranks, found {parts[0].samples} samples; give their means"
        )
    excluded = parts[0].machine.constraints.excluded
    for split in excluded:
        parts = [rest for part in parts for rest in _without(part, split)]
    if not parts:
        splits = "; ".join(map(counts_text, excluded))
        raise InfeasibleError(f"expected a split beside the excluded ones ({splits}), found none; give wider bounds")
    return parts


def _without(problem: Problem, split: Mapping[str, int]) -> Iterator[Problem]:
    if not split or not all(ranks in problem.options[name].ranks for name, ranks in split.items()):
        yield problem
        return
    rest = problem.options
    for name, ranks in split.items():
        equal = rest[name].ranks == ranks
        if not equal.all():
            part = replace(problem, options={**rest, name: rest[name].take(~equal)})
            if part.is_feasible:
                yield part
        rest = {**rest, name: rest[name].take(equal)}
