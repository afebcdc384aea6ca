"""Seconds per window of a participant of a running simulation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from precice_lb.dataset.guesses import GUESSED, Columns, Guesses
from precice_lb.dataset.windows import participant_times, windows_of
from precice_lb.store.records import RankFile

Array = NDArray[np.float64]


class Series:
    """What a participant did in each time window, reduced over its ranks; grows as the run goes on.

    Every wait counts in the window of the call that waits. So the second participant of a serial scheme, whose wait is
    for the window after, is one window off what `precice_lb.dataset.load_runs` says; its compute seconds are the same.
    """

    def __init__(self) -> None:
        # Time windows that all ranks have completed, rising, shape (W,).
        self.windows: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        # Seconds of each without waiting for partners and without the transfer floor, seconds of waiting, wall seconds,
        # coupling iterations, and first guesses; NaN where not measured.
        self.busy: Array = np.empty(0)
        self.wait: Array = np.empty(0)
        self.wall: Array = np.empty(0)
        self.iterations: Array = np.empty(0)
        self.guesses: NDArray[np.void] = np.empty(0, GUESSED)
        # The least of an iteration so far, but for the first windows; NaN if there was none.
        self.least_wait = self.least_overhead = np.nan
        # Why waits were not measured, with the number of ranks.
        self.problems: dict[str, int] = {}

    @property
    def last_window(self) -> int:
        """The last of `windows`; 0 if there is none."""
        return int(self.windows[-1]) if len(self.windows) else 0

    def add(self, group: Sequence[RankFile], warmup: int) -> None:
        """Take the windows that all ranks, each with at least its rows since then, have completed after the last."""
        # Nothing is worked out before every rank has completed another window.
        for store in group:
            rows = store.advances
            if not len(rows) or rows["window"][-1] <= self.last_window:
                return
        layout = windows_of(group)
        new = layout.windows > self.last_window
        if not new.any():
            return
        times = participant_times(group, layout, warmup, whole=False)
        self.problems = times.problems
        self.windows = np.concatenate([self.windows, layout.windows[new]])
        wait, busy, wall = (layout.of_windows(values)[new] for values in (times.wait, times.busy, times.wall))
        self.wait, self.busy = np.concatenate([self.wait, wait]), np.concatenate([self.busy, busy])
        self.wall = np.concatenate([self.wall, np.where(np.isfinite(busy), busy + wait, wall)])
        self.iterations = np.concatenate([self.iterations, layout.iterations[new]])
        # How well a window was guessed may be written after its rows.
        first = int(np.searchsorted(self.windows, layout.windows[0]))
        guesses = Guesses(self.windows[first:])
        for store in group:
            guesses.add(store)
        self.guesses = np.concatenate([self.guesses[:first], guesses.rows])
        self.least_wait = float(np.fmin(self.least_wait, times.least_wait))
        self.least_overhead = float(np.fmin(self.least_overhead, times.least_overhead))

    def guessed(self, warmup: int) -> Columns:
        """Return what tells the predictors of windows after warm-up."""
        steady = self.windows > warmup
        return self.windows[steady], self.iterations[steady], self.wall[steady], self.guesses[steady]

    def own(self, floor: float) -> Array:
        """Compute seconds of each window, shape (W,), with the transfer floor in seconds per iteration."""
        return self.busy + (floor if np.isfinite(self.least_wait) else 0.0) * self.iterations
