"""Searching the cells near points: boxes that overlap first, exact distances among those."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from precice_lb.partners.level1 import overlapping_pairs

__all__ = ["SAME", "CellSearch"]

SAME = 1e-12
"""Relative difference of distances that rounding may make."""


class CellSearch:
    """Edges, or cells with their bounding boxes."""

    def __init__(self, cells: NDArray[np.int64], points: NDArray[np.float64]) -> None:
        # Corners first: reductions over a short last axis are slow.
        self._corners = points[cells.T]
        self._low, self._high = self._corners.min(axis=0), self._corners.max(axis=0)
        self._centres = cKDTree((self._low + self._high) / 2)

    def near(
        self, where: NDArray[np.float64], reach: NDArray[np.float64], count: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """Pairs of a point and one of its nearest cells, sorted, and squared distances; of boxes, but for edges.

        Cells beyond the reach are left out; those as near as the last of so many are found as well.
        """
        if count < len(self._low) and reach.any():
            # No cell is farther away than the centre of its box.
            reach = np.minimum(reach, self._centres.query(where, k=[count])[0][:, 0] * (1 + SAME))
        around = np.stack([where - reach[:, None], where + reach[:, None]], axis=2)
        point, cell = overlapping_pairs(around, np.stack([self._low, self._high], axis=2)).T
        square = self._squares(where[point], cell)
        order = np.lexsort((square, point))
        last = np.searchsorted(point, np.arange(len(where))) + count - 1
        ends = np.searchsorted(point, np.arange(len(where)), side="right")
        limit = np.where(last < ends, square[order[np.minimum(last, len(order) - 1)]], np.inf) if len(order) else square
        kept = square <= limit[point] * (1 + SAME)
        return point[kept], cell[kept], square[kept]

    def _squares(self, where: NDArray[np.float64], cell: NDArray[np.int64]) -> NDArray[np.float64]:
        """Squared distance of each point to its cell."""
        if len(self._corners) > 2:
            beyond = where - np.clip(where, self._low[cell], self._high[cell])
        else:
            start, along = self._corners[0, cell], self._corners[1, cell] - self._corners[0, cell]
            reach, length = (np.einsum("nk,nk->n", each, along) for each in (where - start, along))
            share = np.divide(reach, length, out=np.zeros_like(length), where=length > 0)
            beyond = where - start - np.clip(share, 0, 1)[:, None] * along
        return np.asarray(np.einsum("nk,nk->n", beyond, beyond))
