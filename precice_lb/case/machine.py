"""What a machine has, and what it and its users demand of a split."""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, SkipValidation, model_validator

from precice_lb.case import AcceptedRanks
from precice_lb.case.tables import Amount, Count, Options, Text, Whole
from precice_lb.exceptions import InfeasibleError
from precice_lb.layout import Layouts
from precice_lb.text import checked_name, for_versions, key_of

if TYPE_CHECKING:
    # What a type checker knows.
    from dataclasses import dataclass as table
else:
    from precice_lb.case.tables import table

ONE = BeforeValidator(lambda value: [value] if isinstance(value, str) else value)
"""One text is a list of it."""
_TUPLE = AfterValidator(tuple)


@table(frozen=True)
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
    options
        What a batch system is asked for to get them.
    """

    name: Annotated[str, BeforeValidator(lambda name: checked_name(name, "kind of nodes"))]
    nodes: Whole
    cores_per_node: Whole
    gpus_per_node: Count = 0
    options: Options = ()


@table(frozen=True)
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

    turns: Annotated[Sequence[Annotated[Sequence[Text], Field(min_length=1), _TUPLE]], Field(min_length=2), _TUPLE]
    overhead: Annotated[float, Field(ge=0, allow_inf_nan=False, strict=True)] = 0.0

    @property
    def members(self) -> tuple[str, ...]:
        """All participants of the group."""
        return tuple(name for turn in self.turns for name in turn)


def turns_of(names: Iterable[str], shared: Sequence[SharedCores]) -> list[Sequence[Sequence[str]]]:
    """List the turns of each group of participants; whoever shares with nobody is a group of one turn."""
    members = {name for group in shared for name in group.members}
    return [*(group.turns for group in shared), *([[name]] for name in names if name not in members)]


def first_cores(counts: Mapping[str, int], shared: Sequence[SharedCores]) -> tuple[dict[str, int], int]:
    """Lay participants side by side, but turns on the same cores: the first core of each, and how many are taken."""
    firsts: dict[str, int] = {}
    taken = 0
    for turns in turns_of(counts, shared):
        ends = []
        for turn in turns:
            end = taken
            for name in turn:
                firsts[name] = end
                end += counts[name]
            ends.append(end)
        taken = max(ends)
    return firsts, taken


def _turns(value: object) -> object:
    """Read turns alone: ``"ICE+LND/ATM"``."""
    if not isinstance(value, str):
        return value
    return {"turns": [[name.strip() for name in turn.split("+")] for turn in value.split("/")]}


@table(frozen=True, kw_only=True)
class MachineSection:
    """What there is to split; everything is optional, as None is.

    Attributes
    ----------
    ranks
        Ranks of all participants together, in runs and in the recommendation; cores where participants have threads.
    cores, nodes
        The budget of the recommendation in cores or nodes; ranks beside them in a study are those of runs alone.
    cores_per_node, gpus_per_node
        What a node has.
    whole_nodes
        ``true``: every participant gets nodes of its own; or a list of those that do. The others share nodes.
    memory_per_rank
        Bytes that one rank may use, one number for all or by participant.
    shared
        Participants that take turns on the same cores: ``"Fluid/Solid"``, ``"ICE+LND/ATM"``, or ``[{ turns =
        [["Fluid"], ["Solid"]], overhead = 0.05 }]``; the overhead is the share by which their compute time rises. In
        runs they still have cores of their own.
    kinds
        Nodes of several kinds, of which participants get whole ones, in place of cores, of what a node has, and of
        ``shared``: tables with ``name``, ``nodes``, ``cores_per_node``, ``gpus_per_node`` (0) and ``options``, what
        Slurm is asked for to get them, such as ``["--partition=gpu"]``; each participant is then a component of a
        heterogeneous job. A kind that nobody uses does no harm. Not for chains.
    """

    ranks: Whole | None = None
    cores: Whole | None = None
    nodes: Whole | None = None
    cores_per_node: Whole | None = None
    gpus_per_node: Count = 0
    whole_nodes: Annotated[bool, Field(strict=True)] | Annotated[Sequence[Text], _TUPLE] = False
    memory_per_rank: Amount | Mapping[str, Amount] | None = None
    shared: Annotated[Sequence[Annotated[SharedCores, BeforeValidator(_turns)]], ONE, _TUPLE] = ()
    kinds: Annotated[Sequence[NodeKind], _TUPLE] = ()

    @model_validator(mode="before")
    @classmethod
    def _without_none(cls, values: object) -> object:
        return (
            {key: value for key, value in values.items() if value is not None} if isinstance(values, dict) else values
        )

    def __post_init__(self) -> None:
        names = [kind.name for kind in self.kinds]
        if twice := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"expected a name of its own for each kind of nodes, found {twice[0]!r} twice")


@table(frozen=True, kw_only=True)
class Demands(MachineSection):
    """What participants demand: keys of their own tables in a study, and here mappings from participant to value.

    A key ``participant:version`` speaks of one version of the participant alone (see `optimize_split`), before the key
    of the participant.

    Attributes
    ----------
    multiple
        Ranks come in multiples of this.
    memory
        Bytes that it needs in all; with ``memory_per_rank`` of the machine this bounds its ranks from below.
    gpus_per_rank
        GPUs that each rank takes, none by default; who has any has nodes of its own, and Slurm is asked for as many
        ``--gpus-per-task``, unless ``options`` ask for GPUs.
    kind
        Its kind of nodes, where the machine has several; by default the first.
    ranks_per_node
        Ranks on each of its nodes, where these are others than the launcher's; on nodes of several kinds, by default as
        many as fit.
    """

    multiple: Whole | Mapping[str, Whole] = 1
    memory: Mapping[str, Amount] = field(default_factory=dict)
    gpus_per_rank: Mapping[str, Count] = field(default_factory=dict)
    kind: Mapping[str, Text] = field(default_factory=dict)
    ranks_per_node: Mapping[str, Whole] = field(default_factory=dict)


@table(frozen=True, kw_only=True)
class Constraints(Demands):
    """What a machine has, and what it and its users demand of a split.

    Attributes
    ----------
    unit
        What a budget that is given beside this counts; nodes have `cores_per_node` and `gpus_per_node`.
    layouts
        Ranks and threads of participants that are split by cores. The numbers of a split, of `multiple`, `allow`,
        `minimum`, `maximum` and `excluded`, and a budget in ranks count cores of these; what is said of a rank
        (memory, GPUs) is of their ranks. The threads of a rank lie on one node.
    allow
        The only rank counts that are possible, by participant.
    minimum, maximum
        Least and most ranks; the most may be a scalability limit, or what a model was measured for.
    excluded
        Splits that must not be chosen, such as those that failed: ``{"Fluid": 12, "Solid": 4}``, or with some
        participants alone all splits in which these have so many ranks.
    accepted_ranks
        With how many ranks preCICE starts a participant; by default as the coupling's configuration says.
    """

    unit: Literal["ranks", "cores", "nodes"] = "ranks"
    layouts: SkipValidation[Mapping[str, Layouts]] = field(default_factory=dict)
    allow: Mapping[str, Annotated[Sequence[Whole], Field(min_length=1), _TUPLE]] = field(default_factory=dict)
    minimum: Whole | Mapping[str, Whole] = 1
    maximum: Mapping[str, Whole] = field(default_factory=dict)
    excluded: Sequence[Mapping[str, Whole]] = ()
    accepted_ranks: SkipValidation[Mapping[str, AcceptedRanks]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.memory and self.memory_per_rank is None:
            raise ValueError("expected memory_per_rank beside memory, found none")
        beside = ("cores", "cores_per_node", "gpus_per_node", "whole_nodes", "shared")
        if self.kinds and (stated := [key for key in beside if getattr(self, key)]):
            raise ValueError(f"expected {stated[0]} or kinds of nodes, which say what there is, found both")
        names = [kind.name for kind in self.kinds]
        for participant, name in self.kind.items():
            if name not in names:
                known = f"one of the kinds of nodes ({', '.join(names)})" if names else "no kind, as no kinds are given"
                raise ValueError(f"kind of {participant}: expected {known}, found {name!r}")
        if self.cores_per_node is None and not self.kinds and (self.unit == "nodes" or self.whole_nodes):
            raise ValueError(
                "expected cores_per_node for a budget in nodes or whole nodes, found none; say how "
                "many cores a node has"
            )

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
        named = {key: value for key, value in vars(self).items() if isinstance(value, Mapping)}
        changed: dict[str, Any] = {key: for_versions(value, versions) for key, value in named.items()}
        return replace(self, **changed)

    def constraints(self, budget: int | None = None) -> tuple[int, Constraints]:
        """Give the budget apart from the demands.

        Parameters
        ----------
        budget : int or None
            Where it is not among ``ranks``, ``cores`` and ``nodes``: as many of the `unit`.

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
        counts: list[tuple[Any, Any]] = [
            (self.unit, budget), ("ranks", self.ranks), ("cores", self.cores), ("nodes", self.nodes)
        ]  # fmt: skip
        budgets = [(unit, count) for unit, count in counts if count is not None]
        if self.kinds:
            if any(unit != "nodes" for unit, _ in budgets):
                raise InfeasibleError(f"expected the budget as kinds of nodes alone, found {budget} {self.unit} too")
            every = sum(kind.nodes for kind in self.kinds)
            return min(budget or self.nodes or every, every), replace(self, unit="nodes", nodes=None)
        if len(budgets) != 1:
            raise InfeasibleError(
                f"expected the budget as one of ranks, cores or nodes (--ranks, --cores, --nodes), found "
                f"{' and '.join(unit for unit, _ in budgets) or 'none of them'}"
            )
        ((unit, count),) = budgets
        number = whole_number(count, "budget" if unit == "ranks" else f"a budget in {unit}", 1)
        return number, replace(self, unit=unit, ranks=None, cores=None, nodes=None)

    def node(self, name: str, version: str = "") -> tuple[int | None, int]:
        """Cores of a node that a participant runs on, where that is known, and its GPUs.

        Parameters
        ----------
        name, version : str
            The participant, and one of its versions where there are several.

        Returns
        -------
        cores : int or None
        gpus : int
        """
        kind = self.kind_of(name, version) if self.kinds else self
        return kind.cores_per_node, kind.gpus_per_node

    def kind_of(self, name: str, version: str = "") -> NodeKind:
        """Kind of nodes that a participant runs on, where there are several.

        Parameters
        ----------
        name, version : str
            The participant, and one of its versions where there are several.

        Returns
        -------
        NodeKind
        """
        wanted = self.of("kind", name, version)
        return next((kind for kind in self.kinds if kind.name == wanted), self.kinds[0])

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
        return bool(self.kinds) or (
            self.whole_nodes if isinstance(self.whole_nodes, bool) else name in self.whole_nodes
        )

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
        return value.get(key_of(name, version), value.get(name)) if isinstance(value, Mapping) else value

    def require_names(self, versions: Mapping[str, Collection[str]]) -> None:
        """Refuse keys that name no participant and no version of one, and a participant in two places of `shared`.

        Parameters
        ----------
        versions : mapping from participant to collection of str
            All participants, with the versions of each.

        Raises
        ------
        InfeasibleError
            A name is not among them, or stands twice.
        """
        known = {*versions, *(key_of(name, version) for name in versions for version in versions[name])}
        named = [("excluded splits", name) for split in self.excluded for name in split]
        for key, value in vars(self).items():
            if isinstance(value, Mapping) or (key == "whole_nodes" and not isinstance(value, bool)):
                named += [(key, name) for name in value]
        if unknown := next(((key, name) for key, name in named if name not in known), None):
            raise InfeasibleError(
                f"expected {unknown[0]} of {', '.join(sorted(known))}, found one of {unknown[1]!r}, not in the coupling"
            )
        members = [name for group in self.shared for name in group.members]
        for name in members:
            if name not in versions or members.count(name) > 1:
                what = "twice" if name in versions else "though it is not in the coupling"
                raise InfeasibleError(f"expected each participant at most once among shared cores, found {name} {what}")


#: The same, where it says what there is.
Machine = Constraints


def whole_number(value: Any, what: str, least: int) -> int:
    """Check a number that may be of any integer type."""
    number = value if isinstance(value, bool) or not hasattr(value, "__index__") else operator.index(value)
    if type(number) is not int or number < least:
        raise InfeasibleError(f"expected {what} as a whole number of at least {least}, found {value!r}")
    return number
