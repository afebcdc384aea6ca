"""Programs of all participants, each variant with its weight, evaluated for arrays of costs per time window."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from precice_lb.exceptions import ScheduleError
from precice_lb.schedule.graph import EventGraph
from precice_lb.schedule.program import Channel, Operation, Program

__all__ = ["Variants", "replay", "rows_of"]

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


# Cost vectors evaluated at once: enough for speed, little enough for memory.
_CHUNK = 8192


class Variants:
    """What programs make of costs of shape (batch, participants), in seconds per time window."""

    def __init__(
        self, variants: Sequence[tuple[float, Mapping[str, Program]]], iterations: Mapping[str, float]
    ) -> None:
        self._variants = [(weight, programs, EventGraph(programs)) for weight, programs in variants]
        self.names = tuple(variants[0][1])
        self._per_iteration = np.array([1.0 / iterations[name] for name in self.names])

    def seconds(self, rows: Floats, participant: str | None = None) -> Floats:
        """Steady seconds per window, shape (batch,), of the coupling or of one participant."""
        rows = rows * self._per_iteration
        result = np.zeros(len(rows))
        for weight, _, graph in self._variants:
            within = None if participant is None else graph.upstream[participant]
            for begin in range(0, len(rows), _CHUNK):
                part = slice(begin, begin + _CHUNK)
                result[part] += weight * graph.window_seconds(rows[part], within)
        return result

    def critical_cycle(self, row: Floats) -> tuple[str, ...]:
        """Participants that set the window time of costs of shape (participants,), by the variant of most weight."""
        return max(self._variants, key=lambda variant: variant[0])[2].critical_cycle(row * self._per_iteration)

    def ends(self, rows: Floats, shape: tuple[int, ...]) -> Floats:
        """Completion time of each window for costs of each, rows of a shape (..., windows)."""
        columns = [row.reshape(shape) for row in (rows * self._per_iteration).T]
        return self._replay([partial(_of_window, column) for column in columns], shape[-1], None)

    def mean_seconds(self, rows: Floats, factors: Sequence[Floats], skip: int) -> Floats:
        """Mean seconds per window, shape (batch,), where costs vary by factors of each participant in each window."""
        rows, windows = rows * self._per_iteration, len(factors[0])
        scaled = [partial(_scaled, rows[:, i], each) for i, each in enumerate(factors)]
        # One window more, since nobody waits for what follows the last one.
        ends = self._replay(scaled, windows + 1, [skip - 1, windows - 1] if skip else [windows - 1])
        return np.asarray((ends[:, -1] - ends[:, 0] if skip else ends[:, 0]) / (windows - skip), dtype=np.float64)

    def _replay(self, costs: Sequence[Callable[[int], Floats]], windows: int, wanted: Sequence[int] | None) -> Floats:
        named = dict(zip(self.names, costs, strict=True))
        return np.asarray(sum(w * replay(programs, named, windows, wanted) for w, programs, _ in self._variants))


def rows_of(names: Sequence[str], costs: Mapping[str, ArrayLike]) -> tuple[Floats, tuple[int, ...]]:
    """Check costs, and give them as rows of shape (batch, participants), with the shape to give back."""
    if set(costs) != set(names):
        raise ScheduleError(f"expected costs of {', '.join(names)}, found {', '.join(costs) or 'none'}")
    arrays = np.broadcast_arrays(*(np.asarray(costs[name], dtype=np.float64) for name in names))
    rows = np.stack([array.ravel() for array in arrays], axis=1)
    if not np.all(np.isfinite(rows) & (rows >= 0)):
        bad = names[int(np.argwhere(~(np.isfinite(rows) & (rows >= 0)))[0, 1])]
        raise ScheduleError(f'expected finite costs that are not negative, found others for "{bad}"')
    return rows, arrays[0].shape


def _of_window(column: Floats, window: int) -> Floats:
    return np.asarray(column[..., window])


def _scaled(column: Floats, factors: Floats, window: int) -> Floats:
    return np.asarray(column * factors[window % len(factors)])
