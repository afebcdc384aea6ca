"""Searching the cells nearest to points: many points at once, or as preCICE's tree orders them for a single one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from precice_lb.partners.search_tree import SearchTree

__all__ = ["CellSearch"]

_SAME = 1e-12
# Cells looked at first for each point, by the distance of their centres.
_FIRST = 48
# Large: so many times the middle one's reach.
_LARGE = 3.0
_BLOCK = 2**21


class CellSearch:
    """Edges, or cells with their bounding boxes.

    Parameters
    ----------
    cells : ndarray of int64, shape (cells, corners)
        Positions of their vertices, in preCICE's order; at least one.
    points : ndarray, shape (vertices, dimensions)
        Coordinates.
    """

    def __init__(self, cells: NDArray[np.int64], points: NDArray[np.float64]) -> None:
        self._corners = points[cells]
        self._low, self._high = self._corners.min(axis=1), self._corners.max(axis=1)
        # A few large cells would blur the bound for all: they are always looked at.
        reach = np.linalg.norm(self._high - self._low, axis=1) / 2
        small = reach <= _LARGE * np.median(reach)
        self._small, self._large = np.flatnonzero(small), np.flatnonzero(~small)
        self._reach = float(reach[small].max())
        self._centres = cKDTree(((self._low + self._high) / 2)[small])
        self._tree: SearchTree | None = None
        self._order: NDArray[np.int64] | None = None

    def near(self, where: NDArray[np.float64], count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Find the nearest cells of each point: edges by their distance, others by that of their boxes.

        Parameters
        ----------
        where : ndarray, shape (points, dimensions)
            Where to search from.
        count : int
            How many; all that are as near as the last of them are found.

        Returns
        -------
        points, cells : ndarray of int64, shape (found,)
            Pairs of a point and a cell, sorted by point.
        """
        return self._found(where, lambda square: np.partition(square, count - 1, axis=1)[:, count - 1])

    def around(self, where: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Find the cells whose boxes hold each point, as pairs of a point and a cell."""
        return self._found(where, lambda square: np.zeros(len(square)))

    def nearest(self, point: NDArray[np.float64], count: int) -> list[int]:
        """Nearest cells of a point, in the order preCICE gets them."""

        def squares(chosen: NDArray[np.int64]) -> NDArray[np.float64]:
            square: NDArray[np.float64] = self._squares(point[None], chosen[None])[0]
            return square

        return self._packed().nearest(point, count, squares)

    def in_order(self, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
        """Sort cells as preCICE meets them."""
        if self._order is None:
            self._order = np.argsort(self._packed().order())
        return chosen[np.argsort(self._order[chosen])]

    def _packed(self) -> SearchTree:
        if self._tree is None:
            self._tree = SearchTree(self._low, self._high)
        return self._tree

    def _found(
        self, where: NDArray[np.float64], bound: Callable[[NDArray[np.float64]], NDArray[np.float64]]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        total = len(self._corners)
        count = min(_FIRST, len(self._small))
        away, chosen = self._centres.query(where, k=np.arange(1, count + 1))
        large = np.broadcast_to(self._large, (len(where), len(self._large)))
        chosen = np.concatenate([self._small[chosen], large], axis=1)
        square = self._squares(where, chosen)
        limit = bound(square)
        row, column = np.nonzero(square <= limit[:, None] * (1 + _SAME))
        points, cells = [row], [chosen[row, column]]
        # Beyond those looked at no cell can be as near as its centre less the largest cell's reach.
        missed = np.flatnonzero(
            (np.sqrt(limit) * (1 + _SAME) >= away[:, -1] - self._reach) & (count < len(self._small))
        )
        if len(missed):
            keep = ~np.isin(row, missed)
            points, cells = [row[keep]], [cells[0][keep]]
        rows = max(_BLOCK // total, 1)
        for begin in range(0, len(missed), rows):
            part = missed[begin : begin + rows]
            square = self._squares(where[part], np.arange(total)[None])
            row, column = np.nonzero(square <= bound(square)[:, None] * (1 + _SAME))
            points.append(part[row])
            cells.append(column)
        joined, found = np.concatenate(points), np.concatenate(cells)
        order = np.argsort(joined, kind="stable")
        return joined[order], found[order]

    def _squares(self, where: NDArray[np.float64], chosen: NDArray[np.int64]) -> NDArray[np.float64]:
        """Squared distance of each point to the cells chosen for it; shape (points, cells)."""
        origin = where[:, None]
        if self._corners.shape[1] != 2:
            beyond = np.maximum(np.maximum(self._low[chosen] - origin, origin - self._high[chosen]), 0.0)
            return np.asarray((beyond**2).sum(axis=2))
        # Step by step as Boost does it: what is equally near must be so to the last bit.
        start, end = self._corners[chosen, 0], self._corners[chosen, 1]
        along = end - start
        reach, length = ((origin - start) * along).sum(axis=2), (along**2).sum(axis=2)
        share = np.divide(reach, length, out=np.zeros_like(reach), where=length > 0)
        foot = np.where((reach < length)[:, :, None], start + share[:, :, None] * along, end)
        foot = np.where((reach <= 0)[:, :, None], start, foot)
        return np.asarray(((origin - foot) ** 2).sum(axis=2))
