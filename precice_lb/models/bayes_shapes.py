"""The family of curves that `bayes` believes in, and how likely each is before anything was measured.

A member is f(p) = W [x^-α + s V^η + g V^ζ (p^β - 1) / β], with x = p / (R V) and

- R: the reference, the largest measured number of ranks. No other number of ranks means anything to the prior but 1, at
  which nothing has grown: a curve measured at a hundred times as many ranks is drawn from the same family. Whoever
  measured over fewer than `OCTAVES` octaves is taken to have begun at the low end of so many;
- x^-α: a run time falls as 1/p, somewhat less (surfaces beside volumes, uneven parts) or faster (caches);
- s: what does not fall, as in Amdahl's law, relative to what falls at the reference;
- g: what grows with p, from the logarithm of tree-like collectives (β = 0) on. It is stated by the rank count at which
  it stops the fall, relative to the reference, which is what can be said about an unknown solver: people measure
  solvers where they scale;
- V: the size of the case in units of a reference, 1 where every measurement is of one case (see
  `precice_lb.models.bayes_sizes`). The work of a rank depends on its part V/p alone; what does not fall (η) and what
  grows with p (ζ) grows with V not at all, as surfaces do, or at most as V. Sizes span many more octaves than ranks
  do, and there x^-α is ((1 - c) x^-α + c x^(-2α/3)) (1 + k Φ((ln q/x) / w)): volumes and surfaces of the parts apart,
  and parts too large for the cache, which cost up to a half more, mostly less.

Every member is positive and finite for all p ≥ 1. All parameters are functions of standard normal variables z, with
tails heavier than normal: no solver is impossible. What no member explains, such as caches, full nodes or one
kernel that takes over from another one, is left to `precice_lb.models.bayes_discrepancy`. The constants were chosen
by measured curves of other codes, random families and a published table (`benchmarks/README.md`, real curves).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

__all__ = ["ONE_SIZE", "SIZES", "Shapes", "prior_sample", "reference_ranks"]

Array = NDArray[np.float64]

#: How many variables z a member has without and with sizes.
ONE_SIZE, SIZES = 4, 9
# The reference is at least so many octaves above the fewest measured ranks.
OCTAVES = 4
# α over z: a good half of all solvers share their work without loss, most others lose up to a fifth of each doubling's
# gain; below and above are few.
FALL_Z = (-5.0, -3.0, -1.9, -1.04, -0.55, -0.15, 1.08, 1.9, 3.0, 5.0)
FALLS = (0.05, 0.5, 0.7, 0.8, 0.9, 0.97, 1.01, 1.05, 1.3, 1.9)
# Mean and spread of log s and of the octaves from the reference to the end of the fall.
FLOOR, FLOOR_SPREAD = -1.8, 1.5
LOWEST, LOWEST_SPREAD = 2.0, 3.0
# The largest β.
STEEPEST = 0.9
# Decades by which surfaces count less than volumes at the reference, and their spread.
SURFACE, SURFACE_SPREAD = 1.3, 0.75
# What parts too large for the cache cost more at most, octaves around the reference where they begin to fit, and the
# width of that.
LARGEST_CACHE, FITS_SPREAD, CACHE_WIDTH = 0.5, 2.5, 0.85
# Beyond this the prior's tails end.
LARGEST_Z = 5.0


def reference_ranks(ranks: Array) -> float:
    """Rank count to which the prior is relative, of measured ones."""
    return float(max(ranks.max(), ranks.min() * 2.0**OCTAVES))


class Shapes:
    """Members of the family without their scale W.

    Parameters
    ----------
    z : array of shape (n, 4) or (n, 9 or more)
        Standard normal variables.
    reference : float
        As of `reference_ranks`.
    """

    def __init__(self, z: Array, reference: float) -> None:
        z = np.clip(z, -LARGEST_Z, LARGEST_Z).T[:, :, None]
        heavy = z[1:3] * (1.0 + 0.15 * z[1:3] ** 2)
        self.log_reference = np.log(reference)
        self.fall = np.interp(z[0], FALL_Z, FALLS)
        self.floor = np.exp(FLOOR + FLOOR_SPREAD * heavy[0])
        # No solver is slower than on one rank from the first further one on, but one that does not scale at all.
        lowest = np.maximum(np.log(2.0) * (LOWEST + LOWEST_SPREAD * heavy[1]), -self.log_reference)
        self.rise = np.maximum(STEEPEST * ndtr(z[3]), 1e-3)
        # Where the derivatives of fall and rise cancel out.
        self.growth = self.fall * np.exp(-lowest * (self.fall + self.rise)) / self.rise
        if len(z) > ONE_SIZE:
            self.floor_size, self.growth_size = ndtr(z[4]), ndtr(z[5])
            self.cache = LARGEST_CACHE * ndtr(z[7]) ** 3
            self.fits = FITS_SPREAD * np.log(2.0) * z[8]
            self.surface = 1.0 / (1.0 + np.exp(np.log(10.0) * (SURFACE - SURFACE_SPREAD * z[6])))

    def __call__(self, ranks: Array, log_size: Array | None = None) -> Array:
        """Curves in units of what falls at the reference.

        Parameters
        ----------
        ranks : array of shape (m,)
            Rank counts.
        log_size : array of shape (n, m), optional
            ln V of each member and row.

        Returns
        -------
        array of shape (n, m)
        """
        x = np.log(ranks) - self.log_reference
        growth = np.exp(self.rise * x) - np.exp(-self.rise * self.log_reference)
        growth *= self.growth
        if log_size is None:
            return np.asarray(np.exp(-self.fall * x) + self.floor + growth, dtype=np.float64)
        values = np.exp(-self.fall * (x - log_size))
        values += self.surface * (np.exp(-2.0 / 3.0 * self.fall * (x - log_size)) - values)
        values *= 1.0 + self.cache * ndtr((self.fits - x + log_size) / CACHE_WIDTH)
        values += self.floor * np.exp(self.floor_size * log_size)
        values += growth * np.exp(self.growth_size * log_size)
        return np.asarray(values, dtype=np.float64)


@lru_cache(maxsize=4)
def prior_sample(count: int, dimensions: int) -> Array:
    """Evenly spread draws of z from its prior, shape (count, dimensions).

    An additive recurrence with powers of the root of x^(d+1) = x + 1, a low-discrepancy sequence.
    """
    root = 1.5
    for _ in range(40):
        root = (1.0 + root) ** (1.0 / (dimensions + 1))
    steps = root ** -np.arange(1.0, dimensions + 1)
    uniform = (0.5 + np.outer(np.arange(1, count + 1), steps)) % 1.0
    prior = np.asarray(ndtri(np.clip(uniform, 1e-9, 1 - 1e-9)), dtype=np.float64)
    prior.flags.writeable = False
    return prior
