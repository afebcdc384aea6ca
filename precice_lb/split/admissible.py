"""Which layouts each participant may have, and what each takes of the machine; or what clashes."""

from __future__ import annotations

import functools
import math
from collections.abc import Collection, Mapping
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray

from precice_lb.case import AcceptedRanks
from precice_lb.case.machine import Constraints
from precice_lb.exceptions import InfeasibleError
from precice_lb.layout import Layouts
from precice_lb.text import key_of, plural

Booleans = NDArray[np.bool_]
Integers = NDArray[np.int64]
_FREE = Constraints()


class Resources:
    """What there is of each kind of resource; uses are of shape (..., participants, kinds).

    Cores (or ranks) of a budget are one kind. Where participants take turns on them, each combination of turns is a
    kind, of which those in other turns take nothing. Of nodes of several kinds: nodes in all, then those of each kind.
    GPUs come with nodes.
    """

    def __init__(self, constraints: Constraints, budget: int) -> None:
        self.constraints = constraints
        #: What the budget counts, in a word.
        self.unit = "cores" if constraints.layouts and constraints.unit == "ranks" else constraints.unit
        self._combinations = [set().union(*turns) for turns in product(*(group.turns for group in constraints.shared))]
        self._in_turns = {name for group in constraints.shared for name in group.members}
        self._set_budget(budget)

    def _set_budget(self, budget: int) -> None:
        self.budget, node = budget, self.constraints.cores_per_node or 1
        if self.constraints.kinds:
            capacity = [budget, *(kind.nodes for kind in self.constraints.kinds)]
        else:
            cores = budget * self._cores_of_unit
            whole = self.constraints.whole_nodes is True
            capacity = [cores - cores % node if whole else cores] * len(self._combinations)
        #: Resources that there are, shape (kinds,).
        self.capacity: Integers = np.array(capacity, dtype=np.int64)

    def with_budget(self, budget: int) -> Resources:
        """Give the same with another budget."""
        other = copy(self)
        other._set_budget(budget)
        return other

    @property
    def _cores_of_unit(self) -> int:
        is_nodes = self.constraints.unit == "nodes" and not self.constraints.kinds
        return (self.constraints.cores_per_node or 1) if is_nodes else 1

    @property
    def cores_in_all(self) -> int:
        """Cores (or ranks) of the budget; of nodes of several kinds all that there are."""
        return sum(kind.nodes * kind.cores_per_node for kind in self.constraints.kinds) or int(self.capacity[0])

    def total(self, uses: Integers) -> Integers:
        """Resources occupied in all, shape (..., kinds)."""
        return np.asarray(uses.sum(axis=-2))

    def fits(self, uses: Integers) -> Booleans:
        """Whether there is so much, shape (...)."""
        return np.asarray((self.total(uses) <= self.capacity).all(axis=-1))

    def allowance(self, uses: Integers) -> Integers:
        """Tell what each participant could use at most while all others keep theirs, shaped like `uses`."""
        return (self.capacity - self.total(uses))[..., None, :] + uses

    def used(self, total: Integers) -> dict[str, int]:
        """Count the cores of these resources, and nodes where they matter."""
        nodes = {"nodes": self.budget_for(total) or 0} if self.unit == "nodes" else {}
        of_kinds = zip(total[1:], self.constraints.kinds, strict=False)
        return {"cores": self.cores(total), **nodes, **{f"{kind.name} nodes": int(count) for count, kind in of_kinds}}

    def budget_for(self, total: Integers) -> int | None:
        """Smallest budget that has these resources; None where a kind has too few nodes."""
        if self.constraints.kinds and (total[1:] > self.capacity[1:]).any():
            return None
        return -(-int(total.max()) // self._cores_of_unit)

    def cores(self, total: Integers) -> int:
        """Cores that are charged for these resources: whole nodes where the budget counts nodes."""
        if kinds := self.constraints.kinds:
            return sum(int(count) * kind.cores_per_node for count, kind in zip(total[1:], kinds, strict=True))
        return (self.budget_for(total) or 0) * self._cores_of_unit

    def takes(self, ranks: Integers, threads: Integers, name: str, version: str) -> Integers:
        """Resources that layouts of a participant take, shape (layouts, kinds)."""
        constraints, amount = self.constraints, ranks * threads
        if self.has_whole_nodes(name, version):
            most = constraints.of("ranks_per_node", name, version) or 2**60
            amount = -(-ranks // np.clip(self.per_node(threads, name, version), 1, most))
        if constraints.kinds:
            kind = constraints.kind_of(name, version)
            taken = [True, *(kind is other for other in constraints.kinds)]
        else:
            taken = [name in turns or name not in self._in_turns for turns in self._combinations]
            amount = amount * (constraints.cores_per_node or 0) if self.has_whole_nodes(name, version) else amount
        return np.outer(amount, np.array(taken, dtype=np.int64))

    def per_node(self, threads: Integers, name: str, version: str) -> Integers:
        """Ranks with so many threads that fit on one node of a participant, shape (counts,); 0 where not even one."""
        cores, gpus = self.constraints.node(name, version)
        fit, needed = (cores or 0) // threads, self.gpus_per_rank(name, version)
        return np.minimum(fit, gpus // needed) if needed else fit

    def layouts(self, name: str, version: str) -> Layouts:
        """Ranks and threads of one version of a participant."""
        stated: Layouts | None = self.constraints.of("layouts", name, version)
        return stated or Layouts()

    def gpus_per_rank(self, name: str, version: str) -> int:
        """GPUs that each rank of a participant takes."""
        return int(self.constraints.of("gpus_per_rank", name, version) or 0)

    def has_whole_nodes(self, name: str, version: str) -> bool:
        """Whether a participant shares its nodes with nobody, as does one whose threads depend on the split."""
        depends = self.unit == "nodes" and self.layouts(name, version).constant_threads is None
        return depends or self.constraints.has_whole_nodes(name)

    def require_no_gaps(self, name: str, version: str) -> None:
        """Refuse ranks of several cores, or with GPUs, on shared nodes: enough cores may be too few nodes then."""
        is_large = self.layouts(name, version).constant_threads != 1 or self.gpus_per_rank(name, version)
        if self.unit == "nodes" and is_large and not self.has_whole_nodes(name, version):
            raise InfeasibleError(
                f"expected whole nodes for {name}, whose ranks have threads or GPUs, where the budget counts "
                f"nodes, found shared ones; say machine.whole_nodes = true, or {[name]} for it alone"
            )


@dataclass(frozen=True)
class Admissible:
    """The layouts that one version of a participant may have: at least one, whatever the budget."""

    name: str
    version: str
    #: Ranks, or cores where it is split by these: rising numbers, as a split counts them.
    counts: Integers
    #: Resources that each takes, shape (layouts, kinds).
    takes: Integers
    #: What the least count comes from.
    why: str

    def within(self, room: Integers) -> Admissible | None:
        """Keep those that take no more than that, shape (kinds,); None where nothing is left."""
        kept = (self.takes <= room).all(axis=1)
        if kept.all():
            return self
        return replace(self, counts=self.counts[kept], takes=self.takes[kept]) if kept.any() else None


def _admissible(machine: Resources, name: str, version: str, known: int | None) -> Admissible:
    """List the layouts of one version of a participant, of which times up to so many ranks are known."""
    of = functools.partial(machine.constraints.of, name=name, version=version)
    layouts, accepted = machine.layouts(name, version), of("accepted_ranks") or AcceptedRanks()
    minimum, multiple, allowed = int(of("minimum") or 1), int(of("multiple") or 1), of("allow")
    needed = {accepted.least.why: accepted.least.ranks}
    if (memory := of("memory")) is not None and (of_rank := of("memory_per_rank")) is not None:
        # Whole quotients must not become one more by rounding.
        needed["memory"] = math.ceil(memory / of_rank * (1 - 1e-12))
    # As far as the machine reaches, or to the first one where that is further.
    smallest = min((pair.cores for pair in layouts.pairs), default=(layouts.ranks or 1) * (layouts.threads or 1))
    low = max(minimum, smallest, max(needed.values()) * (layouts.constant_threads or 1))
    last = max(machine.cores_in_all, low + math.lcm(multiple, layouts.step or 1), *(allowed or ()))
    counts, ranks, threads = layouts.rows(1, last)
    node = machine.constraints.node(name, version)[0]
    # Where a split counts cores, some rules still count ranks.
    is_stated = of("layouts") is not None
    unit, multiples = " ranks" if is_stated else "", f"multiples of {multiple}"
    # What each demands, in words, and which counts meet it.
    rules: list[tuple[str, str, Booleans]] = [("minimum", f"{minimum} at least (minimum)", counts >= minimum)]
    rules += [(key, f"{least}{unit} at least ({key})", ranks >= least) for key, least in needed.items()]
    highest = {"maximum": of("maximum"), "times known": known}
    rules += [(key, f"{most} at most ({key})", counts <= most) for key, most in highest.items() if most is not None]
    bound = accepted.most
    rules.append((bound.why, f"{bound.ranks}{unit} at most ({bound.why})", ranks <= bound.ranks))
    if multiple > 1:
        rules.append((multiples, multiples, counts % multiple == 0))
    if allowed is not None:
        rules.append(("allowed", f"one of {', '.join(map(str, allowed[:8]))}", np.isin(counts, allowed)))
    _require_node(machine, name, version, threads)
    if node is not None and is_stated:
        rules.append(("threads", f"threads of a rank on a node of {plural(node, 'core')}", threads <= node))
    kept = np.logical_and.reduce([mask for _, _, mask in rules])
    if not kept.any():
        clashing = {key: text for key, text, mask in rules if not mask.all()}
        remedies = [f", or {end.remedy}" for end in (accepted.least, bound) if end.remedy and end.why in clashing]
        raise InfeasibleError(
            f'expected a number of {f"cores ({layouts})" if is_stated else "ranks"} of "{key_of(name, version)}" that '
            f"satisfies all of its constraints, found that these clash whatever the budget: "
            f"{'; '.join(clashing.values())}; change one of them{''.join(remedies)}"
        )
    first = int(kept.argmax())
    why = str(layouts) if is_stated and counts[first] > minimum else "minimum"
    why = next((key for key, _, mask in rules if first and not mask[:first].any()), why)
    takes = machine.takes(ranks[kept], threads[kept], name, version)
    return Admissible(name, version, counts[kept], takes, why)


def _require_node(machine: Resources, name: str, version: str, threads: Integers) -> None:
    """Refuse ranks that fit on no node, whatever the split."""
    constraints = machine.constraints
    (cores, gpus), needed = constraints.node(name, version), machine.gpus_per_rank(name, version)
    who = f'expected a rank of "{key_of(name, version)}" to fit on one node'
    node = f"a node of kind {constraints.kind_of(name, version).name!r}" if constraints.kinds else "a node"
    if needed > gpus:
        raise InfeasibleError(
            f"{who}, found that it needs {plural(needed, 'GPU')} and {node} has {gpus}; change gpus_per_rank, "
            "gpus_per_node or kind"
        )
    if needed and constraints.unit != "nodes":
        raise InfeasibleError(
            f"expected a budget in nodes for ranks with GPUs, found {constraints.unit}; say how many nodes"
        )
    if cores is None or not len(threads):
        return
    if threads.min() == threads.max() > cores:
        raise InfeasibleError(f"{who}, found that it has {plural(int(threads[0]), 'core')} and {node} {cores}")
    fit, wanted = int(machine.per_node(threads, name, version).max()), constraints.of("ranks_per_node", name, version)
    if constraints.kinds and (wanted or 0) > fit:
        raise InfeasibleError(f"expected at most {fit} ranks of {key_of(name, version)} on {node}, found {wanted}")


@dataclass(frozen=True, eq=False)
class Limits:
    """What bounds a split: the layouts of all participants, whatever the others get, and what there is."""

    machine: Resources
    #: By participant, one entry for each version that can be had.
    rows: dict[str, list[Admissible]]

    @property
    def budget(self) -> int:
        """How much there is, in the unit of the constraints; ranks without."""
        return self.machine.budget

    @property
    def constraints(self) -> Constraints:
        """What the machine demands, and what callers bound ranks by."""
        return self.machine.constraints

    @property
    def layouts(self) -> Mapping[str, Layouts]:
        """Ranks and threads of those that are split by cores."""
        return self.constraints.layouts

    @cached_property
    def counts(self) -> dict[str, Integers]:
        """Rank counts that each participant of one version may have, rising, while the others get the least."""
        return {name: rows[0].counts for name, rows in self.admitted.items()}

    @property
    def lowest(self) -> dict[str, int]:
        """Fewest ranks of each participant."""
        return {name: int(counts[0]) for name, counts in self.counts.items()}

    @property
    def highest(self) -> dict[str, int]:
        """Most ranks of each participant."""
        return {name: int(counts[-1]) for name, counts in self.counts.items()}

    @cached_property
    def admitted(self) -> dict[str, list[Admissible]]:
        """The layouts of each version that the budget admits while everyone else gets the least."""
        # Of each resource the least over the versions: at most what anybody really takes.
        lowest = np.stack([np.min([row.takes[0] for row in rows], axis=0) for rows in self.rows.values()])
        room = dict(zip(self.rows, self.machine.allowance(lowest), strict=True))
        return {name: [kept for row in rows if (kept := row.within(room[name]))] for name, rows in self.rows.items()}

    def uses(self, split: Mapping[str, int]) -> Integers | None:
        """Resources that a split of one version each takes, shape (participants, kinds); None where it may not be."""
        chosen = [row.takes[row.counts == split[name]] for name, (row, *_) in self.rows.items()]
        return np.concatenate(chosen) if all(map(len, chosen)) else None

    def require_budget(self) -> None:
        """Refuse a budget below what everyone needs at least."""
        machine, unit = self.machine, self.machine.unit
        choices = [(chosen, np.stack([row.takes[0] for row in chosen])) for chosen in product(*self.rows.values())]
        if any(machine.fits(uses) for _, uses in choices):
            return
        budgets = [(needed, chosen) for chosen, uses in choices if (needed := machine.budget_for(machine.total(uses)))]
        if not budgets:
            least = np.sum([np.min([row.takes[0] for row in rows], axis=0) for rows in self.rows.values()], axis=0)
            short = [
                f"{count} nodes of kind {kind.name!r}, found {kind.nodes}"
                for count, kind in zip(least[1:].tolist(), self.constraints.kinds, strict=True)
                if count > kind.nodes
            ]
            raise InfeasibleError(
                f"expected at least {' and '.join(short) or 'more nodes of the kinds asked for'}; give more nodes, or "
                "let a participant choose a version without"
            )
        needed, chosen = min(budgets, key=lambda entry: entry[0])
        raise InfeasibleError(
            f"expected a budget of at least {needed} {unit} for {len(chosen)} participants (minima: "
            f"{', '.join(map(self._least_of, chosen))}), found {machine.budget}; give {needed} {unit} or more"
        )

    def _least_of(self, row: Admissible) -> str:
        """Say the least count, what makes it so large, and the nodes it takes if nobody else may use them."""
        reasons = [] if row.why == "minimum" else [row.why]
        if self.machine.has_whole_nodes(row.name, row.version):
            node = 1 if self.constraints.kinds else self.constraints.cores_per_node or 1
            reasons.append(plural(int(row.takes[0].max()) // node, "whole node"))
        return f"{row.name} {row.counts[0]}" + (f" ({', '.join(reasons)})" if reasons else "")


def limits_of(
    names: Collection[str] | Mapping[str, Collection[str]],
    budget: int,
    constraints: Constraints = _FREE,
    lengths: Mapping[tuple[str, str], int] | None = None,
) -> Limits:
    """Bound the splits of participants, with the versions of each if any; of some so many times are known."""
    versions = names if isinstance(names, Mapping) else dict.fromkeys(names, ("",))
    constraints.require_names(versions)
    machine = Resources(constraints, budget)
    rows: dict[str, list[Admissible]] = {name: [] for name in versions}
    for name, of_name in versions.items():
        problems = []
        for version in of_name:
            machine.require_no_gaps(name, version)
            try:
                rows[name].append(_admissible(machine, name, version, (lengths or {}).get((name, version))))
            except InfeasibleError as problem:
                problems.append(problem)
        if not rows[name]:
            raise problems[0]
    limits = Limits(machine, rows)
    limits.require_budget()
    return limits
