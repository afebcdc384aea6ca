"""The oracle: the Bayes decision of who knows the three families, their priors and the noise.

What is left of its regret is what the readings do not tell. Its posterior is a weighted sample of the true prior, the
work integrated over; where too few of the sample fit (little noise), the sample is moved to where they do: the noise is
tempered from a large one down to the true one, each time with resampling and with Metropolis steps in the unit cube
(sequential Monte Carlo; Del Moral, Doucet and Jasra 2006; proposals of ter Braak's differential evolution, 2006).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from regret_parts.families import FAMILIES

__all__ = ["Oracle"]

Array = NDArray[np.float64]
Integers = NDArray[np.intp]

# Points of the prior per family, curves that decide, and how many points must carry the weight.
PRIOR, CURVES, ENOUGH = 40_000, 1000, 1000
# Points while tempering, Metropolis steps per level, and the smallest noise: readings without any count as read to
# a ten-thousandth.
PARTICLES, STEPS, FLOOR = 3000, 8, 1e-4
WIDTH = max(family.dimensions for family in FAMILIES)
# log10 of 8: how far the second work's logarithm is spread around the first's.
REACH = float(np.log10(8.0))


class Oracle:
    """Posterior curves of solvers of the three families.

    Parameters
    ----------
    ranks
        Rank counts that are measured.
    highest
        Curves are given at 1 … highest ranks.
    seed
        Of the sample of the prior.
    """

    def __init__(self, ranks: Array, highest: int, seed: int = 0) -> None:
        self.ranks = ranks
        self.at = np.arange(1, highest + 1, dtype=np.float64)
        rng = np.random.default_rng([seed, 714])
        self.kind = np.repeat(np.arange(len(FAMILIES)), PRIOR)
        self.points = rng.random((len(self.kind), WIDTH))
        self.values = _shapes(self.kind, self.points, ranks)

    def curves(self, seconds: Array, noise: float, second: bool, rng: np.random.Generator) -> Array:
        """Draw curves from the posterior given one solver's readings.

        Parameters
        ----------
        seconds
            Readings at the ranks.
        noise
            Their true relative standard deviation.
        second
            Whether the work is W2: its prior is wider than that of W1.
        rng
            Dice.

        Returns
        -------
        array of shape (CURVES, highest)
        """
        noise = max(noise, FLOOR)
        kind, points, values = self.kind, self.points, self.values
        log_weight = _marginal(values, seconds, noise, second)
        if _effective(log_weight) < ENOUGH:
            kind, points, values = self._tempered(seconds, noise, second, rng)
            log_weight = np.zeros(len(kind))
        works, correction = _works(values, seconds, noise, second, rng)
        log_weight = log_weight + correction
        weights = np.exp(log_weight - log_weight.max())
        chosen = rng.choice(len(weights), size=CURVES, p=weights / weights.sum())
        return works[chosen, None] * _shapes(kind[chosen], points[chosen], self.at)

    def _tempered(
        self, seconds: Array, noise: float, second: bool, rng: np.random.Generator
    ) -> tuple[Integers, Array, Array]:
        """Points spread as the posterior, all of the same weight."""
        kind, points, values = self.kind, self.points, self.values
        before, level = np.zeros(len(kind)), np.inf
        while level > noise:
            level = _next_level(values, seconds, before, level, noise, second)
            chosen = _resample(_marginal(values, seconds, level, second) - before, rng)
            kind, points, values = kind[chosen], points[chosen], values[chosen]
            before = _marginal(values, seconds, level, second)
            for step in range(STEPS):
                # Every fourth step is small, so that some are taken where the posterior is a thin curved sheet.
                moved = _propose(kind, points, rng, 0.2 if step % 4 == 3 else 1.0)
                moved_values = _shapes(kind, moved, self.ranks)
                after = _marginal(moved_values, seconds, level, second)
                taken = np.log(rng.random(len(kind))) < after - before
                points[taken], values[taken], before[taken] = moved[taken], moved_values[taken], after[taken]
        return kind, points, values


def _shapes(kind: Integers, points: Array, ranks: Array) -> Array:
    values = np.empty((len(kind), len(ranks)))
    for index, family in enumerate(FAMILIES):
        mine = kind == index
        values[mine] = family.shape(points[mine, : family.dimensions], ranks)
    return values


def _marginal(values: Array, seconds: Array, noise: float, second: bool) -> Array:
    """Log likelihood of shapes, the work integrated over with its prior.

    With r = y/h and u = 1/W the readings y = W h (1 + noise z) have the likelihood
    Π (u/h) exp(-Σ(r u - 1)²/(2 noise²)), in u a power times a normal density; the power and the prior are taken at its
    centre, which `_works` makes good.
    """
    n = len(seconds)
    ratio = seconds / values
    total, square = ratio.sum(axis=1), np.square(ratio).sum(axis=1)
    centre = total / square
    # Σ(r u - 1)² at the centre, without the cancellation of n - total²/square.
    left = np.square(ratio * centre[:, None] - 1).sum(axis=1)
    return np.asarray(
        -np.log(values).sum(axis=1)
        + (n - 1) * np.log(centre)
        - 0.5 * np.log(square)
        - left / (2 * noise**2)
        + _work_prior(1 / centre, second)
    )


def _works(values: Array, seconds: Array, noise: float, second: bool, rng: np.random.Generator) -> tuple[Array, Array]:
    """Draw the work of each shape, and give what its log weight has to be corrected by."""
    ratio = seconds / values
    total, square = ratio.sum(axis=1), np.square(ratio).sum(axis=1)
    centre = total / square
    # The factor stays positive: noise is small against 1.
    factor = np.maximum(1 + noise / np.sqrt(square) / centre * rng.standard_normal(len(values)), 1e-3)
    works = 1 / (centre * factor)
    correction = (len(seconds) - 1) * np.log(factor)
    return works, correction + _work_prior(works, second) - _work_prior(1 / centre, second)


def _work_prior(work: Array, second: bool) -> Array:
    """Log density of log10 W: uniform from 2 to 3, for W2 convolved with a uniform spread of ± log10 8."""
    log_work = np.log10(work)
    if second:
        density = (np.minimum(log_work + REACH, 3) - np.maximum(log_work - REACH, 2)).clip(0) / (2 * REACH)
    else:
        density = ((log_work >= 2) & (log_work <= 3)).astype(np.float64)
    return np.log(np.maximum(density, 1e-9))


def _effective(log_weight: Array) -> float:
    """Effective sample size (Kong 1992)."""
    weights = np.exp(log_weight - log_weight.max())
    return float(weights.sum() ** 2 / np.square(weights).sum())


def _next_level(values: Array, seconds: Array, before: Array, level: float, noise: float, second: bool) -> float:
    """Smallest noise, not below the true one, to which enough of the points lead."""
    enough = min(ENOUGH, len(values) / 3)
    if _effective(_marginal(values, seconds, noise, second) - before) >= enough:
        return noise
    low, high = np.log(noise), np.log(min(level, 10.0))
    while high - low > 0.02:
        middle = (low + high) / 2
        if _effective(_marginal(values, seconds, float(np.exp(middle)), second) - before) >= enough:
            high = middle
        else:
            low = middle
    return float(np.exp(high))


def _resample(log_weight: Array, rng: np.random.Generator) -> Integers:
    """Systematic resampling: every point as often as its weight says, up to less than one."""
    cumulated = np.cumsum(np.exp(log_weight - log_weight.max()))
    steps = (np.arange(PARTICLES) + rng.random()) / PARTICLES * cumulated[-1]
    return np.searchsorted(cumulated, steps).clip(max=len(cumulated) - 1)


def _propose(kind: Integers, points: Array, rng: np.random.Generator, scale: float) -> Array:
    """Move points along differences of two others of their family, reflected at the cube's faces."""
    moved = points.copy()
    for index, family in enumerate(FAMILIES):
        mine = np.flatnonzero(kind == index)
        if not len(mine):
            continue
        pairs = points[rng.choice(mine, (2, len(mine)))]
        stride = scale * 2.38 / np.sqrt(2 * family.dimensions) * rng.uniform(0.2, 1.2, (len(mine), 1))
        # A coordinate that the readings do not determine may be drawn anew.
        fresh = rng.random((len(mine), WIDTH)) < 0.1
        step = points[mine] + stride * (pairs[0] - pairs[1]) + 1e-6 * rng.standard_normal((len(mine), WIDTH))
        moved[mine] = np.where(fresh & (scale == 1.0), rng.random((len(mine), WIDTH)), step)
    return np.asarray(1 - np.abs(1 - np.abs(moved) % 2))
