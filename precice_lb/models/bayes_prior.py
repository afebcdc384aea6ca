"""What `bayes` takes for likely before anything was measured, as numbers.

They were chosen by measured curves of other codes, random families and a published table (`benchmarks/README.md`, real
curves).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

__all__ = ["Prior", "prior_sample"]

Array = NDArray[np.float64]


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
