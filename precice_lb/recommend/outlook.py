"""What splits are expected to give when the curves are not known for sure, and which is best then.

The window time is a maximum of sums, so its mean under uncertainty lies above the window time of the mean curves, and
the split with the least of the one is not that of the other: a participant whose curve is uncertain should get some
ranks more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.schedule import Schedule

__all__ = ["Outlook", "curves_of"]

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
Curves = Callable[[Integers], Array]

# Curves drawn per participant: the mean window time is known to about a fiftieth of its spread.
DRAWS = 512


def curves_of(model: Any, seed: list[int]) -> Curves:
    """Get the curves of a fitted model: drawn ones where it can draw, else the one that it predicts.

    Parameters
    ----------
    model : estimator
        Fitted.
    seed : list of int
        The same seed draws the same curves.

    Returns
    -------
    callable
        From k rank counts to seconds per time window, shape (curves, k).
    """
    if hasattr(model, "draw"):
        drawn = model.draw(DRAWS, np.random.default_rng(seed))
        return lambda ranks: np.asarray(drawn(ranks), dtype=np.float64)
    return lambda ranks: np.asarray(model.predict(ranks[:, None].astype(np.float64)), dtype=np.float64)[None]


class Outlook:
    """Window time of splits over drawn curves.

    Parameters
    ----------
    schedule : Schedule
        How the coupling turns own seconds into the window time.
    curves : mapping from participant to callable
        As of `curves_of`; drawn independently for each participant.
    """

    def __init__(self, schedule: Schedule, curves: Mapping[str, Curves]) -> None:
        self.schedule = schedule
        self.names = schedule.participants
        self.curves = curves
        one = np.ones(1, dtype=np.int64)
        #: Whether there is anything to average over.
        self.is_uncertain = any(len(curve(one)) > 1 for curve in curves.values())

    def own(self, split: Mapping[str, int]) -> dict[str, Array]:
        """Own seconds per window of each participant, one for each drawn curve."""
        curves = [self.curves[name](np.array([split[name]], dtype=np.int64))[:, 0] for name in self.names]
        return dict(zip(self.names, np.broadcast_arrays(*curves), strict=True))

    def window(self, split: Mapping[str, int]) -> Array:
        """Seconds per window, one for each drawn set of curves."""
        return self.schedule.window_seconds(self.own(split))

    def expected_windows(self, counts: Integers) -> Array:
        """Mean seconds per window of several splits, shape (k,), for ranks of shape (k, participants)."""
        costs = {}
        for name, column in zip(self.names, counts.T, strict=True):
            ranks, inverse = np.unique(column, return_inverse=True)
            costs[name] = self.curves[name](ranks)[:, inverse.ravel()]
        return np.asarray(self.schedule.window_seconds(costs).mean(axis=0), dtype=np.float64)

    def improve(
        self, start: Mapping[str, int], budget: int, lowest: Mapping[str, int], highest: Mapping[str, int]
    ) -> dict[str, int]:
        """Search from a split for the least mean window time.

        Ranks are moved between two participants, added from what is unused, or given back, in steps that halve from
        an eighth of the budget to 1, always the best of all such moves, until none is better.

        Parameters
        ----------
        start : mapping of str to int
            A split within budget and bounds: the optimum for the mean curves.
        budget : int
            Ranks in all.
        lowest, highest : mappings of str to int
            Bounds by participant.
        """
        n = len(self.names)
        low = np.array([lowest[name] for name in self.names])
        high = np.array([highest[name] for name in self.names])
        # One rank from a to b, for all a and b; the last row and column stand for the unused ranks.
        units = np.vstack([np.eye(n, dtype=np.int64), np.zeros((1, n), dtype=np.int64)])
        moves = (units[None, :, :] - units[:, None, :]).reshape(-1, n)
        moves = moves[moves.any(axis=1)]
        best = np.array([start[name] for name in self.names], dtype=np.int64)
        least = float(self.expected_windows(best[None])[0])
        step = 1 << max(budget // 8, 1).bit_length() - 1
        while step:
            tried = best + step * moves
            tried = tried[((tried >= low) & (tried <= high)).all(axis=1) & (tried.sum(axis=1) <= budget)]
            seconds = self.expected_windows(tried) if len(tried) else np.array([np.inf])
            at = int(np.argmin(seconds))
            if seconds[at] < least * (1 - 1e-9):
                best, least = tried[at], float(seconds[at])
            else:
                step //= 2
        return {name: int(count) for name, count in zip(self.names, best, strict=True)}
