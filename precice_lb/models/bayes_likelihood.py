"""How well shapes explain measurements when neither their scale nor the noise is known.

In logarithms a measurement is ln y = ln W + ln h(p) + σ ε. The scale W is integrated over with a flat prior of ln W,
the noise σ on a grid; both integrals are exact and cheap, so that only the shape is left to sample. Any one of a few
measurements may be a straggler, delayed by something else, and then counts for little.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["LARGEST_NOISE", "LEAST_NOISE", "Likelihood", "draw_cells", "log_sum"]

Array = NDArray[np.float64]

#: Noise relative to the time: from a quiet machine's to that of a busy one.
LEAST_NOISE, LARGEST_NOISE = 0.003, 0.15
# Levels of noise in between; with many measurements the noise is well known and needs a fine grid.
FEW, LEVELS, LEVELS_OF_MANY = 12, 9, 48
# A straggler's deviation is this many times the noise, and at least so large.
STRAGGLER_FACTOR, STRAGGLER_LEAST = 4.0, 0.15


class Likelihood:
    """Marginal likelihood of shapes.

    It is a sum over cells: levels of noise, each without stragglers and with every one of the measurements as one.

    Parameters
    ----------
    seconds : array of shape (m,)
        Measured.
    spread : array of shape (m,)
        Standard errors in seconds, 0 where unknown; they add to the noise between runs.
    noise : float
        Median of the prior of σ.
    noise_spread : float
        The prior's standard deviation of ln σ.
    straggling : float
        Prior probability that a measurement is a straggler; looked at for 3 to 12 measurements.
    """

    def __init__(self, seconds: Array, spread: Array, noise: float, noise_spread: float, straggling: float) -> None:
        self.log_seconds = np.log(seconds)
        m = len(seconds)
        logs = np.linspace(np.log(LEAST_NOISE), np.log(LARGEST_NOISE), LEVELS if m <= FEW else LEVELS_OF_MANY)
        known = ((spread / seconds) ** 2)[:, None]
        prior = -0.5 * ((logs - np.log(noise)) / noise_spread) ** 2
        self.noise, variance = np.exp(logs), np.exp(2 * logs) + known
        if straggling and 2 < m <= FEW:
            # For stragglers every second level is fine enough.
            noise_of_late = np.repeat(self.noise[None, ::2], m, axis=0).ravel()
            late = np.repeat(variance[:, None, ::2], m, axis=1)
            late[np.arange(m), np.arange(m)] += np.maximum(STRAGGLER_FACTOR * self.noise[::2], STRAGGLER_LEAST) ** 2
            variance = np.concatenate([variance, late.reshape(m, -1)], axis=1)
            prior = np.concatenate([prior, np.tile(prior[::2] + np.log(2 * straggling), m)])
            self.noise = np.concatenate([self.noise, noise_of_late])
        self.precision = 1.0 / variance
        self.total = self.precision.sum(axis=0)
        self.constant = prior - 0.5 * np.log(variance).sum(axis=0) - 0.5 * np.log(self.total)

    def __call__(self, shapes: Array) -> Array:
        """Logarithm of the marginal likelihood of shapes, shape (n, m) in any unit; shape (n,)."""
        return log_sum(self._cells(shapes)[0])

    def draw(self, shapes: Array, rng: np.random.Generator) -> tuple[Array, Array]:
        """Draw ln W and σ of each shape from what the measurements leave, shape (n,) each."""
        cells, means = self._cells(shapes)
        chosen = draw_cells(cells, rng)
        n = len(chosen)
        scale = means[np.arange(n), chosen] + rng.standard_normal(n) / np.sqrt(self.total[chosen])
        return scale, self.noise[chosen]

    def _cells(self, shapes: Array) -> tuple[Array, Array]:
        """Log likelihood and mean of ln W, shape (n, cells) each."""
        gap = self.log_seconds - np.log(shapes)
        centre = gap.mean(axis=1, keepdims=True)
        gap -= centre
        first = gap @ self.precision
        means = first / self.total
        first *= means
        first -= (gap * gap) @ self.precision
        first *= 0.5
        first += self.constant
        means += centre
        return first, means


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
