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
from precice_lb.split.admissible import layouts_within
from precice_lb.split.resources import Layout, Resources, require_turns

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Times = NDArray[np.float64] | Sequence[float] | Callable[[Integers], NDArray[np.float64]]


@dataclass(frozen=True)
class Curve:
    """The running minimum of a participant's times: the counts at which it gets faster than with any fewer."""

    # The counts, of one version of the participant.
    ranks: Integers
    # Resources that they take, shape (counts, kinds); none of the kinds ever falls.
    uses: Integers
    # Strictly falling seconds per window.
    seconds: Floats
    # Version of the participant.
    version: str = ""

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
        return Curve(self.ranks[chosen], self.uses[chosen], self.seconds[chosen], self.version)


#: Of each participant, one for each version.
Curves = Mapping[str, Sequence[Curve]]
#: For each participant which of its curves, and which count on it.
Choice = dict[str, tuple[int, int]]
#: Version and ranks of each participant.
Split = dict[str, tuple[str, int]]


@dataclass(frozen=True)
class Options:
    """All that one version of a participant may get."""

    # Whose.
    name: str
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
        return Curve(self.ranks[chosen], self.uses[chosen], seconds[chosen], self.version)


@dataclass(frozen=True)
class Problem:
    """A schedule, a machine, and the options of each participant."""

    schedule: Schedule
    constraints: Constraints
    machine: Resources
    layout: Layout
    # By participant, in the schedule's order, one entry for each version.
    options: dict[str, tuple[Options, ...]]
    # How many curves there are of each participant.
    samples: int

    @property
    def names(self) -> tuple[str, ...]:
        """The participants."""
        return tuple(self.options)

    def least_uses(self) -> list[Integers]:
        """List what the least of everyone takes, for each combination of versions."""
        return [np.stack([o.uses[0] for o in own]) for own in product(*self.options.values())]

    @property
    def smallest_budget(self) -> int:
        """Smallest budget that suffices for the least of everyone."""
        budgets = [self.machine.budget_for(self.layout.total(uses)) for uses in self.least_uses()]
        return min(needed for needed in budgets if needed is not None)

    def at(self, split: Split) -> dict[str, tuple[Options, int]]:
        """Find the version that a split gives each participant, and the index of its count."""
        chosen = {n: next(o for o in self.options[n] if o.version == version) for n, (version, _) in split.items()}
        return {name: (o, int(np.searchsorted(o.ranks, split[name][1]))) for name, o in chosen.items()}

    def window_seconds(self, split: Split) -> float:
        """Seconds per window of a split."""
        return float(self.schedule.window_seconds({name: o.seconds[0, at] for name, (o, at) in self.at(split).items()}))

    def curves(self, sample: int | None = None) -> Curves:
        """Take the running minima of one sample, or of the mean over all."""
        return {
            name: tuple(
                o.curve(o.seconds.mean(axis=0) if sample is None else o.seconds[min(sample, len(o.seconds) - 1)])
                for o in own
            )
            for name, own in self.options.items()
        }


def uses_of(curves: Curves, choice: Choice) -> Integers:
    """Resources that the chosen counts take, shape (participants, kinds)."""
    return np.stack([curves[name][version].uses[index] for name, (version, index) in choice.items()])


def uses_at(own: Sequence[Curve | Options], indices: Integers) -> Integers:
    """Resources of splits given as indices, (splits, participants), shape (splits, participants, kinds)."""
    return np.stack([each.uses[indices[:, i]] for i, each in enumerate(own)], axis=1)


def split_of(curves: Curves, choice: Choice) -> Split:
    """Give version and ranks of each participant."""
    return {name: (curves[name][v].version, int(curves[name][v].ranks[i])) for name, (v, i) in choice.items()}


def problem_of(
    times: Mapping[str, Times | Mapping[str, Times]],
    budget: int,
    coupling: Coupling,
    minimum_ranks: int | Mapping[str, int] = 1,
    maximum_ranks: Mapping[str, int] | None = None,
    constraints: Constraints | None = None,
) -> Problem:
    """Evaluate and check the times of all participants on the counts that budget and constraints admit."""
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
    versions: dict[str, dict[str, Times]] = {}
    lengths: dict[tuple[str, str], int] = {}
    for name in names:
        value = times[name]
        versions[name] = dict(value) if isinstance(value, Mapping) else {"": value}
        known = {v: int(np.shape(s)[-1]) for v, s in versions[name].items() if not callable(s) and np.ndim(s)}
        lengths |= {(name, version): length for version, length in known.items()}
    rows = layouts_within(constraints, int(budget), versions, minimum_ranks, maximum_ranks, lengths)
    require_turns(constraints, schedule)
    options: dict[str, tuple[Options, ...]] = {}
    for name, own in rows.admitted().items():
        for one in own:
            if falls := np.flatnonzero((np.diff(one.takes, axis=0) < 0).any(axis=1)).tolist():
                raise InfeasibleError(
                    f"expected pairs of {name} that never take fewer nodes or GPUs with more cores, found such with "
                    f"{one.counts[falls[0]]} and {one.counts[falls[0] + 1]} cores; leave one out"
                )
        options[name] = tuple(
            Options(name, one.version, one.counts, one.takes,
                    _seconds(name, versions[name][one.version], one.counts) * (1.0 + constraints.overhead(name)))
            for one in own
        )  # fmt: skip
    samples = {len(o.seconds) for own in options.values() for o in own} - {1}
    if len(samples) > 1:
        raise ModelError(f"expected as many samples of every participant's times, found {sorted(samples)}")
    return Problem(schedule, constraints, rows.machine, rows.layout, options, max(samples, default=1))


def _refuse(name: str, low: int, shape: tuple[int, ...]) -> None:
    raise ModelError(
        f'expected one time for each number of ranks from {low} for "{name}", found an array of shape {shape}'
    )


def _seconds(name: str, values: Times, ranks: Integers) -> Floats:
    if callable(values):
        seconds = np.asarray(values(ranks), dtype=np.float64)
    else:
        known = np.asarray(values, dtype=np.float64)
        seconds = known[..., ranks - 1] if known.ndim else known
    if seconds.ndim not in (1, 2) or seconds.shape[-1:] != ranks.shape or not seconds.size:
        _refuse(name, int(ranks[0]), np.shape(seconds))
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


def without_excluded(problem: Problem) -> list[Problem]:
    """Divide a problem of one curve each into such that have no excluded split and every other one once."""
    if problem.samples > 1:
        raise ModelError(
            f"expected one time for each number of ranks, found {problem.samples} samples; give their means, or the "
            "measurements to recommend_split, which draws curves itself"
        )
    parts = [problem]
    for split in problem.constraints.excluded:
        parts = [rest for part in parts for rest in _without(part, split)]
    if not parts:
        splits = "; ".join(map(counts_text, problem.constraints.excluded))
        raise InfeasibleError(
            f"expected a split beside those that must not be chosen ({splits}), found none within the bounds and the "
            "budget; give more ranks or wider bounds"
        )
    return parts


def _without(problem: Problem, split: Mapping[str, int]) -> list[Problem]:
    if not split or not all(any(ranks in o.ranks for o in problem.options[name]) for name, ranks in split.items()):
        return [problem]
    parts = []
    given: dict[str, tuple[Options, ...]] = {}
    for name, ranks in split.items():
        own = problem.options[name]
        parts.append(replace(problem, options={**problem.options, **given, name: _having(own, ranks, equal=False)}))
        given[name] = _having(own, ranks, equal=True)
    return [part for part in parts if any(part.layout.fits(uses) for uses in part.least_uses())]


def _having(options: tuple[Options, ...], ranks: int, *, equal: bool) -> tuple[Options, ...]:
    """Keep one count, or all others, of those versions that have any left."""
    chosen = [(each, (each.ranks == ranks) == equal) for each in options]
    return tuple(
        replace(each, ranks=each.ranks[at], uses=each.uses[at], seconds=each.seconds[:, at])
        for each, at in chosen
        if at.any()
    )
