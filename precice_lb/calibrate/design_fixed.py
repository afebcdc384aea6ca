"""Lists of splits that are chosen before anything is measured: a grid, and one per doubling."""

from __future__ import annotations

from itertools import combinations, pairwise
from math import comb

from precice_lb.calibrate.design import Bounds, Split, split_key

__all__ = ["doubling_splits", "grid_splits"]


def grid_splits(bounds: Bounds, budget: int, count: int) -> list[Split]:
    """Divide the budget in even steps: with two participants and five splits into 1:5, 2:4, 3:3, 4:2 and 5:1.

    Parameters
    ----------
    bounds
        Smallest and largest number of ranks of each participant.
    budget
        Largest total number of ranks.
    count
        Number of splits wanted; of more than two participants the finest grid with no more than these is taken.

    Returns
    -------
    list of dict
        Distinct splits inside the bounds.
    """
    n = len(bounds)
    parts = n
    while comb(parts, n - 1) <= count and parts < budget:
        parts += 1
    found: dict[tuple[tuple[str, int], ...], Split] = {}
    for cuts in combinations(range(1, parts), n - 1):
        edges = [round(budget * cut / parts) for cut in (0, *cuts, parts)]
        _add(found, bounds, budget, [high - low for low, high in pairwise(edges)])
    return list(found.values())


def doubling_splits(bounds: Bounds, budget: int, count: int) -> list[Split]:
    """Double the ranks of all participants from their equal share of the budget downwards, as in scaling tests.

    Parameters
    ----------
    bounds, budget, count
        As of `grid_splits`.

    Returns
    -------
    list of dict
        Distinct splits inside the bounds, the smallest first.
    """
    share = max(budget // len(bounds), 1)
    found: dict[tuple[tuple[str, int], ...], Split] = {}
    for step in range(count):
        _add(found, bounds, budget, [share >> step] * len(bounds))
    return list(found.values())[::-1]


def _add(found: dict[tuple[tuple[str, int], ...], Split], bounds: Bounds, budget: int, ranks: list[int]) -> None:
    """Add a split moved into the bounds, unless it then exceeds the budget."""
    split = {
        name: min(max(number, least), most) for number, (name, (least, most)) in zip(ranks, bounds.items(), strict=True)
    }
    if sum(split.values()) <= budget:
        found.setdefault(split_key(split), split)
