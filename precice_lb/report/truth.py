"""How good a recommendation is where the load is emulated and its law is known."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from precice_lb.exceptions import DataError
from precice_lb.split import optimize_split

if TYPE_CHECKING:
    from precice_lb.emulation import CostLaw
    from precice_lb.recommend import Recommendation
    from precice_lb.schedule import Schedule

__all__ = ["Truth", "judge"]


@dataclass(frozen=True)
class Truth:
    """The law's optimum, and what each split costs under the law."""

    # Best split of the budget under the law: ranks by participant.
    optimum: dict[str, int]
    # Its window time in seconds.
    optimum_seconds: float
    # By kind of split (``recommended``, ``equal``, ``degrees-of-freedom``): the ranks, the true window time in
    # seconds, and that time over the optimum's, minus 1.
    splits: dict[str, dict[str, int]]
    window_seconds: dict[str, float]
    regret: dict[str, float]

    def to_dict(self) -> dict[str, Any]:
        """Give the same as JSON-ready values."""
        return {
            "optimum": dict(self.optimum),
            "optimum_seconds": self.optimum_seconds,
            "splits": {
                kind: {"split": dict(split), "window_seconds": self.window_seconds[kind], "regret": self.regret[kind]}
                for kind, split in self.splits.items()
            },
        }


def judge(
    recommendation: Recommendation,
    laws: Mapping[str, CostLaw],
    schedule: Schedule,
    *,
    minimum_ranks: int | Mapping[str, int] = 1,
    maximum_ranks: Mapping[str, int] | None = None,
) -> Truth:
    """Compare a recommendation and its alternatives with the optimum under known cost laws."""
    missing = [who for who in recommendation.split if who not in laws]
    if missing:
        raise DataError(f"the emulation has no cost law for participant {missing[0]!r}: it states {', '.join(laws)}")
    limits = recommendation.limits
    counts = np.arange(1, max(recommendation.total_ranks, *limits.highest.values()) + 1)
    times = {who: np.asarray(laws[who].seconds(counts), dtype=float) for who in recommendation.split}
    # Splits that failed are no demand of the machine's.
    machine = dataclasses.replace(limits.constraints, excluded=())
    best = optimize_split(
        times, recommendation.total_ranks, schedule=schedule, minimum_ranks=minimum_ranks,
        maximum_ranks=maximum_ranks, constraints=machine,
    )  # fmt: skip
    splits = {"recommended": dict(recommendation.split)}
    splits |= {kind: dict(other.split) for kind, other in recommendation.alternatives.items()}
    windows = {
        kind: float(schedule.window_seconds({who: times[who][count - 1] for who, count in split.items()}))
        for kind, split in splits.items()
    }
    regret = {kind: seconds / best.window_seconds - 1.0 for kind, seconds in windows.items()}
    return Truth(dict(best.split), best.window_seconds, splits, windows, regret)
