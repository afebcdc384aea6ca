"""What a split is sought by: curves, bounds and machine; and the searches that go by them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import InfeasibleError
from precice_lb.recommend.limits import Limits
from precice_lb.recommend.posterior import Curves, ExpectedWindowTime
from precice_lb.split import Constraints, SplitResult, optimize_split
from precice_lb.split.descent import descend
from precice_lb.split.problem import problem_of

__all__ = ["SplitProblem"]

Array = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclasses.dataclass(frozen=True, eq=False)
class SplitProblem:
    """What a split is sought by."""

    # Mean seconds per window of each participant at 1, 2, … ranks, shape (most ranks,).
    times: dict[str, Array]
    # The drawn curves of each participant, without what sharing cores costs.
    curves: dict[str, Curves]
    # Them with it, and the schedule.
    expected: ExpectedWindowTime
    limits: Limits

    @property
    def words(self) -> dict[str, Any]:
        """All but times and budget, as the optimiser takes it."""
        return {
            "coupling": self.expected.schedule,
            "minimum_ranks": self.limits.lowest,
            "maximum_ranks": self.limits.highest,
            "constraints": self.limits.constraints,
        }

    def optimum(self, budget: int, *, verify: bool = False) -> SplitResult:
        """Find the best split for the mean curves, exactly."""
        return optimize_split(self.times, budget, verify=verify, **self.words)

    def improved(self, start: Mapping[str, int], budget: int) -> dict[str, int]:
        """Search for the least mean window time over the drawn curves, from the optimum for the mean ones."""
        searches = self.expected.searches()
        if not searches:
            return dict(start)
        problem = problem_of(self.times, budget, **self.words)
        own = [curve for (curve,) in problem.curves().values()]
        at = zip(own, self.expected.names, strict=True)
        # The next fewer where the start stands on no curve, since what is faster was excluded.
        found = np.array([max(np.searchsorted(c.ranks, start[n], side="right") - 1, 0) for c, n in at])

        def counts(indices: Integers) -> Integers:
            return np.stack([curve.ranks[indices[:, i]] for i, curve in enumerate(own)], axis=1)

        for expected, part in searches:

            def objective(indices: Integers, expected: Callable[[Integers], Array] = expected) -> Array:
                splits = counts(indices)
                return np.where(self._excluded(splits), np.inf, expected(splits))

            found, _ = descend(own, problem.layout, objective, found, part)
        return dict(zip(self.expected.names, counts(found[None])[0].tolist(), strict=True))

    def _excluded(self, counts: Integers) -> NDArray[np.bool_]:
        """Whether splits must not be chosen, shape (k,), for ranks of shape (k, participants)."""
        names, found = self.expected.names, np.zeros(len(counts), dtype=np.bool_)
        for split in () if self.limits.constraints is None else self.limits.constraints.excluded:
            found |= np.all([counts[:, names.index(name)] == ranks for name, ranks in split.items()], axis=0)
        return found

    def mean_windows(self, splits: Sequence[Mapping[str, int]]) -> Array:
        """Mean seconds per window of some splits over the drawn curves, shape (splits,)."""
        return self.expected.mean_windows(np.array([[split[name] for name in self.expected.names] for split in splits]))

    def used(self, split: Mapping[str, int]) -> dict[str, int]:
        """Count the ranks, cores and nodes that a split occupies."""
        ranks, constraints = sum(split.values()), self.limits.constraints
        if constraints is None:
            return {"ranks": ranks, "cores": ranks}
        free = dataclasses.replace(constraints, fixed={}, excluded=())
        found = self._only(split, self.limits.budget, free)
        return {"ranks": ranks, "cores": ranks} if found is None else dict(found.used)

    def fits(self, split: Mapping[str, int], budget: int) -> bool:
        """Whether a split is within a budget and all that the machine demands."""
        return self._only(split, budget, self.limits.constraints) is not None

    def _only(self, split: Mapping[str, int], budget: int, constraints: Constraints | None) -> SplitResult | None:
        """Let the optimiser say what one split takes; None where it does not fit the machine."""
        times = {name: np.ones(count) for name, count in split.items()}
        try:
            return optimize_split(
                times, budget, coupling=self.expected.schedule, minimum_ranks=split, constraints=constraints
            )
        except InfeasibleError:
            return None
