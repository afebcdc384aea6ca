"""Splits whose runs failed: they are not chosen, and what lies beyond them is not known."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.plural import plural
from precice_lb.recommend.limits import Limits
from precice_lb.recommend.result import Recommendation

__all__ = ["FailedSplit", "beyond_failed", "known_bounds", "with_failed"]


@dataclass(frozen=True)
class FailedSplit:
    """A split all of whose runs failed, or a participant's number of ranks."""

    # Ranks by participant; of one participant alone where it failed beside any others.
    ranks: dict[str, int]
    # Names of the runs.
    runs: tuple[str, ...]
    # Lines of their logs that say why, each after its participant's name.
    reasons: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Give plain JSON types."""
        return {"ranks": dict(self.ranks), "runs": list(self.runs), "reasons": list(self.reasons)}


def with_failed(recommendation: Recommendation, failed: Sequence[FailedSplit]) -> Recommendation:
    """Add to a recommendation what failed, and a warning where it lies beyond; a split that failed is no comparison."""
    samples = recommendation.measurements.samples
    worked = {name: {int(ranks) for ranks in np.unique(rows[:, 0])} for name, rows in samples.items()}
    others = dict(recommendation.alternatives)
    gone = [kind for kind, other in others.items() if any(each.ranks.items() <= other.split.items() for each in failed)]
    payback = recommendation.payback
    if payback is not None:
        windows = {kind: count for kind, count in payback.windows.items() if kind not in gone}
        payback = dataclasses.replace(payback, windows=windows)
    return dataclasses.replace(
        recommendation,
        failed_splits=tuple(failed),
        alternatives={kind: other for kind, other in others.items() if kind not in gone},
        payback=payback,
        warnings=(
            *recommendation.warnings,
            *(f"The {kind} split is not compared: its runs failed." for kind in gone),
            *beyond_failed(recommendation.split, failed, worked),
        ),
    )


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


def beyond_failed(split: Mapping[str, int], failed: Sequence[FailedSplit], worked: Mapping[str, set[int]]) -> list[str]:
    """Say where a split gives a participant more (or fewer) ranks than failed, and no run with as many ended well."""
    runs: dict[tuple[str, int], set[str]] = {}
    for each in failed:
        for name, ranks in each.ranks.items():
            if ranks not in worked[name]:
                runs.setdefault((name, ranks), set()).update(each.runs)
    found = []
    for (name, ranks), names in sorted(runs.items()):
        chosen = split[name]
        more = chosen > ranks and not any(count > ranks for count in worked[name])
        fewer = chosen < ranks and not any(count < ranks for count in worked[name])
        if more or fewer:
            times = {1: "its only run", 2: "both runs"}.get(len(names), f"all {plural(len(names), 'run')}")
            found.append(
                f"{name} failed with {plural(ranks, 'rank')} in {times}: nothing is known about "
                f"{'more' if more else 'fewer'}, and this split has {chosen}; measure it before it is used."
            )
    return found
