"""Budgets in ranks, cores or nodes, and what a machine demands, in the words of `recommend_split`."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from precice_lb.exceptions import InfeasibleError
from precice_lb.recommend.bounds import rank_bounds, whole_number
from precice_lb.split import Constraints, SharedCores

__all__ = ["Machine", "Room", "bounds_of", "machine_of"]


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
        """
        words = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        words |= {"multiples": words.pop("multiple"), "allowed": words.pop("allow")}
        return machine_of(ranks, words.pop("cores"), words.pop("nodes"), **words)


def machine_of(ranks: int | None, cores: int | None, nodes: int | None, **words: Any) -> tuple[int, Constraints | None]:
    """Make a budget and its constraints of words.

    Parameters
    ----------
    ranks, cores, nodes : int or None
        The budget: one of them.
    **words
        Fields of `precice_lb.split.Constraints`; those that are None are left out.

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
    given = {unit: count for unit, count in (("ranks", ranks), ("cores", cores), ("nodes", nodes)) if count is not None}
    if len(given) != 1:
        raise InfeasibleError(
            f"expected the budget as one of ranks, cores or nodes (--ranks, --cores, --nodes), found "
            f"{' and '.join(given) or 'none of them'}"
        )
    ((unit, budget),) = given.items()
    said = {key: value for key, value in words.items() if value is not None}
    budget = whole_number(budget, "total_ranks" if unit == "ranks" else unit, 1)
    if unit == "ranks" and not said:
        return budget, None
    if unit == "ranks" and "threads" in said:
        raise InfeasibleError("expected a budget in cores or nodes beside threads per rank, found one in ranks")
    return budget, Constraints(unit=unit, **said)  # type: ignore[arg-type]


def bounds_of(
    names: tuple[str, ...],
    budget: int,
    minimum: int | Mapping[str, int],
    maximum: Mapping[str, int] | None,
    constraints: Constraints | None,
) -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
    """Find the lowest and highest ranks of each participant, and up to which it has to be known."""
    if constraints is None:
        lowest, highest = rank_bounds(names, budget, minimum, maximum)
        room = budget - sum(lowest.values())
        return lowest, highest, {name: lowest[name] + room for name in names}
    machine = Room(constraints, budget)
    most = {name: machine.most_ranks(name) for name in names}
    lowest, highest = rank_bounds(names, sum(most.values()) + sum(_minima(minimum, names)), minimum, maximum)
    lowest = {name: min(max(lowest[name], machine.lowest(name)), most[name]) for name in names}
    highest = {name: max(min(highest[name], most[name]), lowest[name]) for name in names}
    return lowest, highest, most


def _minima(minimum: int | Mapping[str, int], names: tuple[str, ...]) -> list[int]:
    values = minimum.values() if isinstance(minimum, Mapping) else [minimum] * len(names)
    return [value for value in values if isinstance(value, int)]


class Room:
    """What a budget has room for."""

    def __init__(self, constraints: Constraints, budget: int) -> None:
        self.constraints = constraints
        self.unit = constraints.unit
        per_unit = (constraints.cores_per_node or 1) if self.unit == "nodes" else 1
        #: Cores, or ranks where the budget counts ranks.
        self.cores = budget * per_unit

    def most_ranks(self, name: str) -> int:
        """Most ranks that a participant could get on all of it."""
        return max(self.cores // self._threads(name), 1)

    def lowest(self, name: str) -> int:
        """Fewest ranks of a participant, by minimum, memory and elements."""
        return max(self.constraints.lower_bounds(name).values())

    @property
    def common_threads(self) -> int | None:
        """Cores of a rank where they are the same for all; None where not."""
        threads = self.constraints.threads
        if self.unit == "ranks" or isinstance(threads, int):
            return 1 if self.unit == "ranks" else int(str(threads))
        return None

    @property
    def parts(self) -> int:
        """Cores, or whole nodes, that there are to give out."""
        return self.cores // self._part

    @property
    def _part(self) -> int:
        """Cores that are given out together."""
        whole = self.constraints.whole_nodes
        return (self.constraints.cores_per_node or 1) if whole is True else 1

    def ranks_of(self, name: str, parts: int) -> int:
        """Ranks of a participant on so many parts."""
        return parts * self._part // self._threads(name)

    def parts_for(self, name: str, ranks: int) -> int:
        """Parts that so many ranks of a participant take."""
        return -(-ranks * self._threads(name) // self._part)

    def rounded(self, name: str, parts: int) -> int:
        """Ranks of a participant on so many parts, rounded down to the multiple that they come in; at least 1."""
        ranks = self.ranks_of(name, parts)
        return max(ranks - ranks % int(self.constraints.of("multiples", name) or 1), 1)

    def _threads(self, name: str) -> int:
        return 1 if self.unit == "ranks" else int(self.constraints.of("threads", name) or 1)
