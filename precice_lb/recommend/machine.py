"""Budgets in ranks, cores or nodes, and what a machine demands, in the words of `recommend_split`."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from precice_lb.exceptions import InfeasibleError
from precice_lb.recommend.limits import whole_number
from precice_lb.split import Constraints, SharedCores

__all__ = ["Machine"]

# Words that fields of `precice_lb.split.Constraints` have in place of the command line's.
_CONSTRAINTS = {"multiple": "multiples", "allow": "allowed"}


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What a machine has and demands, in the words of the command line.

    Attributes
    ----------
    cores, nodes : int, optional
        What there is to give out, where that is not counted in ranks.
    cores_per_node, gpus_per_node : int, optional
        What a node has.
    gpus : int, optional
        GPUs in all, where nodes are not counted.
    whole_nodes : bool or collection of participants, optional
        Who gets nodes of its own.
    threads, gpus_per_rank : mapping from participant to int; threads also one int; optional
        Cores and GPUs of one rank.
    multiple, allow, fixed : mapping from participant to int, list of int, int; multiple also one int; optional
        Ranks come in multiples of this, are among these only, or are given.
    memory, memory_per_rank : mapping from participant to float; the latter also one float; optional
        Bytes that a participant needs in all, and that one of its ranks may use.
    elements, elements_per_rank : mapping from participant to float; the latter also one float; optional
        Elements of a participant's mesh, and the most that one of its ranks may have.
    shared : sequence of SharedCores, optional
        Participants that take turns on the same cores.
    """

    cores: int | None = None
    nodes: int | None = None
    cores_per_node: int | None = None
    gpus_per_node: int | None = None
    gpus: int | None = None
    whole_nodes: bool | Collection[str] | None = None
    threads: int | Mapping[str, int] | None = None
    gpus_per_rank: Mapping[str, int] | None = None
    multiple: int | Mapping[str, int] | None = None
    allow: Mapping[str, Sequence[int]] | None = None
    fixed: Mapping[str, int] | None = None
    memory: Mapping[str, float] | None = None
    memory_per_rank: float | Mapping[str, float] | None = None
    elements: Mapping[str, float] | None = None
    elements_per_rank: float | Mapping[str, float] | None = None
    shared: Sequence[SharedCores] | None = None

    def constraints(self, ranks: int | None = None) -> tuple[int, Constraints | None]:
        """Make a budget and its constraints of this.

        Parameters
        ----------
        ranks : int or None
            The budget, where it is counted in ranks.

        Returns
        -------
        budget : int
            In the unit of the constraints.
        constraints : Constraints or None
            None for ranks without further demands.

        Raises
        ------
        InfeasibleError
            Not exactly one budget; constraints that contradict themselves.
        """
        words = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        said = {_CONSTRAINTS.get(key, key): value for key, value in words.items() if value is not None}
        counts = {"ranks": ranks, "cores": said.pop("cores", None), "nodes": said.pop("nodes", None)}
        given = [unit for unit, count in counts.items() if count is not None]
        if len(given) != 1:
            raise InfeasibleError(
                f"expected the budget as one of ranks, cores or nodes (--ranks, --cores, --nodes), found "
                f"{' and '.join(given) or 'none of them'}"
            )
        unit = given[0]
        budget = whole_number(counts[unit], "total_ranks" if unit == "ranks" else unit, 1)
        if unit == "ranks" and not said:
            return budget, None
        if unit == "ranks" and "threads" in said:
            raise InfeasibleError("expected a budget in cores or nodes beside threads per rank, found one in ranks")
        return budget, Constraints(unit=unit, **said)  # type: ignore[arg-type]
