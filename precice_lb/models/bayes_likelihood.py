"""How well shapes explain measurements when neither their scale, the noise nor what shapes leave out is known.

In logarithms a measurement is ln y = ln W + ln h(p) + d(p) + σ ε, with a discrepancy d of which
`precice_lb.models.bayes_discrepancy` tells. The scale W is integrated over with a flat prior of ln W, the discrepancy
exactly, its size τ and the noise σ on a grid, so that only the shape is left to sample. Any one of a few measurements
may be a straggler, delayed by something else, and then counts for little.
"""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

__all__ = ["LARGEST_NOISE", "LEAST_NOISE", "Likelihood", "discrepancy_levels", "draw_cells", "log_sum"]

Array = NDArray[np.float64]

#: Noise relative to the time: from a quiet machine's to that of a busy one.
LEAST_NOISE, LARGEST_NOISE = 0.003, 0.15
# Levels of noise in between; with many measurements the noise is well known and needs a fine grid.
FEW, LEVELS, LEVELS_OF_MANY = 40, 7, 24
# A straggler differs by this many times the noise, and at least so large.
STRAGGLER_FACTOR, STRAGGLER_LEAST = 4.0, 0.15
# Prior of a discrepancy's standard deviation: its median, the spread of its logarithm, and its grid.
DISCREPANCY, DISCREPANCY_SCALE = 0.022, 1.8
LEAST_DISCREPANCY, LARGEST_DISCREPANCY, DISCREPANCY_LEVELS = 0.01, 0.5, 4


def discrepancy_levels() -> tuple[Array, Array]:
    """Sizes of discrepancies, and the logarithms of their prior weights."""
    logs = np.linspace(np.log(LEAST_DISCREPANCY), np.log(LARGEST_DISCREPANCY), DISCREPANCY_LEVELS)
    return np.exp(logs), -0.5 * ((logs - np.log(DISCREPANCY)) / DISCREPANCY_SCALE) ** 2


class Likelihood:
    """Marginal likelihood of shapes over ranks.

    It is a sum over cells: levels of noise and of the discrepancy, each without stragglers and with every one of the
    measurements as one. In a cell measurements at the same number of ranks come down to their weighted mean.

    Parameters
    ----------
    ranks, seconds : arrays of shape (m,)
        Measured.
    spread : array of shape (m,)
        Standard errors in seconds, 0 where unknown; they add to the noise between runs.
    noise : float
        Median of the prior of σ.
    noise_spread : float
        The prior's standard deviation of ln σ.
    straggling : float
        Prior probability that a measurement is a straggler; looked at for 3 to 40 measurements.
    features : array of shape (k, J)
        Random Fourier features of the discrepancy at the k different numbers of ranks, rising.
    """

    def __init__(
        self,
        ranks: Array,
        seconds: Array,
        spread: Array,
        noise: float,
        noise_spread: float,
        straggling: float,
        features: Array,
    ) -> None:
        points, at = np.unique(ranks, return_inverse=True)
        m, self.features = len(seconds), features
        logs = np.linspace(np.log(LEAST_NOISE), np.log(LARGEST_NOISE), LEVELS if m <= FEW else LEVELS_OF_MANY)
        levels, level_prior = np.exp(logs), -0.5 * ((logs - np.log(noise)) / noise_spread) ** 2
        known = (spread / seconds) ** 2
        # Noise, variance of each measurement and prior of every way in which they may err.
        ways = [(level, level**2 + known, prior) for level, prior in zip(levels, level_prior, strict=True)]
        if straggling and 2 < m <= FEW:
            # For stragglers every second level is fine enough.
            for (level, variance, prior), late in itertools.product(ways[::2], range(m)):
                delayed = variance + max(STRAGGLER_FACTOR * level, STRAGGLER_LEAST) ** 2 * (np.arange(m) == late)
                ways.append((level, delayed, prior + np.log(2 * straggling)))
        sizes, size_prior = discrepancy_levels()
        variance = np.array([each[1] for each in ways])
        precision = 1.0 / variance
        groups = np.zeros((m, len(points)))
        groups[np.arange(m), at] = 1.0
        log_seconds = np.log(seconds)
        self.centre = float(log_seconds.mean())
        total = precision @ groups
        mean = (precision * (log_seconds - self.centre)) @ groups / total
        within = precision * (log_seconds - self.centre - mean @ groups.T) ** 2
        weight = np.array([each[2] for each in ways]) - 0.5 * (within + np.log(variance)).sum(axis=1)
        weight -= 0.5 * np.log(total).sum(axis=1)
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
        self.constant = weight[way] + size_prior[size] - 0.5 * np.linalg.slogdet(covariance)[1]
        self.constant -= 0.5 * (np.log(self.total) + (linear * self.mean).sum(axis=1))

    def __call__(self, shapes: Array) -> Array:
        """Logarithm of the marginal likelihood of shapes at the k numbers of ranks, shape (n, k); shape (n,)."""
        return log_sum(self._cells(np.log(shapes)))

    def draw(self, shapes: Array, rng: np.random.Generator) -> tuple[Array, Array, Array]:
        """Draw ln W, σ and the weights of the features of each shape from what the measurements leave.

        Returns
        -------
        log_scale, noise : arrays of shape (n,)
        weights : array of shape (n, J)
        """
        logs = np.log(shapes)
        chosen = draw_cells(self._cells(logs), rng)
        n, total, size = len(chosen), self.total[chosen], self.size[chosen, None]
        gap = self.mean[chosen] - logs
        scale = (gap * self.along[chosen]).sum(axis=1) / total + rng.standard_normal(n) / np.sqrt(total)
        # A draw of the prior, moved by what the measurements say beside it (Matheron's rule).
        free = rng.standard_normal((n, self.features.shape[1]))
        missed = gap - scale[:, None] - size * (free @ self.features.T)
        missed -= np.sqrt(self.variance[chosen]) * rng.standard_normal(gap.shape)
        moved = np.einsum("nij,nj->ni", self.precision[chosen], missed) @ self.features
        return scale + self.centre, self.noise[chosen], size * (free + size * moved)

    def _cells(self, logs: Array) -> Array:
        """Log likelihood, shape (n, cells); the scale takes any unit."""
        logs = logs - logs.mean(axis=1, keepdims=True)
        squares = (logs[:, :, None] * logs[:, None, :]).reshape(len(logs), -1)
        return np.asarray(squares @ self.quadratic + logs @ self.linear + self.constant, dtype=np.float64)


def log_sum(cells: Array) -> Array:
    """Logarithm of the sum over the last axis of what cells are logarithms of; they are overwritten."""
    highest = cells.max(axis=1, keepdims=True)
    cells -= highest
    np.exp(cells, out=cells)
    return np.asarray(highest[:, 0] + np.log(cells.sum(axis=1)), dtype=np.float64)


def draw_cells(cells: Array, rng: np.random.Generator) -> NDArray[np.intp]:
    """Draw one cell of each row, by their logarithmic weights."""
    steps = np.cumsum(np.exp(cells - cells.max(axis=1, keepdims=True)), axis=1)
    last = cells.shape[1] - 1
    return np.asarray((steps < (rng.random(len(cells)) * steps[:, -1])[:, None]).sum(axis=1).clip(max=last))
