"""From rank counts to cores and GPUs of a machine, and back; and how much of it participants occupy together."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from copy import copy
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import InfeasibleError
from precice_lb.schedule import Schedule
from precice_lb.split.constraints import Constraints, SharedCores

__all__ = ["Layout", "Resources", "require_turns"]

Integers = NDArray[np.int64]


class Resources:
    """What a budget gives, and what ranks take of it: cores (or ranks) first, then GPUs where anybody needs them."""

    def __init__(self, constraints: Constraints, budget: int, versions: Sequence[tuple[str, str]]) -> None:
        self._constraints = constraints
        self.budget = budget
        self.unit = constraints.unit
        self.has_gpus = any(constraints.of("gpus_per_rank", *version) for version in versions)
        self.capacity = self.capacity_of(budget)
        self._check_packing(versions)

    def capacity_of(self, budget: int) -> Integers:
        """Cores (or ranks) and, where anybody needs them, GPUs of a budget, shape (kinds,)."""
        given = self._constraints
        if given.unit == "nodes":
            kinds = [budget * (given.cores_per_node or 0), budget * given.gpus_per_node]
        else:
            whole = given.cores_per_node if given.whole_nodes is True else 1
            kinds = [budget // (whole or 1) * (whole or 1), given.gpus or 0]
        return np.array(kinds[: 1 + self.has_gpus], dtype=np.int64)

    def budget_for(self, total: Integers) -> int | None:
        """Smallest budget that has these resources; None where none has, for want of GPUs."""
        given = self._constraints
        gpus = int(total[1]) if self.has_gpus else 0
        if given.unit == "nodes":
            if gpus and not given.gpus_per_node:
                return None
            nodes = math.ceil(gpus / given.gpus_per_node) if gpus else 0
            return max(nodes, -(-int(total[0]) // (given.cores_per_node or 1)))
        return int(total[0]) if gpus <= (given.gpus or 0) else None

    def cores(self, total: Integers) -> int:
        """Cores that are charged for these resources: whole nodes where the budget counts nodes."""
        if self._constraints.unit == "nodes":
            return (self.budget_for(total) or 0) * (self._constraints.cores_per_node or 1)
        return int(total[0])

    def uses(self, ranks: Integers, name: str, version: str) -> Integers:
        """Resources that so many ranks take, shape (counts, kinds)."""
        cores, gpus = self._per_rank(name, version)
        if self._has_whole_nodes(name):
            nodes = -(-ranks // max(self.ranks_per_node(name, version), 1))
            columns = [nodes * (self._constraints.cores_per_node or 0), np.maximum(ranks * gpus, 0)]
            if self._constraints.unit == "nodes":
                columns[1] = nodes * self._constraints.gpus_per_node
        else:
            columns = [ranks * cores, ranks * gpus]
        return np.stack(columns[: 1 + self.has_gpus], axis=-1)

    def most_ranks(self, allowance: Integers, name: str, version: str) -> int:
        """Most ranks that these resources hold, given shape (kinds,)."""
        cores, gpus = self._per_rank(name, version)
        given = self._constraints
        most = int(allowance[0]) // cores
        if self._has_whole_nodes(name):
            per_node = self.ranks_per_node(name, version)
            most = int(allowance[0]) // (given.cores_per_node or 1) * per_node
            if self.has_gpus and given.unit == "nodes" and given.gpus_per_node:
                most = min(most, int(allowance[1]) // given.gpus_per_node * per_node)
        return min(most, int(allowance[1]) // gpus) if gpus else most

    def whole_nodes_of(self, ranks: int, name: str, version: str) -> int:
        """Nodes that so many ranks have for themselves; 0 where they share nodes."""
        per_node = self.ranks_per_node(name, version) if self._has_whole_nodes(name) else 0
        return -(-ranks // per_node) if per_node else 0

    def ranks_per_node(self, name: str, version: str) -> int:
        """Ranks that fit on one node; 0 where not even one does."""
        cores, gpus = self._per_rank(name, version)
        fit = (self._constraints.cores_per_node or 0) // cores
        return min(fit, self._constraints.gpus_per_node // gpus) if gpus and self._constraints.gpus_per_node else fit

    def fits_on_node(self, name: str, version: str) -> bool:
        """Whether a node holds a rank, where that is known."""
        given = self._constraints
        cores, gpus = self._per_rank(name, version)
        if given.cores_per_node is not None and cores > given.cores_per_node:
            return False
        return not (given.unit == "nodes" and gpus > given.gpus_per_node)

    def _has_whole_nodes(self, name: str) -> bool:
        whole = self._constraints.whole_nodes
        return whole if isinstance(whole, bool) else name in whole

    def _per_rank(self, name: str, version: str) -> tuple[int, int]:
        threads = int(self._constraints.of("threads", name, version) or 1)
        cores = 1 if self._constraints.unit == "ranks" else threads
        return cores, int(self._constraints.of("gpus_per_rank", name, version) or 0)

    def _check_packing(self, versions: Iterable[tuple[str, str]]) -> None:
        """Refuse ranks on shared nodes that may leave gaps: then enough cores in all would not mean enough nodes."""
        given = self._constraints
        if given.unit != "nodes":
            return
        sharing = [v for v in versions if not self._has_whole_nodes(v[0]) and self.fits_on_node(*v)]
        sizes = {version: self._per_rank(*version) for version in sharing}
        node = (given.cores_per_node or 1, given.gpus_per_node)
        for kind, what in enumerate(("threads", "GPUs")):
            chain = [*sorted({size[kind] for size in sizes.values() if size[kind]}), node[kind]]
            if bad := next((small for small, large in pairwise(chain) if large % small), None):
                name = next(v[0] for v, size in sizes.items() if size[kind] == bad)
                raise InfeasibleError(
                    f"expected {what} per rank that fill nodes of {node[kind]} without gaps (each dividing the next "
                    f"larger) where nodes are shared, found {bad} of {name}; let it have whole nodes"
                )
        plain = [cores for cores, gpus in sizes.values() if not gpus]
        for (name, _), (cores, gpus) in sizes.items():
            if gpus and (cores * node[1] > node[0] * gpus or any(cores % other for other in plain)):
                raise InfeasibleError(
                    f"expected ranks with GPUs to leave no gaps on shared nodes of {node[0]} cores and {node[1]} GPUs, "
                    f"found {cores} threads and {gpus} GPUs per rank of {name}; let it have whole nodes"
                )


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
