"""Programs of all participants, each variant with its weight: of a configuration, and evaluated for arrays of costs.

What a configuration leaves open, iterations and acceleration, is measured.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product

import numpy as np
from numpy.typing import ArrayLike, NDArray

from precice_lb.exceptions import ScheduleError
from precice_lb.precice_xml.config import Configuration, CouplingScheme
from precice_lb.precice_xml.period import period_of
from precice_lb.schedule.graph import EventGraph
from precice_lb.schedule.program import Channel, Operation, Program, check_supported, programs_of

Floats = NDArray[np.float64]
Cost = Callable[[int], Floats]


def program_variants(
    configuration: Configuration, iterations: Mapping[str, float], acceleration: Mapping[str, float]
) -> tuple[list[tuple[float, dict[str, Program]]], str, dict[str, float], dict[str, int]]:
    """Give what `precice_lb.schedule.Schedule` is made of: programs, description, iterations and windows."""
    schemes = configuration.coupling_schemes
    check_supported(configuration)
    counts, parts = _iterations(configuration, iterations), _acceleration(configuration, acceleration)
    variants = [(weight, programs_of(configuration, whole, parts)) for weight, whole in _whole_counts(counts)]
    each = {
        name: next((count for index, count in counts.items() if name in schemes[index].participants), 1.0)
        for name in configuration.participants
    }
    windows = {name: len(steps) for name, steps in period_of(configuration).steps.items()}
    text = "; ".join(_describe(scheme, counts.get(index)) for index, scheme in enumerate(schemes))
    return variants, text, each, windows


def _iterations(configuration: Configuration, given: Mapping[str, float]) -> dict[int, float]:
    """Find the iterations per window of each implicit scheme, by its index."""
    unknown = [name for name in given if name not in configuration.participants]
    if unknown:
        known = ", ".join(configuration.participants)
        raise ScheduleError(f'{configuration.path}: expected iterations of {known}, found some of "{unknown[0]}"')
    counts = {}
    for index, scheme in enumerate(configuration.coupling_schemes):
        if not scheme.is_implicit:
            continue
        values = [float(given[name]) for name in scheme.participants if name in given]
        if values:
            counts[index] = sum(values) / len(values)
        elif not scheme.measures and scheme.max_iterations is not None:
            counts[index] = float(scheme.max_iterations)
        elif len(configuration.coupling_schemes) == 1:
            counts[index] = 1.0
        else:
            raise ScheduleError(
                f"{configuration.path}:{scheme.line}: expected the coupling iterations per time window of "
                f"{' or '.join(scheme.participants)}, found none; several coupling schemes together need them: "
                "give a column iterations, or record runs"
            )
        if not 1 <= counts[index] < math.inf:
            raise ScheduleError(
                f"{configuration.path}:{scheme.line}: expected at least 1 coupling iteration per time window, "
                f"found {counts[index]:g}"
            )
    return counts


def _whole_counts(counts: Mapping[int, float]) -> Iterator[tuple[float, dict[int, int]]]:
    """Whole numbers of iterations around each mean, with the weight of each choice; the weights sum to 1."""
    choices = []
    for count in counts.values():
        low, share = math.floor(count), count - math.floor(count)
        choices.append([(low, 1 - share), (low + 1, share)] if share else [(low, 1.0)])
    for choice in product(*choices):
        whole = {index: number for index, (number, _) in zip(counts, choice, strict=True)}
        yield math.prod(share for _, share in choice), whole


def _acceleration(configuration: Configuration, given: Mapping[str, float]) -> dict[str, float]:
    """Keep the parts of those participants that accelerate, checked."""
    accelerating = [_accelerates(scheme) for scheme in configuration.coupling_schemes]
    parts = {name: float(part) for name, part in given.items() if name in accelerating}
    for name, part in parts.items():
        if not 0.0 <= part < 1.0:
            raise ScheduleError(
                f'{configuration.path}: expected the part of its compute seconds that "{name}" accelerates for as a '
                f"number from 0 to below 1, found {part:g}"
            )
    return parts


def _accelerates(scheme: CouplingScheme) -> str | None:
    """Who accelerates: the second participant, or the controller (preCICE's ``doImplicitStep``)."""
    return None if scheme.acceleration is None else scheme.judge


def _describe(scheme: CouplingScheme, iterations: float | None) -> str:
    count = f" ({iterations:g} iterations)" if iterations is not None and iterations != 1 else ""
    return f"{scheme.kind} {', '.join(scheme.participants)}{count}"


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


def replay(programs: Mapping[str, Program], costs: Mapping[str, Cost], windows: int, wanted: Sequence[int]) -> Floats:
    """Completion time of the wanted windows when every window has costs of its own."""
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

    def seconds(self, rows: Floats) -> Floats:
        """Steady seconds per window, shape (batch,), of the coupling."""
        rows = rows * self._per_iteration
        return np.asarray(sum(weight * _seconds(graph, rows, None) for weight, _, graph in self._variants))

    def participant_seconds(self, rows: Floats) -> dict[str, Floats]:
        """Steady seconds per window, shape (batch,), of each participant."""
        rows = rows * self._per_iteration
        result = {name: np.zeros(len(rows)) for name in self.names}
        for weight, _, graph in self._variants:
            # All who wait for the same ones are as fast.
            known = {within: _seconds(graph, rows, within) for within in set(graph.upstream.values())}
            for name in self.names:
                result[name] += weight * known[graph.upstream[name]]
        return result

    def critical_cycle(self, row: Floats) -> tuple[str, ...]:
        """Participants that set the window time of costs of shape (participants,), by the variant of most weight."""
        return max(self._variants, key=lambda variant: variant[0])[2].critical_cycle(row * self._per_iteration)

    def ends(self, rows: Floats, shape: tuple[int, ...]) -> Floats:
        """Completion time of each window for costs of each, rows of a shape (..., windows)."""
        columns = [partial(np.take, row.reshape(shape), axis=-1) for row in (rows * self._per_iteration).T]
        return self._replay(columns, shape[-1], range(shape[-1]))

    def mean_seconds(self, rows: Floats, factors: Sequence[Floats], skip: int) -> Floats:
        """Mean seconds per window, shape (batch,), where costs vary by factors of each participant in each window."""
        rows, windows = rows * self._per_iteration, len(factors[0])
        scaled = [partial(_scaled, rows[:, i], each) for i, each in enumerate(factors)]
        # One window more, since nobody waits for what follows the last one.
        ends = self._replay(scaled, windows + 1, [skip - 1, windows - 1] if skip else [windows - 1])
        return np.asarray((ends[:, -1] - ends[:, 0] if skip else ends[:, 0]) / (windows - skip), dtype=np.float64)

    def _replay(self, costs: Sequence[Callable[[int], Floats]], windows: int, wanted: Sequence[int]) -> Floats:
        named = dict(zip(self.names, costs, strict=True))
        return np.asarray(sum(w * replay(programs, named, windows, wanted) for w, programs, _ in self._variants))


def _seconds(graph: EventGraph, rows: Floats, within: frozenset[str] | None) -> Floats:
    """Seconds per window of an event graph, or of some participants in it, in parts that fit into memory."""
    parts = range(0, len(rows), _CHUNK)
    return np.concatenate([np.empty(0), *(graph.window_seconds(rows[at : at + _CHUNK], within) for at in parts)])


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


def _scaled(column: Floats, factors: Floats, window: int) -> Floats:
    return np.asarray(column * factors[window % len(factors)])
