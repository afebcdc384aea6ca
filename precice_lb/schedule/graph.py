"""Coupled programs: their periodic event graph, its max-plus matrix, and replay of windows with costs of their own.

Nodes are the steps of the programs, an edge says "not before", and carries how many time windows lie between (its
delay). The steady seconds per window are the maximum over all cycles of the summed work divided by the summed delay
(F. Baccelli, G. Cohen, G. J. Olsder, J.-P. Quadrat: Synchronization and Linearity, Wiley 1992, sections 2.5 and 3.2).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from precice_lb.case.coupling import Direction, Program
from precice_lb.exceptions import ScheduleError

if TYPE_CHECKING:
    from precice_lb.schedule.schedule import Schedule


Floats = NDArray[np.float64]


# Numbers that are worked on at once: enough for speed, little enough for memory.
_AT_ONCE = 2**18


def maximum_cycle_mean(matrix: Floats) -> Floats:
    """Largest mean weight of a cycle in each of a batch of max-plus matrices (Karp 1978)."""
    batch, size, _ = matrix.shape
    walks = np.empty((size + 1, batch, size))
    walks[0] = 0.0
    for k in range(size):
        walks[k + 1] = (matrix + walks[k][:, None, :]).max(axis=2)
    steps = np.arange(size, 0, -1.0)[:, None, None]
    final = walks[-1]
    reached = np.isfinite(final)
    # A walk of n edges ends in a walk of k edges: where the former exists, so do all of the latter.
    difference = np.where(reached, final, 0.0) - np.where(reached, walks[:-1], 0.0)
    means = np.where(reached, (difference / steps).min(axis=0), -np.inf)
    return np.asarray(means.max(axis=1))


class _Edge(NamedTuple):
    source: int
    target: int
    delay: int


class EventGraph:
    """The event graph of one period, with all delays 0 or 1."""

    def __init__(self, programs: Mapping[str, Program]) -> None:
        self.names = tuple(programs)
        # Per node its participant's column, and the part of its work; 0 for a step that takes no time.
        self._owner: list[int] = []
        self._share: list[float] = []
        edges = self._add_nodes(programs)
        self._edges = self._split_long_delays(_retimed(edges, len(self._owner)))
        #: Nodes that later windows wait for.
        self._states = sorted({edge.source for edge in self._edges if edge.delay})
        self._edges_to: dict[int, list[_Edge]] = {node: [] for node in range(len(self._owner))}
        for edge in self._edges:
            self._edges_to[edge.target].append(edge)
        self._order = self._ordered()
        #: Participants that each participant depends on, itself included.
        self.upstream = self._upstream()

    def _add_nodes(self, programs: Mapping[str, Program]) -> list[_Edge]:
        edges: list[_Edge] = []
        sends: dict[Direction, list[int]] = defaultdict(list)
        receives: dict[Direction, list[int]] = defaultdict(list)
        offset: dict[Direction, int] = defaultdict(int)
        for column, program in enumerate(programs.values()):
            for step in program.initial:
                if step.channel is not None:
                    offset[step.channel] += 1 if step.kind == "receive" else -1
            begin = len(self._owner)
            for step in program.window:
                node = len(self._owner)
                self._share.append(step.share if step.channel is None else 0.0)
                self._owner.append(column)
                if step.channel is not None:
                    (sends if step.kind == "send" else receives)[step.channel].append(node)
                if node > begin:
                    edges.append(_Edge(node - 1, node, 0))
            edges.append(_Edge(len(self._owner) - 1, begin, 1))
        for channel in {**sends, **receives}:
            sources, targets = sends[channel], receives[channel]
            if len(sources) != len(targets):
                raise ScheduleError(
                    f'expected as many points of "{channel.source}" that send to "{channel.target}" as of the other '
                    f"that receive, found {len(sources)} and {len(targets)}; trace whole cycles of both"
                )
            for i, target in enumerate(targets):
                later, j = divmod(i + offset[channel], len(targets))
                edges.append(_Edge(sources[j], target, -later))
        return edges

    def _split_long_delays(self, edges: Sequence[_Edge]) -> list[_Edge]:
        split = []
        for source, target, delay in edges:
            before = source
            for _ in range(delay - 1):
                self._share.append(0.0)
                self._owner.append(self._owner[source])
                split.append(_Edge(before, len(self._owner) - 1, 1))
                before = len(self._owner) - 1
            split.append(_Edge(before, target, min(delay, 1)))
        return split

    def _ordered(self) -> list[int]:
        """Put the nodes in an order in which each follows all that it waits for in the same window."""
        before = {node: [edge.source for edge in edges if not edge.delay] for node, edges in self._edges_to.items()}
        try:
            return list(TopologicalSorter(before).static_order())
        except CycleError as error:
            stuck = {self._owner[node] for node in error.args[1]}
            raise _deadlock([name for column, name in enumerate(self.names) if column in stuck]) from None

    def _upstream(self) -> dict[str, frozenset[str]]:
        reach = np.eye(len(self.names), dtype=np.bool_)
        for source, target, _ in self._edges:
            reach[self._owner[target], self._owner[source]] = True
        for between in range(len(reach)):
            reach |= reach[:, between, None] & reach[between]
        names = np.array(self.names)
        return {name: frozenset(names[row].tolist()) for name, row in zip(self.names, reach, strict=True)}

    def _matrix(self, costs: Floats) -> Floats:
        """Max-plus matrix over the edges with delay: the longest way from state to state within a window."""
        state_of = {node: state for state, node in enumerate(self._states)}
        lengths = np.full((len(self._owner), len(costs), len(self._states)), -np.inf)
        for node in self._order:
            length = lengths[node]
            for source, _, delay in self._edges_to[node]:
                if delay:
                    column = length[:, state_of[source]]
                    np.maximum(column, 0.0, out=column)
                else:
                    np.maximum(length, lengths[source], out=length)
            if share := self._share[node]:
                length += share * costs[:, self._owner[node], None]
        return np.asarray(lengths[self._states].swapaxes(0, 1))

    def window_seconds(self, costs: Floats, participants: frozenset[str] | None = None) -> Floats:
        """Steady seconds per window, shape (batch,), for costs of shape (batch, participants)."""
        kept = [
            state for state, node in enumerate(self._states)
            if participants is None or self.names[self._owner[node]] in participants
        ]  # fmt: skip
        rows = max(_AT_ONCE // (len(self._owner) * len(self._states)), 1)
        seconds = [np.empty(0)]
        for start in range(0, len(costs), rows):
            matrix = self._matrix(costs[start : start + rows])
            seconds.append(maximum_cycle_mean(matrix[:, kept][:, :, kept]))
        return np.concatenate(seconds)

    def critical_cycle(self, costs: Floats) -> list[int]:
        """Nodes of a cycle that sets the window time, for costs of shape (participants,)."""
        mean = float(self.window_seconds(costs[None])[0])
        weights = np.array(self._share) * costs[self._owner]
        potential = np.zeros(len(weights))
        scale = max(mean, float(weights.max()), np.finfo(float).tiny)
        # Longest walks under weights reduced by the mean have no positive cycle, so that they settle, but for rounding.
        for _ in range(len(weights) + 1):
            before = potential.copy()
            for source, target, delay in self._edges:
                potential[target] = max(potential[target], potential[source] + weights[target] - mean * delay)
            if (potential - before).max() <= 1e-12 * scale:
                break
        tight: dict[int, list[int]] = defaultdict(list)
        for source, target, delay in self._edges:
            if potential[source] + weights[target] - mean * delay >= potential[target] - 1e-9 * scale:
                tight[target].append(source)
        try:
            TopologicalSorter(tight).prepare()
        except CycleError as error:
            return list(error.args[1][1:])
        return []

    def cut(self, costs: Floats) -> Floats:
        """Weights of the participants' costs on that cycle per window it spans, shape (participants,)."""
        cycle = self.critical_cycle(costs)
        work = np.zeros(len(self.names))
        for node in cycle:
            work[self._owner[node]] += self._share[node]
        window = float(self.window_seconds(costs[None])[0])
        return work / max(round(float(work @ costs) / window), 1) if window > 0 else work

    def critical_participants(self, costs: Floats) -> tuple[str, ...]:
        """Name those whose work makes up that cycle: neighbours merged, repetitions dropped, the first one in front."""
        columns = [self._owner[node] for node in self.critical_cycle(costs) if self._share[node]]
        cycle = [c for i, c in enumerate(columns) if c != columns[i - 1]] or columns[:1]
        rotations = [cycle[i:] + cycle[:i] for i in range(len(cycle))]
        period = next((i for i, rotation in enumerate(rotations) if i and rotation == cycle), len(cycle))
        return tuple(self.names[c] for c in min(rotations, default=[])[:period])


def _retimed(edges: Sequence[_Edge], size: int) -> list[_Edge]:
    """Shift nodes by whole windows until no delay is negative; the cycles keep their delays."""
    shift = [0] * size
    for _ in range(size + 1):
        changed = False
        for source, target, delay in edges:
            if shift[source] - delay > shift[target]:
                shift[target] = shift[source] - delay
                changed = True
        if not changed:
            return [_Edge(s, t, d + shift[t] - shift[s]) for s, t, d in edges]
    raise _deadlock([])


def _deadlock(names: Sequence[str]) -> ScheduleError:
    among = f" among {', '.join(names)}" if names else ""
    return ScheduleError(
        f"expected a coupling in which every receive follows its send, found participants{among} that wait for each "
        "other in a circle; preCICE would hang: change the order of the coupling schemes or make one of them parallel"
    )


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
    runs = _recorded_windows(schedule, recorded)
    lengths = np.array([run.shape[1] for run in runs], dtype=np.float64)
    total = int(lengths.sum())
    if total < LEAST_WINDOWS:
        raise ScheduleError(f"expected {LEAST_WINDOWS} recorded time windows or more, found {total}; record longer")
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


def _recorded_windows(schedule: Schedule, recorded: Recorded) -> list[Floats]:
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
    total = Counter(
        step.channel
        for program in programs.values()
        for step in (*program.initial, *windows * tuple(program.window))
        if step.kind == "send"
    )
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
