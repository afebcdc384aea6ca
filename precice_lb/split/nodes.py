"""Kinds of nodes that a machine has, and how many ranks and threads of a participant split by cores one holds."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import InfeasibleError
from precice_lb.layout import Layouts
from precice_lb.names import checked_name, key_of
from precice_lb.plural import plural

if TYPE_CHECKING:
    from precice_lb.split.constraints import Constraints


@dataclass(frozen=True)
class NodeKind:
    """Nodes of one kind of a machine, such as those with GPUs.

    Attributes
    ----------
    name
        Such as ``"gpu"``.
    nodes
        How many there are.
    cores_per_node, gpus_per_node
        What one has.
    """

    name: str
    nodes: int
    cores_per_node: int
    gpus_per_node: int = 0

    def __post_init__(self) -> None:
        try:
            checked_name(self.name, "kind of nodes")
        except ValueError as error:
            raise InfeasibleError(str(error)) from None
        for key, least in (("nodes", 1), ("cores_per_node", 1), ("gpus_per_node", 0)):
            value = getattr(self, key)
            if isinstance(value, bool) or int(value) != value or value < least:
                raise InfeasibleError(
                    f"expected {key} of the nodes {self.name!r} as a whole number of at least {least}, found {value!r}"
                )


def check_kinds(kinds: Sequence[NodeKind], kind: Mapping[str, str]) -> None:
    """Refuse kinds of one name, and participants on kinds that there are not."""
    names = [each.name for each in kinds]
    for name in names:
        if names.count(name) > 1:
            raise InfeasibleError(f"expected a name of its own for each kind of nodes, found {name!r} twice")
    for participant, name in kind.items():
        if not names:
            raise InfeasibleError(
                f"kind of {participant}: found {name!r}, but no kinds are given: add machine.kinds or [[budget.kinds]]"
            )
        if name not in names:
            raise InfeasibleError(
                f"kind: expected one of the kinds of nodes ({', '.join(names)}) for {participant}, found {name!r}"
            )


def check_gpus(constraints: Constraints, name: str, version: str = "") -> None:
    """Refuse a rank with more GPUs than a node has, where that is known."""
    given = constraints.kind_of(name, version) if constraints.kinds else constraints
    gpus = constraints.of("gpus_per_rank", name, version) or 0
    counted = constraints.unit == "nodes" or constraints.nodes or constraints.kinds or given.gpus_per_node
    if counted and gpus > given.gpus_per_node:
        who, node = key_of(name, version), "a node"
        if constraints.kinds:
            node = f"a node of kind {constraints.kind_of(name, version).name}"
        raise InfeasibleError(
            f'expected a rank of "{who}" to fit on one node, found that it needs {plural(gpus, "GPU")} and {node} has '
            f"{given.gpus_per_node}; change gpus_per_rank{' or kind' if constraints.kinds else ''}"
        )


Integers = NDArray[np.int64]
Threaded = tuple[Integers, Integers]
"""Ranks, and threads of each, for some numbers of cores."""


def threaded(layouts: Layouts, cores: Integers) -> Threaded:
    """Ranks and threads of numbers of cores that have a layout, shape (counts,) each."""
    found = [layouts.of(int(count)) for count in cores]
    ranks, threads = ([getattr(each, key) for each in found] for key in ("ranks", "threads"))
    return np.array(ranks, dtype=np.int64), np.array(threads, dtype=np.int64)


def listed_cores(layouts: Layouts, least: int, most: int, node: int | None) -> Integers | None:
    """Numbers of cores that have a layout of so many ranks, on such a node; None where there is no end of them."""
    if layouts.step is not None:
        return None
    known = [layouts.of(cores) for cores in layouts.allowed(1, 10**9)]
    kept = [each.cores for each in known if least <= each.ranks <= most and (node is None or each.threads <= node)]
    return np.array(kept, dtype=np.int64)


def cores_for(layouts: Layouts, ranks: int, what: str) -> int:
    """Least cores that are so many ranks."""
    if layouts.step is not None and layouts.threads is not None:
        return ranks * layouts.threads
    known = [layouts.of(cores) for cores in layouts.allowed(1, 10**9)] if layouts.step is None else []
    enough = [each.cores for each in known if each.ranks >= ranks] or [1] * ((layouts.ranks or 0) >= ranks)
    if not enough:
        most = max([each.ranks for each in known], default=layouts.ranks or 1)
        raise InfeasibleError(f"expected {plural(ranks, 'rank')} or more for {what}, found layouts with {most} at most")
    return min(enough)


def cores_up_to(layouts: Layouts, ranks: int) -> int | None:
    """Most cores that are at most so many ranks; None where that bounds nothing, or there is a list of them."""
    if layouts.step is None:
        return None
    if layouts.threads is not None:
        return ranks * layouts.threads
    return None if (layouts.ranks or 1) <= ranks else 0


def most_cores(layouts: Layouts, node: int) -> int | None:
    """Most cores where the threads of a rank lie on one node; None where that bounds nothing."""
    if layouts.step is None or layouts.threads is not None:
        return None
    return (layouts.ranks or 1) * node


def node_parts(constraints: Constraints, others: Collection[int]) -> Integers:
    """Parts of a node, rising, each dividing the next and what ranks of others take: they fill nodes without gaps."""
    node = constraints.cores_per_node or 1
    parts = [node]
    for part in range(node - 1, 0, -1):
        if parts[-1] % part == 0 and all(max(part, each) % min(part, each) == 0 for each in others):
            parts.append(part)
    return np.array(parts[::-1], dtype=np.int64)
