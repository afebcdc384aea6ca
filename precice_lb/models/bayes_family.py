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
- V: the size of the case in units of a reference, 1 where every measurement is of one case. The work of a rank depends
  on its part V/p alone; what does not fall (η) and what grows with p (ζ) grows with V not at all, as surfaces do, or at
  most as V. Sizes span many more octaves than ranks do, and there x^-α is
  ((1 - c) x^-α + c x^(-2α/3)) (1 + k Φ((ln q/x) / w)): volumes and surfaces of the parts apart, and parts too large for
  the cache, which cost up to a half more, mostly less.

Every member is positive and finite for all p ≥ 1. All parameters are functions of standard normal variables z, with
tails heavier than normal: no solver is impossible. What no member explains, such as caches, full nodes or one
kernel that takes over from another one, is left to `precice_lb.models.bayes_likelihood`. The numbers of `Prior` were
chosen by measured curves of other codes, random families and a published table (`benchmarks/README.md`, real curves).

The size is ln V = Σ γ_k t_k over the parameters, where t is a parameter's value or its logarithm: work grows with a
power of the number of unknowns, but exponentially with a refinement level. Which of the two is for the data to say; so
is γ, together with the curve over ranks, so that cheap runs on small meshes inform the large one (Totounferoush 2022,
section 3.4, scales a model by the ratio of mesh sizes and then corrects it by a few runs at the target).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri

from precice_lb.exceptions import ModelError

Array = NDArray[np.float64]

#: How many variables z a member has without sizes; with them so many, and one for each parameter.
ONE_SIZE, SIZES = 4, 9
# A parameter that varies by more than this factor is not a level.
LARGEST_LEVEL_RANGE = 20.0

# The reference is at least so many octaves above the fewest measured ranks.
OCTAVES = 4
# Where `Prior.falls` are.
FALL_Z = (-5.0, -3.0, -1.9, -1.04, -0.55, -0.15, 1.08, 1.9, 3.0, 5.0)
# Beyond this the prior's tails end.
LARGEST_Z = 5.0


@dataclass(frozen=True)
class Prior:
    """Constants of the prior; parameters of the family are functions of standard normal variables z."""

    # α over FALL_Z: a good half of all solvers share their work without loss, most others lose up to a fifth of each
    # doubling's gain; below and above are few.
    falls: tuple[float, ...] = (0.05, 0.5, 0.7, 0.8, 0.9, 0.97, 1.01, 1.05, 1.3, 1.9)
    # Mean and scale of log s, and of the octaves from the reference to the end of the fall.
    floor: float = -1.8
    floor_scale: float = 1.5
    lowest: float = 2.0
    lowest_scale: float = 3.0
    # The largest β.
    steepest: float = 0.9
    # Decades by which surfaces count less than volumes at the reference.
    surface: float = 1.3
    surface_scale: float = 0.75
    # What parts too large for the cache cost more at most, octaves around the reference where they begin to fit, and
    # the width of that.
    largest_cache: float = 0.5
    fits_scale: float = 2.5
    cache_width: float = 0.85
    # Median of the discrepancy's standard deviation, and the scale of its logarithm.
    discrepancy: float = 0.022
    discrepancy_scale: float = 1.8
    # Discrepancies are alike where ranks and sizes differ by less than these factors.
    ranks_alike: float = 4.0
    sizes_alike: float = 4.0
    # Beyond the largest measured rank count every curve goes its own way, which no measurement can tell: by so much per
    # octave at first and at most so many times as much, as standard deviations of its logarithm.
    beyond: float = 0.12
    farthest: float = 2.0


@lru_cache(maxsize=4)
def prior_sample(count: int, dimensions: int) -> Array:
    """Evenly distributed draws of z from its prior, shape (count, dimensions).

    An additive recurrence with powers of the root of x^(d+1) = x + 1, a low-discrepancy sequence.
    """
    root = 1.5
    for _ in range(40):
        root = (1.0 + root) ** (1.0 / (dimensions + 1))
    steps = root ** -np.arange(1.0, dimensions + 1)
    uniform = (0.5 + np.outer(np.arange(1, count + 1), steps)) % 1.0
    sample = np.asarray(ndtri(np.clip(uniform, 1e-9, 1 - 1e-9)), dtype=np.float64)
    sample.flags.writeable = False
    return sample


@dataclass(frozen=True, eq=False)
class Sizes:
    """ln V of points for given members; false where there is no parameter.

    Of each parameter, all of shape (k,): whether t is its logarithm, t where V = 1, the unit of t - reference, and the
    normal prior of γ in that unit.
    """

    logarithmic: NDArray[np.bool_]
    reference: Array
    width: Array
    centre: Array
    scale: Array

    @classmethod
    def of(cls, points: Array, seconds: Array, logarithmic: ArrayLike) -> Sizes:
        """Find the prior of γ from a plane through the logarithms of the times; it is kept wide."""
        chosen = np.asarray(logarithmic, dtype=np.bool_)
        t = _taken(points, chosen)
        reference, width = t.max(axis=0), np.ptp(t, axis=0)
        width = np.where(width > 0, width, 1.0)
        plane = np.column_stack([np.ones(len(t)), np.log(points[:, 0]), (t - reference) / width])
        centre = np.linalg.lstsq(plane, np.log(seconds), rcond=None)[0][2:]
        # What does not grow with the size flattens the plane, by up to half where small cases hardly scale.
        return cls(chosen, reference, width, centre, 0.5 + 0.5 * np.abs(centre))

    def __len__(self) -> int:
        return len(self.centre)

    @property
    def dimensions(self) -> int:
        """How many variables z a member has."""
        return SIZES + len(self) if self else ONE_SIZE

    @property
    def parameters(self) -> Array:
        """Values of the parameters where V = 1, shape (k,)."""
        return np.where(self.logarithmic, np.exp(np.where(self.logarithmic, self.reference, 0.0)), self.reference)

    def __call__(self, z: Array, points: Array) -> Array:
        """Give ln V, shape (n, m), of members z, shape (n, dimensions), at points, shape (m, 1 + k)."""
        growth = self.centre + self.scale * z[:, SIZES:]
        return np.asarray(growth @ self.steps(points).T, dtype=np.float64)

    def steps(self, points: Array) -> Array:
        """Give t - reference of each parameter in units of its width, shape (m, k), at points, shape (m, 1 + k)."""
        bad = self.logarithmic & (points[:, 1:] <= 0).any(axis=0)
        if bad.any():
            column = int(np.argmax(bad)) + 1
            raise ModelError(f"expected positive values in column {column + 1} of X, found {points[:, column].min():g}")
        return (_taken(points, self.logarithmic) - self.reference) / self.width


def _taken(points: Array, logarithmic: NDArray[np.bool_]) -> Array:
    """Parameters or their logarithms."""
    values = points[:, 1:]
    return np.where(logarithmic, np.log(np.where(logarithmic, values, 1.0)), values)


def size_choices(points: Array) -> tuple[list[bool], list[int]]:
    """Tell of which parameters the logarithm counts at first, and where the data may decide for the parameter itself.

    Two values of a parameter do not tell; a power law is assumed. So it is where values vary by a large factor.
    """
    columns = points[:, 1:].T
    logarithmic = [bool((column > 0).all()) for column in columns]
    undecided = [
        at
        for at, column in enumerate(columns)
        if logarithmic[at] and len(np.unique(column)) >= 3 and column.max() <= LARGEST_LEVEL_RANGE * column.min()
    ]
    return logarithmic, undecided


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
