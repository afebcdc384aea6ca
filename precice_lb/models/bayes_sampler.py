"""Draw from a posterior of a few variables whose prior is standard normal, however sharp the likelihood is.

Weighing a fixed sample of the prior leaves one or two of its members when measurements are precise. Here the likelihood
is raised from a power at which many members of the sample count to the full one in steps (sequential Monte Carlo; Del
Moral, Doucet, Jasra 2006), each chosen so that a good part of the members keeps its weight; after each step members are
resampled and moved by Metropolis steps along differences of other members (ter Braak 2006), which take the
posterior's own extent as their size. All members have the same weight at the end. With many variables that must balance
each other these moves are slow, and members are moved on until they no longer lie where they came from.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

__all__ = ["mix", "sample_posterior"]

Array = NDArray[np.float64]

# Steps of the power, at most.
LARGEST_STEPS = 24
# Share of members that must keep their weight in a step.
KEPT = 0.4
# Mixing looks every so many moves; members have forgotten their places below this mean square correlation with them.
# It takes so many moves at most.
LOOK, FORGOTTEN, MOST_MOVES = 20, 0.05, 1000


def sample_posterior(
    log_likelihood: Callable[[Array], Array], bank: Array, count: int, moves: tuple[int, int], rng: np.random.Generator
) -> tuple[Array, float]:
    """Draw members of a posterior.

    Parameters
    ----------
    log_likelihood : callable
        From z, shape (n, d), to shape (n,).
    bank : array of shape (N, d)
        Draws of the prior, N well above count.
    count : int
        How many to draw.
    moves : (int, int)
        How often members are moved after each step and after the last.
    rng : Generator
        Dice.

    Returns
    -------
    z : array of shape (count, d)
        In no order.
    evidence : float
        Logarithm of the mean likelihood over the prior, an estimate.
    """
    z, log = bank, log_likelihood(bank)
    power = step = _step(log, 1.0, 0.75 * count)
    evidence = 0.0
    for index in range(LARGEST_STEPS):
        highest = float(log.max())
        evidence += step * highest + float(np.log(np.exp(step * (log - highest)).mean()))
        z, log = _resample(z, log, step, count, rng)
        for _ in range(moves[0] if power < 1 else moves[1]):
            z, log = _move(z, log, power, log_likelihood, rng)
        if power == 1:
            break
        left = 1 - power
        step = left if index == LARGEST_STEPS - 2 else _step(log, left, KEPT * count)
        power = 1.0 if step == left else power + step
    return z, evidence


def mix(z: Array, log_likelihood: Callable[[Array], Array], rng: np.random.Generator) -> Array:
    """Move members of a posterior, shape (n, d), until they have forgotten where they were, and as often again."""
    begin, log, last = z, log_likelihood(z), MOST_MOVES
    for moved in range(1, MOST_MOVES + 1):
        z, log = _move(z, log, 1.0, log_likelihood, rng)
        if last == MOST_MOVES and moved % LOOK == 0 and _likeness(begin, z) < FORGOTTEN:
            last = min(2 * moved, MOST_MOVES)
        if moved == last:
            break
    return z


def _likeness(before: Array, after: Array) -> float:
    """Mean square over the variables of the correlation of each with itself."""
    a, b = (z - z.mean(axis=0) for z in (before, after))
    shared = np.square((a * b).mean(axis=0)) / np.maximum((a * a).mean(axis=0) * (b * b).mean(axis=0), 1e-30)
    return float(shared.mean())


def _step(log: Array, most: float, kept: float) -> float:
    """Largest increase of the power at which the weights are worth as many members as are to be kept."""
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
    z: Array, log: Array, power: float, log_likelihood: Callable[[Array], Array], rng: np.random.Generator
) -> tuple[Array, Array]:
    """Offer every member another place; where it is as good or lucky, the member goes there.

    Halves in turn, each along differences of the other: a member that moves along its own place's difference to others
    shrinks the sample.
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
        gain = power * (offered_log - log[mine])
        gain -= 0.5 * ((offered * offered).sum(axis=1) - (z[mine] * z[mine]).sum(axis=1))
        taken = np.log(rng.random(n)) < gain
        z[mine[taken]], log[mine[taken]] = offered[taken], offered_log[taken]
    return z, log
