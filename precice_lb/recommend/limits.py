"""What bounds a split: what callers and machine ask for, and the nearest split within it."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import ConfigurationError, InfeasibleError
from precice_lb.layout import Layout, Layouts, count_text, split_text
from precice_lb.plural import plural
from precice_lb.precice_xml import accepted_ranks, parse_configuration
from precice_lb.schedule import Schedule
from precice_lb.split import Constraints, optimize_split
from precice_lb.split.candidates import candidates_of, lower_bounds, proportional_split, upper_bounds
from precice_lb.split.constraints import whole_number
from precice_lb.split.decomposition import grid_text

Integers = NDArray[np.int64]


@dataclasses.dataclass(frozen=True, eq=False)
class Limits:
    """What bounds a split."""

    # In the unit of the constraints; ranks without.
    budget: int
    # Fewest and most ranks of each participant, in the coupling's order.
    lowest: Mapping[str, int]
    highest: Mapping[str, int]
    # What the machine demands beside that.
    constraints: Constraints

    @property
    def cores(self) -> int:
        """Cores of the budget, or ranks where it counts those."""
        if self.constraints.kinds:
            return sum(each.nodes * each.cores_per_node for each in self.constraints.kinds)
        return self.budget * (self.constraints.cores_per_node or 1 if self.constraints.unit == "nodes" else 1)

    def threads(self, name: str) -> int:
        """Cores of what a split counts; 1 where the budget counts ranks, or the split cores."""
        return self.constraints.cores_per_rank(name)

    @property
    def layouts(self) -> Mapping[str, Layouts]:
        """Ranks and threads of those that are split by cores."""
        return self.constraints.layouts

    def count(self, name: str, count: int) -> str:
        """Write what one participant has of a split."""
        return count_text(name, count, self.layouts)

    def text(self, split: Mapping[str, int]) -> str:
        """Write a split."""
        return split_text(split, self.layouts)

    def counts(self, name: str) -> Integers:
        """Give the rank counts that a participant may have, rising, whatever the others get."""
        low, high = self.lowest[name], self.highest[name]
        return candidates_of(name, "", self.constraints, low, high, None).up_to(high)

    def in_proportion(self, weights: Mapping[str, float]) -> tuple[dict[str, int], dict[str, int]]:
        """Divide the budget in proportion to a weight, as people do, and as near to that as the bounds allow."""
        constraints = self.constraints
        # Cores that are given out together.
        part = (constraints.cores_per_node or 1) if constraints.whole_nodes is True else 1
        parts, ends = self.cores // part, {name: self.counts(name)[[0, -1]].tolist() for name in weights}
        least, most = ({n: -(-ends[n][side] * self.threads(n) // part) for n in weights} for side in (0, 1))
        meant, bounded = (
            {name: count * part // self.threads(name) for name, count in given.items()}
            for given in (proportional_split(weights, parts), proportional_split(weights, parts, least, most))
        )
        steps = {name: int(constraints.of("multiple", name) or 1) for name in weights}
        return meant, self.nearest({n: max(ranks - ranks % steps[n], 1) for n, ranks in bounded.items()})

    def nearest(self, wanted: Mapping[str, int]) -> dict[str, int]:
        """Find the split nearest to a wanted one, by the logarithms of the ranks' ratios."""
        distances: dict[str, Callable[[Integers], NDArray[np.float64]]] = {
            name: partial(_distance, wanted=count) for name, count in wanted.items()
        }
        # In series costs add up, so that the shortest window has the least sum of distances.
        found = optimize_split(
            distances, self.budget, coupling="serial",
            minimum_ranks=self.lowest, maximum_ranks=self.highest, constraints=self.constraints,
        )  # fmt: skip
        return {name: found.split[name] for name in wanted}


def with_measured(
    constraints: Constraints, measured: Mapping[str, Layouts], samples: Mapping[str, NDArray[np.float64]]
) -> Constraints:
    """Split by cores what was measured with several threads, as measured where nothing else is said of it."""
    layouts, threads = dict(constraints.layouts), constraints.threads
    # One thread each is what splits are of anyway, unless others are stated.
    measured = {name: known for name, known in measured.items() if known != Layouts() or name in layouts}
    rest = dict(threads) if isinstance(threads, Mapping) else dict.fromkeys(samples, threads)
    for name, known in measured.items():
        rows = [known.of(int(cores)) for cores in samples[name][:, 0]]
        stated = layouts.get(name)
        if stated is None and rest.get(name, 1) != 1:
            stated = Layouts(None, rest.pop(name))
        elif stated is None:
            stated = known
        others = sorted({row for row in rows if not _fits(row, stated, known)})
        if others:
            raise InfeasibleError(
                f"expected measurements of {name} with {_said(stated)}, as is said of it, found such with "
                f"{' or '.join(other.words for other in others)} ({sum(row in others for row in rows)} of "
                f"{plural(len(rows), 'row')}); say what was measured, or measure what is said"
            )
        layouts[name] = stated
    if not measured:
        return constraints
    rest = {name: each for name, each in rest.items() if each != 1}
    return dataclasses.replace(constraints, layouts=layouts, threads=rest or 1)


def with_accepted(constraints: Constraints, schedule: Schedule, recorded: str | None) -> Constraints:
    """Add with how many ranks preCICE starts the participants, by the coupling or else the recorded configuration."""
    accepted = constraints.accepted_ranks or schedule.accepted_ranks
    if accepted is None and recorded is not None:
        with contextlib.suppress(ConfigurationError):
            accepted = accepted_ranks(parse_configuration(recorded))
    kept = {name: bounds for name, bounds in (accepted or {}).items() if name in schedule.participants}
    return dataclasses.replace(constraints, accepted_ranks=kept) if kept else constraints


def accepted_remarks(split: Mapping[str, int], constraints: Constraints) -> list[str]:
    """Say which ranks of a split preCICE bounds, and how to lift that."""
    found = []
    for name, accepted in constraints.accepted_ranks.items():
        ranks = constraints.layouts.get(name, Layouts()).of(split[name]).ranks
        for side, bound in (("fewest", accepted.least), ("most", accepted.most)):
            if ranks == bound.ranks and bound.why:
                count = plural(ranks, "rank")
                found.append(f"{name}: {count}, the {side} that preCICE accepts ({bound.why}); else {bound.remedy}.")
    return found


def grid_remarks(split: Mapping[str, int], limits: Limits) -> list[str]:
    """Say which counts near to a split's cut grids evenly, too."""
    found = []
    for name, count in split.items():
        grid, counts = limits.constraints.of("grid", name), limits.counts(name)
        if grid is not None and len(counts) > 1:
            at = int(np.searchsorted(counts, count))
            near = ", ".join(str(each) for each in counts[max(at - 2, 0) : at + 3] if each != count)
            found.append(f"{name}: {limits.count(name, count)} cut its grid of {grid_text(grid)} evenly; so do {near}.")
    return found


def _fits(row: Layout, stated: Layouts, known: Layouts) -> bool:
    """Whether a measurement is one of what is stated; beside single layouts others of their kind are welcome."""
    if stated.allowed(row.cores, row.cores):
        return stated.of(row.cores) == row
    threads = max(stated.threads or 1, *(pair.threads for pair in stated.pairs), 1)
    return stated.step is None and (known != Layouts() or threads == 1)


def _said(layouts: Layouts) -> str:
    ranks, threads = layouts.ranks, layouts.threads
    if ranks is not None:
        return plural(ranks, "rank") + ("" if threads is None else f" of {plural(threads, 'thread')}")
    return f"ranks of {plural(threads, 'thread')}" if threads is not None else f"{layouts} cores"


def limits_of(
    names: tuple[str, ...],
    budget: int,
    minimum: int | Mapping[str, int],
    maximum: Mapping[str, int] | None,
    constraints: Constraints,
) -> tuple[Limits, dict[str, int]]:
    """Find the bounds of each participant's ranks, and up to which count its curve has to be known."""
    limits = Limits(budget, {}, {}, constraints)
    if constraints == Constraints():
        lowest, highest = rank_bounds(names, budget, minimum, maximum)
        spare = budget - sum(lowest.values())
        most = {name: lowest[name] + spare for name in names}
        return dataclasses.replace(limits, lowest=lowest, highest=highest), most
    most = {name: max(limits.cores // limits.threads(name), 1) for name in names}
    # Only what is asked for is checked here: the optimiser knows what the machine demands.
    asked = minimum.values() if isinstance(minimum, Mapping) else [minimum] * len(names)
    enough = sum(most.values()) + sum(each for each in asked if isinstance(each, int))
    lowest, highest = rank_bounds(names, enough, minimum, maximum)
    for name in names:
        # Refuses bounds that clash.
        candidates_of(name, "", constraints, lowest[name], (maximum or {}).get(name), None)
    needed = {name: max(lower_bounds(constraints, name).values()) for name in names}
    lowest = {name: min(max(lowest[name], needed[name]), most[name]) for name in names}
    highest = {n: max(min(highest[n], most[n], *upper_bounds(constraints, n).values()), lowest[n]) for n in names}
    return dataclasses.replace(limits, lowest=lowest, highest=highest), most


def known_bounds(
    failed: Sequence[Mapping[str, int]],
    samples: Mapping[str, NDArray[np.float64]],
    limits: Limits,
) -> Limits:
    """Keep a participant that failed with some ranks, beside any others, on the side of them where it worked."""
    low, high = dict(limits.lowest), dict(limits.highest)
    for split in failed:
        if len(split) != 1:
            continue
        ((name, ranks),) = split.items()
        if name in samples and samples[name][:, 0].max() < ranks:
            high[name] = min(high[name], ranks - 1)
        elif name in samples and samples[name][:, 0].min() > ranks:
            low[name] = max(low[name], ranks + 1)
    return dataclasses.replace(limits, lowest=low, highest=high)


def rank_bounds(
    names: tuple[str, ...], budget: int, minimum: int | Mapping[str, int], maximum: Mapping[str, int] | None
) -> tuple[dict[str, int], dict[str, int]]:
    """Lowest and highest ranks of each participant within the budget."""
    given = minimum if isinstance(minimum, Mapping) else dict.fromkeys(names, minimum)
    for unknown in [*given, *(maximum or {})]:
        if unknown not in names:
            raise InfeasibleError(f"expected bounds of {', '.join(names)}, found one of {unknown!r}")
    lowest = {name: whole_number(given.get(name, 1), f"minimum ranks of {name}", 1) for name in names}
    needed = sum(lowest.values())
    if budget < needed:
        raise InfeasibleError(
            f"expected at least {plural(needed, 'rank')} for {len(names)} participants and their minima, found "
            f"{budget}; give {needed} or more"
        )
    highest = {}
    for name in names:
        room = budget - needed + lowest[name]
        highest[name] = min(room, whole_number((maximum or {}).get(name, room), f"maximum ranks of {name}", 1))
        if highest[name] < lowest[name]:
            raise InfeasibleError(
                f"expected a maximum of at least {plural(lowest[name], 'rank')} for {name}, its minimum, found "
                f"{highest[name]}"
            )
    return lowest, highest


def outside(ranks: int, measured: Iterable[float]) -> tuple[int, int] | None:
    """Fewest and most ranks that were measured, where some are outside of them; None where they are not."""
    known = [int(count) for count in measured]
    low, high = min(known), max(known)
    return None if low <= ranks <= high else (low, high)


def _distance(ranks: Integers, wanted: int) -> NDArray[np.float64]:
    return 1.0 + np.abs(np.log(np.maximum(ranks, 1) / max(wanted, 1)))
