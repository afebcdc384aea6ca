"""The load balancer of D. Kim, J. W. Larson, K. Chiu (2013), section V, as far as the paper says how it goes.

Every two cycles it looks at all reallocations with |ΔP| ≤ ΔP̂, the prediction counter, and takes the untried one whose
cycle is predicted the shortest, if that is shorter than the measured one. Where the cycle does not become shorter, the
reallocation is undone and the counter halved, else it is doubled, between 2 and 32 from 8 on. It has converged when no
direction is left, and starts again when the cycle changes. What the paper leaves to their earlier ones is stated here:
|ΔP| is the sum of all differences (their 52 ranks in 5 reallocations), and a constituent's seconds are interpolated
in p above half of the most ranks measured, in 1/p below, and scale ideally beyond.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from functools import cache

import numpy as np
from numpy.typing import NDArray

from climate_parts.coupling import NAMES
from climate_parts.run import Measured
from climate_parts.study import predictor_of

__all__ = ["Optimiser", "predict_automatic", "predict_manual"]

Floats = NDArray[np.float64]
Seconds = Mapping[str, Floats]
# From the latest cycle and seconds of each constituent to the cycle.
Predictor = Callable[[Measured, Seconds], Floats]

FIRST, LEAST, MOST = 2**3, 2**1, 2**5
# A converged cycle that is off by more than this has changed.
CHANGED = 0.1


def predict_automatic(run: Measured, seconds: Seconds) -> Floats:
    """Their equation 11."""
    return np.asarray(predictor_of(run).predict(seconds))


def predict_manual(run: Measured, seconds: Seconds) -> Floats:
    """Their equation 12."""
    shared = seconds["cpl"] + seconds["atm"]
    return np.maximum(np.maximum(shared + seconds["land"], shared + seconds["ice"]), seconds["ocn"])


@cache
def directions(counter: int) -> NDArray[np.int64]:
    """List all ways to move ranks between the constituents with a sum of differences of at most the counter."""
    half = counter // 2
    found = []
    for first in itertools.product(range(-half, half + 1), repeat=len(NAMES) - 2):
        low = -half - min(sum(each for each in first if each < 0), 0)
        for fourth in range(low, half + 1):
            last = -sum(first) - fourth
            if abs(last) + abs(fourth) + sum(map(abs, first)) <= counter:
                found.append((*first, fourth, last))
    moves = np.array(found, dtype=np.int64)
    return moves[np.abs(moves).sum(axis=1) > 0]


class Optimiser:
    """Moves ranks by what is predicted; tell it a cycle at `split` and ask that again until it has `converged`."""

    def __init__(self, split: Mapping[str, int], predict: Predictor) -> None:
        self.split = dict(split)
        self.predict = predict
        self.converged = False
        self.moves = self.undone = 0
        self._counter = FIRST
        self._tried = {tuple(split.values())}
        self._points: dict[str, dict[int, list[float]]] = {name: {} for name in NAMES}
        # Split and cycle before the reallocation that is being judged; and the cycle that was the last one accepted.
        self._before: tuple[dict[str, int], float] | None = None
        self._cycle = np.inf

    def tell(self, run: Measured) -> None:
        """Take note of a cycle, and reallocate."""
        for name in NAMES:
            self._points[name].setdefault(self.split[name], []).append(run.traces[name].seconds)
        if self.converged:
            if abs(run.day / self._cycle - 1) > CHANGED:
                self.converged, self._counter, self._tried = False, FIRST, {tuple(self.split.values())}
            return
        if self._before is not None:
            split, cycle = self._before
            self._before = None
            if run.day >= cycle:
                self._counter = max(self._counter // 2, LEAST)
                self.split, self._cycle = dict(split), cycle
                self.moves += 1
                self.undone += 1
                return
            self._counter = min(2 * self._counter, MOST)
        self._cycle = run.day
        self._reallocate(run)

    def _reallocate(self, run: Measured) -> None:
        splits = np.array(list(self.split.values())) + directions(self._counter)
        splits = splits[(splits >= 1).all(axis=1)]
        seconds = {name: self._seconds(name, splits[:, at]) for at, name in enumerate(NAMES)}
        cycles = self.predict(run, seconds)
        for at in np.argsort(cycles, kind="stable"):
            if cycles[at] >= run.day:
                break
            split = tuple(splits[at].tolist())
            if split not in self._tried:
                self._tried.add(split)
                self._before = dict(self.split), run.day
                self.split = dict(zip(NAMES, split, strict=True))
                self.moves += 1
                return
        self.converged = True

    def _seconds(self, name: str, ranks: NDArray[np.int64]) -> Floats:
        points = self._points[name]
        known = np.array(sorted(points), dtype=np.float64)
        seconds = np.array([np.mean(points[int(count)]) for count in known])
        straight = np.interp(ranks, known, seconds)
        scaled = np.interp(-1.0 / ranks, -1.0 / known, seconds)
        found = np.where(ranks >= known[-1] / 2, straight, scaled)
        return np.asarray(found * np.maximum(known[0] / ranks, 1.0) * np.minimum(known[-1] / ranks, 1.0))
