"""The optimisation problem: what each participant costs, and takes, at each admissible number of ranks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import InfeasibleError, ModelError
from precice_lb.schedule import Schedule
from precice_lb.split.candidates import admitted_counts, candidates_of
from precice_lb.split.constraints import Constraints
from precice_lb.split.layout import Layout
from precice_lb.split.machine import Machine

__all__ = ["Curve", "Options", "Problem", "Times", "minima_of", "problem_of"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Times = NDArray[np.float64] | Sequence[float] | Callable[[Integers], NDArray[np.float64]]


@dataclass(frozen=True)
class Curve:
    """The running minimum of a participant's times: the counts at which it gets faster than with any fewer.

    More than that costs budget and gains nothing, so that an optimum is found among these counts alone. This is what
    makes times that do not fall everywhere (a poor decomposition, communication that outweighs the work) harmless.

    Attributes
    ----------
    ranks : ndarray of int
        The counts, of one version of the participant.
    uses : ndarray of int
        Resources that they take, shape (counts, kinds); none of the kinds ever falls.
    seconds : ndarray
        Strictly falling seconds per window.
    version : str
        Version of the participant.
    """

    ranks: Integers
    uses: Integers
    seconds: Floats
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


@dataclass(frozen=True)
class Options:
    """All that one version of a participant may get.

    Attributes
    ----------
    name, version : str
        Whose.
    ranks : ndarray of int
        Rising counts, shape (counts,).
    uses : ndarray of int
        Resources that they take, shape (counts, kinds).
    seconds : ndarray
        Compute seconds per window, shape (samples, counts); one row where the times have no samples.
    """

    name: str
    version: str
    ranks: Integers
    uses: Integers
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
    """A schedule, a machine, and the options of each participant.

    Attributes
    ----------
    options : dict
        By participant, in the schedule's order, one entry for each version.
    samples : int
        How many curves there are of each participant.
    """

    schedule: Schedule
    constraints: Constraints
    machine: Machine
    layout: Layout
    options: dict[str, tuple[Options, ...]]
    samples: int

    @property
    def names(self) -> tuple[str, ...]:
        """The participants."""
        return tuple(self.options)

    @property
    def smallest_budget(self) -> int:
        """Smallest budget that suffices for the least of everyone."""
        least = (np.stack([o.uses[0] for o in own]) for own in product(*self.options.values()))
        budgets = [self.machine.budget_for(self.layout.total(uses)) for uses in least]
        return min(needed for needed in budgets if needed is not None)

    def window_seconds(self, split: Mapping[str, tuple[str, int]]) -> float:
        """Seconds per window of a split given as version and ranks, the mean over the samples."""
        costs = {}
        for name, (version, ranks) in split.items():
            option = next(o for o in self.options[name] if o.version == version)
            costs[name] = option.seconds[:, int(np.searchsorted(option.ranks, ranks))]
        return float(self.schedule.window_seconds(costs).mean())

    def curves(self, sample: int | None = None) -> dict[str, tuple[Curve, ...]]:
        """Take the running minima of one sample, or of the mean over all."""
        return {
            name: tuple(
                o.curve(o.seconds.mean(axis=0) if sample is None else o.seconds[min(sample, len(o.seconds) - 1)])
                for o in own
            )
            for name, own in self.options.items()
        }


def minima_of(names: Sequence[str], minimum: int | Mapping[str, int], budget: int) -> dict[str, int]:
    """Ranks that each participant gets at least.

    Raises
    ------
    InfeasibleError
        If a minimum is below 1, or if the budget does not suffice for all of them; then with the smallest that does.
    """
    minima = {name: int(minimum.get(name, 1) if isinstance(minimum, Mapping) else minimum) for name in names}
    for name, ranks in minima.items():
        if ranks < 1:
            raise InfeasibleError(f'expected at least 1 rank as minimum of "{name}", found {ranks}')
    needed = sum(minima.values())
    if budget < needed:
        each = ", ".join(f"{name} {ranks}" for name, ranks in minima.items())
        raise InfeasibleError(
            f"expected a budget of at least {needed} ranks for {len(minima)} participants (minima: {each}), "
            f"found {budget}; give {needed} ranks or more"
        )
    return minima


def problem_of(
    times: Mapping[str, Times | Mapping[str, Times]],
    budget: int,
    schedule: Schedule,
    minimum_ranks: int | Mapping[str, int] = 1,
    maximum_ranks: Mapping[str, int] | None = None,
    constraints: Constraints | None = None,
) -> Problem:
    """Evaluate and check the times of all participants on the counts that budget and constraints admit.

    Raises
    ------
    InfeasibleError
        If no split satisfies the constraints.
    ModelError
        If a time in that range is not finite or not positive, or if times are missing.
    """
    names = schedule.participants
    if set(times) != set(names):
        raise ModelError(
            f"expected times of {', '.join(names)}, the participants of the coupling, "
            f"found {', '.join(times) or 'none'}"
        )
    if isinstance(budget, bool) or not float(budget).is_integer():
        raise InfeasibleError(f"expected a whole number as budget, found {budget!r}")
    for bounds in (minimum_ranks, maximum_ranks):
        if isinstance(bounds, Mapping) and (unknown := [name for name in bounds if name not in names]):
            raise InfeasibleError(f"expected bounds of {', '.join(names)}, found one of {unknown[0]!r}")
    constraints = constraints or Constraints()
    versions = {name: _versions(times[name]) for name in names}
    constraints.check_names(versions)
    _require_turns(constraints, schedule)
    pairs = [(name, version) for name in names for version in versions[name]]
    machine = Machine(constraints, int(budget), pairs)
    minima = minima_of(names, minimum_ranks, 10**18)
    candidates = {}
    for name in names:
        own, problems = [], []
        for version, values in versions[name].items():
            length = None if callable(values) else _length(values)
            try:
                if not machine.fits_on_node(name, version):
                    raise InfeasibleError(f'expected a rank of "{name}" to fit on one node, found that it needs more')
                if length is not None and length < minima[name]:
                    _refuse(name, minima[name], np.shape(np.asarray(values)))
                own.append(
                    candidates_of(name, version, constraints, minima[name], (maximum_ranks or {}).get(name), length)
                )
            except InfeasibleError as problem:
                problems.append(problem)
        if not own:
            raise problems[0]
        candidates[name] = own
    layout = Layout(names, constraints.shared)
    counts = admitted_counts(candidates, machine, layout)
    options: dict[str, tuple[Options, ...]] = {}
    for name in names:
        slower = 1.0 + constraints.overhead(name)
        options[name] = tuple(
            Options(
                name,
                version,
                ranks,
                machine.uses(ranks, name, version),
                _seconds(name, versions[name][version], ranks) * slower,
            )
            for (owner, version), ranks in counts.items()
            if owner == name
        )
    samples = {len(o.seconds) for own in options.values() for o in own} - {1}
    if len(samples) > 1:
        raise ModelError(f"expected as many samples of every participant's times, found {sorted(samples)}")
    return Problem(schedule, constraints, machine, layout, options, max(samples, default=1))


def _length(values: Any) -> int | None:
    return int(np.shape(values)[-1]) if np.ndim(values) else None


def _versions(values: Times | Mapping[str, Times]) -> dict[str, Times]:
    return dict(values) if isinstance(values, Mapping) else {"": values}


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


def _require_turns(constraints: Constraints, schedule: Schedule) -> None:
    """Refuse to share cores between participants that the coupling lets work at the same time."""
    for group in constraints.shared:
        for i, turn in enumerate(group.turns):
            for name in turn:
                for other in (other for later in group.turns[i + 1 :] for other in later):
                    # In turns, if and only if their works add up: one cycle, once around per window, has both.
                    own = {n: 1.0 / schedule.weights[n] if n in (name, other) else 0.0 for n in schedule.participants}
                    if float(schedule.window_seconds(own)) < 2.0 - 1e-9:
                        raise InfeasibleError(
                            f"expected participants that never work at the same time to share cores, found {name} and "
                            f"{other}, which {schedule.description} lets overlap; give them cores of their own"
                        )
