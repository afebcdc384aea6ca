"""Replay of windows that each have costs of their own: of given ones, or of recorded ones, resampled and scaled."""

from __future__ import annotations

import math
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from precice_lb.case.coupling import Direction, Program
from precice_lb.exceptions import ScheduleError

if TYPE_CHECKING:
    from precice_lb.schedule.schedule import Schedule

Floats = NDArray[np.float64]
Costs = Mapping[str, ArrayLike]
Recorded = Sequence[Costs]

#: Fewer recorded windows than this say too little about how costs vary.
LEAST_WINDOWS = 8
# Windows of a replay.
_WINDOWS = 256
# A block holds at least so many windows, so that patterns of a few windows stay whole.
_LEAST_BLOCK = 16


def replay_residuals(
    schedule: Schedule,
    compute_seconds: Costs,
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
    relative = [{name: _over_median(np.asarray(series, float)) for name, series in run.items()} for run in recorded]
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
            count = schedule.windows[name]
            series.append(relative[: len(relative) // count * count].reshape(-1, count).mean(axis=1))
        length = min(map(len, series))
        rows = np.stack([values[:length] for values in series])
        rows = rows[:, np.isfinite(rows).all(axis=0)]
        if rows.shape[1]:
            runs.append(rows)
    return runs


def _over_median(seconds: Floats) -> Floats:
    """Cost of each window over the median of its run."""
    known = seconds[np.isfinite(seconds)]
    median = float(np.median(known)) if len(known) else 0.0
    # A participant that costs nothing has nothing that varies.
    return seconds / median if median > 0 else np.ones_like(seconds)


def replay(
    programs: Mapping[str, Program], costs: Sequence[Callable[[int], Floats]], windows: int, wanted: Sequence[int]
) -> Floats:
    """Completion time of the wanted windows when every window has costs of its own."""
    total: Counter[Direction] = Counter()
    for program in programs.values():
        for steps, times in ((program.initial, 1), (program.window, windows)):
            for step in steps:
                if step.kind == "send" and step.channel:
                    total[step.channel] += times
    noted, messages = set(wanted), defaultdict[Direction, deque[Floats]](deque)
    completed: dict[int, list[Floats]] = {window: [] for window in noted}

    def run(program: Program, cost: Callable[[int], Floats]) -> Iterator[Direction]:
        """Go through all windows, and stop where a message is missing."""
        clock, received = np.zeros(()), Counter[Direction]()
        last_work = max(place for place, step in enumerate(program.window) if step.kind == "work")
        for window in range(-1, windows):
            for place, step in enumerate(program.initial if window < 0 else program.window):
                if step.channel is None:
                    clock = clock + step.share * cost(window)
                elif step.kind == "send":
                    messages[step.channel].append(clock)
                # preCICE does not receive for a window that will not come.
                elif received[step.channel] < total[step.channel]:
                    if not messages[step.channel]:
                        yield step.channel
                    clock = np.maximum(clock, messages[step.channel].popleft())
                    received[step.channel] += 1
                if place == last_work and window in noted:
                    completed[window].append(clock)

    runners = {name: run(program, cost) for (name, program), cost in zip(programs.items(), costs, strict=True)}
    missing = {name: next(runner, None) for name, runner in runners.items()}
    while ready := [name for name, channel in missing.items() if channel and messages[channel]]:
        for name in ready:
            missing[name] = next(runners[name], None)
    if stuck := [name for name, channel in missing.items() if channel]:
        raise ScheduleError(f"participants {', '.join(stuck)} wait for messages that nobody sends")
    return np.stack([np.max(completed[window], axis=0) for window in wanted], axis=-1)
