"""What a machine has for a budget, what layouts take of it, and whether participants fit on it together."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

from precice_lb.case.machine import Constraints, turns_of
from precice_lb.exceptions import InfeasibleError
from precice_lb.schedule import Schedule

Integers = NDArray[np.int64]


class Resources:
    """Cores (or ranks) of a budget; of nodes of several kinds nodes in all, then those of each kind.

    GPUs come with nodes. Uses are of shape (..., participants, kinds of resource).
    """

    def __init__(self, constraints: Constraints, budget: int, versions: Mapping[str, Collection[str]]) -> None:
        self.constraints, self._kinds = constraints, constraints.kinds
        #: What the budget counts, in a word.
        self.unit = "cores" if constraints.layouts and constraints.unit == "ranks" else constraints.unit
        index = {name: i for i, name in enumerate(versions)}
        #: Who stands beside whom and who takes turns, by index.
        self.groups = [
            [[index[name] for name in turn] for turn in turns] for turns in turns_of(versions, constraints.shared)
        ]
        self._take(budget)
        if constraints.unit == "nodes":
            # Ranks of several cores, or with GPUs, leave gaps on shared nodes: enough cores may be too few nodes.
            for name, version in [(name, version) for name, of_name in versions.items() for version in of_name]:
                large = self._threads(name, version) != 1 or self.gpus_per_rank(name, version)
                if large and not self.has_whole_nodes(name, version):
                    raise InfeasibleError(
                        f"expected whole nodes for {name}, whose ranks have threads or GPUs, where the budget counts "
                        f"nodes, found shared ones; say machine.whole_nodes = true, or {[name]} for it alone"
                    )

    def _take(self, budget: int) -> None:
        self.budget, size = budget, self.constraints.cores_per_node or 1
        if self._kinds:
            capacity = [budget, *(kind.nodes for kind in self._kinds)]
        elif self.constraints.unit == "nodes":
            capacity = [budget * size]
        else:
            capacity = [budget - budget % size if self.constraints.whole_nodes is True else budget]
        #: Resources that there are, shape (kinds,).
        self.capacity: Integers = np.array(capacity, dtype=np.int64)

    def with_budget(self, budget: int) -> Resources:
        """Give the same with another budget."""
        other = copy(self)
        other._take(budget)
        return other

    @property
    def cores_in_all(self) -> int:
        """Cores (or ranks) of the budget; of nodes of several kinds all that there are."""
        if self._kinds:
            return sum(kind.nodes * kind.cores_per_node for kind in self._kinds)
        return int(self.capacity[0])

    def total(self, uses: Integers) -> Integers:
        """Resources occupied in all, shape (..., kinds)."""
        return np.asarray(sum(self._group(uses, turns) for turns in self.groups))

    def fits(self, uses: Integers) -> NDArray[np.bool_]:
        """Whether there is so much, shape (...)."""
        return np.asarray((self.total(uses) <= self.capacity).all(axis=-1))

    def allowance(self, uses: Integers) -> Integers:
        """Tell what each participant could use at most while all others keep theirs, shaped like `uses`."""
        most = np.empty(np.broadcast_shapes(uses.shape, (1, len(self.capacity))), dtype=np.int64)
        slack = self.capacity - self.total(uses)
        for turns in self.groups:
            room = slack + self._group(uses, turns)
            for turn in turns:
                most[..., turn, :] = (room - uses[..., turn, :].sum(axis=-2))[..., None, :] + uses[..., turn, :]
        return most

    @staticmethod
    def _group(uses: Integers, turns: Sequence[Sequence[int]]) -> Integers:
        return np.asarray(np.maximum.reduce([uses[..., turn, :].sum(axis=-2) for turn in turns]))

    def want(self, least: Iterable[Integers]) -> str:
        """Say which kinds have too few nodes for the least of every participant, each of shape (versions, kinds)."""
        needed: Integers = np.sum([uses.min(axis=0) for uses in least], axis=0)
        short = [
            f"{int(count)} nodes of kind {kind.name!r}, found {kind.nodes}"
            for count, kind in zip(needed[1:], self._kinds, strict=True)
            if count > kind.nodes
        ]
        return f"expected at least {' and '.join(short) or 'more nodes of the kinds asked for'}; give more nodes"

    def used(self, total: Integers) -> dict[str, int]:
        """Count the cores of these resources, and nodes where they matter."""
        nodes = {"nodes": self.budget_for(total) or 0} if self.unit == "nodes" else {}
        of_kinds = {f"{kind.name} nodes": int(n) for n, kind in zip(total[1:], self._kinds, strict=True)}
        return {"cores": self.cores(total), **nodes, **of_kinds}

    def budget_for(self, total: Integers) -> int | None:
        """Smallest budget that has these resources; None where a kind has too few nodes."""
        if self._kinds:
            return int(total[0]) if (total[1:] <= self.capacity[1:]).all() else None
        return -(-int(total[0]) // self._cores_of_unit)

    def cores(self, total: Integers) -> int:
        """Cores that are charged for these resources: whole nodes where the budget counts nodes."""
        if self._kinds:
            return sum(int(n) * kind.cores_per_node for n, kind in zip(total[1:], self._kinds, strict=True))
        return (self.budget_for(total) or 0) * self._cores_of_unit

    @property
    def _cores_of_unit(self) -> int:
        return (self.constraints.cores_per_node or 1) if self.constraints.unit == "nodes" else 1

    def takes(self, ranks: Integers, threads: Integers, name: str, version: str) -> Integers:
        """Resources that layouts of a participant take, shape (layouts, kinds)."""
        if not self.has_whole_nodes(name, version):
            return (ranks * threads)[:, None]
        most = self.constraints.of("ranks_per_node", name, version) or 2**60
        nodes = -(-ranks // np.clip(self.per_node(threads, name, version), 1, most))
        if not self._kinds:
            return (nodes * (self.constraints.cores_per_node or 0))[:, None]
        kind = self.constraints.kind_of(name, version)
        return np.stack([nodes, *(nodes * (kind is other) for other in self._kinds)], axis=-1)

    def per_node(self, threads: Integers, name: str, version: str) -> Integers:
        """Ranks with so many threads that fit on one node of a participant, shape (counts,); 0 where not even one."""
        (cores, gpus), needed = self.constraints.node(name, version), self.gpus_per_rank(name, version)
        fit = (cores or 0) // threads
        return np.minimum(fit, gpus // needed) if needed else fit

    def gpus_per_rank(self, name: str, version: str) -> int:
        """GPUs that each rank of a participant takes."""
        return int(self.constraints.of("gpus_per_rank", name, version) or 0)

    def has_whole_nodes(self, name: str, version: str) -> bool:
        """Whether a participant shares its nodes with nobody, as does one whose threads depend on the split."""
        return self.constraints.has_whole_nodes(name) or (self.unit == "nodes" and self._threads(name, version) is None)

    def _threads(self, name: str, version: str) -> int | None:
        """Threads of a rank, None where they depend on the split."""
        layouts = self.constraints.of("layouts", name, version)
        return 1 if layouts is None else layouts.constant_threads

    def whole_nodes_of(self, takes: Integers, name: str, version: str) -> int:
        """Nodes that a layout which takes so much has for itself; 0 where it shares nodes."""
        if not self.has_whole_nodes(name, version):
            return 0
        return int(takes[0]) // (1 if self._kinds else self.constraints.cores_per_node or 1)


def require_turns(constraints: Constraints, schedule: Schedule) -> None:
    """Refuse to share cores between participants that the coupling lets work at the same time."""
    for group in constraints.shared:
        for turn, later in combinations(group.turns, 2):
            for name, other in product(turn, later):
                # In turns, if and only if their works add up: one cycle, once around per window, has both.
                work = {n: 1.0 / schedule.weights[n] if n in (name, other) else 0.0 for n in schedule.participants}
                if float(schedule.window_seconds(work)) < 2.0 - 1e-9:
                    raise InfeasibleError(
                        f"expected participants that never work at the same time to share cores, found {name} and "
                        f"{other}, which {schedule.description} lets overlap; give them cores of their own"
                    )
