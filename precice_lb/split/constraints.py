"""What a machine and its users demand of a split."""

from __future__ import annotations

import math
import operator
from collections.abc import Collection, Mapping, Sequence
from dataclasses import MISSING, InitVar, dataclass, field, fields, replace
from typing import Any, Literal

from precice_lb.exceptions import InfeasibleError
from precice_lb.layout import Layouts
from precice_lb.names import for_versions, key_of
from precice_lb.precice_xml import AcceptedRanks
from precice_lb.split.nodes import NodeKind, check_kinds


@dataclass(frozen=True)
class SharedCores:
    """Participants on the same cores, in turns, because they never work at the same time.

    Participants of one turn work side by side on different cores; the next turn takes over the same ones. The group
    occupies the cores of its largest turn.

    Attributes
    ----------
    turns
        The participants of each turn: ``(("ICE", "LND"), ("ATM",))`` is the layout of CIME's coupled models.
    overhead
        By what share the compute seconds of every member rise because of it (caches gone cold, processes that poll
        while they wait): 0.05 is 5 %.
    """

    turns: Sequence[Sequence[str]]
    overhead: float = 0.0

    @property
    def members(self) -> tuple[str, ...]:
        """All participants of the group."""
        return tuple(name for turn in self.turns for name in turn)


@dataclass(frozen=True, kw_only=True)
class Constraints:
    """What a machine has, and what it and its users demand of a split; everything is optional, as None is.

    The words are those of the command line and of a study's ``[machine]``. Wherever a mapping goes from participant to
    value, a key ``participant:version`` speaks of one version of the participant alone (see `optimize_split`), before
    the key of the participant.

    Attributes
    ----------
    cores, nodes
        What there is to give out, where that is not counted in ranks; for `recommend_split`.
    unit
        What a budget that is given beside this counts. Cores are ranks times threads; nodes have `cores_per_node` and
        `gpus_per_node`.
    cores_per_node, gpus_per_node
        What one node has.
    gpus
        GPUs in all where the budget does not count nodes.
    whole_nodes
        Who gets nodes of its own: all (true), none (false), or the participants named. The others share nodes.
    threads
        Cores per rank, of participants that are split by ranks.
    layouts
        Ranks and threads of participants that are split by cores. The numbers of a split, of `multiple`, `allow`,
        `fixed`, `minimum`, `maximum` and `excluded`, and a budget in ranks count cores of these; what is said of a
        rank (memory, elements, GPUs) is of their ranks. The threads of a rank lie on one node.
    gpus_per_rank
        GPUs that each rank takes, 0 where not named.
    multiple
        Ranks come in multiples of this; its earlier name is ``multiples``.
    allow
        The only rank counts that are possible; its earlier name is ``allowed``.
    fixed
        Participants whose ranks are given.
    grid
        Points along each axis that a participant's structured mesh is cut across: only rank counts whose best
        factorisation has smaller parts than any fewer ranks are possible.
    memory, memory_per_rank
        Bytes that a participant needs in all, and bytes that one of its ranks may use: bounds its ranks from below.
    elements, elements_per_rank
        Elements of a participant's mesh, and the most that one of its ranks may have: bounds its ranks from below.
    shared
        Groups of participants that take turns on the same cores.
    kinds
        Nodes of several kinds, in place of a budget, and of cores and GPUs per node. Everybody has whole nodes of one
        kind.
    kind
        On which a participant runs; by default on the first.
    ranks_per_node
        Ranks on each of a participant's nodes, where these are fewer than fit on one.
    minimum, maximum
        Least and most ranks; the most may be a scalability limit, or what a model was measured for.
    excluded
        Splits that must not be chosen, such as those that failed: ``{"Fluid": 12, "Solid": 4}``, or with some
        participants alone all splits in which these have so many ranks.
    accepted_ranks
        With how many ranks preCICE starts a participant; by default as the coupling's configuration says.
    """

    cores: int | None = None
    nodes: int | None = None
    unit: Literal["ranks", "cores", "nodes"] = "ranks"
    cores_per_node: int | None = None
    gpus_per_node: int = 0
    gpus: int | None = None
    whole_nodes: bool | Collection[str] = False
    threads: int | Mapping[str, int] = 1
    layouts: Mapping[str, Layouts] = field(default_factory=dict)
    gpus_per_rank: Mapping[str, int] = field(default_factory=dict)
    multiple: int | Mapping[str, int] = 1
    allow: Mapping[str, Sequence[int]] = field(default_factory=dict)
    fixed: Mapping[str, int] = field(default_factory=dict)
    grid: Mapping[str, Sequence[float]] = field(default_factory=dict)
    memory: Mapping[str, float] = field(default_factory=dict)
    memory_per_rank: float | Mapping[str, float] | None = None
    elements: Mapping[str, float] = field(default_factory=dict)
    elements_per_rank: float | Mapping[str, float] | None = None
    shared: Sequence[SharedCores] = ()
    kinds: Sequence[NodeKind] = ()
    kind: Mapping[str, str] = field(default_factory=dict)
    ranks_per_node: Mapping[str, int] = field(default_factory=dict)
    minimum: int | Mapping[str, int] = 1
    maximum: Mapping[str, int] = field(default_factory=dict)
    excluded: Sequence[Mapping[str, int]] = ()
    accepted_ranks: Mapping[str, AcceptedRanks] = field(default_factory=dict)
    multiples: InitVar[int | Mapping[str, int] | None] = None
    allowed: InitVar[Mapping[str, Sequence[int]] | None] = None

    def __post_init__(
        self, multiples: int | Mapping[str, int] | None, allowed: Mapping[str, Sequence[int]] | None
    ) -> None:
        earlier = {"multiple": multiples, "allow": allowed}
        for each in fields(self):
            if earlier.get(each.name) is not None:
                object.__setattr__(self, each.name, earlier[each.name])
            elif getattr(self, each.name) is None and each.default is not None:
                unsaid = each.default if each.default_factory is MISSING else each.default_factory()
                object.__setattr__(self, each.name, unsaid)
        if self.unit not in ("ranks", "cores", "nodes"):
            raise InfeasibleError(f'expected a budget in "ranks", "cores" or "nodes", found {self.unit!r}')
        check_kinds(self.kinds, self.kind)
        beside = ("cores", "cores_per_node", "gpus_per_node", "gpus", "whole_nodes", "shared")
        if self.kinds and (said := [key for key in beside if getattr(self, key)]):
            raise InfeasibleError(f"expected {said[0]} or kinds of nodes, which say what there is, found both")
        if self.cores_per_node is None and not self.kinds and (self.unit == "nodes" or self.whole_nodes):
            raise InfeasibleError(
                "expected cores_per_node for a budget in nodes or whole nodes, found none; say how "
                "many cores a node has"
            )
        whole = {"cores_per_node": (self.cores_per_node, 1), "gpus_per_node": (self.gpus_per_node, 0)}
        whole |= {"gpus": (self.gpus, 0), "cores": (self.cores, 1), "nodes": (self.nodes, 1)}
        for key in ("threads", "gpus_per_rank", "multiple", "minimum", "maximum", "fixed", "ranks_per_node"):
            value = getattr(self, key)
            least = 0 if key == "gpus_per_rank" else 1
            entries = value.items() if isinstance(value, Mapping) else [("", value)]
            whole |= {f"{key} of {name}" if name else key: (entry, least) for name, entry in entries}
        for split in self.excluded:
            whole |= {f"excluded ranks of {name}": (ranks, 1) for name, ranks in split.items()}
        for key, (number, lowest) in whole.items():
            if number is not None and (isinstance(number, bool) or int(number) != number or number < lowest):
                raise InfeasibleError(f"expected {key} as a whole number of at least {lowest}, found {number!r}")
        if isinstance(self.threads, Mapping) and (twice := sorted(self.threads.keys() & self.layouts.keys())):
            raise InfeasibleError(
                f"expected threads of {twice[0]} once, found {self.threads[twice[0]]} per rank beside ranks and "
                "threads of its own; leave one out"
            )
        for name, grid in self.grid.items():
            if not 1 <= len(grid) <= 3 or not min(grid) >= 1:
                raise InfeasibleError(f"expected one to three numbers of points as grid of {name}, found {grid!r}")
        for group in self.shared:
            if len(group.turns) < 2 or not all(group.turns) or isinstance(group.turns[0], str):
                raise InfeasibleError(
                    f"expected two or more turns of participants to share cores, found {group.turns!r}"
                )
            if not 0 <= group.overhead < math.inf:
                raise InfeasibleError(f"expected an overhead of at least 0 for sharing cores, found {group.overhead!r}")
        for key in ("memory", "elements"):
            limit = getattr(self, f"{key}_per_rank")
            if getattr(self, key) and limit is None:
                raise InfeasibleError(f"expected {key}_per_rank beside {key}, found none")
            for values in (getattr(self, key), limit if isinstance(limit, Mapping) else {"each": limit or 1.0}):
                for name, amount in values.items():
                    if not 0 < amount < math.inf:
                        raise InfeasibleError(f"expected positive {key} for {name}, found {amount!r}")

    def kind_of(self, name: str, version: str = "") -> NodeKind:
        """Kind of nodes that a participant runs on, where there are several.

        Parameters
        ----------
        name, version : str
            The participant, and one of its versions.

        Returns
        -------
        NodeKind
        """
        wanted = self.of("kind", name, version)
        return next((each for each in self.kinds if each.name == wanted), self.kinds[0])

    def of_versions(self, versions: Mapping[str, str]) -> Constraints:
        """Give what holds where each participant runs as the version named, without keys of versions.

        Parameters
        ----------
        versions : mapping from participant to str
            Of those that have any.

        Returns
        -------
        Constraints
        """
        changed: dict[str, Any] = {}
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, Mapping):
                changed[each.name] = for_versions(value, versions)
        return replace(self, **changed)

    def constraints(self, budget: int | None = None) -> tuple[int, Constraints]:
        """Give the budget apart from the demands.

        Parameters
        ----------
        budget : int or None
            Where it is not among ``cores`` and ``nodes``: as many of the `unit`.

        Returns
        -------
        budget : int
        constraints : Constraints
            With the unit of the budget.

        Raises
        ------
        InfeasibleError
            Not exactly one budget; constraints that contradict themselves.
        """
        if self.kinds:
            return self._of_kinds(budget)
        counts: list[tuple[Any, Any]] = [(self.unit, budget), ("cores", self.cores), ("nodes", self.nodes)]
        given = [(unit, count) for unit, count in counts if count is not None]
        if not given and self.unit != "ranks":
            given = [(self.unit, None)]
        if len(given) != 1:
            raise InfeasibleError(
                f"expected the budget as one of ranks, cores or nodes (--ranks, --cores, --nodes), found "
                f"{' and '.join(unit for unit, _ in given) or 'none of them'}"
            )
        ((unit, count),) = given
        number = whole_number(count, "budget" if unit == "ranks" else f"a budget in {unit}", 1)
        found = replace(self, unit=unit, cores=None, nodes=None)
        if unit == "ranks" and found.threads != 1:
            raise InfeasibleError("expected a budget in cores or nodes beside threads per rank, found one in ranks")
        return number, found

    def _of_kinds(self, budget: int | None) -> tuple[int, Constraints]:
        """Give all nodes of all kinds, or fewer where ``nodes`` says so."""
        if budget is not None and self.unit != "nodes":
            raise InfeasibleError(f"expected the budget as kinds of nodes alone, found {budget} {self.unit} too")
        every = sum(each.nodes for each in self.kinds)
        return min(budget or self.nodes or every, every), replace(self, unit="nodes", nodes=None)

    def cores_per_rank(self, name: str, version: str = "") -> int:
        """Cores of what a split counts: threads per rank, but 1 for a participant that is split by cores.

        Parameters
        ----------
        name, version : str
            The participant, and one of its versions where there are several.

        Returns
        -------
        int
        """
        return 1 if self.of("layouts", name, version) else int(self.of("threads", name, version) or 1)

    def overhead(self, name: str) -> float:
        """By what share a participant's compute seconds rise because it shares its cores: 0.05 is 5 %.

        Parameters
        ----------
        name : str
            The participant.

        Returns
        -------
        float
        """
        return next((group.overhead for group in self.shared if name in group.members), 0.0)

    def has_whole_nodes(self, name: str) -> bool:
        """Whether a participant shares its nodes with nobody.

        Parameters
        ----------
        name : str
            The participant.

        Returns
        -------
        bool
        """
        return self.whole_nodes if isinstance(self.whole_nodes, bool) else name in self.whole_nodes

    def of(self, key: str, name: str, version: str = "") -> Any:
        """Value of a field for one version of a participant; None where nothing is said.

        Parameters
        ----------
        key, name, version : str
            The field, the participant, and one of its versions where there are several.

        Returns
        -------
        object
        """
        value = getattr(self, key)
        if isinstance(value, Mapping):
            return value.get(key_of(name, version), value.get(name))
        return value


#: The same, where it says what there is.
Machine = Constraints


def whole_number(value: Any, what: str, least: int) -> int:
    """Check a number that may be of any integer type."""
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if isinstance(value, bool) or number < least:
        raise InfeasibleError(f"expected {what} as a whole number of at least {least}, found {value!r}")
    return number


def check_names(constraints: Constraints, versions: Mapping[str, Collection[str]]) -> None:
    """Refuse keys that name no participant and no version of one, and a participant in two places of `shared`."""
    known = set(versions) | {key_of(name, version) for name in versions for version in versions[name]}
    for split in constraints.excluded:
        if unknown := [name for name in split if name not in versions]:
            raise InfeasibleError(
                f"expected excluded splits of {', '.join(versions)}, found one of {unknown[0]!r}, not in the coupling"
            )
    for key, value in vars(constraints).items():
        names: Collection[str] = ()
        if isinstance(value, Mapping) or (key == "whole_nodes" and not isinstance(value, bool)):
            names = value
        if unknown := [name for name in names if name not in known]:
            raise InfeasibleError(
                f"expected {key} of {', '.join(sorted(known))}, found some of {unknown[0]!r}, not in the coupling"
            )
    seen: set[str] = set()
    for name in (name for group in constraints.shared for name in group.members):
        if name not in versions or name in seen:
            what = "twice" if name in seen else "though it is not in the coupling"
            raise InfeasibleError(f"expected each participant at most once among shared cores, found {name} {what}")
        seen.add(name)
