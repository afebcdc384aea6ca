"""Participants that are split by cores: how many ranks and threads these are, and how many of them a node holds."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import InfeasibleError
from precice_lb.layout import Layouts
from precice_lb.plural import plural
from precice_lb.split.constraints import Constraints

Integers = NDArray[np.int64]
Threaded = tuple[Integers, Integers]
"""Ranks, and threads of each, for some numbers of cores."""


def threaded(layouts: Layouts, cores: Integers) -> Threaded:
    """Ranks and threads of numbers of cores that have a layout, shape (counts,) each."""
    found = [layouts.of(int(count)) for count in cores]
    ranks, threads = ([getattr(each, key) for each in found] for key in ("ranks", "threads"))
    return np.array(ranks, dtype=np.int64), np.array(threads, dtype=np.int64)


def listed_cores(layouts: Layouts, least_ranks: int, node: int | None) -> Integers | None:
    """Numbers of cores that have a layout of so many ranks, on such a node; None where there is no end of them."""
    if layouts.step is not None:
        return None
    known = [layouts.of(cores) for cores in layouts.allowed(1, 10**9)]
    kept = [each.cores for each in known if each.ranks >= least_ranks and (node is None or each.threads <= node)]
    return np.array(kept, dtype=np.int64)


def cores_for(layouts: Layouts, ranks: int, what: str) -> int:
    """Least cores that are so many ranks."""
    if layouts.step is not None and layouts.threads is not None:
        return ranks * layouts.threads
    known = [layouts.of(cores) for cores in layouts.allowed(1, 10**9)] if layouts.step is None else []
    enough = [each.cores for each in known if each.ranks >= ranks] or [1] * ((layouts.ranks or 0) >= ranks)
    if not enough:
        most = max([each.ranks for each in known], default=layouts.ranks or 1)
        raise InfeasibleError(f"expected {plural(ranks, 'rank')} or more for {what}, found layouts with {most} at most")
    return min(enough)


def most_cores(layouts: Layouts, node: int) -> int | None:
    """Most cores where the threads of a rank lie on one node; None where that bounds nothing."""
    if layouts.step is None or layouts.threads is not None:
        return None
    return (layouts.ranks or 1) * node


def node_parts(constraints: Constraints, others: Collection[int]) -> Integers:
    """Parts of a node, rising, each dividing the next and what ranks of others take: they fill nodes without gaps."""
    node = constraints.cores_per_node or 1
    parts = [node]
    for part in range(node - 1, 0, -1):
        if parts[-1] % part == 0 and all(max(part, each) % min(part, each) == 0 for each in others):
            parts.append(part)
    return np.array(parts[::-1], dtype=np.int64)
