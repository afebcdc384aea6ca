"""What no member of the family explains: discrepancies of the run times from every curve, alike for like cases.

With many measurements over ranks and sizes of a case, every parameter of a curve is known to a fraction of a percent,
if solvers are what the family says. They are not quite, and an interval that forgets this is far too narrow where
nothing was measured. So the logarithm of a time is a member's, plus a discrepancy (Kennedy and O'Hagan 2001), plus
noise. The discrepancy is a Gaussian process with a Matérn covariance (ν = 3/2: smooth, but not so smooth that it could
be continued far beyond the measurements), written as a sum of random Fourier features, whose frequencies are drawn from
its spectrum (Rahimi and Recht 2007), so that a drawn discrepancy is a function that can be told anywhere. Its standard
deviation is integrated over on a grid like the noise's: the measurements tell how far the family is wrong.
Beyond the largest measured number of ranks, where real codes break down or go on better than their measurements say,
each drawn curve bends up or down.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.models.bayes_prior import Prior, prior_sample
from precice_lb.models.bayes_sizes import Sizes

__all__ = ["Discrepancy", "bend", "fourier_features", "spectrum"]

Array = NDArray[np.float64]

# Random frequencies, each with a cosine and a sine.
FREQUENCIES = 32
# Degrees of freedom of the spectrum, 2 ν.
FREEDOM = 3


def spectrum(sizes: Sizes, prior: Prior) -> Array:
    """Frequencies over ln p and the parameters' steps, shape (FREQUENCIES, 1 + k)."""
    growth = np.maximum(np.abs(sizes.centre), np.log(2.0))
    drawn = prior_sample(FREQUENCIES, 1 + len(growth) + FREEDOM)
    # Student's t: the spectrum of the Matérn covariance.
    drawn = drawn[:, :-FREEDOM] / np.sqrt(np.mean(drawn[:, -FREEDOM:] ** 2, axis=1, keepdims=True))
    rates = np.append(1.0 / np.log(prior.ranks_alike), growth / np.log(prior.sizes_alike))
    return np.asarray(drawn * rates, dtype=np.float64)


def fourier_features(frequencies: Array, points: Array, sizes: Sizes) -> Array:
    """Give random Fourier features at points (m, 1 + k), mean square 1 in sum, shape (m, 2 FREQUENCIES)."""
    phase = np.column_stack([np.log(points[:, 0]), sizes.steps(points)]) @ frequencies.T
    return np.asarray(np.hstack([np.cos(phase), np.sin(phase)]) / np.sqrt(len(frequencies)), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Discrepancy:
    """Drawn discrepancies, as logarithms: frequencies as of `spectrum`, and weights (n, 2 FREQUENCIES)."""

    frequencies: Array
    weights: Array

    def __call__(self, points: Array, sizes: Sizes, chosen: Any = slice(None)) -> Array:
        """Logarithms at points (m, 1 + k) of all or of some, shape (n, m)."""
        features = fourier_features(self.frequencies, points, sizes)
        return np.asarray(self.weights[chosen] @ features.T, dtype=np.float64)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Discrepancy:
        """Read what was stored."""
        return cls(*(np.asarray(data[name], dtype=np.float64) for name in ("frequencies", "weights")))


def bend(bends: Array, octaves: Array, prior: Prior) -> Array:
    """Logarithms by which curves with standard normal bends (n,) bend so many octaves (m,) beyond the measurements."""
    far = prior.beyond * prior.farthest * bends[:, None] * -np.expm1(-octaves / prior.farthest)
    return np.asarray(far, dtype=np.float64)
