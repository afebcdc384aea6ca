"""Budgets in nodes of several kinds, such as those with GPUs and those without."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from precice_lb.exceptions import InfeasibleError
from precice_lb.names import key_of
from precice_lb.split.constraints import Constraints
from precice_lb.split.resources import Integers, Resources


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
