"""From readings of two solvers to splits, for our learners through `recommend_split`, and what the splits cost."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from precice_lb.exceptions import PreciceLBError
from precice_lb.recommend import recommend_split
from regret_parts.peers import extra_p, line_in_logarithms

__all__ = [
    "LEAST",
    "LEVEL",
    "Bounds",
    "Score",
    "Split",
    "bounds_of",
    "choose",
    "decide",
    "equal",
    "proportional",
    "regret",
    "score",
]

Array = NDArray[np.float64]
Solvers = Sequence[Callable[[Array], Array]]

NAMES = ("First", "Second")
# Fewest and most ranks of either solver.
Bounds = tuple[int, int]
#: Ranks that a random solver gets at least.
LEAST = 2
#: Of intervals.
LEVEL = 0.8


class Split(NamedTuple):
    """Ranks of both solvers, and bounds of the window time from whoever states some."""

    ranks: tuple[int, int]
    interval: tuple[float, float] | None = None


class Score(NamedTuple):
    """What came of one contestant on one pair, by budget.

    Attributes
    ----------
    regrets
        True window time over that of the best split, minus 1.
    covered
        1 where the interval holds the true window time of the split, 0 where not, NaN without an interval.
    refused
        Where the contestant offered no split; it got the equal one.
    seconds
        Of the processor, for all budgets.
    """

    regrets: Array
    covered: Array
    refused: NDArray[np.bool_]
    seconds: float


def score(
    solvers: Solvers, budgets: Sequence[int], bounds: Sequence[Bounds], decision: Callable[[], Sequence[Split | None]]
) -> Score:
    """Let a contestant decide, and hold its splits against the truth."""
    start = time.process_time()
    offered = decision()
    seconds = time.process_time() - start
    splits = [split or equal(budget) for split, budget in zip(offered, budgets, strict=True)]
    regrets = [regret(solvers, *which) for which in zip(splits, budgets, bounds, strict=True)]
    covered = [_covered(solvers, split) for split in splits]
    return Score(np.array(regrets), np.array(covered), np.array([split is None for split in offered]), seconds)


def regret(solvers: Solvers, split: Split, budget: int, bounds: Bounds) -> float:
    """Give the true window time of a split over the least of all within budget and bounds, minus 1."""
    low, high = bounds
    # Of so many ranks or fewer.
    first, second = (np.minimum.accumulate(solver(np.arange(low, high + 1.0))) for solver in solvers)
    ranks = np.arange(low, min(high, budget - low) + 1)
    windows = np.maximum(first[ranks - low], second[np.minimum(budget - ranks, high) - low])
    return _window(solvers, split) / float(windows.min()) - 1


def decide(
    name: str,
    ranks: Array,
    seconds: Array,
    budgets: Sequence[int],
    bounds: Sequence[Bounds],
    *,
    block: int = 1,
    errors: Array | None = None,
    parameters: Mapping[str, Any] | None = None,
    machine: Mapping[str, Any] | None = None,
    extrap: str | None = None,
) -> list[Split | None]:
    """Let a contestant split budgets after readings of two solvers.

    Parameters
    ----------
    name
        ``equal``, ``line``, ``extra-p``, or a learner, which decides through `recommend_split`.
    ranks, seconds
        Readings, shape (n,) and (2, n).
    budgets, bounds
        Ranks in all, and for each budget the fewest and the most that either solver may have.
    block
        Contestants see so many times as many ranks, and give them out in blocks.
    errors
        Standard errors of the readings, where the learner is told them.
    parameters
        Of the learner.
    machine
        What `recommend_split` is told of it beside, in words of `Machine`.
    extrap
        The Python that runs Extra-P.

    Returns
    -------
    list of Split or None
        None where a budget is refused.
    """
    if name == "equal":
        return [equal(budget) for budget in budgets]
    if name in ("line", "extra-p"):
        at = np.arange(1.0, max(high for _, high in bounds) + 1)
        if name == "line":
            curves = [line_in_logarithms(ranks, row)(at) for row in seconds]
        else:
            curves = [
                extra_p(extrap).curve(block * ranks, row, block * len(at))[:, block - 1 :: block] for row in seconds
            ]
        return [choose(curves[0], curves[1], *which) for which in zip(budgets, bounds, strict=True)]
    columns = {"participant": np.repeat(NAMES, len(ranks)), "ranks": np.tile(block * ranks.astype(int), 2)}
    readings = pd.DataFrame(columns | {"seconds": seconds.ravel()})
    if errors is not None:
        readings["standard_error"] = errors.ravel()
    return [
        _recommended(readings, block, block * budget, learner={"name": name, **(parameters or {})},
                     minimum=block * low, maximum=dict.fromkeys(NAMES, block * high),
                     multiple=block, level=LEVEL, **(machine or {}))
        for budget, (low, high) in zip(budgets, bounds, strict=True)
    ]  # fmt: skip


def _recommended(readings: pd.DataFrame, block: int, budget: int, **asked: Any) -> Split | None:
    with warnings.catch_warnings():
        # A network that has not converged is this contestant's trouble, and shows in its regret.
        warnings.simplefilter("ignore")
        try:
            result = recommend_split(readings, budget, **asked)
        except PreciceLBError:
            return None
    interval = result.interval if np.isfinite(result.interval).all() else None
    return Split((result.split[NAMES[0]] // block, result.split[NAMES[1]] // block), interval)


def bounds_of(budget: int) -> Bounds:
    """Bounds of a random solver."""
    return LEAST, budget - LEAST


def equal(budget: int) -> Split:
    """Split a budget in halves."""
    return Split((budget // 2, budget - budget // 2))


def proportional(weights: tuple[float, float], budget: int) -> Split:
    """Split a budget in proportion to weights."""
    share = int(np.rint(budget * weights[0] / (weights[0] + weights[1])))
    first = int(np.clip(share, *bounds_of(budget)))
    return Split((first, budget - first))


def choose(first: Array, second: Array, budget: int, bounds: Bounds) -> Split | None:
    """Split a whole budget for the least mean window time over curves.

    Parameters
    ----------
    first, second
        Of either solver, shape (curves, P): seconds at 1 … P ranks; not finite where a curve must not be used.
    budget, bounds
        Ranks in all, and of either solver, at most P.

    Returns
    -------
    Split or None
        None if no split can be used. With an interval where there are several curves.
    """
    low = max(bounds[0], budget - bounds[1])
    part = slice(low - 1, budget - low)
    windows = np.maximum(first[:, part], second[:, part][:, ::-1])
    expected = windows.mean(axis=0)
    expected[~np.isfinite(expected)] = np.inf
    if not np.isfinite(expected).any():
        return None
    first_ranks = low + int(np.argmin(expected))
    at_best = windows[:, first_ranks - low]
    interval = tuple(np.quantile(at_best, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]).tolist()) if len(windows) > 1 else None
    return Split((first_ranks, budget - first_ranks), interval)


def _window(solvers: Solvers, split: Split) -> float:
    """Give the true seconds per window: those of the slower solver."""
    return max(float(solver(np.array([float(n)]))[0]) for solver, n in zip(solvers, split.ranks, strict=True))


def _covered(solvers: Solvers, split: Split) -> float:
    if split.interval is None:
        return np.nan
    return float(split.interval[0] <= _window(solvers, split) <= split.interval[1])
