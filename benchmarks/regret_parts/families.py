"""Families of random solvers: seconds per time window over ranks, with known truth.

A solver is a family, a point of the unit cube and its work W. The point's coordinates are independent and uniform, so
that a family states its own prior; every family gives seconds for W = 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["FAMILIES", "Family", "Solver", "between", "diffusive", "granular", "minimum_at", "serial_share", "stepped"]

Array = NDArray[np.float64]
Shape = Callable[[Array, Array], Array]


@dataclass(frozen=True)
class Family:
    """A way run times depend on ranks.

    Attributes
    ----------
    name
        How the tables call it.
    dimensions
        Coordinates of the unit cube.
    shape
        From points, shape (n, dimensions), and ranks, shape (m,), to seconds per unit of work, shape (n, m).
    number
        Its part of a seed.
    stragglers
        Probability that a reading is delayed; see `regret_parts.readings.read`.
    """

    name: str
    dimensions: int
    shape: Shape
    number: int
    stragglers: float = 0.0


@dataclass(frozen=True)
class Solver:
    """One solver: ``work`` times its family's shape at ``point``."""

    family: Family
    point: Array
    work: float

    def __call__(self, ranks: Array) -> Array:
        """Seconds per time window at ranks, shape (m,)."""
        return self.work * self.family.shape(self.point[None], np.asarray(ranks, dtype=np.float64))[0]


def between(low: float, high: float, unit: Array) -> Array:
    """Map to uniform between two numbers."""
    return low + (high - low) * unit


def serial_share(unit: Array) -> Array:
    """Draw the serial share of the work, 10^U(-4, -2)."""
    return np.asarray(10 ** between(-4, -2, unit))


def minimum_at(unit: Array) -> Array:
    """Draw the ranks at which the rise stops the fall, 2^U(6, 12)."""
    return np.asarray(2 ** between(6, 12, unit))


def diffusive(points: Array, ranks: Array) -> Array:
    """Give a + b/p + c log2 p + d p^(-2/3).

    a = s, d = 10^U(-3, -1) of the work (the surface of blocks in three dimensions), b = 1 - s - d, and c so that the
    derivative is zero at the minimum.
    """
    s, at, d = serial_share(points[:, :1]), minimum_at(points[:, 1:2]), 10 ** between(-3, -1, points[:, 2:3])
    b = 1 - s - d
    c = np.log(2) * (b / at + 2 / 3 * d * at ** (-2 / 3))
    return np.asarray(s + b / ranks + c * np.log2(ranks) + d * ranks ** (-2 / 3))


def granular(points: Array, ranks: Array) -> Array:
    """Give s + (1-s) p^(-α) granularity + g p^β.

    α in U(0.7, 1.05), β in U(0.3, 1), granularity ceil(E/p)/(E/p) with E = 2^U(12, 20) elements, which the place of
    the minimum leaves out.
    """
    s, at = serial_share(points[:, :1]), minimum_at(points[:, 1:2])
    alpha, beta = between(0.7, 1.05, points[:, 2:3]), between(0.3, 1.0, points[:, 3:4])
    elements = np.floor(2 ** between(12, 20, points[:, 4:5]))
    g = (1 - s) * alpha * at ** (-alpha - beta) / beta
    grain = np.ceil(elements / ranks) * ranks / elements
    return np.asarray(s + (1 - s) * ranks**-alpha * grain + g * ranks**beta)


def stepped(points: Array, ranks: Array) -> Array:
    """Give s + (1-s)/p (1 + k/(1 + (p/pc)²)) + g log2² p.

    A working set that fits into caches from about pc = 2^U(4, 8) ranks on saves up to k in U(0, 0.5).
    """
    s, at = serial_share(points[:, :1]), minimum_at(points[:, 1:2])
    k, cached = between(0, 0.5, points[:, 2:3]), 2 ** between(4, 8, points[:, 3:4])
    ratio = (at / cached) ** 2
    # -d/dp of the fall at the minimum, over the derivative of log2² there.
    slope = (1 - s) * ((1 + k / (1 + ratio)) / at**2 + 2 * k * ratio / (at**2 * (1 + ratio) ** 2))
    g = slope * at * np.log(2) / (2 * np.log2(at))
    fall = (1 - s) / ranks * (1 + k / (1 + (ranks / cached) ** 2))
    return np.asarray(s + fall + g * np.log2(ranks) ** 2)


#: The three families of the benchmark, whose prior the oracle knows.
FAMILIES: tuple[Family, ...] = (
    Family("diffusive", 3, diffusive, 1),
    Family("granular", 5, granular, 2),
    Family("stepped", 4, stepped, 3),
)
