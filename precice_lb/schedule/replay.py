"""Replaying time windows whose costs vary: the max-plus recursion itself, step by step."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import ScheduleError
from precice_lb.schedule.program import Channel, Operation, Program

__all__ = ["replay"]

Floats = NDArray[np.float64]


class _Runner:
    """One participant on its way through all windows."""

    def __init__(self, program: Program, costs: Floats, windows: int, total: Mapping[Channel, int]) -> None:
        self.clock: Floats = np.zeros(costs.shape[:-1])
        self.completed: list[Floats] = []
        self._costs = costs
        self._total = total
        self._received: Counter[Channel] = Counter()
        self._steps = self._unroll(program, windows)
        self._step = next(self._steps, None)

    def _unroll(self, program: Program, windows: int) -> Iterator[tuple[int, Operation]]:
        last_work = max(i for i, step in enumerate(program.window) if step.kind == "work")
        for step in program.initial:
            yield -1, step
        for window in range(windows):
            for index, step in enumerate(program.window):
                yield window, step
                if index == last_work:
                    self.completed.append(self.clock)

    def advance(self, messages: dict[Channel, deque[Floats]]) -> bool:
        """Go on until a message is missing; say whether anything was done."""
        moved = False
        while self._step is not None:
            window, step = self._step
            if step.channel is None:
                self.clock = self.clock + self._costs[..., window]
            elif step.kind == "send":
                messages.setdefault(step.channel, deque()).append(self.clock)
            # preCICE does not receive for a window that will not come.
            elif self._received[step.channel] < self._total[step.channel]:
                arrived = messages.get(step.channel)
                if not arrived:
                    return moved
                self.clock = np.maximum(self.clock, arrived.popleft())
                self._received[step.channel] += 1
            moved = True
            self._step = next(self._steps, None)
        return moved


def replay(programs: Mapping[str, Program], costs: Mapping[str, Floats]) -> Floats:
    """Completion time of each window when every window has costs of its own.

    Parameters
    ----------
    programs
        The programs of all participants.
    costs
        Seconds of one piece of work of each participant in each window, shape (..., windows), alike for all.

    Returns
    -------
    ndarray of shape (..., windows)
        Seconds from the start until the last participant has done its last work of the window.
    """
    shape = next(iter(costs.values())).shape
    windows = shape[-1]
    total: Counter[Channel] = Counter()
    for program in programs.values():
        total.update(step.channel for step in program.initial if step.kind == "send" and step.channel)
        for step in program.window:
            if step.kind == "send" and step.channel:
                total[step.channel] += windows
    runners = {name: _Runner(program, costs[name], windows, total) for name, program in programs.items()}
    messages: dict[Channel, deque[Floats]] = {}
    moving = True
    while moving:
        moving = False
        for runner in runners.values():
            moving |= runner.advance(messages)
    if stuck := [name for name, runner in runners.items() if len(runner.completed) < windows]:
        raise ScheduleError(f"participants {', '.join(stuck)} wait for messages that nobody sends")
    if windows == 0:
        return np.zeros(shape)
    ends = np.stack([np.stack(runner.completed, axis=-1) for runner in runners.values()])
    # Where one participant runs ahead of another, windows end out of order; a later window never ends earlier.
    return np.asarray(np.maximum.accumulate(ends.max(axis=0), axis=-1))
