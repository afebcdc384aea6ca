"""Running sums of one rank's times, for the solver to look at while it runs."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

NO_SUMS = np.zeros(4, np.int64)
"""`sums` of no rows."""


def sums(rows: NDArray[np.void]) -> NDArray[np.int64]:
    """Sum up rows of `ADVANCE_DTYPE`: complete time windows, calls of ``advance``, and ns of solve and ``advance``."""
    windows = np.count_nonzero(rows["window_complete"])
    return np.array([windows, len(rows), rows["solve_ns"].sum(), rows["advance_ns"].sum()])


def summary(summed: NDArray[np.int64]) -> dict[str, float]:
    """Return what ``timing_summary`` of the participant returns."""
    windows, advances, *times = summed.tolist()
    result: dict[str, float] = {"windows": windows, "advances": advances}
    for name, time in zip(("solve", "advance"), times, strict=True):
        result[f"{name}_seconds"] = time * 1e-9 if advances else math.nan
        result[f"{name}_share"] = time / sum(times) if sum(times) > 0 else math.nan
    return result
