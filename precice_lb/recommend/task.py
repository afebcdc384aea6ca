"""What a split is decided by, and the search for the best one."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import InfeasibleError
from precice_lb.recommend.outlook import Curves, Outlook
from precice_lb.schedule import Schedule
from precice_lb.split import Constraints, SplitResult, near_optimal_splits, optimize_split

__all__ = ["LOOKED_AT", "Task"]

Array = NDArray[np.float64]

# Splits near the best one for the mean curves that are looked at.
LOOKED_AT = 60
# Curves by which constrained splits are searched.
SEARCHED_BY = 64


@dataclasses.dataclass(frozen=True, eq=False)
class Task:
    """What a split is decided by."""

    # Mean seconds per window of each participant at 1, 2, … ranks, shape (most ranks,).
    times: dict[str, Array]
    # In the unit of the constraints.
    budget: int
    # The drawn curves of each participant, without what sharing cores costs.
    curves: dict[str, Curves]
    # Them with it, and the schedule.
    outlook: Outlook
    # Bounds of the ranks.
    first: dict[str, int]
    last: dict[str, int]
    # Of the machine.
    constraints: Constraints | None

    def optimum(
        self, *, schedule: Schedule | None = None, budget: int | None = None, verify: bool = False
    ) -> SplitResult:
        """Find the best split for the mean curves, exactly."""
        constraints = self.constraints
        if schedule is not None and constraints is not None:
            constraints = dataclasses.replace(constraints, shared=())
        return optimize_split(
            self.times,
            self.budget if budget is None else budget,
            schedule=schedule or self.outlook.schedule,
            minimum_ranks=self.first,
            maximum_ranks=self.last,
            constraints=constraints,
            verify=verify,
        )

    def improved(self, start: dict[str, int], budget: int | None = None) -> dict[str, int]:
        """Search for the least mean window time over the drawn curves, from the optimum for the mean ones."""
        budget = self.budget if budget is None else budget
        if not self.outlook.is_searched:
            return start
        if self.constraints is None:
            return self.outlook.improve(start, budget, self.first, self.last)
        words: dict[str, Any] = {
            "schedule": self.outlook.schedule, "minimum_ranks": self.first, "maximum_ranks": self.last,
            "constraints": self.constraints,
        }  # fmt: skip
        tried = [start]
        if self.outlook.is_uncertain:
            curves = {name: _thinned(curve) for name, curve in self.curves.items()}
            tried.append(optimize_split(curves, budget, **words).split)
        near = near_optimal_splits(self.times, budget, within=0.05, count=LOOKED_AT, **words)
        tried += [each.split for each in near]
        return tried[int(np.argmin(self.expected(tried)))]

    def expected(self, splits: Sequence[Mapping[str, int]]) -> Array:
        """Mean seconds per window of some splits over the drawn curves, shape (splits,)."""
        names = self.outlook.names
        return self.outlook.mean_windows(np.array([[split[name] for name in names] for split in splits]))

    def used(self, split: Mapping[str, int]) -> dict[str, int]:
        """Count the ranks, cores and nodes that a split occupies."""
        ranks = sum(split.values())
        found = None if self.constraints is None else self._fixed(split, self.constraints)
        return {"ranks": ranks, "cores": ranks} if found is None else dict(found.used)

    def fits(self, split: Mapping[str, int], budget: int) -> bool:
        """Whether a split is within a budget and all that the machine demands."""
        times = {name: np.ones(count) for name, count in split.items()}
        try:
            optimize_split(
                times, budget, schedule=self.outlook.schedule, constraints=self.constraints,
                minimum_ranks=split, maximum_ranks=split,
            )  # fmt: skip
        except InfeasibleError:
            return False
        return True

    def _fixed(self, split: Mapping[str, int], constraints: Constraints) -> SplitResult | None:
        """Let the optimiser say what one split takes; None where it does not fit the machine."""
        constraints = dataclasses.replace(constraints, fixed=dict(split), excluded=())
        times = {name: np.ones(count) for name, count in split.items()}
        try:
            return optimize_split(times, self.budget, schedule=self.outlook.schedule, constraints=constraints)
        except InfeasibleError:
            return None


def _thinned(curve: Curves) -> Curves:
    def some(ranks: NDArray[np.int64]) -> Array:
        rows = curve(ranks)
        return rows[:: max(len(rows) // SEARCHED_BY, 1)]

    return some
