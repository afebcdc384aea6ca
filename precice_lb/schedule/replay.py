"""Replaying time windows whose costs vary: the max-plus recursion itself, step by step."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import ScheduleError
from precice_lb.schedule.program import Channel, Operation, Program

__all__ = ["replay"]

Floats = NDArray[np.float64]
Cost = Callable[[int], Floats]


class _Runner:
    """One participant on its way through all windows."""

    def __init__(
        self, program: Program, cost: Cost, windows: int, wanted: frozenset[int], total: Mapping[Channel, int]
    ) -> None:
        self.clock: Floats = np.zeros(())
        #: Clock at the last work of the windows that are wanted.
        self.completed: dict[int, Floats] = {}
        self._cost = cost
        self._wanted = wanted
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
                if index == last_work and window in self._wanted:
                    self.completed[window] = self.clock

    def advance(self, messages: dict[Channel, deque[Floats]]) -> bool:
        """Go on until a message is missing; say whether anything was done."""
        moved = False
        while self._step is not None:
            window, step = self._step
            if step.channel is None:
                self.clock = self.clock + step.share * self._cost(window)
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


def replay(
    programs: Mapping[str, Program], costs: Mapping[str, Cost], windows: int, wanted: Sequence[int] | None = None
) -> Floats:
    """Completion time of windows when every window has costs of its own."""
    wanted = range(windows) if wanted is None else wanted
    if not len(wanted):
        return np.zeros(0)
    total: Counter[Channel] = Counter()
    for program in programs.values():
        total.update(step.channel for step in program.initial if step.kind == "send" and step.channel)
        for step in program.window:
            if step.kind == "send" and step.channel:
                total[step.channel] += windows
    noted = frozenset(wanted)
    runners = {name: _Runner(program, costs[name], windows, noted, total) for name, program in programs.items()}
    messages: dict[Channel, deque[Floats]] = {}
    moving = True
    while moving:
        moving = False
        for runner in runners.values():
            moving |= runner.advance(messages)
    if stuck := [name for name, runner in runners.items() if len(runner.completed) < len(noted)]:
        raise ScheduleError(f"participants {', '.join(stuck)} wait for messages that nobody sends")
    ends = [np.max([runner.completed[window] for runner in runners.values()], axis=0) for window in wanted]
    return np.stack(ends, axis=-1)
