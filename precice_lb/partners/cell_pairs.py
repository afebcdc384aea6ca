"""Cells that a projection may use: the best one of each point, and where preCICE's search tree decides about it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from precice_lb.partners.cell_search import CellSearch

__all__ = ["SAME", "CellPairs"]

SAME = 1e-12
"""Relative difference of distances that rounding may make."""


@dataclass(frozen=True)
class CellPairs:
    """Points and the cells that may be tried for them, sorted by point.

    Attributes
    ----------
    where : ndarray, shape (points, dimensions)
        The points.
    point, cell : ndarray of int64, shape (pairs,)
        The pairs.
    vertices : ndarray of int64, shape (pairs, corners)
        Vertices of the cell that have a weight; -1 for others.
    square, away : ndarray, shape (pairs,)
        Squared distance by which cells are chosen, and distance of the projection.
    fits : ndarray of bool, shape (pairs,)
        Whether the projection counts.
    turn : ndarray of int64, shape (pairs,)
        Which of equals comes first.
    most : int
        How many cells of a point are tried.
    first_wins : bool
        Whether the first one that counts is taken instead of the nearest.
    """

    where: NDArray[np.float64]
    point: NDArray[np.int64]
    cell: NDArray[np.int64]
    vertices: NDArray[np.int64]
    square: NDArray[np.float64]
    fits: NDArray[np.bool_]
    away: NDArray[np.float64]
    turn: NDArray[np.int64]
    most: int
    first_wins: bool

    def best(self) -> NDArray[np.int64]:
        """Return the best pair of each point that has one."""
        rows = np.flatnonzero(self.fits)
        away = np.zeros(len(rows)) if self.first_wins else self.away[rows]
        rows = rows[np.lexsort((self.turn[rows], away, self.point[rows]))]
        return rows[np.unique(self.point[rows], return_index=True)[1]]

    def undecided(self) -> NDArray[np.int64]:
        """Points for which the order of preCICE's tree decides.

        It does where several cells that count are equally near and have other vertices, as of ranks whose parts
        overlap; and where more cells are as near as the last one that is tried, and none of those may be the best one.
        """
        count = len(self.where)
        alike = self._alike()
        farthest = np.zeros(count)
        np.maximum.at(farthest, self.point, self.square)
        last = self.square >= farthest[self.point] * (1 - 2 * SAME)
        others = np.bincount(self.point[~alike], minlength=count)
        crowded = (np.bincount(self.point, minlength=count) > self.most) & (others >= self.most)
        crowded &= np.bincount(self.point[alike & last], minlength=count) > 0
        return np.flatnonzero(crowded | self._differ(alike))

    def _alike(self) -> NDArray[np.bool_]:
        """Which pairs may be the best one of their point."""
        best = np.full(len(self.where), np.inf)
        np.minimum.at(best, self.point[self.fits], self.away[self.fits])
        return self.fits & (self.first_wins | (self.away <= best[self.point] + SAME * (1 + best[self.point])))

    def _differ(self, alike: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """For which points some pairs have other vertices than the first of them."""
        rows = np.flatnonzero(alike)
        first = np.searchsorted(self.point[rows], self.point[rows])
        vertices = np.sort(self.vertices[rows], axis=1)
        result = np.zeros(len(self.where), bool)
        result[self.point[rows[(vertices != vertices[first]).any(axis=1)]]] = True
        return result

    def tried(self, search: CellSearch, open_points: NDArray[np.int64]) -> CellPairs:
        """Look up in which order cells are tried, and which are, for points where that matters."""
        turn, kept = np.zeros(len(self.point), np.int64), np.ones(len(self.point), bool)
        count = len(self.where)
        chosen = np.zeros(count, bool)
        chosen[open_points] = True
        # Of cells that all hold the point, the first ones in the tree are found; their order among themselves is
        # another only where several of these are equally near.
        holding = np.ones(count, bool)
        holding[self.point[self.square > 0]] = False
        simple = chosen & holding & (~self._differ(self._alike()) if self.most < len(search) else True)
        rows = np.flatnonzero(simple[self.point])
        if len(rows):
            place = search.places(self.cell[rows])
            rows = rows[np.lexsort((place, self.point[rows]))]
            starts = np.searchsorted(self.point[rows], self.point[rows])
            turn[rows] = np.arange(len(rows)) - starts
            kept[rows] = turn[rows] < self.most
        for number in np.flatnonzero(chosen & ~simple):
            part = slice(*np.searchsorted(self.point, [number, number + 1]))
            ordered = search.nearest(self.where[number], self.most)
            places = {cell: place for place, cell in enumerate(ordered)}
            turn[part] = [places.get(cell, self.most) for cell in self.cell[part].tolist()]
            kept[part] = turn[part] < self.most
        return replace(self, turn=turn, fits=self.fits & kept)
