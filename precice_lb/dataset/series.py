"""Statistics of one series of seconds per time window: warm-up, drift, outliers, spread.

All of them rest on medians, so that none is fooled by what another one looks for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "LEAST_WINDOWS",
    "Drift",
    "Spread",
    "drift_of",
    "mean_of",
    "outliers_of",
    "shared_slowness",
    "shift_of",
    "spread_of",
    "warmup_of",
    "without_outliers",
]

Array = NDArray[np.float64]

# Standard deviations of normal noise per median absolute deviation.
NORMAL = 1.4826
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
        From its begin to its end, relative to its median; the slope is the median of all slopes (Sen 1968,
        doi:10.1080/01621459.1968.10480934).
    deviations
        Of the rank statistic of Mann (1945, doi:10.2307/1907187) from that of no trend, in its standard deviations.
    """

    change: float
    deviations: float

    @property
    def significant(self) -> bool:
        """Whether chance would give it less than once in a thousand times."""
        return abs(self.deviations) > UNLIKELY


@dataclass(frozen=True)
class Spread:
    """How much windows differ.

    Attributes
    ----------
    deviation
        Standard deviation of a window relative to the median, from the median absolute deviation.
    error
        Standard error of the median, relative; windows that follow each other are alike to some extent (lag-1
        autocorrelation) and count less.
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
    """Find how many windows at the start are unlike those that follow.

    What a window is compared with is the median of the second half, with its trend where it has one. Warm-up ends at
    the first of two windows in a row that agree with it.

    Parameters
    ----------
    seconds
        By window, shape (n,).

    Returns
    -------
    int
        At most n // 2, which says that the end of the warm-up is not to be seen.
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
    deviation = NORMAL * float(np.median(np.abs(later - level[half:])))
    # The fewer windows the less is known of their deviation.
    limit = np.maximum(WARMUP_DEVIATIONS * (1 + 4 / len(later)) * deviation, WARMUP_SHARE * np.abs(level))
    unlike = np.abs(seconds - level) > limit
    for at in range(half):
        if not unlike[at] and not unlike[at + 1]:
            return at
    return half


def drift_of(seconds: Array) -> Drift:
    """Look for a trend, shape (n,); none in less than eight windows."""
    n = len(seconds)
    if n < LEAST_WINDOWS:
        return Drift(0.0, 0.0)
    blocks = np.array([np.median(part) for part in np.array_split(seconds, min(n, BLOCKS))])
    k = len(blocks)
    first, second = np.triu_indices(k, 1)
    steps = blocks[second] - blocks[first]
    slope = float(np.median(steps / (second - first)))
    _, ties = np.unique(blocks, return_counts=True)
    variance = (k * (k - 1) * (2 * k + 5) - float((ties * (ties - 1) * (2 * ties + 5)).sum())) / 18
    score = float(np.sign(steps).sum())
    deviations = (score - math.copysign(1.0, score)) / math.sqrt(variance) if score and variance > 0 else 0.0
    return Drift(slope * (k - 1) / float(np.median(seconds)), deviations)


def shift_of(earlier: Array, latest: Array) -> Drift:
    """Compare the latest windows with those before them.

    Parameters
    ----------
    earlier, latest : ndarray, shape (n,) and (m,)
        Seconds by window.

    Returns
    -------
    Drift
        The change from one median to the other, and the deviations of the rank statistic of Mann and Whitney (1947,
        doi:10.1214/aoms/1177730491) from that of no difference. None where there are less than eight windows on either
        side.
    """
    n, m = len(earlier), len(latest)
    if min(n, m) < LEAST_WINDOWS:
        return Drift(0.0, 0.0)
    before = np.sort(earlier)
    # Pairs in which the later window is the longer one, half of those that are alike.
    above = np.searchsorted(before, latest, side="left") + np.searchsorted(before, latest, side="right")
    deviations = (0.5 * float(above.sum()) - 0.5 * n * m) / math.sqrt(n * m * (n + m + 1) / 12)
    return Drift(float(np.median(latest) / np.median(earlier)) - 1, deviations)


def outliers_of(seconds: Array) -> NDArray[np.intp]:
    """Find windows far from their neighbours: indices into the series."""
    if len(seconds) < LEAST_WINDOWS:
        return np.empty(0, dtype=np.intp)
    level = _running_median(seconds)
    gap = np.abs(seconds - level)
    limit = np.maximum(OUTLIER_DEVIATIONS * NORMAL * np.median(gap), OUTLIER_SHARE * level)
    return np.flatnonzero(gap > limit)


def spread_of(seconds: Array) -> Spread:
    """Measure how much windows differ, shape (n,), whatever single ones do; NaN for one window."""
    n = len(seconds)
    middle = float(np.median(seconds)) if n else math.nan
    if n < 2 or not middle > 0:
        return Spread(math.nan, math.nan, n)
    gaps = seconds - middle
    # Few windows lie closer to their own median than to the true one (Croux and Rousseeuw 1992).
    deviation = NORMAL * float(np.median(np.abs(gaps))) * n / (n - 0.8)
    if not deviation > 0:
        # More than half are the same: what the others differ by counts all the same.
        deviation = NORMAL_MEAN * float(np.abs(gaps).mean())
    gaps = np.clip(gaps, -3 * deviation, 3 * deviation)
    gaps -= gaps.mean()
    power = float(gaps @ gaps)
    likeness = float(gaps[1:] @ gaps[:-1]) / power if power > 0 and n > 3 else 0.0
    likeness = min(max(likeness, 0.0), 0.95)
    effective = max(n * (1 - likeness) / (1 + likeness), 1.0)
    return Spread(deviation / middle, NORMAL_MEAN * deviation / middle / math.sqrt(effective), n)


def without_outliers(seconds: Array) -> Array:
    """Put the median of their neighbours in place of windows that are far from them, shape (n,)."""
    at = outliers_of(seconds)
    kept = np.array(seconds, dtype=np.float64)
    if len(at):
        kept[at] = _running_median(seconds)[at]
    return kept


def mean_of(seconds: Array) -> tuple[float, float]:
    """Mean of a series without its outliers, and the standard error of that, in seconds; NaN where unknown."""
    if not len(seconds):
        return math.nan, math.nan
    kept = without_outliers(seconds)
    # Of a median it is 1.2533 times as large, for normal noise.
    return float(kept.mean()), spread_of(kept).error * float(np.median(kept)) / NORMAL_MEAN


def shared_slowness(one: Array, other: Array) -> tuple[float, float]:
    """Correlate two series, each beside its own running median.

    Parameters
    ----------
    one, other
        Seconds by window, shape (n,) each.

    Returns
    -------
    correlation, deviations
        Spearman's, and how many standard deviations it is above 0 (Fisher's transformation); zeros for less than
        twelve windows.
    """
    n = len(one)
    if n < 12:
        return 0.0, 0.0
    ranks = [np.argsort(np.argsort(np.log(s) - np.log(_running_median(s)))) for s in (one, other)]
    correlation = float(np.corrcoef(ranks[0], ranks[1])[0, 1])
    return correlation, math.atanh(min(max(correlation, -0.999999), 0.999999)) * math.sqrt(n - 3)


def _running_median(seconds: Array) -> Array:
    width = min(NEIGHBOURS, len(seconds) - 1 + len(seconds) % 2)
    padded = np.pad(seconds, width // 2, mode="reflect")
    return np.asarray(np.median(np.lib.stride_tricks.sliding_window_view(padded, width), axis=1), dtype=np.float64)
