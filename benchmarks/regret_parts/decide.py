"""From curves to a split, and what the split costs in truth."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import PreciceLBError
from precice_lb.models import valid_range
from regret_parts.readings import Pair

__all__ = ["LEAST", "choose", "learned_curves", "proportional", "regret", "valid_curve"]

Array = NDArray[np.float64]

#: Ranks that a solver gets at least.
LEAST = 2
# As many curves as recommend_split draws.
DRAWS = 512


def regret(pair: Pair, budget: int, first: int) -> float:
    """Give the true max(f1, f2) at p1 = first, p2 = budget - first, over the least of all splits, minus 1."""
    ranks = np.arange(LEAST, budget - LEAST + 1, dtype=np.float64)
    window = np.maximum(pair.solvers[0](ranks), pair.solvers[1](budget - ranks))
    return float(window[first - LEAST] / window.min() - 1)


def proportional(weights: tuple[float, float], budget: int) -> int:
    """Ranks of the first solver in proportion to weights."""
    share = int(np.rint(budget * weights[0] / (weights[0] + weights[1])))
    return min(max(share, LEAST), budget - LEAST)


def choose(curves: tuple[Array, Array], budget: int) -> int:
    """Ranks of the first solver with the least mean window time.

    Parameters
    ----------
    curves
        Of each solver, shape (curves, P): seconds at 1 … P ranks; not finite where a curve must not be used.
    budget
        Ranks in all, at most P + `LEAST`.

    Returns
    -------
    int
        0 if no split can be used.
    """
    first = curves[0][:, LEAST - 1 : budget - LEAST]
    second = curves[1][:, LEAST - 1 : budget - LEAST][:, ::-1]
    expected = np.maximum(first, second).mean(axis=0)
    expected[~np.isfinite(expected)] = np.inf
    return LEAST + int(np.argmin(expected)) if np.isfinite(expected).any() else 0


def valid_curve(seconds: Array, measured: Array) -> Array:
    """Give one curve, shape (1, P), not finite outside of the valid range of `recommend`."""
    curve = np.full((1, len(seconds)), np.inf)
    try:
        low, high = valid_range(seconds, measured)
    except PreciceLBError:
        return curve
    curve[0, low - 1 : high] = seconds[low - 1 : high]
    return curve


def learned_curves(model: Any, measured: Array, highest: int, seed: tuple[int, ...], block: int = 1) -> Array:
    """Curves that `recommend` decides by: drawn where the learner can, else the predicted one where it is valid.

    Parameters
    ----------
    model
        Fitted to times over ranks.
    measured
        Rank counts that were measured, in blocks.
    highest
        Curves are given at 1 … highest blocks.
    seed
        Of the random numbers.
    block
        Ranks in a block.

    Returns
    -------
    array of shape (curves, highest)
    """
    ranks = block * np.arange(1, highest + 1, dtype=np.float64)
    draws = hasattr(model, "draw")
    if draws and model.always_valid:
        return np.asarray(model.draw(DRAWS, np.random.default_rng(seed))(ranks), dtype=np.float64)
    valid = valid_curve(np.asarray(model.predict(ranks[:, None]), dtype=np.float64), measured)
    if not draws:
        return valid
    curves = np.array(model.draw(DRAWS, np.random.default_rng(seed))(ranks), dtype=np.float64)
    curves[:, ~np.isfinite(valid[0])] = np.inf
    return curves
