"""How well shapes explain measurements when neither their scale, the noise nor what shapes leave out is known.

In logarithms a measurement is ln y = ln W + ln h(p) + d(p) + σ ε, with a discrepancy d. The scale W is integrated over
with a flat prior of ln W, the discrepancy exactly, its size τ and the noise σ on a grid, so that only the shape is left
to sample. Any one of a few measurements may be a straggler, delayed by something else, and then counts for little.

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

import itertools
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.models.bayes_family import Prior, Sizes, prior_sample

Array = NDArray[np.float64]
# Prior median of the relative noise, and the prior's standard deviation of its logarithm.
Noise = tuple[float, float]

# Random frequencies, each with a cosine and a sine.
FREQUENCIES = 32
# Degrees of freedom of the spectrum, 2 ν.
FREEDOM = 3

#: Noise relative to the time: from a quiet machine's to that of a busy one.
LEAST_NOISE, LARGEST_NOISE = 0.003, 0.15
# Levels of noise in between; with many measurements the noise is well known and needs a fine grid.
FEW, LEVELS, LEVELS_OF_MANY = 40, 7, 24
# A straggler differs by this many times the noise, and at least so much.
STRAGGLER_FACTOR, STRAGGLER_LEAST = 4.0, 0.15
# Least and largest of the discrepancy's standard deviation, and how many of them are looked at.
DISCREPANCIES = 0.01, 0.5, 4
# Of directions that are so much less visible in the measurements than the best, they tell nothing.
NEGLIGIBLE = 1e-3


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


def bend(bends: Array, octaves: Array, prior: Prior) -> Array:
    """Logarithms by which curves with standard normal bends (n,) bend so many octaves (m,) beyond the measurements."""
    far = prior.beyond * prior.farthest * bends[:, None] * -np.expm1(-octaves / prior.farthest)
    return np.asarray(far, dtype=np.float64)


def levels_between(least: float, largest: float, count: int, median: float, scale: float) -> tuple[Array, Array]:
    """Levels of noise or of the discrepancy, and the logarithms of their prior weights, which are log-normal."""
    logs = np.linspace(np.log(least), np.log(largest), count)
    return np.exp(logs), -0.5 * ((logs - np.log(median)) / scale) ** 2


def discrepancy_levels(prior: Prior) -> tuple[Array, Array]:
    """Sizes of discrepancies, and the logarithms of their prior weights."""
    return levels_between(*DISCREPANCIES, prior.discrepancy, prior.discrepancy_scale)


class Likelihood(ABC):
    """Marginal likelihood of shapes: a sum over cells, among others levels of noise and of the discrepancy."""

    @abstractmethod
    def cells(self, shapes: Array) -> Array:
        """Log likelihood of shapes at the points, shape (n, points) in any unit, in every cell, shape (n, cells)."""

    @abstractmethod
    def draw(self, shapes: Array, rng: np.random.Generator) -> tuple[Array, Array, Array]:
        """Draw ln W (n,), σ (n,) and the features' weights (n, J) of each shape from what the measurements leave."""

    def __call__(self, shapes: Array) -> Array:
        """Logarithm of the marginal likelihood of shapes, shape (n,)."""
        cells = self.cells(shapes)
        highest = cells.max(axis=1, keepdims=True)
        cells -= highest
        np.exp(cells, out=cells)
        return np.asarray(highest[:, 0] + np.log(cells.sum(axis=1)), dtype=np.float64)


class RankLikelihood(Likelihood):
    """Likelihood of shapes over ranks, at the k different numbers of them, of which ``features`` (k, J) are.

    Cells are told apart by stragglers too: none, or, for 3 to 40 measurements, every one of them. In a cell
    measurements at the same number of ranks come down to their weighted mean. Standard errors in seconds, 0 where
    unknown, add to the noise between runs.
    """

    def __init__(
        self, ranks: Array, seconds: Array, errors: Array, noise: Noise, straggler: float, features: Array, prior: Prior
    ) -> None:
        points, at = np.unique(ranks, return_inverse=True)
        m, self.features = len(seconds), features
        count = LEVELS if m <= FEW else LEVELS_OF_MANY
        levels, level_prior = levels_between(LEAST_NOISE, LARGEST_NOISE, count, *noise)
        known = (errors / seconds) ** 2
        # Noise, variance of each measurement and prior of every way in which they may err.
        ways = [(level, level**2 + known, weight) for level, weight in zip(levels, level_prior, strict=True)]
        if straggler and 2 < m <= FEW:
            # For stragglers every second level is fine enough.
            for (level, variance, weight), late in itertools.product(ways[::2], range(m)):
                delayed = variance + max(STRAGGLER_FACTOR * level, STRAGGLER_LEAST) ** 2 * (np.arange(m) == late)
                ways.append((level, delayed, weight + np.log(2 * straggler)))
        sizes, size_prior = discrepancy_levels(prior)
        variance = np.array([each[1] for each in ways])
        precision = 1.0 / variance
        groups = np.zeros((m, len(points)))
        groups[np.arange(m), at] = 1.0
        log_seconds = np.log(seconds)
        self.centre = float(log_seconds.mean())
        total = precision @ groups
        mean = (precision * (log_seconds - self.centre)) @ groups / total
        within = precision * (log_seconds - self.centre - mean @ groups.T) ** 2
        log_weight = np.array([each[2] for each in ways]) - 0.5 * (within + np.log(variance)).sum(axis=1)
        log_weight -= 0.5 * np.log(total).sum(axis=1)
        # Every way with every size of the discrepancy.
        way, size = (grid.ravel() for grid in np.meshgrid(np.arange(len(ways)), np.arange(len(sizes)), indexing="ij"))
        self.noise, self.size = np.array([each[0] for each in ways])[way], sizes[size]
        self.variance, self.mean = 1.0 / total[way], mean[way]
        covariance = self.size[:, None, None] ** 2 * (features @ features.T)
        covariance[:, np.arange(len(points)), np.arange(len(points))] += self.variance
        self.precision = np.linalg.inv(covariance)
        self.along = self.precision.sum(axis=1)
        self.total = self.along.sum(axis=1)
        # What is left of the precision where the scale is free, and the squares of what shapes miss multiplied out.
        free = self.precision - self.along[:, :, None] * self.along[:, None, :] / self.total[:, None, None]
        linear = np.einsum("cij,cj->ci", free, self.mean)
        self.quadratic, self.linear = -0.5 * free.reshape(len(free), -1).T, linear.T.copy()
        self.constant = log_weight[way] + size_prior[size] - 0.5 * np.linalg.slogdet(covariance)[1]
        self.constant -= 0.5 * (np.log(self.total) + (linear * self.mean).sum(axis=1))

    def cells(self, shapes: Array) -> Array:
        """Log likelihood of shapes in every cell."""
        logs = np.log(shapes)
        logs -= logs.mean(axis=1, keepdims=True)
        squares = (logs[:, :, None] * logs[:, None, :]).reshape(len(logs), -1)
        return np.asarray(squares @ self.quadratic + logs @ self.linear + self.constant, dtype=np.float64)

    def draw(self, shapes: Array, rng: np.random.Generator) -> tuple[Array, Array, Array]:
        """Draw scale, noise and weights."""
        logs = np.log(shapes)
        chosen = _draw_cells(self.cells(shapes), rng)
        n, total, size = len(chosen), self.total[chosen], self.size[chosen, None]
        gap = self.mean[chosen] - logs
        scale = (gap * self.along[chosen]).sum(axis=1) / total + rng.standard_normal(n) / np.sqrt(total)
        # A draw of the prior, moved by what the measurements say beside it (Matheron's rule).
        free = rng.standard_normal((n, self.features.shape[1]))
        missed = gap - scale[:, None] - size * (free @ self.features.T)
        missed -= np.sqrt(self.variance[chosen]) * rng.standard_normal(gap.shape)
        moved = np.einsum("nij,nj->ni", self.precision[chosen], missed) @ self.features
        return scale + self.centre, self.noise[chosen], size * (free + size * moved)


class SizeLikelihood(Likelihood):
    """Likelihood of shapes over ranks and sizes, at the m measurements, of which ``features`` (m, J) are.

    The covariance σ² 1 + τ² Φ Φᵀ of the measurements, with the features Φ, has the same eigenvectors in all cells, in
    whose directions a cell is a product again. Standard errors count relative to the prior's noise: a measurement with
    such an error beside that noise counts less than others in the same proportion at every level of noise.
    """

    def __init__(self, seconds: Array, errors: Array, noise: Noise, features: Array, prior: Prior) -> None:
        self.log_seconds = np.log(seconds)
        self.weight = 1.0 / np.sqrt(1.0 + (errors / seconds / noise[0]) ** 2)
        left, singular, right = np.linalg.svd(self.weight[:, None] * features, full_matrices=False)
        seen = singular > NEGLIGIBLE * singular[0]
        self.left, self.singular, self.right = left[:, seen], singular[seen], right[seen]
        levels, level_prior = levels_between(LEAST_NOISE, LARGEST_NOISE, LEVELS_OF_MANY, *noise)
        sizes, size_prior = discrepancy_levels(prior)
        self.noise, self.size = (grid.ravel() for grid in np.meshgrid(levels, sizes))
        weights = (size_prior[:, None] + level_prior).ravel()
        # All directions without a discrepancy come last, as one.
        variance = self.noise**2 + np.vstack([(self.size * self.singular[:, None]) ** 2, np.zeros(len(self.size))])
        count = np.append(np.ones(len(self.singular)), len(seconds) - len(self.singular))
        #: The scale's share in each direction.
        self.along = self.weight @ self.left
        rest = max(float(self.weight @ self.weight - self.along @ self.along), 0.0)
        self.precision = 1.0 / variance
        self.total = np.append(self.along**2, rest) @ self.precision
        self.constant = weights - 0.5 * count @ np.log(variance) - 0.5 * np.log(self.total)

    def cells(self, shapes: Array) -> Array:
        """Log likelihood of shapes in every cell."""
        return self._cells(shapes)[0]

    def draw(self, shapes: Array, rng: np.random.Generator) -> tuple[Array, Array, Array]:
        """Draw scale, noise and weights."""
        cells, means, inside = self._cells(shapes)
        chosen = _draw_cells(cells, rng)
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


def _draw_cells(cells: Array, rng: np.random.Generator) -> NDArray[np.intp]:
    """Draw one cell of each row, by their logarithmic weights."""
    steps = np.cumsum(np.exp(cells - cells.max(axis=1, keepdims=True)), axis=1)
    last = cells.shape[1] - 1
    return np.asarray((steps < (rng.random(len(cells)) * steps[:, -1])[:, None]).sum(axis=1).clip(max=last))
