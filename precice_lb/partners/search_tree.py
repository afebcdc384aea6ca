"""Which of equally near vertices or cells preCICE finds first: its search tree, element by element.

preCICE searches with Boost.Geometry's packed R-tree (``rstar<16>``). Where several elements are equally near, the order
of its nodes decides, and that follows from how the tree was packed (``rtree/pack_create.hpp``), from the partial sort
of libstdc++, and from how the nearest are collected (``rtree/visitors/distance_query.hpp``). This repeats these steps
as Boost 1.74 does them; a preCICE built with another Boost may choose otherwise. It is slow, and meant for single
points.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from precice_lb.partners.introselect import nth_element, rise, sift

__all__ = ["SearchTree", "packed_places"]

_MOST = 16
# Boost: rstar<16> has 0.3 of 16 elements at least.
_LEAST = 4

Distances = Callable[[NDArray[np.int64]], NDArray[np.float64]]


@dataclass
class _Node:
    """A leaf with positions of elements, or an inner node with other nodes and their bounds, one row each."""

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    elements: NDArray[np.int64] | None
    children: list[_Node]
    lows: NDArray[np.float64]
    highs: NDArray[np.float64]


class SearchTree:
    """A packed tree over boxes.

    Parameters
    ----------
    low, high : ndarray, shape (elements, dimensions)
        Bounds of each element, in the order in which preCICE has them; at least one.
    """

    def __init__(self, low: NDArray[np.float64], high: NDArray[np.float64]) -> None:
        self._low, self._high = low, high
        self._keys = np.ascontiguousarray(((low + high) / 2).T)
        entries = np.arange(len(low))
        self._root = self._level(entries, low.min(axis=0), high.max(axis=0), _largest(len(low)))

    def nearest(self, point: NDArray[np.float64], count: int, distances: Distances) -> list[int]:
        """Elements nearest to a point, in the order preCICE gets them.

        Parameters
        ----------
        point : ndarray, shape (dimensions,)
            Where to search from.
        count : int
            How many to find.
        distances : callable
            Gives the squared distances of some elements, by their positions.

        Returns
        -------
        list of int
            Positions; not sorted by distance.
        """
        found: list[tuple[float, int]] = []
        self._visit(self._root, point, count, distances, found)
        return [element for _, element in found]

    def _level(
        self, entries: NDArray[np.int64], hint_low: NDArray[np.float64], hint_high: NDArray[np.float64], largest: int
    ) -> _Node:
        if largest <= 1:
            low, high = self._low[entries], self._high[entries]
            return _Node(low.min(axis=0), high.max(axis=0), entries, [], low, high)
        children: list[_Node] = []
        self._packets(entries, hint_low, hint_high, largest, children)
        lows = np.array([child.low for child in children])
        highs = np.array([child.high for child in children])
        return _Node(lows.min(axis=0), highs.max(axis=0), None, children, lows, highs)

    def _packets(
        self,
        entries: NDArray[np.int64],
        hint_low: NDArray[np.float64],
        hint_high: NDArray[np.float64],
        largest: int,
        children: list[_Node],
    ) -> None:
        if len(entries) <= largest:
            children.append(self._level(entries, hint_low, hint_high, largest // _MOST))
            return
        for half, low, high in _halves(entries, hint_low, hint_high, largest, self._keys):
            self._packets(half, low, high, largest, children)

    def _visit(
        self,
        node: _Node,
        point: NDArray[np.float64],
        count: int,
        distances: Distances,
        found: list[tuple[float, int]],
    ) -> None:
        if node.elements is not None:
            for element, distance in zip(node.elements.tolist(), distances(node.elements).tolist(), strict=True):
                _store(found, count, (distance, element))
            return
        beyond = np.maximum(np.maximum(node.lows - point, point - node.highs), 0.0)
        active = list(zip((beyond**2).sum(axis=1).tolist(), node.children, strict=True))
        active = [(away, child) for away, child in active if len(found) < count or away < found[0][0]]
        for away, child in sorted(active, key=lambda each: each[0]):
            if len(found) >= count and found[0][0] <= away:
                break
            self._visit(child, point, count, distances, found)


def packed_places(low: NDArray[np.float64], high: NDArray[np.float64], needed: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where a search by position meets elements: their places among all elements of a `SearchTree`.

    Parameters
    ----------
    low, high : ndarray, shape (elements, dimensions)
        Bounds of each element, in the order in which preCICE has them; at least one.
    needed : ndarray of int64, shape (n,)
        The elements that are asked for.

    Returns
    -------
    ndarray of int64, shape (elements,)
        Of the needed ones; -1 for others.
    """
    keys = np.ascontiguousarray(((low + high) / 2).T)
    entries, places = np.arange(len(low)), np.full(len(low), -1)
    wanted = np.zeros(len(low), bool)
    wanted[needed] = True
    # Parts without an element that is needed are not packed any further.
    parts = [(0, len(low), low.min(axis=0), high.max(axis=0), _largest(len(low)))]
    while parts:
        begin, end, hint_low, hint_high, largest = parts.pop()
        part = entries[begin:end]
        if not wanted[part].any():
            continue
        while largest > 1 and end - begin <= largest:
            largest //= _MOST
        if largest <= 1:
            places[part] = np.arange(begin, end)
            continue
        for half, left, right in _halves(part, hint_low, hint_high, largest, keys):
            parts.append((begin, begin + len(half), left, right, largest))
            begin += len(half)
    places[~wanted] = -1
    return places


def _largest(count: int) -> int:
    """Return how many elements a child of the root has at most."""
    largest, size = 1, _MOST
    while size < count:
        largest, size = size, size * _MOST
    return largest


def _halves(
    entries: NDArray[np.int64],
    hint_low: NDArray[np.float64],
    hint_high: NDArray[np.float64],
    largest: int,
    keys: NDArray[np.float64],
) -> list[tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]]:
    """Cut entries in two across the longest edge of their bounds, with new bounds for either part."""
    median = _median_count(len(entries), largest, _LEAST * (largest // _MOST))
    # The first of equally long edges.
    axis = int(np.argmax(hint_high - hint_low))
    nth_element(entries, median, keys[axis])
    middle = hint_low[axis] + (hint_high[axis] - hint_low[axis]) / 2
    left_high, right_low = hint_high.copy(), hint_low.copy()
    left_high[axis] = right_low[axis] = middle
    return [(entries[:median], hint_low, left_high), (entries[median:], right_low, hint_high)]


def _median_count(count: int, largest: int, least: int) -> int:
    """Elements of the first part: ``pack::calculate_median_count``."""
    whole, rest = divmod(count, largest)
    if rest == 0:
        return whole // 2 * largest
    if least <= rest:
        return (whole + 1) // 2 * largest
    whole, rest = divmod(count - least, largest)
    if rest == 0:
        return (whole + 1) // 2 * largest
    return rest if whole == 0 else (whole + 2) // 2 * largest


def _store(found: list[tuple[float, int]], count: int, new: tuple[float, int]) -> None:
    """Keep the nearest in a heap with the farthest first, as ``std::make_heap`` and its kin order it."""
    if len(found) < count:
        found.append(new)
        if len(found) == count:
            for hole in range(count // 2 - 1, -1, -1):
                sift(found, hole, count, found[hole])
    elif new[0] < found[0][0]:
        last = found[-1]
        found[-1] = found[0]
        sift(found, 0, count - 1, last)
        found[-1] = new
        rise(found, count - 1, 0, new)
