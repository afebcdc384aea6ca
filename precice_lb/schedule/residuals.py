"""The window time that noise and changing load give: replay of recorded windows, resampled and scaled to a split."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from precice_lb.exceptions import ScheduleError
from precice_lb.schedule.schedule import Schedule

Floats = NDArray[np.float64]
Recorded = Sequence[Mapping[str, ArrayLike]]

#: Fewer recorded windows than this say too little about how costs vary.
LEAST_WINDOWS = 8
# Windows of a replay.
_WINDOWS = 256
# A block holds at least so many windows, so that patterns of a few windows stay whole.
_LEAST_BLOCK = 16


def replay_residuals(
    schedule: Schedule,
    compute_seconds: Mapping[str, ArrayLike],
    recorded: Recorded,
    *,
    windows: int = _WINDOWS,
    block: int | None = None,
    seed: int = 0,
) -> Floats:
    """Seconds per window of a split when costs vary as they did in recorded runs.

    The steady window time of the mean costs is only a lower bound where costs vary from window to window: whoever is
    slow in a window is waited for. Here the recorded windows are replayed instead, in preCICE's program order. What was
    recorded counts relative to its median in that run (the residual), is drawn anew in blocks, all participants from
    the same windows, so that what happens together and in turn stays so, and is scaled by the costs of the split
    (moving-block bootstrap: H. R. Künsch, The jackknife and the bootstrap for general stationary observations, Annals
    of Statistics 17 (1989), section 2).

    Parameters
    ----------
    schedule : Schedule
        The coupling.
    compute_seconds : mapping from participant to array
        Compute seconds per window of each participant, the median as predicted by a model; of shapes that
        are broadcast against each other. All see the same residuals, so that their window times can be compared.
    recorded : sequence of mappings from participant to array of shape (W,)
        For each run, compute seconds of all participants in consecutive windows, in seconds. Where participants count
        different numbers of windows (``Schedule.windows``), each has its own.
    windows : int
        Windows to replay; their first eighth does not count, since the coupling needs some to find its rhythm.
    block : int, optional
        Windows in a block; by default the square root of the recorded ones, at least 16.
    seed : int
        Of the drawing; the same call gives the same result.

    Returns
    -------
    ndarray
        Seconds per window, in the broadcast shape.

    Raises
    ------
    ScheduleError
        If a participant is missing in a run, or if fewer than `LEAST_WINDOWS` windows were recorded in all; and as for
        `Schedule.window_seconds`.
    """
    relative = [
        {name: _over_median(np.asarray(own, dtype=np.float64)) for name, own in run.items()} for run in recorded
    ]
    residuals = resampled_residuals(schedule, relative, windows=windows, block=block, seed=seed)
    return schedule.replay_seconds(compute_seconds, residuals, skip=windows // 8)


def resampled_residuals(
    schedule: Schedule, recorded: Recorded, *, windows: int = _WINDOWS, block: int | None = None, seed: int = 0
) -> dict[str, Floats]:
    """Draw residuals of all participants in blocks, for as many windows as asked for."""
    runs = recorded_windows(schedule, recorded)
    lengths = np.array([run.shape[1] for run in runs], dtype=np.float64)
    total = int(lengths.sum())
    if total < LEAST_WINDOWS:
        raise ScheduleError(
            f"expected at least {LEAST_WINDOWS} recorded time windows of all participants, found {total}; record longer"
        )
    size = block if block is not None else max(_LEAST_BLOCK, math.isqrt(total))
    generator = np.random.default_rng(seed)
    parts, drawn = [], 0
    while drawn < windows:
        run = runs[int(generator.choice(len(runs), p=lengths / total))]
        length = min(size, run.shape[1])
        start = int(generator.integers(run.shape[1] - length + 1))
        parts.append(run[:, start : start + length])
        drawn += length
    residuals = np.concatenate(parts, axis=1)[:, :windows]
    return dict(zip(schedule.participants, residuals, strict=True))


def recorded_windows(schedule: Schedule, recorded: Recorded) -> list[Floats]:
    """Residuals of each run with a whole window, shape (participants, windows of the coupling)."""
    runs = []
    for run in recorded:
        missing = [name for name in schedule.participants if name not in run]
        if missing:
            raise ScheduleError(f"expected recorded windows of every participant, found none of {', '.join(missing)}")
        series = []
        for name in schedule.participants:
            relative = np.asarray(run[name], dtype=np.float64)
            each = schedule.windows[name]
            series.append(relative[: len(relative) // each * each].reshape(-1, each).mean(axis=1))
        length = min(len(each) for each in series)
        rows = np.stack([each[:length] for each in series])
        rows = rows[:, np.isfinite(rows).all(axis=0)]
        if rows.shape[1]:
            runs.append(rows)
    return runs


def _over_median(own: Floats) -> Floats:
    """Cost of each window over the median of its run."""
    known = own[np.isfinite(own)]
    median = float(np.median(known)) if len(known) else 0.0
    # A participant that costs nothing has nothing that varies.
    return own / median if median > 0 else np.ones_like(own)
