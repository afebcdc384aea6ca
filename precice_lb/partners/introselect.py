"""The partial sort of libstdc++ (``std::nth_element``), which leaves other elements in an order of its own.

Large parts are cut with array operations that end in the same order as the loops of the library, small ones with loops.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["nth_element"]

_SMALL = 512


def nth_element(entries: NDArray[np.int64], nth: int, keys: NDArray[np.float64]) -> None:
    """Put the entry in place that belongs at a position, smaller ones before it and others behind it.

    Parameters
    ----------
    entries : ndarray of int64, shape (n,)
        Changed in place.
    nth : int
        The position; nothing happens if it is n.
    keys : ndarray
        By entry, what it is sorted by.

    Notes
    -----
    ``std::__introselect`` and ``std::__unguarded_partition_pivot`` of libstdc++.
    """
    first, last = 0, len(entries)
    if first == last or nth == last:
        return
    depth = 2 * (len(entries).bit_length() - 1)
    values = keys[entries]
    while last - first > _SMALL and depth > 0:
        depth -= 1
        cut = first + _cut_large(entries[first:last], values[first:last])
        if cut <= nth:
            first = cut
        else:
            last = cut
    part, own = entries[first:last].tolist(), values[first:last].tolist()
    _select(part, own, nth - first, depth)
    entries[first:last] = part


def _median(a: float, b: float, c: float) -> int:
    """Which of three is the middle one."""
    if a < b:
        return 1 if b < c else (2 if a < c else 0)
    return 0 if a < c else (2 if b < c else 1)


def _cut_large(entries: NDArray[np.int64], values: NDArray[np.float64]) -> int:
    """Partition around the median of three; where the second part begins."""
    places = (1, len(entries) // 2, len(entries) - 1)
    chosen = places[_median(*(float(values[place]) for place in places))]
    for array in (entries, values):
        array[0], array[chosen] = array[chosen], array[0]
    pivot, rest = values[0], values[1:]
    # From either end, those that stop the search for one to exchange: they are exchanged in pairs until they meet.
    left, right = np.flatnonzero(rest >= pivot) + 1, np.flatnonzero(rest <= pivot)[::-1] + 1
    both = min(len(left), len(right))
    met = left[:both] >= right[:both]
    count = int(np.argmax(met)) if met.any() else both
    one, other = left[:count], right[:count]
    for array in (entries, values):
        array[one], array[other] = array[other], array[one]
    ends = [int(left[count])] if count < len(left) else []
    return min([*ends, int(right[count - 1])] if count else ends)


def _select(entries: list[int], values: list[float], nth: int, depth: int) -> None:
    """Do the same in lists of a few entries and their keys."""
    first, last = 0, len(entries)
    while last - first > 3:
        if depth == 0:
            # Only for values made to defeat the median of three; equal ones may come in another order then.
            break
        depth -= 1
        cut = _cut_small(entries, values, first, last)
        if cut <= nth:
            first = cut
        else:
            last = cut
    order = sorted(range(first, last), key=values.__getitem__)
    entries[first:last] = [entries[place] for place in order]


def _cut_small(entries: list[int], values: list[float], first: int, last: int) -> int:
    places = (first + 1, first + (last - first) // 2, last - 1)
    chosen = places[_median(values[places[0]], values[places[1]], values[places[2]])]
    entries[first], entries[chosen] = entries[chosen], entries[first]
    values[first], values[chosen] = values[chosen], values[first]
    pivot = values[first]
    low, high = first + 1, last
    while True:
        while values[low] < pivot:
            low += 1
        high -= 1
        while pivot < values[high]:
            high -= 1
        if low >= high:
            return low
        entries[low], entries[high] = entries[high], entries[low]
        values[low], values[high] = values[high], values[low]
        low += 1
