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

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from precice_lb.models.bayes_likelihood import LARGEST_NOISE, LEAST_NOISE, discrepancy_levels, draw_cells, log_sum
from precice_lb.models.bayes_shapes import prior_sample
from precice_lb.models.bayes_sizes import Sizes

__all__ = ["Discrepancy", "SmoothLikelihood", "fourier_features", "spectrum"]

Array = NDArray[np.float64]

# Random frequencies, each with a cosine and a sine.
FREQUENCIES = 32
# Discrepancy are alike where ranks and sizes differ by less than these factors.
RANKS_ALIKE, SIZES_ALIKE = 4.0, 4.0
# Degrees of freedom of the spectrum, 2 ν.
FREEDOM = 3
NOISE_LEVELS = 24
# Of directions that are so much less visible in the measurements than the best, they tell nothing.
NEGLIGIBLE = 1e-3
# Beyond the largest measured rank count every curve goes its own way, which no measurement can tell: by so much per
# octave at first and at most so many times as much, as standard deviations of its logarithm.
BEYOND, FARTHEST = 0.12, 2.0


def spectrum(sizes: Sizes) -> Array:
    """Frequencies of the features over ln p and the parameters' steps, shape (FREQUENCIES, 1 + k)."""
    growth = np.maximum(np.abs(sizes.centre), np.log(2.0))
    drawn = prior_sample(FREQUENCIES, 1 + len(growth) + FREEDOM)
    # Student's t: the spectrum of the Matérn covariance.
    drawn = drawn[:, :-FREEDOM] / np.sqrt(np.mean(drawn[:, -FREEDOM:] ** 2, axis=1, keepdims=True))
    return np.asarray(drawn * np.append(1.0 / np.log(RANKS_ALIKE), growth / np.log(SIZES_ALIKE)), dtype=np.float64)


def fourier_features(frequencies: Array, ranks: Array, steps: Array) -> Array:
    """Give random Fourier features, mean square 1 in sum, at ranks (m,) and steps (m, k); shape (m, 2 FREQUENCIES)."""
    phase = np.column_stack([np.log(ranks), steps]) @ frequencies.T
    return np.asarray(np.hstack([np.cos(phase), np.sin(phase)]) / np.sqrt(len(frequencies)), dtype=np.float64)


class Discrepancy:
    """Drawn discrepancies.

    Parameters
    ----------
    frequencies : array of shape (FREQUENCIES, 1 + k)
        As of `spectrum`.
    weights : array of shape (n, 2 FREQUENCIES)
        Of the features of each.
    bends : array of shape (n,)
        Standard normal: how far each bends up beyond the measurements.
    last : float
        Largest measured rank count.
    """

    def __init__(self, frequencies: ArrayLike, weights: ArrayLike, bends: ArrayLike, last: float) -> None:
        self.frequencies = np.asarray(frequencies, dtype=np.float64)
        self.weights = np.asarray(weights, dtype=np.float64)
        self.bends = np.asarray(bends, dtype=np.float64)
        self.last = last

    def __call__(self, ranks: Array, steps: Array) -> Array:
        """Factors on the seconds at ranks, shape (m,), and steps of the parameters, shape (m, k); shape (n, m)."""
        logs = self.weights @ fourier_features(self.frequencies, ranks, steps).T
        octaves = np.log2(np.maximum(ranks / self.last, 1.0))
        logs += BEYOND * FARTHEST * self.bends[:, None] * -np.expm1(-octaves / FARTHEST)
        return np.asarray(np.exp(logs), dtype=np.float64)

    def __getitem__(self, chosen: Any) -> Discrepancy:
        return Discrepancy(self.frequencies, self.weights[chosen], self.bends[chosen], self.last)

    def to_dict(self) -> dict[str, Any]:
        """Give plain JSON types, the arguments of the constructor."""
        arrays = {name: getattr(self, name).tolist() for name in ("frequencies", "weights", "bends")}
        return {**arrays, "last": self.last}


class SmoothLikelihood:
    """Marginal likelihood of shapes beside a discrepancy.

    Like `precice_lb.models.bayes_likelihood.Likelihood` a sum over cells, here levels of noise and of the discrepancy.
    The covariance σ² 1 + τ² Φ Φᵀ of the measurements, with the features Φ, has the same eigenvectors for all of them,
    in whose directions a cell is a product again.

    Parameters
    ----------
    seconds : array of shape (m,)
        Measured.
    spread : array of shape (m,)
        Standard errors in seconds, 0 where unknown. They count relative to the prior's noise: a measurement with such
        an error beside that noise counts less than others in the same proportion at every level of noise.
    noise, noise_spread : float
        Median and spread of the logarithm of the prior of σ.
    features : array of shape (m, J)
        Features at the measurements.
    """

    def __init__(self, seconds: Array, spread: Array, noise: float, noise_spread: float, features: Array) -> None:
        self.log_seconds = np.log(seconds)
        self.weight = 1.0 / np.sqrt(1.0 + (spread / seconds / noise) ** 2)
        left, singular, right = np.linalg.svd(self.weight[:, None] * features, full_matrices=False)
        seen = singular > NEGLIGIBLE * singular[0]
        self.left, self.singular, self.right = left[:, seen], singular[seen], right[seen]
        levels = np.linspace(np.log(LEAST_NOISE), np.log(LARGEST_NOISE), NOISE_LEVELS)
        sizes, size_prior = discrepancy_levels()
        log_noise, self.size = (grid.ravel() for grid in np.meshgrid(levels, sizes))
        prior = np.repeat(size_prior, len(levels)) - 0.5 * ((log_noise - np.log(noise)) / noise_spread) ** 2
        self.noise = np.exp(log_noise)
        # All directions without a discrepancy come last, as one.
        variance = self.noise**2 + np.vstack([(self.size * self.singular[:, None]) ** 2, np.zeros(len(self.size))])
        count = np.append(np.ones(len(self.singular)), len(seconds) - len(self.singular))
        #: The scale's share in each direction.
        self.along = self.weight @ self.left
        rest = max(float(self.weight @ self.weight - self.along @ self.along), 0.0)
        self.precision = 1.0 / variance
        self.total = np.append(self.along**2, rest) @ self.precision
        self.constant = prior - 0.5 * count @ np.log(variance) - 0.5 * np.log(self.total)

    def __call__(self, shapes: Array) -> Array:
        """Logarithm of the marginal likelihood of shapes, shape (n, m) in any unit; shape (n,)."""
        return log_sum(self._cells(shapes)[0])

    def draw(self, shapes: Array, rng: np.random.Generator) -> tuple[Array, Array, Array]:
        """Draw ln W, σ and the weights of the features of each shape from what the measurements leave.

        Returns
        -------
        log_scale, noise : arrays of shape (n,)
        weights : array of shape (n, J)
        """
        cells, means, inside = self._cells(shapes)
        chosen = draw_cells(cells, rng)
        n = len(chosen)
        scale = means[np.arange(n), chosen] + rng.standard_normal(n) / np.sqrt(self.total[chosen])
        noise, size = self.noise[chosen], self.size[chosen, None]
        variance = noise[:, None] ** 2 + (size * self.singular) ** 2
        # In each direction the discrepancy is the part of what is left that it has in the variance.
        known = size**2 * self.singular / variance * (inside - scale[:, None] * self.along)
        known += size * noise[:, None] / np.sqrt(variance) * rng.standard_normal(known.shape)
        free = size * rng.standard_normal((n, self.right.shape[1]))
        return scale, noise, free + (known - free @ self.right.T) @ self.right

    def _cells(self, shapes: Array) -> tuple[Array, Array, Array]:
        """Log likelihood and mean of ln W, shape (n, cells) each; the measurements in the directions, shape (n, r)."""
        gap = self.weight * (self.log_seconds - np.log(shapes))
        centre = (gap @ self.weight / (self.weight @ self.weight))[:, None]
        gap -= centre * self.weight
        inside = gap @ self.left
        squares = inside * inside
        outside = gap @ self.weight - inside @ self.along
        outside_squares = np.maximum((gap * gap).sum(axis=1) - squares.sum(axis=1), 0.0)
        first = np.column_stack([inside * self.along, outside]) @ self.precision
        means = first / self.total
        cells = self.constant - 0.5 * (np.column_stack([squares, outside_squares]) @ self.precision - first * means)
        return cells, means + centre, inside + centre * self.along
