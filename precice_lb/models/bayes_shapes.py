"""The family of curves that `bayes` believes in, and how likely each is before anything was measured.

A member is f(p) = W [(1 - s) (p/V)^-α G(p) C(p) + s V^η + g V^ζ r(p)] with

- (p/V)^-α: a run time falls as 1/p or somewhat less, where surfaces count beside volumes (1/p and p^-2/3 in sum are
  p^-α with α between for a few octaves) or parts get uneven;
- s: the share of the work that does not fall, as in Amdahl's law;
- G(p) = ceil(E/p) / (E/p): work comes in E pieces, and the rank with one more is waited for;
- C(p) = 1 + k Φ(log2(q/p) / w): up to q ranks, give or take an octave, a rank's part does not fit into its cache, which
  costs up to a half more, mostly less;
- r(p) = (p^β - 1)/β: what grows with p, from the logarithm of tree-like collectives (β = 0) to all-to-all exchange
  (β = 1). Its coefficient g is stated by the rank count at which it stops the fall, which is what can be said about an
  unknown solver: people run solvers at rank counts at which they scale;
- with sizes, which span many more octaves than ranks do, (p/V)^-α is (1 - c) (p/V)^-α + c (p/V)^(-2α/3): volumes and
  surfaces of the parts apart;
- V: the size of the case in units of a reference, 1 where every measurement is of one case (see
  `precice_lb.models.bayes_sizes`). The work of a rank, its pieces and what has to fit into its cache depend on its part
  V/p alone; what does not fall (η) and what grows with p (ζ) grows with V not at all, as surfaces do, or at most as V.

Every member is positive and finite for all p ≥ 1. All parameters are functions of standard normal variables z, with
tails somewhat heavier than normal: no solver is impossible.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

__all__ = ["ONE_SIZE", "SIZES", "Shapes", "prior_bank"]

Array = NDArray[np.float64]

#: How many variables z a member has without and with sizes.
ONE_SIZE, SIZES = 7, 10
# α over z: a good half of all solvers share their work without loss (0.95 to 1.05), most others lose up to a fifth of
# each doubling's gain (0.7 to 0.95); below and above only few.
FALL_Z = (-5.0, -3.0, -1.9, -1.04, -0.55, -0.15, 1.08, 1.9, 3.0, 5.0)
FALLS = (0.05, 0.5, 0.7, 0.8, 0.9, 0.97, 1.01, 1.05, 1.3, 1.9)
# Width of a cache step in octaves.
CACHE_WIDTH = 1.25
# Beyond this the prior's tails end.
LARGEST_Z = 5.0


class Shapes:
    """Members of the family without their scale W.

    Parameters
    ----------
    z : array of shape (n, 7) or (n, 10)
        Standard normal variables.
    """

    def __init__(self, z: Array) -> None:
        z = np.clip(z, -LARGEST_Z, LARGEST_Z).T[:, :, None]
        heavy = z[:3] * (1.0 + 0.05 * z[:3] ** 2)
        self.fall = np.interp(z[0], FALL_Z, FALLS)
        self.serial = 1.0 / (1.0 + np.exp(np.log(10.0) * (3.0 - 0.65 * heavy[1])))
        lowest = 9.0 + 1.8 * heavy[2]
        self.rise = np.maximum(ndtr(z[3]), 1e-3)
        self.pieces = 2.0 ** (16.0 + 2.5 * z[4])
        self.cache = 0.5 * ndtr(z[5]) ** 3
        self.fits = 6.0 + 1.7 * z[6]
        growth = self.fall * np.exp(-np.log(2.0) * lowest * (self.fall + self.rise))
        self.growth = (1.0 - self.serial) * growth / self.rise
        if len(z) > ONE_SIZE:
            self.serial_size, self.growth_size = ndtr(z[7]), ndtr(z[8])
            self.surface = 1.0 / (1.0 + np.exp(np.log(10.0) * (2.0 - 0.75 * z[9])))

    def __call__(self, ranks: Array, log_size: Array | None = None) -> Array:
        """Curves in units of the reference's work on one rank.

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
        logarithm = np.log(ranks)
        log_share = logarithm if log_size is None else logarithm - log_size
        each = self.pieces * np.exp(-log_share)
        values = np.exp(-self.fall * log_share)
        if log_size is not None:
            values += self.surface * (np.exp(-2.0 / 3.0 * self.fall * log_share) - values)
        values *= np.ceil(each) / each
        values *= 1.0 + self.cache * ndtr((self.fits - log_share / np.log(2.0)) / CACHE_WIDTH)
        values *= 1.0 - self.serial
        growth = self.growth * np.expm1(self.rise * logarithm)
        if log_size is None:
            values += self.serial
            values += growth
        else:
            values += self.serial * np.exp(self.serial_size * log_size)
            values += growth * np.exp(self.growth_size * log_size)
        return np.asarray(values, dtype=np.float64)


@lru_cache(maxsize=4)
def prior_bank(count: int, dimensions: int) -> Array:
    """Evenly spread draws of z from its prior, shape (count, dimensions).

    An additive recurrence with powers of the root of x^(d+1) = x + 1, a low-discrepancy sequence.
    """
    root = 1.5
    for _ in range(40):
        root = (1.0 + root) ** (1.0 / (dimensions + 1))
    steps = root ** -np.arange(1.0, dimensions + 1)
    uniform = (0.5 + np.outer(np.arange(1, count + 1), steps)) % 1.0
    bank = np.asarray(ndtri(np.clip(uniform, 1e-9, 1 - 1e-9)), dtype=np.float64)
    bank.flags.writeable = False
    return bank
