"""Statistics of one series of seconds per time window: warm-up, drift, outliers, spread.

All of them rest on medians, so that none is fooled by what another one looks for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from precice_lb.store.columns import Array

# Standard deviations of normal noise per mean absolute deviation, and standard errors of a median per one of a mean.
NORMAL_MEAN = 1.2533
# A deviation that chance gives once in a thousand times, two-sided, in standard deviations.
UNLIKELY = 3.29
# Windows of warm-up differ by more than this many deviations, and more than this share, from those that follow.
WARMUP_DEVIATIONS, WARMUP_SHARE = 4.0, 0.03
# Outliers likewise, from their neighbours: so many of them.
OUTLIER_DEVIATIONS, OUTLIER_SHARE, NEIGHBOURS = 6.0, 0.1, 11
# A drift is looked for in so many medians of neighbouring windows, since these are less alike than single windows.
BLOCKS, LEAST_WINDOWS = 32, 8


@dataclass(frozen=True)
class Drift:
    """How a series moves over its length, or from one part of it to another (`shift_of`).

    Attributes
    ----------
    change
        From its begin to its end, relative to its median; the slope is Theil's and Sen's.
    z_score
        How unlikely it is by chance, as standard deviations of a normal distribution: by Kendall's rank correlation
        with the window, or by the rank sum of Mann and Whitney.
    """

    change: float
    z_score: float

    @property
    def significant(self) -> bool:
        """Whether chance would give it less than once in a thousand times."""
        return abs(self.z_score) > UNLIKELY


@dataclass(frozen=True)
class Spread:
    """How much windows differ.

    Attributes
    ----------
    deviation
        Standard deviation of a window relative to the median, from the median absolute deviation.
    error
        Standard error of the median, relative: the one that `check` tells and that models weigh samples by. Windows
        that follow each other are alike to some extent (lag-1 autocorrelation) and count less.
    windows
        How many there are.
    """

    deviation: float
    error: float
    windows: int

    def windows_for(self, error: float) -> int:
        """Windows after warm-up for which the median would have this relative standard error."""
        return math.ceil(self.windows * max(self.error / error, 0.0) ** 2)


def warmup_of(seconds: Array) -> int:
    """Find how many windows at the start, shape (n,), are unlike those that follow.

    What a window is compared with is the median of the second half, with its trend where it has one. Warm-up ends at
    the first of two windows in a row that agree with it; n // 2 says that its end is not to be seen.
    """
    n = len(seconds)
    if n < 4:
        return 0
    half = n // 2
    later = seconds[half:]
    level = np.full(n, np.median(later))
    trend = drift_of(later)
    if trend.significant:
        level += (np.arange(n) - half - (len(later) - 1) / 2) * trend.change * np.median(later) / max(len(later) - 1, 1)
    deviation = _deviation(later - level[half:])
    # The fewer windows the less is known of their deviation.
    limit = np.maximum(WARMUP_DEVIATIONS * (1 + 4 / len(later)) * deviation, WARMUP_SHARE * np.abs(level))
    unlike = np.abs(seconds - level) > limit
    for index in range(half):
        if not unlike[index] and not unlike[index + 1]:
            return index
    return half


def drift_of(seconds: Array) -> Drift:
    """Look for a trend, shape (n,); none in less than eight windows, or of nothing."""
    n = len(seconds)
    if n < LEAST_WINDOWS or not np.median(seconds) > 0:
        return Drift(0.0, 0.0)
    blocks = np.array([np.median(part) for part in np.array_split(seconds, min(n, BLOCKS))])
    earlier, later = np.triu_indices(len(blocks), 1)
    rises = blocks[later] - blocks[earlier]
    slope = float(np.median(rises / (later - earlier)))
    return Drift(slope * (len(blocks) - 1) / float(np.median(seconds)), _kendall(blocks, int(np.sign(rises).sum())))


def shift_of(earlier: Array, latest: Array) -> Drift:
    """Compare the median of the latest windows with that of those before; none in less than eight on either side."""
    if min(len(earlier), len(latest)) < LEAST_WINDOWS or not np.median(earlier) > 0:
        return Drift(0.0, 0.0)
    change = float(np.median(latest) / np.median(earlier)) - 1
    # The rank sum of the latest, beyond what chance gives it (Mann and Whitney 1947); loading scipy's takes a second.
    _, places, ties = np.unique(np.concatenate([latest, earlier]), return_inverse=True, return_counts=True)
    count, tied = len(places), float((ties**3.0 - ties).sum())
    ranks = (np.cumsum(ties) - 0.5 * (ties - 1))[places[: len(latest)]]
    excess = float(ranks.sum()) - 0.5 * len(latest) * (count + 1)
    variance = len(latest) * len(earlier) / 12 * (count + 1 - tied / (count * (count - 1)))
    deviations = max(abs(excess) - 0.5, 0.0) / math.sqrt(variance) if variance > 0 else 0.0
    return Drift(change, math.copysign(deviations, excess))


def outliers_of(seconds: Array) -> NDArray[np.intp]:
    """Find windows far from their neighbours: indices into the series."""
    if len(seconds) < LEAST_WINDOWS:
        return np.empty(0, dtype=np.intp)
    level = _running_median(seconds)
    gap = np.abs(seconds - level)
    limit = np.maximum(OUTLIER_DEVIATIONS * _deviation(seconds - level), OUTLIER_SHARE * level)
    return np.flatnonzero(gap > limit)


def spread_of(seconds: Array) -> Spread:
    """Measure how much windows differ, shape (n,), whatever single ones do; NaN for one window."""
    n = len(seconds)
    middle = float(np.median(seconds)) if n else math.nan
    if n < 2 or not middle > 0:
        return Spread(math.nan, math.nan, n)
    gaps = seconds - middle
    # Few windows lie closer to their own median than to the true one (Croux and Rousseeuw 1992).
    deviation = _deviation(seconds) * n / (n - 0.8)
    if not deviation > 0:
        # More than half are the same: what the others differ by counts all the same.
        deviation = NORMAL_MEAN * float(np.abs(gaps).mean())
    gaps = np.clip(gaps, -3 * deviation, 3 * deviation)
    gaps -= gaps.mean()
    squares = float(gaps @ gaps)
    autocorrelation = float(gaps[1:] @ gaps[:-1]) / squares if squares > 0 and n > 3 else 0.0
    if n >= LEAST_WINDOWS:
        # Few windows are less alike than they are beside their true mean (Marriott and Pope 1954, Kendall 1954).
        autocorrelation = (n * autocorrelation + 1) / (n - 3)
    autocorrelation = min(max(autocorrelation, 0.0), 0.95)
    effective = max(n * (1 - autocorrelation) / (1 + autocorrelation), 1.0)
    return Spread(deviation / middle, NORMAL_MEAN * deviation / middle / math.sqrt(effective), n)


def without_outliers(seconds: Array) -> Array:
    """Put the median of their neighbours in place of windows that are far from them, shape (n,)."""
    outliers = outliers_of(seconds)
    kept = np.array(seconds, dtype=np.float64)
    if len(outliers):
        kept[outliers] = _running_median(seconds)[outliers]
    return kept


def mean_of(seconds: Array) -> tuple[float, float]:
    """Mean of a series without its outliers, and the standard error of that, in seconds; NaN where unknown."""
    if not len(seconds):
        return math.nan, math.nan
    kept = without_outliers(seconds)
    # Of a median it is 1.2533 times as large, for normal noise.
    return float(kept.mean()), spread_of(kept).error * float(np.median(kept)) / NORMAL_MEAN


def _running_median(seconds: Array) -> Array:
    width = min(NEIGHBOURS, len(seconds) - 1 + len(seconds) % 2)
    mirrored = np.pad(np.asarray(seconds, dtype=np.float64), width // 2, mode="reflect")
    return np.median(np.lib.stride_tricks.sliding_window_view(mirrored, width), axis=1)


def _deviation(values: Array) -> float:
    """Return the standard deviation of normal noise with this median absolute deviation."""
    return float(np.median(np.abs(values - np.median(values)))) / NormalDist().inv_cdf(0.75)


def _kendall(values: Array, excess: int) -> float:
    """Return the z-score of Kendall's rank correlation with time, of so many more pairs that rise than fall."""
    n, ties = len(values), np.unique(values, return_counts=True)[1]
    if len(ties) < n:
        variance = (n * (n - 1) * (2 * n + 5) - float((ties * (ties - 1) * (2 * ties + 5)).sum())) / 18
        return excess / math.sqrt(variance) if variance > 0 else 0.0
    # Permutations by their number of inversions (Kendall 1970).
    orders = np.ones(1)
    for length in range(2, n + 1):
        orders = np.convolve(orders, np.ones(length))
    fewer = (n * (n - 1) // 2 - abs(excess)) // 2
    return _z_score(excess, 2 * float(orders[: fewer + 1].sum()) / math.factorial(n))


def _z_score(sign: float, chance: float) -> float:
    """Return the standard deviations of a normal distribution with this chance, two-sided; 0 where it is unknown."""
    # Of the least chance that a float can tell: 37 standard deviations.
    return math.copysign(-NormalDist().inv_cdf(max(chance, 1e-300) / 2), sign) if chance < 1 else 0.0
