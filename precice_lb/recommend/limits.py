"""What bounds a split: what callers and machine ask for, and the nearest split within it."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from precice_lb.case import accepted_ranks, parse_configuration
from precice_lb.dataset import Measurements
from precice_lb.exceptions import ConfigurationError, InfeasibleError
from precice_lb.layout import Layout, Layouts
from precice_lb.schedule import Schedule
from precice_lb.split import Constraints, optimize_split
from precice_lb.split.admissible import Limits, limits_of
from precice_lb.text import plural

Integers = NDArray[np.int64]


def in_proportion(
    limits: Limits, weights: Mapping[str, float], constraints: Constraints | None = None
) -> tuple[dict[str, int], dict[str, int]]:
    """Divide the budget in proportion to a weight, as people do, and as near to that as bounds and constraints allow.

    The constraints, by default those of the limits, may be narrower.
    """
    constraints = constraints or limits.constraints
    # Cores that are given out together.
    part = (constraints.cores_per_node or 1) if constraints.whole_nodes is True else 1
    parts = limits.machine.cores_in_all // part
    least, most = ({name: -(-ends[name] // part) for name in weights} for ends in (limits.lowest, limits.highest))
    meant, bounded = (
        {name: count * part for name, count in shares.items()}
        for shares in (proportional_split(weights, parts), proportional_split(weights, parts, least, most))
    )
    steps = {name: int(constraints.of("multiple", name) or 1) for name in weights}
    wanted = {name: max(ranks - ranks % steps[name], 1) for name, ranks in bounded.items()}
    return meant, nearest(wanted, limits.budget, constraints)


def nearest(wanted: Mapping[str, int], budget: int, constraints: Constraints) -> dict[str, int]:
    """Find the split nearest to a wanted one, by the logarithms of the ranks' ratios."""
    distances: dict[str, Callable[[Integers], NDArray[np.float64]]] = {
        name: partial(_distance, wanted=count) for name, count in wanted.items()
    }
    # In series costs add up, so that the shortest window has the least sum of distances.
    return optimize_split(distances, budget, coupling="serial", constraints=constraints).split


def with_measured(
    constraints: Constraints, measured: Mapping[str, Layouts], samples: Mapping[str, NDArray[np.float64]]
) -> Constraints:
    """Split by cores what was measured with several threads, as measured where nothing else is said of it."""
    layouts = dict(constraints.layouts)
    for name, known in measured.items():
        # One thread each is what splits are of anyway.
        if known == Layouts() and name not in layouts:
            continue
        stated = layouts.setdefault(name, known)
        rows = {known.of(int(cores)) for cores in samples[name][:, 0]}
        if others := sorted(row for row in rows if not _fits(row, stated, known)):
            raise InfeasibleError(
                f"expected measurements of {name} with {_words(stated)}, as is said of it, found such with "
                f"{' or '.join(other.words for other in others)}; say what was measured, or measure what is said"
            )
    return dataclasses.replace(constraints, layouts=layouts)


def with_accepted(constraints: Constraints, schedule: Schedule, recorded: str | None) -> Constraints:
    """Add with how many ranks preCICE starts the participants, by the coupling or else the recorded configuration."""
    accepted = constraints.accepted_ranks or schedule.accepted_ranks
    if accepted is None and recorded is not None:
        with contextlib.suppress(ConfigurationError):
            accepted = accepted_ranks(parse_configuration(recorded))
    kept = {name: bounds for name, bounds in (accepted or {}).items() if name in schedule.participants}
    return dataclasses.replace(constraints, accepted_ranks=kept) if kept else constraints


def _fits(row: Layout, stated: Layouts, known: Layouts) -> bool:
    """Whether a measurement is one of what is stated; beside single layouts others of their kind are welcome."""
    if stated.allowed(row.cores, row.cores):
        return stated.of(row.cores) == row
    threads = max(stated.threads or 1, *(pair.threads for pair in stated.pairs), 1)
    return stated.step is None and (known != Layouts() or threads == 1)


def _words(layouts: Layouts) -> str:
    ranks, threads = layouts.ranks, layouts.threads
    if ranks is not None:
        return plural(ranks, "rank") + ("" if threads is None else f" of {plural(threads, 'thread')}")
    return f"ranks of {plural(threads, 'thread')}" if threads is not None else f"{layouts} cores"


def known_bounds(
    failed: Sequence[Mapping[str, int]], samples: Mapping[str, NDArray[np.float64]], limits: Limits
) -> Limits:
    """Keep a participant that failed with some ranks, beside any others, on the side of them where it worked."""
    low = {name: limits.constraints.of("minimum", name) or 1 for name in limits.rows}
    high = dict(limits.constraints.maximum)
    for split in failed:
        if len(split) != 1 or (name := next(iter(split))) not in samples:
            continue
        ranks, worked = split[name], samples[name][:, 0]
        if worked.max() < ranks:
            high[name] = min(high.get(name, ranks), ranks - 1)
        elif worked.min() > ranks:
            low[name] = max(low[name], ranks + 1)
        counts = limits.counts[name]
        if not ((low[name] <= counts) & (counts <= high.get(name, counts[-1]))).any():
            raise InfeasibleError(
                f"expected ranks of {name} on the side of {ranks}, with which it failed, where it worked, found none "
                "within its bounds; widen them"
            )
    return limits_of([*limits.rows], limits.budget, dataclasses.replace(limits.constraints, minimum=low, maximum=high))


def node_ranks(measurements: Measurements, name: str, limits: Limits) -> float | None:
    """Ranks (or cores, where the split counts those) of a participant on a full node, where that is known."""
    cores = limits.constraints.cores_per_node
    return measurements.node_ranks.get(name) if cores is None else cores


def _distance(ranks: Integers, wanted: int) -> NDArray[np.float64]:
    return 1.0 + np.abs(np.log(np.maximum(ranks, 1) / max(wanted, 1)))


def proportional_split(
    weights: Mapping[str, float],
    budget: int,
    minimum: Mapping[str, int] | None = None,
    maximum: Mapping[str, int] | None = None,
) -> dict[str, int]:
    """Give ranks in proportion to positive weights, within bounds that the budget allows; by largest remainder."""
    weight = np.array([*weights.values()], dtype=np.float64)
    low = np.array([(minimum or {}).get(name, 1) for name in weights])
    high = np.array([(maximum or {}).get(name, budget) for name in weights])
    left = min(budget, int(high.sum()))
    scales = np.unique(np.concatenate([low / weight, high / weight]))
    # What is given out rises with the scale, as a line between those at which somebody comes to a bound.
    totals = np.clip(scales[:, None] * weight, low, high).sum(axis=1)
    shares = np.clip(np.interp(left, totals, scales) * weight, low, high)
    split = np.floor(shares + 1e-9).astype(int)
    split[np.argsort((split - shares).round(9), kind="stable")[: left - split.sum()]] += 1
    return dict(zip(weights, split.tolist(), strict=True))
