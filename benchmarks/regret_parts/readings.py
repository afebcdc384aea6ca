"""Pairs of random solvers and their noisy readings, from stated seeds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regret_parts.families import Family, Solver

__all__ = ["DESIGNS", "Pair", "draw_pair", "read"]

Array = NDArray[np.float64]

#: Rank counts that are measured, by how many.
DESIGNS: dict[int, tuple[int, ...]] = {
    3: (8, 32, 128),
    5: (8, 16, 32, 64, 128),
    7: (8, 12, 20, 32, 50, 80, 128),
}


@dataclass(frozen=True)
class Pair:
    """Two coupled solvers, what is known of their sizes, and the common random numbers of their readings.

    Attributes
    ----------
    solvers
        The truth.
    unknowns
        Degrees of freedom of each, W e^(N/2): the work up to what a mesh does not tell.
    normal
        By number of points: standard normal deviates, shape (2, points), the same for every level of noise.
    uniform
        Likewise uniform ones, for stragglers.
    """

    solvers: tuple[Solver, Solver]
    unknowns: tuple[float, float]
    normal: dict[int, Array]
    uniform: dict[int, Array]


def draw_pair(family: Family, seed: int, index: int) -> Pair:
    """Draw a pair of one family: W1 = 10^U(2, 3), W2 = W1 8^U(-1, 1)."""
    rng = np.random.default_rng([seed, family.number, index])
    first = 10 ** rng.uniform(2, 3)
    works = (first, first * 8 ** rng.uniform(-1, 1))
    unknowns = (works[0] * np.exp(rng.standard_normal() / 2), works[1] * np.exp(rng.standard_normal() / 2))
    solvers = [Solver(family, rng.random(family.dimensions), work) for work in works]
    normal = {points: rng.standard_normal((2, points)) for points in DESIGNS}
    uniform = {points: rng.random((2, points)) for points in DESIGNS}
    return Pair((solvers[0], solvers[1]), unknowns, normal, uniform)


def read(pair: Pair, points: int, noise: float) -> tuple[Array, Array]:
    """Read both solvers once at each rank count of the design.

    Parameters
    ----------
    pair
        The pair.
    points
        Out of `DESIGNS`.
    noise
        Standard deviation relative to the time, of a normal distribution. Of a family with stragglers, it is
        lognormal, and with their probability a reading is delayed by 10 to 50 %.

    Returns
    -------
    ranks, shape (points,); seconds, shape (2, points)
    """
    ranks = np.array(DESIGNS[points], dtype=np.float64)
    truth = np.array([solver(ranks) for solver in pair.solvers])
    stragglers = pair.solvers[0].family.stragglers
    if not stragglers:
        return ranks, truth * (1 + noise * pair.normal[points])
    late = pair.uniform[points] < stragglers
    delay = np.where(late, 0.1 + 0.4 * pair.uniform[points] / stragglers, 0.0)
    return ranks, truth * np.exp(noise * pair.normal[points]) * (1 + delay)
