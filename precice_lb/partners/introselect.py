"""The partial sort of libstdc++ (``std::nth_element``), which leaves other elements in an order of its own.

Large parts are cut with array operations that end in the same order as the loops of the library, small ones with loops.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["nth_element", "rise", "sift"]

_SMALL = 512


def nth_element(entries: NDArray[np.int64], nth: int, keys: NDArray[np.float64]) -> None:
    """Put the entry in place that belongs at a position, smaller ones before it and others behind it.

    Parameters
    ----------
    entries : ndarray of int64, shape (n,)
        Changed in place.
    nth : int
        The position; nothing happens if it is n.
    keys : ndarray, shape (entries,)
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
            _heap_select(entries, values, first, nth, last)
            return
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


def _heap_select(entries: list[int], values: list[float], first: int, nth: int, last: int) -> None:
    """Finish with a heap of the smallest ones, as the library does after too many cuts (``std::__heap_select``)."""
    heap = [(values[place], entries[place]) for place in range(first, nth + 1)]
    for hole in range(len(heap) // 2 - 1, -1, -1):
        sift(heap, hole, len(heap), heap[hole])
    for place in range(nth + 1, last):
        if values[place] < heap[0][0]:
            new = values[place], entries[place]
            entries[place] = heap[0][1]
            sift(heap, 0, len(heap), new)
    heap[0], heap[-1] = heap[-1], heap[0]
    entries[first : nth + 1] = [entry for _, entry in heap]


def sift(heap: list[tuple[float, int]], hole: int, length: int, value: tuple[float, int]) -> None:
    """Put a value below a hole of a heap with the largest first (``std::__adjust_heap``).

    Parameters
    ----------
    heap : list of (float, int)
        What it is sorted by, and an entry.
    hole, length : int
        Position of the hole, and length of the heap.
    value : (float, int)
        The value.
    """
    if length == 0:
        return
    top = child = hole
    while child < (length - 1) // 2:
        child = 2 * (child + 1)
        if heap[child][0] < heap[child - 1][0]:
            child -= 1
        heap[hole] = heap[child]
        hole = child
    if length % 2 == 0 and child == (length - 2) // 2:
        child = 2 * (child + 1)
        heap[hole] = heap[child - 1]
        hole = child - 1
    rise(heap, hole, top, value)


def rise(heap: list[tuple[float, int]], hole: int, top: int, value: tuple[float, int]) -> None:
    """Put a value above a hole of a heap (``std::__push_heap``).

    Parameters
    ----------
    heap : list of (float, int)
        What it is sorted by, and an entry.
    hole, top : int
        Position of the hole, and the highest one that the value may take.
    value : (float, int)
        The value.
    """
    parent = (hole - 1) // 2
    while hole > top and heap[parent][0] < value[0]:
        heap[hole] = heap[parent]
        hole = parent
        parent = (hole - 1) // 2
    heap[hole] = value
