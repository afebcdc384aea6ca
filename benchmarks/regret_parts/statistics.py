"""Means, percentiles and confidence intervals of regrets, paired over the same pairs of solvers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["describe", "paired_ratio"]

Array = NDArray[np.float64]

RESAMPLES, SEED = 2000, 1979


def describe(regrets: Array) -> dict[str, float]:
    """Mean, its 95 % bootstrap interval, median and the 95th percentile; in percent.

    Parameters
    ----------
    regrets
        Shape (pairs,).
    """
    means = _bootstrap(regrets[:, None])[:, 0]
    low, high = np.quantile(means, [0.025, 0.975])
    return {
        "mean": 100 * float(regrets.mean()),
        "low": 100 * float(low),
        "high": 100 * float(high),
        "median": 100 * float(np.median(regrets)),
        "p95": 100 * float(np.quantile(regrets, 0.95)),
    }


def paired_ratio(regrets: Array, reference: Array) -> dict[str, float]:
    """Mean regret over the reference's on the same pairs, with its 95 % bootstrap interval."""
    means = _bootstrap(np.column_stack([regrets, reference]))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = means[:, 0] / means[:, 1]
        ratio = float(regrets.mean() / reference.mean())
    # Where the reference is (almost) without regret there is no ratio to speak of.
    low, high = np.quantile(ratios, [0.025, 0.975]) if np.isfinite(ratios).all() else (np.nan, np.nan)
    return {"ratio": ratio, "low": float(low), "high": float(high)}


def _bootstrap(columns: Array) -> Array:
    """Means over pairs drawn with replacement, shape (RESAMPLES, columns)."""
    rng = np.random.default_rng(SEED)
    n = len(columns)
    # Counts of each pair instead of copies of the rows.
    return np.array([rng.multinomial(n, np.full(n, 1 / n)) @ columns / n for _ in range(RESAMPLES)])
