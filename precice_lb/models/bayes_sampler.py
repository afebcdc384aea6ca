"""Draw from a posterior of a few variables whose prior is standard normal, however sharp the likelihood is.

Weighing a fixed sample of the prior leaves one or two of its particles when measurements are precise. Here the
likelihood is tempered (sequential Monte Carlo; Del Moral, Doucet, Jasra 2006): the inverse temperature rises to 1 in
steps, each such that a good part of the particles keeps its weight; after each step particles are resampled and moved
by Metropolis steps along differences of other particles (ter Braak 2006), which take the posterior's own extent as
their size. All particles have the same weight at the end. With many variables that must balance each other these moves
are slow, and particles are moved on until they no longer lie where they came from.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# Steps of the inverse temperature, at most.
MOST_STEPS = 24
# Share of particles that must keep their weight in a step.
KEPT = 0.4
# Mixing is checked every so many moves; particles have forgotten their places below this mean square correlation with
# them. It takes so many moves at most.
CHECKED_EVERY, FORGOTTEN, MOST_MOVES = 20, 0.05, 1000


def sample_posterior(
    log_likelihood: Callable[[Array], Array], prior: Array, count: int, moves: tuple[int, int], rng: np.random.Generator
) -> tuple[Array, float]:
    """Draw particles of a posterior, shape (count, d), and estimate the log of its mean likelihood.

    From a log likelihood of z, draws (N, d) of the prior with N well above count, and how often particles are moved
    after each step and after the last.
    """
    z, log = prior, log_likelihood(prior)
    inverse_temperature = step = _step(log, 1.0, 0.75 * count)
    evidence = 0.0
    for index in range(MOST_STEPS):
        highest = float(log.max())
        evidence += step * highest + float(np.log(np.exp(step * (log - highest)).mean()))
        z, log = _resample(z, log, step, count, rng)
        for _ in range(moves[0] if inverse_temperature < 1 else moves[1]):
            z, log = _move(z, log, inverse_temperature, log_likelihood, rng)
        if inverse_temperature == 1:
            break
        left = 1 - inverse_temperature
        step = left if index == MOST_STEPS - 2 else _step(log, left, KEPT * count)
        inverse_temperature = 1.0 if step == left else inverse_temperature + step
    return z, evidence


def mix(z: Array, log_likelihood: Callable[[Array], Array], rng: np.random.Generator) -> Array:
    """Move particles of a posterior, shape (n, d), until they have forgotten where they were, and as often again."""
    begin, log, last = z, log_likelihood(z), MOST_MOVES
    for moved in range(1, MOST_MOVES + 1):
        z, log = _move(z, log, 1.0, log_likelihood, rng)
        if last == MOST_MOVES and moved % CHECKED_EVERY == 0 and _correlation(begin, z) < FORGOTTEN:
            last = min(2 * moved, MOST_MOVES)
        if moved == last:
            break
    return z


def _correlation(before: Array, after: Array) -> float:
    """Mean square over the variables of the correlation of each with itself."""
    a, b = (z - z.mean(axis=0) for z in (before, after))
    shared = np.square((a * b).mean(axis=0)) / np.maximum((a * a).mean(axis=0) * (b * b).mean(axis=0), 1e-30)
    return float(shared.mean())


def _step(log: Array, most: float, kept: float) -> float:
    """Largest increase of the inverse temperature that keeps so many particles worth their weight."""
    if _effective(most * log) >= kept:
        return most
    low, high = 0.0, most
    for _ in range(14):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _effective(middle * log) >= kept else (low, middle)
    return high


def _effective(log_weights: Array) -> float:
    weights = np.exp(log_weights - log_weights.max())
    return float(weights.sum() ** 2 / (weights @ weights))


def _resample(z: Array, log: Array, step: float, count: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Systematic resampling, then shuffling: neighbours in the list must not be relatives."""
    steps = np.cumsum(np.exp(step * (log - log.max())))
    at = (rng.random() + np.arange(count)) / count * steps[-1]
    chosen = rng.permutation(np.searchsorted(steps, at).clip(max=len(z) - 1))
    return z[chosen], log[chosen]


def _move(
    z: Array, log: Array, inverse_temperature: float, log_likelihood: Callable[[Array], Array], rng: np.random.Generator
) -> tuple[Array, Array]:
    """Offer every particle another place; where it is as good or lucky, the particle goes there.

    Halves in turn, each along differences of the other: a particle that moves along its own place's difference to
    others shrinks the sample.
    """
    z, log = z.copy(), log.copy()
    order, d = rng.permutation(len(z)), z.shape[1]
    middle = len(z) // 2
    for mine, others in ((order[:middle], order[middle:]), (order[middle:], order[:middle])):
        n, at = len(mine), rng.integers(len(others), size=len(mine))
        away = (at + rng.integers(1, len(others), size=n)) % len(others)
        # Some moves change all variables, most some of them; a few sizes of steps for wide and for narrow directions.
        moved = rng.random((n, d)) < rng.choice([0.35, 0.7, 1.0], size=(n, 1))
        size = 1.6 / np.sqrt(2 * d) * np.exp(0.7 * rng.standard_normal((n, 1)))
        steps = size * (z[others[at]] - z[others[away]]) + 0.002 * rng.standard_normal((n, d))
        offered = z[mine] + moved * steps
        offered_log = log_likelihood(offered)
        gain = inverse_temperature * (offered_log - log[mine])
        gain -= 0.5 * ((offered * offered).sum(axis=1) - (z[mine] * z[mine]).sum(axis=1))
        taken = np.log(rng.random(n)) < gain
        z[mine[taken]], log[mine[taken]] = offered[taken], offered_log[taken]
    return z, log
