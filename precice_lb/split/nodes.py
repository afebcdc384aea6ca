"""Kinds of nodes that a machine has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from precice_lb.exceptions import InfeasibleError
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
                f"kind of {participant}: found {name!r}, but no kinds are given: add --kinds or [[budget.kinds]]"
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
