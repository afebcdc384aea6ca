"""The family of curves that `bayes` knows, and how likely each is before anything was measured.

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
kernel that takes over from another one, is left to `precice_lb.models.bayes_discrepancy`. The numbers are
those of `precice_lb.models.bayes_prior.Prior`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from precice_lb.models.bayes_prior import Prior
from precice_lb.models.bayes_sizes import ONE_SIZE, Sizes

__all__ = ["Shapes", "reference_ranks"]

Array = NDArray[np.float64]

# The reference is at least so many octaves above the fewest measured ranks.
OCTAVES = 4
# Where `Prior.falls` are.
FALL_Z = (-5.0, -3.0, -1.9, -1.04, -0.55, -0.15, 1.08, 1.9, 3.0, 5.0)
# Beyond this the prior's tails end.
LARGEST_Z = 5.0


def reference_ranks(ranks: Array) -> float:
    """Rank count to which the prior is relative, of measured ones."""
    return float(max(ranks.max(), ranks.min() * 2.0**OCTAVES))


class Shapes:
    """Members of the family without their scale W, for standard normal variables z (n, sizes.dimensions)."""

    def __init__(self, z: Array, reference: float, sizes: Sizes, prior: Prior) -> None:
        self.sizes, self.z, self.prior = sizes, z, prior
        z = np.clip(z, -LARGEST_Z, LARGEST_Z).T[:, :, None]
        heavy = z[1:3] * (1.0 + 0.15 * z[1:3] ** 2)
        self.log_reference = np.log(reference)
        self.fall = np.interp(z[0], FALL_Z, prior.falls)
        self.floor = np.exp(prior.floor + prior.floor_scale * heavy[0])
        # No solver is slower than on one rank from the first further one on, but one that does not scale at all.
        lowest = np.maximum(np.log(2.0) * (prior.lowest + prior.lowest_scale * heavy[1]), -self.log_reference)
        self.rise = np.maximum(prior.steepest * ndtr(z[3]), 1e-3)
        # Where the derivatives of fall and rise cancel out.
        self.growth = self.fall * np.exp(-lowest * (self.fall + self.rise)) / self.rise
        if len(z) > ONE_SIZE:
            self.floor_size, self.growth_size = ndtr(z[4]), ndtr(z[5])
            self.cache = prior.largest_cache * ndtr(z[7]) ** 3
            self.fits = prior.fits_scale * np.log(2.0) * z[8]
            self.surface = 1.0 / (1.0 + np.exp(np.log(10.0) * (prior.surface - prior.surface_scale * z[6])))

    def __call__(self, points: Array) -> Array:
        """Curves at points (m, 1 + k), in units of what falls at the reference, shape (n, m)."""
        x = np.log(points[:, 0]) - self.log_reference
        growth = np.exp(self.rise * x) - np.exp(-self.rise * self.log_reference)
        growth *= self.growth
        if not self.sizes:
            return np.asarray(np.exp(-self.fall * x) + self.floor + growth, dtype=np.float64)
        log_size = self.sizes(self.z, points)
        values = np.exp(-self.fall * (x - log_size))
        values += self.surface * (np.exp(-2.0 / 3.0 * self.fall * (x - log_size)) - values)
        values *= 1.0 + self.cache * ndtr((self.fits - x + log_size) / self.prior.cache_width)
        values += self.floor * np.exp(self.floor_size * log_size)
        values += growth * np.exp(self.growth_size * log_size)
        return np.asarray(values, dtype=np.float64)
