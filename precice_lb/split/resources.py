"""From rank counts to cores and nodes of a machine; and how much of it participants occupy together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy

import numpy as np
from numpy.typing import NDArray

from precice_lb.case.machine import Constraints, SharedCores
from precice_lb.exceptions import InfeasibleError
from precice_lb.schedule import Schedule

Integers = NDArray[np.int64]


class Resources:
    """What a budget gives, and what layouts take of it.

    Cores (or ranks); of nodes of several kinds nodes in all, then those of each kind. GPUs come with nodes.
    """

    def __init__(self, constraints: Constraints, budget: int, versions: Sequence[tuple[str, str]]) -> None:
        self.constraints = constraints
        self._kinds = constraints.kinds
        self.budget = budget
        #: What the budget counts, in a word.
        self.unit = "cores" if constraints.layouts and constraints.unit == "ranks" else constraints.unit
        self.capacity = self.capacity_of(budget)
        if constraints.unit == "nodes":
            # Ranks of several cores, or with GPUs, leave gaps on shared nodes: enough cores may be too few nodes.
            for name, version in versions:
                gpus = self.gpus_per_rank(name, version)
                if not self.has_whole_nodes(name, version) and (self._threads(name, version) != 1 or gpus):
                    raise InfeasibleError(
                        f"expected whole nodes for {name}, whose ranks have threads or GPUs, where the budget counts "
                        f"nodes, found shared ones; say machine.whole_nodes = true, or {[name]} for it alone"
                    )

    def capacity_of(self, budget: int) -> Integers:
        """Resources of a budget, shape (kinds,)."""
        given = self.constraints
        if self._kinds:
            columns = [budget, *(kind.nodes for kind in self._kinds)]
        elif given.unit == "nodes":
            columns = [budget * (given.cores_per_node or 0)]
        else:
            whole = (given.cores_per_node or 1) if given.whole_nodes is True else 1
            columns = [budget // whole * whole]
        return np.array(columns, dtype=np.int64)

    @property
    def cores_in_all(self) -> int:
        """Cores (or ranks) of the budget."""
        return self.cores_of(self.budget)

    def cores_of(self, budget: int) -> int:
        """Cores (or ranks) of a budget; of nodes of several kinds all that there are."""
        if self._kinds:
            return sum(kind.nodes * kind.cores_per_node for kind in self._kinds)
        return int(self.capacity_of(budget)[0])

    def want(self, least: Iterable[Integers]) -> str:
        """Say what there is too little of, of what the least of every participant takes, each (versions, kinds)."""
        needed = sum(uses.min(axis=0) for uses in least)
        short = [
            f"{int(count)} nodes of kind {kind.name!r}, found {kind.nodes}"
            for count, kind in zip(np.asarray(needed)[1:], self._kinds, strict=True)
            if count > kind.nodes
        ]
        return f"expected at least {' and '.join(short) or 'more nodes of the kinds asked for'}; give more nodes"

    def used(self, total: Integers) -> dict[str, int]:
        """Count what of cores and nodes these resources are, those that matter."""
        found = {"cores": self.cores(total)}
        if self.unit == "nodes":
            found["nodes"] = self.budget_for(total) or 0
        if self._kinds:
            found |= {f"{kind.name} nodes": int(n) for n, kind in zip(total[1:], self._kinds, strict=True)}
        return found

    def budget_for(self, total: Integers) -> int | None:
        """Smallest budget that has these resources; None where a kind has too few nodes."""
        given = self.constraints
        if self._kinds:
            return int(total[0]) if (total[1:] <= self.capacity[1:]).all() else None
        if given.unit == "nodes":
            return -(-int(total[0]) // (given.cores_per_node or 1))
        return int(total[0])

    def cores(self, total: Integers) -> int:
        """Cores that are charged for these resources: whole nodes where the budget counts nodes."""
        if self._kinds:
            return sum(int(n) * kind.cores_per_node for n, kind in zip(total[1:], self._kinds, strict=True))
        if self.constraints.unit == "nodes":
            return (self.budget_for(total) or 0) * (self.constraints.cores_per_node or 1)
        return int(total[0])

    def per_node(self, threads: Integers, name: str, version: str) -> Integers:
        """Ranks with so many threads that fit on one node of a participant, shape (counts,); 0 where not even one."""
        (cores, gpus), own = self.constraints.node(name, version), self.gpus_per_rank(name, version)
        fit = (cores or 0) // threads
        return np.minimum(fit, gpus // own) if own else fit

    def takes(self, ranks: Integers, threads: Integers, name: str, version: str) -> Integers:
        """Resources that layouts of a participant take, shape (layouts, kinds)."""
        given, cores = self.constraints, ranks * threads
        if self.has_whole_nodes(name, version):
            most = given.of("ranks_per_node", name, version) or 2**60
            nodes = -(-ranks // np.clip(self.per_node(threads, name, version), 1, most))
            if self._kinds:
                own = given.kind_of(name, version)
                return np.stack([nodes, *(nodes * (kind is own) for kind in self._kinds)], axis=-1)
            cores = nodes * (given.cores_per_node or 0)
        return cores[:, None]

    def gpus_per_rank(self, name: str, version: str) -> int:
        """GPUs that each rank of a participant takes."""
        return int(self.constraints.of("gpus_per_rank", name, version) or 0)

    def has_whole_nodes(self, name: str, version: str) -> bool:
        """Whether a participant shares its nodes with nobody, as does one whose threads depend on the split."""
        return self.constraints.has_whole_nodes(name) or (self.unit == "nodes" and self._threads(name, version) is None)

    def _threads(self, name: str, version: str) -> int | None:
        """Cores of a rank, None where they depend on the split."""
        layouts = self.constraints.of("layouts", name, version)
        return 1 if layouts is None else layouts.constant_threads

    def whole_nodes_of(self, takes: Integers, name: str, version: str) -> int:
        """Nodes that a layout which takes so much has for itself; 0 where it shares nodes."""
        if not self.has_whole_nodes(name, version):
            return 0
        return int(takes[0]) // (1 if self._kinds else self.constraints.cores_per_node or 1)


class Layout:
    """Who stands beside whom and who takes turns; uses are of shape (..., participants, kinds of resource)."""

    def __init__(self, names: Sequence[str], shared: Sequence[SharedCores], capacity: Integers) -> None:
        #: Resources that there are, shape (kinds,).
        self.capacity = capacity
        index = {name: i for i, name in enumerate(names)}
        grouped = {name for group in shared for name in group.members}
        #: Groups of turns of participants, by index; whoever shares with nobody is a group of one turn.
        self.groups: list[list[list[int]]] = [[[index[name] for name in turn] for turn in g.turns] for g in shared]
        self.groups += [[[index[name]]] for name in names if name not in grouped]

    def total(self, uses: Integers) -> Integers:
        """Resources occupied in all, shape (..., kinds)."""
        return np.asarray(sum(self._group(uses, turns) for turns in self.groups))

    def with_capacity(self, capacity: Integers) -> Layout:
        """Give the same participants another machine."""
        other = copy(self)
        other.capacity = capacity
        return other

    def fits(self, uses: Integers) -> NDArray[np.bool_]:
        """Whether the machine holds so much, shape (...)."""
        return np.asarray((self.total(uses) <= self.capacity).all(axis=-1))

    def allowance(self, uses: Integers) -> Integers:
        """Tell what each participant could use at most while all others keep theirs, shaped like `uses`."""
        most = np.empty(np.broadcast_shapes(uses.shape, (1, len(self.capacity))), dtype=np.int64)
        slack = self.capacity - self.total(uses)
        for turns in self.groups:
            room = slack + self._group(uses, turns)
            for turn in turns:
                left = room - uses[..., turn, :].sum(axis=-2)
                for member in turn:
                    most[..., member, :] = left + uses[..., member, :]
        return most

    @staticmethod
    def _group(uses: Integers, turns: Sequence[Sequence[int]]) -> Integers:
        occupied: Integers = uses[..., turns[0], :].sum(axis=-2)
        for turn in turns[1:]:
            occupied = np.maximum(occupied, uses[..., turn, :].sum(axis=-2))
        return occupied


def require_turns(constraints: Constraints, schedule: Schedule) -> None:
    """Refuse to share cores between participants that the coupling lets work at the same time."""
    for group in constraints.shared:
        for i, turn in enumerate(group.turns):
            for name in turn:
                for other in (other for later in group.turns[i + 1 :] for other in later):
                    # In turns, if and only if their works add up: one cycle, once around per window, has both.
                    own = {n: 1.0 / schedule.weights[n] if n in (name, other) else 0.0 for n in schedule.participants}
                    if float(schedule.window_seconds(own)) < 2.0 - 1e-9:
                        raise InfeasibleError(
                            f"expected participants that never work at the same time to share cores, found {name} and "
                            f"{other}, which {schedule.description} lets overlap; give them cores of their own"
                        )
