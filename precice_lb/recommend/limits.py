"""What bounds a split, and the split nearest to a wanted one that keeps within it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
from numpy.typing import NDArray

from precice_lb.recommend.machine import Room
from precice_lb.schedule import Schedule
from precice_lb.split import Constraints, optimize_split, proportional_split
from precice_lb.split.candidates import candidates_of

__all__ = ["Limits"]

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
    constraints: Constraints | None = None

    def counts(self, name: str) -> Integers:
        """Give the rank counts that a participant may have, rising, whatever the others get."""
        low, high = self.lowest[name], self.highest[name]
        return candidates_of(name, "", self.constraints or Constraints(), low, high, None).up_to(high)

    def in_proportion(self, weights: Mapping[str, float]) -> tuple[dict[str, int], dict[str, int]]:
        """Divide the budget in proportion to a weight, as people do, and as near to that as the bounds allow."""
        room = Room(self.constraints or Constraints(), self.budget)
        least = {name: room.parts_for(name, int(self.counts(name)[0])) for name in weights}
        most = {name: max(room.parts_for(name, int(self.counts(name)[-1])), least[name]) for name in weights}
        meant = proportional_split(weights, room.parts)
        bounded = proportional_split(weights, room.parts, least, most)
        wanted = {name: room.rounded(name, bounded[name]) for name in weights}
        return {name: room.ranks_of(name, count) for name, count in meant.items()}, self.nearest(wanted)

    def nearest(self, wanted: Mapping[str, int]) -> dict[str, int]:
        """Find the split nearest to a wanted one, by the logarithms of the ranks' ratios."""
        distances: dict[str, Callable[[Integers], NDArray[np.float64]]] = {
            name: partial(_distance, wanted=count) for name, count in wanted.items()
        }
        # In series costs add up, so that the shortest window has the least sum of distances.
        found = optimize_split(
            distances, self.budget, schedule=Schedule.serial(list(wanted)),
            minimum_ranks=self.lowest, maximum_ranks=self.highest, constraints=self.constraints,
        )  # fmt: skip
        return {name: found.split[name] for name in wanted}


def _distance(ranks: Integers, wanted: int) -> NDArray[np.float64]:
    return 1.0 + np.abs(np.log(np.maximum(ranks, 1) / max(wanted, 1)))
