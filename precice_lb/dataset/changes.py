"""Did something change: between two groups of measurements, or within a sequence of them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from precice_lb.store.columns import Array

CHANCE = 0.01
"""How often noise alone may count as a change; intervals hold for the rest."""
LEAST_RUNS = 6
"""Runs in which a step can be found: three on either side of it, of which one may be an outlier."""
# Of one run: so many blocks of windows at most, each of so many windows at least where there are more than three.
_BLOCKS, _BLOCK_WINDOWS = 10, 6
# No clock tells less: seconds, or relative.
_RESOLUTION = 1e-9


@dataclass(frozen=True)
class Change:
    """From one group of values to another.

    Attributes
    ----------
    before, after
        Their geometric means, or means where logarithms make no sense.
    low, high
        Ends of the interval of ``after - before``; infinite where nothing tells the noise.
    """

    before: float
    after: float
    low: float
    high: float

    @property
    def share(self) -> float:
        """The change over what was there before; NaN where that is nothing."""
        return self.after / self.before - 1 if self.before > 0 else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        """The ends of the interval over what was there before; NaN where that is nothing."""
        return (self.low / self.before, self.high / self.before) if self.before > 0 else (math.nan, math.nan)

    @property
    def is_real(self) -> bool:
        """Whether it is more than noise."""
        return self.low > 0 or self.high < 0


def blocks_for(windows: int) -> int:
    """Say into how many blocks a run of so many windows is cut.

    Windows that follow each other are alike; means over blocks are nearly independent. About ten blocks lose little
    (Schmeiser 1982, Batch size effects in the analysis of simulation output, Operations Research 30).
    """
    return min(windows, max(3, min(_BLOCKS, windows // _BLOCK_WINDOWS)))


def change_of(
    before: Array, after: Array, *, is_ratio: bool = True, same_noise: bool = False, places: int = 1
) -> Change:
    """Compare two groups of independent values, such as means of runs.

    Parameters
    ----------
    before, after : ndarray, shapes (m,), (n,)
        Positive values; NaN is left out.
    is_ratio
        Compare logarithms, so that noise in proportion to the values is the same in both.
    same_noise
        Whether both groups share one variance (Student). By default each has its own: Welch's t interval (Welch 1947,
        The generalization of "Student's" problem, Biometrika 34). A group of one value always takes the other's.
    places
        How many such comparisons are made to choose the largest; the interval holds for all of them (Bonferroni).

    Returns
    -------
    Change
        At the level 1 - `CHANCE`; NaN where a group is empty.
    """
    groups = [values[np.isfinite(values)] for values in (before, after)]
    if not all(map(len, groups)):
        return Change(math.nan, math.nan, math.nan, math.nan)
    if is_ratio:
        groups = [np.log(np.maximum(values, _RESOLUTION)) for values in groups]
    counts = np.array([len(values) for values in groups])
    means = [float(values.mean()) for values in groups]
    squares = np.array([float(((values - mean) ** 2).sum()) for values, mean in zip(groups, means, strict=True)])
    if same_noise or counts.min() < 2:
        freedom = float(counts.sum() - 2)
        variances = squares.sum() / max(freedom, 1.0) / counts
    else:
        variances = squares / (counts - 1) / counts
        total = float(variances.sum())
        freedom = total**2 / float((variances**2 / (counts - 1)).sum()) if total > 0 else float(counts.min() - 1)
    half = math.inf
    if freedom > 0:
        # Loading it takes a while.
        from scipy.special import stdtrit

        half = float(stdtrit(freedom, 1 - CHANCE / places / 2)) * math.sqrt(float(variances.sum()))
        half = max(half, _RESOLUTION)
    start, end = means
    low, high = end - start - half, end - start + half
    if not is_ratio:
        return Change(start, end, low, high)
    with np.errstate(over="ignore"):
        ends = math.exp(start) * np.expm1([low, high])
    return Change(math.exp(start), math.exp(end), *ends.tolist())


def step_of(values: Array) -> tuple[int, int]:
    """Find the place of the one step that explains most of a sequence, which noise alone has as well.

    That of least squares of the logarithms, where Student's t is largest. Whether that is noise `change_of` says with
    ``same_noise`` and as many ``places`` as were tried: Bonferroni's bound on the largest t (Worsley 1979, On the
    likelihood ratio test for a shift in location of normal populations, JASA 74). Where medians differ by less
    than half as much as means, one value far from the others makes the step, which is none.

    Parameters
    ----------
    values : ndarray, shape (n,)
        Positive, in their order, at least `LEAST_RUNS`.

    Returns
    -------
    place : int
        Index of the first value after the step; the middle where no place is one.
    places : int
        How many were tried.
    """
    logs, edge = np.log(np.maximum(values, _RESOLUTION)), LEAST_RUNS // 2
    squares = {}
    places = range(edge, len(logs) - edge + 1)
    for place in places:
        sides = logs[:place], logs[place:]
        means, medians = np.array([side.mean() for side in sides]), np.array([np.median(side) for side in sides])
        if abs(np.diff(medians)) >= abs(np.diff(means)) / 2:
            squares[place] = sum(float(((side - side.mean()) ** 2).sum()) for side in sides)
    return min(squares, key=squares.__getitem__, default=len(logs) // 2), len(places)
