"""Running sums of one rank's times, for the solver to look at while it runs."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from precice_lb.store.schema import NOT_MEASURED

__all__ = ["NO_SUMS", "summary", "sums"]

NO_SUMS = np.zeros(6)
"""`sums` of no rows."""


def sums(rows: NDArray[np.void]) -> NDArray[np.float64]:
    """Sum up rows of `ADVANCE_DTYPE`: time windows, calls, and ns of solve, advance, mapping and wait, NaN if unknown.

    Whole numbers of ns are exact here up to a hundred days.
    """
    parts = [rows[name] for name in ("solve_ns", "advance_ns", "mapping_ns", "wait_ns")]
    unknown = [False, False, *((part == NOT_MEASURED).any() for part in parts[2:])]
    times = [math.nan if missing else part.sum() for part, missing in zip(parts, unknown, strict=True)]
    return np.array([np.count_nonzero(rows["window_complete"]), len(rows), *times], dtype=float)


def summary(summed: NDArray[np.float64]) -> dict[str, float]:
    """Return what ``timing_summary`` of the participant returns."""
    windows, advances, *times = summed.tolist()
    solve, advance, mapping, wait = (time * 1e-9 if advances else math.nan for time in times)
    seconds = {"solve": solve, "advance": advance, "mapping": mapping, "wait": wait}
    seconds["overhead"] = advance - mapping - wait
    whole = solve + advance
    result: dict[str, float] = {"windows": int(windows), "advances": int(advances)}
    for name, value in seconds.items():
        result[f"{name}_seconds"] = value
        result[f"{name}_share"] = value / whole if whole > 0 else math.nan
    return result
