"""Searching the cells nearest to points: many points at once, or as preCICE's tree orders them for a single one."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from precice_lb.partners.search_tree import SearchTree, packed_places

__all__ = ["CellSearch"]

_SAME = 1e-12
# Cells looked at for each point, by the distance of their centres, until they suffice.
_FIRST = (12, 48)
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
    region : ndarray, shape (dimensions, 2)
        Cells whose boxes do not touch it are not looked for.
    """

    def __init__(self, cells: NDArray[np.int64], points: NDArray[np.float64], region: NDArray[np.float64]) -> None:
        self._corners = points[cells]
        # Column by column: reductions over few corners are slow.
        sides = [self._corners[:, corner] for corner in range(cells.shape[1])]
        self._low, self._high = functools.reduce(np.minimum, sides), functools.reduce(np.maximum, sides)
        self._within = np.flatnonzero(((self._low <= region[:, 1]) & (self._high >= region[:, 0])).all(axis=1))
        low, high = self._low[self._within], self._high[self._within]
        # A few large cells would blur the bound for all: they are always looked at.
        reach = np.linalg.norm(high - low, axis=1) / 2
        small = reach <= _LARGE * np.median(reach) if len(reach) else np.zeros(0, bool)
        self._small, self._large = self._within[small], self._within[~small]
        self._reach = float(reach[small].max(initial=0.0))
        self._centres = cKDTree((low + high)[small] / 2)
        self._tree: SearchTree | None = None

    def __len__(self) -> int:
        """Return how many cells there are."""
        return len(self._corners)

    def near(
        self, where: NDArray[np.float64], count: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """Find the nearest cells of each point: edges by their distance, others by that of their boxes.

        Parameters
        ----------
        where : ndarray, shape (points, dimensions)
            Where to search from.
        count : int
            How many; all that are as near as the last of them are found. Fewer where the region has fewer.

        Returns
        -------
        points, cells : ndarray of int64, shape (found,)
            Pairs of a point and a cell, sorted by point.
        squares : ndarray, shape (found,)
            Their squared distances.
        """
        count = min(count, len(self._within))
        return self._found(where, lambda square: np.partition(square, count - 1, axis=1)[:, count - 1])

    def around(self, where: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """Find the cells whose boxes hold each point, as `near` does."""
        return self._found(where, lambda square: np.zeros(len(square)))

    def nearest(self, point: NDArray[np.float64], count: int) -> list[int]:
        """Nearest cells of a point, in the order preCICE gets them."""

        def squares(chosen: NDArray[np.int64]) -> NDArray[np.float64]:
            square: NDArray[np.float64] = self._squares(point[None], chosen[None])[0]
            return square

        if self._tree is None:
            self._tree = SearchTree(self._low, self._high)
        return self._tree.nearest(point, count, squares)

    def places(self, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
        """Places of some cells in the order in which preCICE meets those that hold a point."""
        return packed_places(self._low, self._high, chosen)[chosen]

    def _found(
        self, where: NDArray[np.float64], bound: Callable[[NDArray[np.float64]], NDArray[np.float64]]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        parts = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))]
        rows = np.arange(len(where) if len(self._within) else 0)
        for count in _FIRST if len(rows) else ():
            pairs, missed = self._among(where[rows], min(count, len(self._small)), bound)
            parts.append((rows[pairs[0]], *pairs[1:]))
            rows = rows[missed]
            if not len(rows):
                break
        block = max(_BLOCK // max(len(self._within), 1), 1)
        for begin in range(0, len(rows), block):
            part = rows[begin : begin + block]
            square = self._squares(where[part], self._within[None])
            row, column = np.nonzero(square <= bound(square)[:, None] * (1 + _SAME))
            parts.append((part[row], self._within[column], square[row, column]))
        points, cells, squares = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = np.argsort(points, kind="stable")
        return points[order], cells[order], squares[order]

    def _among(
        self, where: NDArray[np.float64], count: int, bound: Callable[[NDArray[np.float64]], NDArray[np.float64]]
    ) -> tuple[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]], NDArray[np.int64]]:
        """Search the cells with the nearest centres; and for which points others may be as near."""
        away, chosen = self._centres.query(where, k=np.arange(1, count + 1))
        large = np.broadcast_to(self._large, (len(where), len(self._large)))
        chosen = np.concatenate([self._small[chosen], large], axis=1)
        square = self._squares(where, chosen)
        limit = bound(square)
        # Beyond those looked at no cell can be as near as its centre less the largest cell's reach.
        missed = (np.sqrt(limit) * (1 + _SAME) >= away[:, -1] - self._reach) & (count < len(self._small))
        row, column = np.nonzero((square <= limit[:, None] * (1 + _SAME)) & ~missed[:, None])
        return (row, chosen[row, column], square[row, column]), np.flatnonzero(missed)

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
