"""Partitions of equal cost: recursive bisection, and METIS.

Every cell has a weight, and every rank gets at least one cell.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from precice_lb.exceptions import DataError
from precice_lb.inside.loads import Cells, FeatureCosts, Floats, Integers, counts_for

_BETTER = 0.7
"""Share of the largest part along the longest axis that another axis must fall below to be cut instead."""
_SAME_PLACE = 1e9
"""Planes of cells that differ by less than this part of the longest extent are one."""
_ENOUGH = 1e-12
_WHOLE = 2**30
"""Sum of all weights as whole numbers: METIS has 32 bits."""
_UNEVEN = 5
"""What METIS may add to the largest part, in thousandths."""


def cost_weights(cells: Cells, costs: FeatureCosts) -> Floats:
    """Give the seconds per time window of each cell, shape (cells,)."""
    return np.asarray(counts_for(cells, costs.features) @ costs.seconds)


def pieces(weights: Floats, parts: int, least: int = 1) -> Integers:
    """Cut a row of weights into contiguous parts whose largest is as small as can be; give where each ends, (parts,).

    Of such cuts, those nearest to equal parts. Each part has at least ``least`` cells; more than 1 may cost balance.
    """
    sums = np.concatenate([[0.0], np.cumsum(weights / weights.max() if weights.any() else np.ones(len(weights)))])
    total, count = float(sums[-1]), len(weights)
    # The largest weight is 1.
    low, high = max(total / parts, 1.0), total
    while high - low > _ENOUGH * total:
        middle = (low + high) / 2
        low, high = (middle, high) if _filled(sums, parts, least, middle) is None else (low, middle)
    bound = high + _ENOUGH * total
    backwards = _filled(total - sums[::-1], parts, least, bound)
    # A part that ends before this leaves too much for the rest.
    earliest = np.zeros(parts, np.int64) if backwards is None else np.append(count - backwards[-2::-1], count)
    ideal = np.searchsorted((sums[1:] + sums[:-1]) / 2, total * np.arange(1, parts + 1) / parts)
    ends, start = np.empty(parts, np.int64), 0
    for part in range(parts):
        latest = int(np.searchsorted(sums, sums[start] + bound, side="right")) - 1
        end = min(max(int(ideal[part]), int(earliest[part])), latest)
        start = min(max(end, start + least), count - least * (parts - 1 - part))
        ends[part] = start
    ends[-1] = count
    return ends


def _filled(sums: Floats, parts: int, least: int, bound: float) -> Integers | None:
    """Fill part after part up to a bound; None where that needs more parts."""
    ends, start, count = np.empty(parts, np.int64), 0, len(sums) - 1
    for part in range(parts):
        full = int(np.searchsorted(sums, sums[start] + bound, side="right")) - 1
        end = min(full, count - least * (parts - 1 - part))
        if end < start + least:
            return None
        ends[part] = start = end
    return ends if start == count else None


def bisection(cells: Cells, weights: Floats, ranks: int) -> Integers:
    """Cut the longest axis into parts of equal cost, as many as the ranks' largest prime factor, and go on in each.

    Another axis is cut where its largest part is better by more than 30 %. Oskooi et al., section 3 (see the
    documentation); Berger and Bokhari, IEEE Trans. Comput. C-36 (1987).
    """
    rank_of = np.zeros(len(weights), np.int64)
    parts = [(np.arange(len(weights)), 0, ranks)]
    while parts:
        part, first, share = parts.pop()
        if share == 1:
            rank_of[part] = first
            continue
        count = _largest_prime(share)
        rest = share // count
        order, ends = _cut(cells.centres[part], weights[part], count, rest)
        for number, piece in enumerate(np.split(part[order], ends[:-1])):
            parts.append((piece, first + number * rest, rest))
    return rank_of


def _cut(centres: Floats, weights: Floats, parts: int, least: int) -> tuple[Integers, Integers]:
    """Order cells along the axis to cut, plane by plane and row by row, and cut them."""
    extents = np.ptp(centres, axis=0)
    axes = np.argsort(-extents, kind="stable")
    places = np.round((centres - centres.min(axis=0)) * (_SAME_PLACE / (float(extents.max()) or 1.0)))
    best: tuple[float, Any, Any] | None = None
    for axis in axes:
        order = np.lexsort([places[:, other] for other in axes[::-1] if other != axis] + [places[:, axis]])
        ends = pieces(weights[order], parts, least)
        largest = float(np.add.reduceat(weights[order], np.append(0, ends[:-1])).max())
        if best is None:
            best = (_BETTER * largest, order, ends)
        elif extents[axis] > 0 and largest < best[0]:
            best = (largest, order, ends)
        if best[0] <= weights.sum() / parts:
            break
    assert best is not None
    return best[1], best[2]


def _largest_prime(number: int) -> int:
    factor = 2
    while factor * factor <= number:
        if number % factor:
            factor += 1
        else:
            number //= factor
    return number


def metis(cells: Cells, weights: Floats, ranks: int) -> Integers:
    """METIS on the graph of cells that share a face, by pymetis."""
    try:
        library: Any = importlib.import_module("pymetis")
    except ImportError:
        raise DataError(
            "expected pymetis for METIS, found it is not installed; pip install precice_lb[metis], or take bisection"
        ) from None
    if ranks == 1:
        return np.zeros(len(weights), np.int64)
    if not len(cells.neighbours):
        raise DataError(
            f"{cells.source or 'cells'}: expected cells that share faces for METIS, found none; take bisection"
        )
    _, parts = library.part_graph(
        ranks,
        library.CSRAdjacency(*cells.adjacency()),
        vweights=whole_weights(weights),
        options=library.Options(ufactor=_UNEVEN),
    )
    rank_of = np.asarray(parts, dtype=np.int64)
    if (empty := int((np.bincount(rank_of, minlength=ranks) == 0).sum())) > 0:
        raise DataError(f"expected METIS to give each of {ranks} ranks cells, found {empty} without; take bisection")
    return rank_of


def whole_weights(weights: Floats) -> Integers:
    """Give weights, shape (cells,), as whole numbers of at least 1 that METIS can add up."""
    shares = weights / weights.max() if weights.any() else np.ones(len(weights))
    return np.asarray(np.maximum(np.round(shares * (_WHOLE / shares.sum())), 1), dtype=np.int64)


PARTITIONERS: dict[str, Callable[[Cells, Floats, int], Integers]] = {
    "bisection": bisection,
    "metis": metis,
}
"""By name; each takes cells, their weights and a number of ranks, and gives the rank of each cell, shape (cells,)."""
