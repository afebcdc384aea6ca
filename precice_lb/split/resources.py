"""From rank counts to cores and GPUs of a machine, and back; and how much of it participants occupy together."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from copy import copy
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import InfeasibleError
from precice_lb.names import key_of
from precice_lb.schedule import Schedule
from precice_lb.split.constraints import Constraints, SharedCores
from precice_lb.split.nodes import node_parts, threaded

Integers = NDArray[np.int64]


class Resources:
    """What a budget gives, and what ranks take of it: cores (or ranks) first, then GPUs where anybody needs them."""

    def __init__(self, constraints: Constraints, budget: int, versions: Sequence[tuple[str, str]]) -> None:
        self._constraints = constraints
        self.budget = budget
        #: What the budget counts, in a word.
        self.unit = "cores" if constraints.layouts and constraints.unit == "ranks" else constraints.unit
        self.has_gpus = any(constraints.of("gpus_per_rank", *version) for version in versions)
        self.capacity = self.capacity_of(budget)
        self._check_packing(versions)

    def want(self, least: Iterable[Integers]) -> str:
        """Say what there is too little of, of what the least of every participant takes, each (versions, kinds)."""
        gpus = min(int(sum(uses[:, 1].min() for uses in least)), 10**9)
        return (
            f"expected {gpus} or more GPUs for the ranks that need them, found {int(self.capacity[1])}; give more GPUs"
        )

    def used(self, total: Integers) -> dict[str, int]:
        """Count what of cores, nodes and GPUs these resources are, those that matter."""
        found = {"cores": self.cores(total)}
        if self.unit == "nodes":
            found["nodes"] = self.budget_for(total) or 0
        if self.has_gpus:
            found["gpus"] = int(total[1])
        return found

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
        """Resources that so many ranks (or cores, of who is split by cores) take, shape (counts, kinds)."""
        gpus = self._per_rank(name, version)[1]
        ranks, cores = self._ranks_and_cores(ranks, name, version)
        if self._has_whole_nodes(name):
            nodes = -(-ranks // np.maximum(self._fitting(cores, name, version), 1))
            columns = [nodes * (self._constraints.cores_per_node or 0), np.maximum(ranks * gpus, 0)]
            if self._constraints.unit == "nodes":
                columns[1] = nodes * self._constraints.gpus_per_node
        else:
            columns = [ranks * cores, ranks * gpus]
        return np.stack(columns[: 1 + self.has_gpus], axis=-1)

    def _ranks_and_cores(self, counts: Integers, name: str, version: str) -> tuple[Integers, Integers]:
        """Ranks that counts of a split are, and the cores that each takes, shape (counts,) each."""
        layouts = self._constraints.of("layouts", name, version)
        if layouts is None:
            return counts, np.full(len(counts), self._per_rank(name, version)[0])
        ranks, threads = threaded(layouts, counts)
        if self.unit == "nodes" and not self._has_whole_nodes(name):
            # The rest of a node is left to ranks that it holds for sure.
            threads = self._parts[np.searchsorted(self._parts, threads)]
        return ranks, threads

    def ranks_of(self, count: int, name: str, version: str) -> int:
        """Ranks that a count of a split is."""
        layouts = self._constraints.of("layouts", name, version)
        return count if layouts is None else layouts.of(count).ranks

    def most_ranks(self, allowance: Integers, name: str, version: str) -> int:
        """Most ranks that these resources hold, given shape (kinds,)."""
        cores, gpus = self._per_rank(name, version)
        given = self._constraints
        most = int(allowance[0]) // cores
        if given.of("layouts", name, version) is not None:
            return most
        if self._has_whole_nodes(name):
            per_node = int(self._fitting(cores, name, version))
            most = int(allowance[0]) // (given.cores_per_node or 1) * per_node
            if self.has_gpus and given.unit == "nodes" and given.gpus_per_node:
                most = min(most, int(allowance[1]) // given.gpus_per_node * per_node)
        return min(most, int(allowance[1]) // gpus) if gpus else most

    def whole_nodes_of(self, ranks: int, name: str, version: str) -> int:
        """Nodes that so many ranks have for themselves; 0 where they share nodes."""
        if not self._has_whole_nodes(name):
            return 0
        return int(self.uses(np.array([ranks]), name, version)[0, 0]) // (self._constraints.cores_per_node or 1)

    def _fitting(self, cores: int | Integers, name: str, version: str) -> Integers:
        """Ranks of so many cores that fit on one node; 0 where not even one does."""
        given, gpus = self._constraints, self._per_rank(name, version)[1]
        fit = np.asarray((given.cores_per_node or 0) // cores)
        fit = np.minimum(fit, given.of("ranks_per_node", name, version) or 2**60)
        return np.asarray(np.minimum(fit, given.gpus_per_node // gpus) if gpus and given.gpus_per_node else fit)

    def fits_on_node(self, name: str, version: str) -> bool:
        """Whether a node holds a rank, where that is known."""
        given, gpus = self._constraints, self._per_rank(name, version)[1]
        cores = self._cores_of_rank(name, version)
        if given.cores_per_node is not None and cores > given.cores_per_node:
            return False
        return not (given.unit == "nodes" and gpus > given.gpus_per_node)

    def _has_whole_nodes(self, name: str) -> bool:
        return self._constraints.has_whole_nodes(name)

    def _per_rank(self, name: str, version: str) -> tuple[int, int]:
        cores = 1 if self._constraints.unit == "ranks" else self._constraints.cores_per_rank(name, version)
        return cores, int(self._constraints.of("gpus_per_rank", name, version) or 0)

    def _cores_of_rank(self, name: str, version: str) -> int:
        """Cores of a rank, where these depend on the split the fewest."""
        layouts = self._constraints.of("layouts", name, version)
        if layouts is not None and layouts.step is not None and layouts.threads is not None:
            return int(layouts.threads)
        return self._per_rank(name, version)[0]

    def _check_packing(self, versions: Sequence[tuple[str, str]]) -> None:
        """Refuse ranks on shared nodes that may leave gaps: then enough cores in all would not mean enough nodes."""
        given = self._constraints
        if given.unit != "nodes":
            return
        by_cores = [v for v in versions if given.of("layouts", *v) is not None]
        for name, version in by_cores:
            if given.of("gpus_per_rank", name, version) and not self._has_whole_nodes(name):
                raise InfeasibleError(
                    f"expected whole nodes for {name}, whose ranks have both threads and GPUs, found shared ones; let "
                    "it have whole nodes"
                )
        versions = [version for version in versions if version not in by_cores]
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
        self._parts = node_parts(given, [cores for cores, _ in sizes.values()])
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


class NodesOfKinds(Resources):
    """Nodes in all, then those of each kind: everybody has whole nodes of one kind."""

    def _fitting(self, cores: int | Integers, name: str, version: str) -> Integers:
        """Ranks of so many cores on a node of a participant's kind; 0 where not even one fits."""
        fit, wanted = self._room(cores, name, version), self._constraints.of("ranks_per_node", name, version)
        return fit if wanted is None else np.minimum(fit, wanted)

    def _room(self, cores: int | Integers, name: str, version: str) -> Integers:
        """Ranks of so many cores for which a node of a participant's kind has cores and GPUs."""
        node, gpus = self._constraints.kind_of(name, version), self._per_rank(name, version)[1]
        fit = np.asarray(node.cores_per_node // np.asarray(cores))
        return np.minimum(fit, node.gpus_per_node // gpus) if gpus else fit

    def _has_whole_nodes(self, name: str) -> bool:
        """Nobody shares a node."""
        return True

    def capacity_of(self, budget: int) -> Integers:
        """Nodes in all, and of each kind."""
        return np.array([budget, *(each.nodes for each in self._constraints.kinds)], dtype=np.int64)

    def budget_for(self, total: Integers) -> int | None:
        """Nodes in all; None where a kind has fewer."""
        enough = all(int(total[at]) <= each.nodes for at, each in enumerate(self._constraints.kinds, start=1))
        return int(total[0]) if enough else None

    def cores(self, total: Integers) -> int:
        """Cores of the nodes."""
        return sum(int(total[at]) * each.cores_per_node for at, each in enumerate(self._constraints.kinds, start=1))

    def used(self, total: Integers) -> dict[str, int]:
        """Count cores, nodes, and the nodes of each kind."""
        each = {f"{kind.name} nodes": int(total[at]) for at, kind in enumerate(self._constraints.kinds, start=1)}
        return {"cores": self.cores(total), "nodes": int(total[0]), **each}

    def want(self, least: Iterable[Integers]) -> str:
        """Say of which kind there are too few nodes."""
        needed = np.sum([uses.min(axis=0) for uses in least], axis=0)
        short = [
            f"{int(needed[at])} nodes of kind {kind.name!r}, found {kind.nodes}"
            for at, kind in enumerate(self._constraints.kinds, start=1)
            if needed[at] > kind.nodes
        ]
        return f"expected at least {' and '.join(short) or 'more nodes of the kinds asked for'}; give more nodes"

    def uses(self, ranks: Integers, name: str, version: str) -> Integers:
        """Nodes in all and of each kind that counts take, shape (counts, 1 + kinds)."""
        ranks, cores = self._ranks_and_cores(ranks, name, version)
        nodes = -(-ranks // np.maximum(self._fitting(cores, name, version), 1))
        own = self._constraints.kind_of(name, version)
        columns = [nodes, *(nodes if each is own else np.zeros_like(nodes) for each in self._constraints.kinds)]
        return np.stack(columns, axis=-1)

    def most_ranks(self, allowance: Integers, name: str, version: str) -> int:
        """Most ranks, or cores of who is split by cores, on these nodes."""
        own = self._constraints.kind_of(name, version)
        at = 1 + [each.name for each in self._constraints.kinds].index(own.name)
        by_cores = self._constraints.of("layouts", name, version) is not None
        cores = self._per_rank(name, version)[0]
        per_node = own.cores_per_node if by_cores else int(self._fitting(cores, name, version))
        return int(min(allowance[0], allowance[at])) * per_node

    def whole_nodes_of(self, ranks: int, name: str, version: str) -> int:
        """Nodes that so many ranks have."""
        return int(self.uses(np.array([ranks]), name, version)[0, 0])

    def fits_on_node(self, name: str, version: str) -> bool:
        """Whether a node of its kind holds a rank; more ranks per node than it holds are refused."""
        node = self._constraints.kind_of(name, version)
        fit = int(self._room(self._cores_of_rank(name, version), name, version))
        wanted = self._constraints.of("ranks_per_node", name, version)
        if wanted is not None and wanted > fit > 0:
            raise InfeasibleError(
                f"expected at most {fit} ranks of {key_of(name, version)} on a node of kind "
                f"{node.name!r} ({node.cores_per_node} cores, {node.gpus_per_node} GPUs), found {wanted}"
            )
        return fit > 0

    def _check_packing(self, versions: Sequence[tuple[str, str]]) -> None:
        """Nobody shares a node."""


def resources_of(constraints: Constraints, budget: int, versions: Sequence[tuple[str, str]]) -> Resources:
    """Give what a budget is of: cores (or ranks) and GPUs, or nodes of several kinds."""
    return (NodesOfKinds if constraints.kinds else Resources)(constraints, budget, versions)
