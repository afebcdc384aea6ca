"""The periodic event graph of coupled programs and its max-plus matrix.

Nodes are the steps of the programs, an edge says "not before", and carries how many time windows lie between (its
delay). The steady seconds per window are the maximum over all cycles of the summed work divided by the summed delay
(F. Baccelli, G. Cohen, G. J. Olsder, J.-P. Quadrat: Synchronization and Linearity, Wiley 1992, sections 2.5 and 3.2).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from precice_lb.case.coupling import Direction, Program
from precice_lb.exceptions import ScheduleError

Floats = NDArray[np.float64]


# Entries of matrices that are worked on at once: as many as stay in a processor's cache.
_ENTRIES = 2**17


def maximum_cycle_mean(matrix: Floats) -> Floats:
    """Largest mean weight of a cycle in each of a batch of max-plus matrices."""
    most = max(_ENTRIES // max(matrix.shape[-1], 1) ** 2, 1)
    parts = (matrix[start : start + most] for start in range(0, len(matrix), most))
    return np.concatenate([np.empty(0), *map(_cycle_means, parts)])


def _cycle_means(matrix: Floats) -> Floats:
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
        # Per node its participant's column, and the part of its work; None for a step that takes no time.
        self._owner: list[int] = []
        self._share: list[float | None] = []
        edges = _retimed(self._add_nodes(programs), len(self._owner))
        self._edges = self._split_long_delays(edges)
        self._states = sorted({e.source for e in self._edges if e.delay})
        self._steps = self._plan()
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
                self._share.append(step.share if step.channel is None else None)
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
                node = len(self._owner)
                self._share.append(None)
                self._owner.append(self._owner[source])
                split.append(_Edge(before, node, 1))
                before = node
            split.append(_Edge(before, target, min(delay, 1)))
        return split

    def _plan(self) -> list[tuple[int, list[tuple[int, bool]], list[int]]]:
        """Put the steps in an order in which each follows all that it waits for in the same window.

        Each with those that it waits for and whether it is the last to need what these tell, and the states before it.
        """
        state_of = {node: s for s, node in enumerate(self._states)}
        sources: dict[int, list[int]] = {node: [] for node in range(len(self._owner))}
        columns: dict[int, list[int]] = defaultdict(list)
        for source, target, delay in self._edges:
            if delay:
                columns[target].append(state_of[source])
            else:
                sources[target].append(source)
        try:
            order = list(TopologicalSorter(sources).static_order())
        except CycleError as error:
            stuck = {self._owner[node] for node in error.args[1]}
            raise _deadlock([name for place, name in enumerate(self.names) if place in stuck]) from None
        last = {source: node for node in order for source in sources[node]}
        return [
            (
                node,
                [(source, last[source] == node and source not in state_of) for source in dict.fromkeys(sources[node])],
                columns[node],
            )
            for node in order
        ]

    def _upstream(self) -> dict[str, frozenset[str]]:
        reach = np.eye(len(self.names), dtype=np.bool_)
        for source, target, _ in self._edges:
            reach[self._owner[target], self._owner[source]] = True
        for between in range(len(reach)):
            reach |= reach[:, between, None] & reach[between]
        names = np.array(self.names)
        return {name: frozenset(names[row].tolist()) for name, row in zip(self.names, reach, strict=True)}

    def matrix(self, costs: Floats) -> Floats:
        """Max-plus matrix over the edges with delay."""
        batch, states = len(costs), len(self._states)
        lengths: dict[int, Floats] = {}
        for node, sources, columns in self._steps:
            length: Floats | None = None
            for source, last in sources:
                other = lengths.pop(source) if last else lengths[source]
                if length is not None:
                    np.maximum(length, other, out=length)
                else:
                    length = other if last else other.copy()
            if length is None:
                length = np.full((batch, states), -np.inf)
            for column in columns:
                np.maximum(length[:, column], 0.0, out=length[:, column])
            if (share := self._share[node]) is not None:
                length += share * costs[:, self._owner[node], None]
            lengths[node] = length
        return np.stack([lengths[node] for node in self._states], axis=1)

    def window_seconds(self, costs: Floats, participants: frozenset[str] | None = None) -> Floats:
        """Steady seconds per window, shape (batch,), for costs of shape (batch, participants)."""
        matrix = self.matrix(costs)
        if participants is not None:
            keep = [s for s, n in enumerate(self._states) if self.names[self._owner[n]] in participants]
            matrix = matrix[:, keep][:, :, keep]
        return maximum_cycle_mean(matrix)

    def critical_cycle(self, costs: Floats) -> tuple[str, ...]:
        """Participants whose work makes up a cycle that sets the window time, for costs of shape (participants,)."""
        mean = float(self.window_seconds(costs[None])[0])
        weights = np.array(
            [(share or 0.0) * costs[owner] for owner, share in zip(self._owner, self._share, strict=True)]
        )
        potential = np.zeros(len(weights))
        scale = max(mean, float(weights.max()), np.finfo(float).tiny)
        # Longest walks under weights reduced by the mean have no positive cycle, so that they settle, but for rounding.
        for _ in range(len(weights) + 1):
            before = potential.copy()
            for source, target, delay in self._edges:
                potential[target] = max(potential[target], potential[source] + weights[target] - mean * delay)
            if (potential - before).max() <= 1e-12 * scale:
                break
        slack = 1e-9 * scale
        tight: dict[int, list[int]] = defaultdict(list)
        for source, target, delay in self._edges:
            if potential[source] + weights[target] - mean * delay >= potential[target] - slack:
                tight[target].append(source)
        nodes: list[int] = []
        try:
            TopologicalSorter(tight).prepare()
        except CycleError as error:
            nodes = error.args[1][1:]
        return _canonical([self._owner[n] for n in nodes if self._share[n] is not None], self.names)


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


def _canonical(columns: Sequence[int], names: Sequence[str]) -> tuple[str, ...]:
    """Name the participants of a cycle: neighbours merged, repetitions dropped, the first participant in front."""
    cycle = [c for i, c in enumerate(columns) if c != columns[i - 1] or len(set(columns)) == 1]
    if len(set(cycle)) == 1:
        cycle = cycle[:1]
    for length in range(1, len(cycle)):
        if len(cycle) % length == 0 and cycle == cycle[:length] * (len(cycle) // length):
            cycle = cycle[:length]
            break
    rotations = [cycle[i:] + cycle[:i] for i in range(len(cycle))]
    return tuple(names[c] for c in min(rotations, default=[]))
