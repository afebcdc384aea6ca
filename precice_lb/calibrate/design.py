"""Which splits a campaign measures.

A design is asked for the next split and answers with a proposal or with None. `FixedDesign` works off a list.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, product
from random import Random

import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import InfeasibleError
from precice_lb.names import without_versions
from precice_lb.plural import plural
from precice_lb.recommend.limits import Limits
from precice_lb.split import Constraints
from precice_lb.split.candidates import proportional_split
from precice_lb.split.constraints import check_names

Split = dict[str, int]
Bounds = Mapping[str, tuple[int, int]]
# The only rank counts of some participants, rising.
Allow = Mapping[str, Sequence[int]]
# Splits looked at per selection: more of them move the chosen ones by less than one part in ten.
_CANDIDATES = 1000
# Distance, in parts of a participant's logarithmic range, below which two counts are nearly the same measurement.
_RESOLUTION = 0.01
_EXCHANGES = 200
# The smallest count tried first is the budget over this many times the number of participants.
_SMALLEST_SHARE = 8


@dataclass(frozen=True)
class Proposal:
    """The next split to measure, and why this one, in one line."""

    split: Split
    reason: str
    #: Index of the small mesh of the study that the run is on; None for the case itself.
    mesh: int | None = None
    #: The version of each participant that has any.
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class FixedDesign:
    """Splits fixed beforehand, measured in order."""

    splits: tuple[Split, ...]
    #: Given for each of them.
    reason: str
    conclusion: None = None

    @property
    def total(self) -> int:
        """Number of splits."""
        return len(self.splits)

    def ask(self, tried: Collection[Mapping[str, int]]) -> Proposal | None:
        """Return the first split that is not among ``tried``, runs that failed in this call included, or None."""
        known = {split_key(split) for split in tried}
        for number, split in enumerate(self.splits, start=1):
            if split_key(split) not in known:
                ranks, versions = without_versions(split)
                return Proposal(ranks, f"{self.reason} {number} of {self.total}", versions=versions)
        return None


def split_key(split: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """Return a hashable form of a split that does not depend on the order of the participants."""
    return tuple(sorted(split.items()))


def allowed_counts(
    constraints: Constraints, names: Sequence[str], budget: int, lowest: Mapping[str, int], highest: Mapping[str, int]
) -> dict[str, list[int]]:
    """List the rank counts of each participant that its bounds and the constraints leave."""
    check_names(constraints, dict.fromkeys(names, ()))
    limits = Limits(budget, lowest, highest, constraints)
    counts = {name: limits.counts(name).tolist() for name in names}
    if (needed := sum(each[0] for each in counts.values())) > budget:
        raise InfeasibleError(
            f"expected a budget of {plural(needed, 'rank')} or more for the fewest that are allowed, found {budget}"
        )
    return counts


def allowed_splits(splits: NDArray[np.int64], names: Sequence[str], allow: Allow) -> NDArray[np.int64]:
    """Round ranks down to counts that are allowed, or up to the first of them; shape (k, participants)."""
    columns = splits.T.copy()
    for column, name in zip(columns, names, strict=True):
        if name in allow:
            counts = np.asarray(allow[name], dtype=np.int64)
            column[:] = counts[np.maximum(np.searchsorted(counts, column, side="right") - 1, 0)]
    return np.asarray(columns.T)


def space_filling_splits(bounds: Bounds, budget: int, count: int, allow: Allow | None = None) -> list[Split]:
    """Choose splits that vary all participants at once, from few to many ranks each.

    Every participant is to be seen at ``count`` different rank counts that lie apart on a logarithmic axis. This
    minimises, over designs, the sum over participants and pairs of runs of ``1 / (distance + resolution)²``: the
    energy criterion of Morris and Mitchell (1995, doi:10.1016/0378-3758(94)00035-T, eq. 2 with p = 2), applied to
    each participant's axis alone, as MaxPro designs do (Joseph, Gul, Ba 2015, doi:10.1093/biomet/asv002), because
    each participant gets a model of its own. Whole budgets are preferred; smaller totals fill up where the bounds
    leave too few of them. The smallest counts are the budget divided by eight times the number of participants (P/16
    for two of them), unless the minimum is above that or too few splits are left. The most even split comes first, then
    each as far from the earlier ones as possible; fewer than ``count`` only where no more are possible. Deterministic.
    """
    names = tuple(bounds)
    low = [bounds[name][0] for name in names]
    needed = sum(low)
    if needed > budget:
        raise InfeasibleError(
            f"a budget of {plural(budget, 'rank')} is too small for {', '.join(names)}: they need at least {needed}"
        )
    for name, (least, most) in bounds.items():
        if most < least or least < 1:
            raise InfeasibleError(
                f"participant {name!r}: expected 1 <= minimum <= maximum ranks, found {least}, {most}"
            )
    high = [min(bounds[name][1], budget - needed + bounds[name][0]) for name in names]
    total = min(budget, sum(high))
    # Far below the budget's share a run costs most and says least about the splits that come into question.
    share = budget // (_SMALLEST_SHARE * len(names))
    floor = [min(max(least, share), most) for least, most in zip(low, high, strict=True)]

    def possible(splits: Iterable[tuple[int, ...]]) -> list[tuple[int, ...]]:
        if allow:
            splits = map(tuple, allowed_splits(np.array(list(splits), dtype=np.int64), names, allow).tolist())
        return sorted({split for split in splits if sum(split) <= budget})

    candidates = possible(_exact_candidates(floor, high, total))
    if len(candidates) < count:
        candidates, floor = possible([*candidates, *product(*_box(low, high))]), low
    chosen = _chosen(candidates, floor, high, count)
    return [dict(zip(names, split, strict=True)) for split in chosen]


def _exact_candidates(low: Sequence[int], high: Sequence[int], total: int) -> list[tuple[int, ...]]:
    """List splits of exactly ``total`` ranks: all of them where they are few, otherwise drawn log-uniformly."""
    few = list(islice(_compositions(low, high, total), _CANDIDATES + 1))
    if len(few) <= _CANDIDATES:
        return few
    random = Random(0)
    ranges = list(zip(low, high, strict=True))
    weights = [[least * (most / least) ** random.random() for least, most in ranges] for _ in range(_CANDIDATES)]
    # The corners too: each participant with as many ranks as the others leave it.
    weights += [[most if i == j else least for j, (least, most) in enumerate(ranges)] for i in range(len(ranges))]
    least, most, *each = ({str(at): value for at, value in enumerate(values)} for values in (low, high, *weights))
    return sorted({tuple(proportional_split(shares, total, least, most).values()) for shares in each})


def _compositions(low: Sequence[int], high: Sequence[int], total: int) -> Iterator[tuple[int, ...]]:
    """Yield every split of exactly ``total`` ranks inside the bounds."""
    if len(low) == 1:
        if low[0] <= total <= high[0]:
            yield (total,)
        return
    least, most = sum(low[1:]), sum(high[1:])
    for first in range(max(low[0], total - most), min(high[0], total - least) + 1):
        for rest in _compositions(low[1:], high[1:], total - first):
            yield (first, *rest)


def _box(low: Sequence[int], high: Sequence[int]) -> list[list[int]]:
    """Levels per participant, geometric where there is no room for all counts, about `_CANDIDATES` in the product."""
    widths = [most - least + 1 for least, most in zip(low, high, strict=True)]
    levels = 2
    while levels < max(widths) and math.prod(min(levels + 1, width) for width in widths) <= _CANDIDATES:
        levels += 1
    return [_levels(least, most, levels) for least, most in zip(low, high, strict=True)]


def _levels(least: int, most: int, number: int) -> list[int]:
    if most - least + 1 <= number:
        return list(range(least, most + 1))
    return [int(count) for count in np.unique(np.geomspace(least, most, number).round())]


def _chosen(
    candidates: Sequence[tuple[int, ...]], low: Sequence[int], high: Sequence[int], count: int
) -> list[tuple[int, ...]]:
    """Pick ``count`` of the sorted candidates of least energy: greedily, then by exchange until nothing improves."""
    spans = [math.log(most / least) or 1.0 for least, most in zip(low, high, strict=True)]
    # Of each rank count on a logarithmic axis from 0 to 1.
    place = np.array(
        [[math.log(n / least) / span for n, least, span in zip(s, low, spans, strict=True)] for s in candidates]
    )
    energy = np.zeros_like(place)

    def put(at: int, sign: int) -> None:
        energy[:] += sign / (np.abs(place - place[at]) + _RESOLUTION) ** 2

    def best_beside(taken: Sequence[int]) -> int:
        free = sum(energy.T)
        free[list(taken)] = np.inf
        return int(np.argmin(free))

    chosen = [int(np.argmin(sum((place.T - 0.5) ** 2)))]
    put(chosen[0], 1)
    while len(chosen) < min(count, len(candidates)):
        chosen.append(best_beside(chosen))
        put(chosen[-1], 1)
    for _ in range(max(1, _EXCHANGES // count)):
        improved = False
        for position, current in enumerate(chosen):
            put(current, -1)
            best = best_beside(chosen[:position] + chosen[position + 1 :])
            if energy[best].sum() < energy[current].sum() * (1 - 1e-9):
                chosen[position] = best
                improved = True
            put(chosen[position], 1)
        if not improved:
            break
    return [candidates[at] for at in _ordered(chosen, place)]


def _ordered(chosen: Sequence[int], place: NDArray[np.float64]) -> list[int]:
    """Put the most even split first, then each time the one farthest from all before it."""
    rest = sorted(chosen, key=lambda at: (sum((place[at] - 0.5) ** 2), at))
    order = [rest.pop(0)]
    while rest:
        farthest = max(rest, key=lambda at: (min(sum(np.abs(place[at] - place[done])) for done in order), at))
        rest.remove(farthest)
        order.append(farthest)
    return order
