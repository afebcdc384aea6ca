"""Which layouts each participant may have, and what each takes: bounds, lists and machine, or what of them clashes."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray

from precice_lb.case import AcceptedRanks
from precice_lb.case.machine import Constraints, whole_number
from precice_lb.case.ranks import UNBOUND
from precice_lb.exceptions import InfeasibleError
from precice_lb.layout import Layouts
from precice_lb.names import key_of
from precice_lb.plural import plural
from precice_lb.split.decomposition import good_counts, grid_text
from precice_lb.split.resources import Layout, Resources

Integers = NDArray[np.int64]
_FREE = Constraints()


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
        return (
            Admissible(self.name, self.version, self.counts[kept], self.takes[kept], self.why) if kept.any() else None
        )


def _admissible(machine: Resources, name: str, version: str, known: int | None) -> Admissible:
    """List the layouts of one version of a participant, of which times up to so many ranks are known."""
    constraints = machine.constraints
    layouts: Layouts | None = constraints.of("layouts", name, version)
    accepted: AcceptedRanks = constraints.of("accepted_ranks", name, version) or AcceptedRanks()
    # Of ranks; of who is split by these they bound the counts.
    needed = {accepted.least.why: accepted.least.ranks} if accepted.least.ranks > 1 else {}
    total, limit = constraints.of("memory", name, version), constraints.of("memory_per_rank", name, version)
    if total is not None and limit is not None:
        # Whole quotients must not become one more by rounding.
        needed["memory"] = math.ceil(total / limit * (1 - 1e-12))
    most_ranks = {} if accepted.most == UNBOUND else {accepted.most.why: accepted.most.ranks}
    threads = 1 if layouts is None else layouts.constant_threads or 1
    lowest = {"minimum": int(constraints.of("minimum", name, version) or 1)}
    lowest |= {key: ranks * threads for key, ranks in needed.items()}
    highest = {"maximum": constraints.of("maximum", name, version), "times known": known}
    highest = {key: int(count) for key, count in highest.items() if count is not None}
    highest |= most_ranks if layouts is None else {}
    # Of the same bounds the one that says more.
    why = max(lowest, key=lambda key: (lowest[key], lowest[key] > 1 and key != "minimum"))
    limit = min(highest, key=lambda key: highest[key]) if highest else ""
    low, high = lowest[why], highest[limit] if highest else None
    counted = "rank" if layouts is None else "core"
    if high is not None and high < low:
        asked = "the minimum" if why == "minimum" else f"needed for {why}"
        remedies = [f", or {bound.remedy}" for bound in (accepted.least, accepted.most) if bound.why in (why, limit)]
        raise InfeasibleError(
            f'expected at least {plural(low, counted)}, {asked}, as maximum of "{name}", found {high} '
            f"({limit}); correct the bounds{''.join(remedies)}"
        )
    multiple = int(constraints.of("multiple", name, version) or 1)
    allowed, grid = constraints.of("allow", name, version), constraints.of("grid", name, version)
    step = math.lcm(multiple, 1 if layouts is None else layouts.step or 1)
    # As far as the machine reaches, or to the first one where that is further: of a grid there is one per octave.
    last = max(machine.cores_in_all, 2 * low if grid else low + step, *(allowed or (0,)))
    last = last if high is None else min(last, high)
    counts, ranks, of_rank = (layouts or Layouts()).rows(low, last)
    kept = _on_node(machine, name, version, of_rank)
    rules: list[tuple[str, str, NDArray[np.bool_]]] = []
    if multiple > 1:
        rules.append((f"multiples of {multiple}", f"multiples of {multiple}", counts % multiple == 0))
    if layouts is not None:
        node = constraints.node(name, version)[0]
        on_node = "" if node is None else f", those of a rank on a node of {plural(node, 'core')}"
        rules.append((why, f"{layouts} cores for its threads{on_node}", kept))
        rules += [(key, f"{plural(least, 'rank')} or more ({key})", ranks >= least) for key, least in needed.items()]
        rules += [(key, f"{plural(most, 'rank')} or fewer ({key})", ranks <= most) for key, most in most_ranks.items()]
    if allowed is not None:
        rules.append(("allowed", f"one of {', '.join(map(str, allowed[:8]))}", np.isin(counts, allowed)))
    if grid is not None:
        good = np.isin(ranks, good_counts(tuple(grid), last))
        rules.append(("grid", f"counts that cut its grid of {grid_text(grid)} evenly", good))
    for _, _, mask in rules:
        kept = kept & mask
    if not kept.any():
        texts = [f"{low} at least ({why})", *([f"{high} at most ({limit})"] if high is not None else [])]
        raise InfeasibleError(
            f'expected a number of {counted}s of "{key_of(name, version)}" that satisfies all of its constraints, '
            f"found that these clash whatever the budget: {'; '.join([*texts, *(text for _, text, _ in rules)])}"
        )
    first = int(kept.argmax())
    if counts[first] > low:
        why = next((rule for rule, _, mask in rules if first and not mask[:first].any()), f"multiples of {step}")
    takes = machine.takes(ranks[kept], of_rank[kept], name, version)
    return Admissible(name, version, counts[kept], takes, why)


def _on_node(machine: Resources, name: str, version: str, threads: Integers) -> NDArray[np.bool_]:
    """Whether a node holds a rank with so many threads, where that is known, shape (layouts,)."""
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
            f'expected a budget in nodes for "{key_of(name, version)}", whose ranks need GPUs, found one in '
            f"{constraints.unit}; say how many nodes there are"
        )
    if cores is None or not len(threads):
        return np.ones(len(threads), dtype=np.bool_)
    if threads.min() == threads.max() > cores:
        raise InfeasibleError(f"{who}, found that it has {plural(int(threads[0]), 'core')} and {node} {cores}")
    fit, wanted = int(machine.per_node(threads, name, version).max()), constraints.of("ranks_per_node", name, version)
    if constraints.kinds and (wanted or 0) > fit:
        raise InfeasibleError(
            f"expected at most {fit} ranks of {key_of(name, version)} on {node} ({cores} cores, {gpus} GPUs), found "
            f"{wanted}"
        )
    return threads <= cores


@dataclass(frozen=True, eq=False)
class Limits:
    """What bounds a split: the layouts of all participants, whatever the others get, and what there is."""

    machine: Resources
    layout: Layout
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
        lowest = np.stack([np.min([each.takes[0] for each in own], axis=0) for own in self.rows.values()])
        room = dict(zip(self.rows, self.layout.allowance(lowest), strict=True))
        return {name: [kept for each in own if (kept := each.within(room[name]))] for name, own in self.rows.items()}

    def require_budget(self) -> None:
        """Refuse a budget below what everyone needs at least."""
        best: tuple[int, tuple[Admissible, ...]] | None = None
        for chosen in product(*self.rows.values()):
            uses = np.stack([each.takes[0] for each in chosen])
            if self.layout.fits(uses):
                return
            needed = self.machine.budget_for(self.layout.total(uses))
            if needed is not None and (best is None or needed < best[0]):
                best = needed, chosen
        if best is None:
            least = [np.stack([each.takes[0] for each in own]) for own in self.rows.values()]
            raise InfeasibleError(f"{self.machine.want(least)} or let a participant choose a version without")
        needed, chosen = best
        minima = ", ".join(f"{each.name} {each.counts[0]}{_reasons(each, self.machine)}" for each in chosen)
        unit = self.machine.unit
        raise InfeasibleError(
            f"expected a budget of at least {needed} {unit} for {len(chosen)} participants (minima: {minima}), "
            f"found {self.machine.budget}; give {needed} {unit} or more"
        )


def limits_of(
    names: Collection[str] | Mapping[str, Collection[str]],
    budget: int,
    minimum: int | Mapping[str, int] = 1,
    maximum: Mapping[str, int] | None = None,
    constraints: Constraints = _FREE,
    lengths: Mapping[tuple[str, str], int] | None = None,
) -> Limits:
    """Bound the splits of participants, with the versions of each if any; of some so many times are known."""
    versions = names if isinstance(names, Mapping) else dict.fromkeys(names, ("",))
    constraints.require_names(versions)
    constraints = _bounded(constraints, versions, minimum, maximum or {})
    machine = Resources(constraints, budget, [(name, version) for name in versions for version in versions[name]])
    rows: dict[str, list[Admissible]] = {}
    for name in versions:
        problems, rows[name] = [], []
        for version in versions[name]:
            try:
                rows[name].append(_admissible(machine, name, version, (lengths or {}).get((name, version))))
            except InfeasibleError as problem:
                problems.append(problem)
        if not rows[name]:
            raise problems[0]
    limits = Limits(machine, Layout(list(versions), constraints.shared, machine.capacity), rows)
    limits.require_budget()
    return limits


def _bounded(
    constraints: Constraints,
    versions: Mapping[str, Collection[str]],
    minimum: int | Mapping[str, int],
    maximum: Mapping[str, int],
) -> Constraints:
    """Join what callers bound ranks by with what the constraints say."""
    bounds = minimum if isinstance(minimum, Mapping) else dict.fromkeys(versions, minimum)
    if unknown := [name for name in [*bounds, *maximum] if name not in versions]:
        raise InfeasibleError(f"expected bounds of {', '.join(versions)}, found one of {unknown[0]!r}")
    least = {name: whole_number(count, f"minimum ranks of {name}", 1) for name, count in bounds.items()}
    most = {name: whole_number(count, f"maximum ranks of {name}", 1) for name, count in maximum.items()}
    low, high = {}, {}
    for name in versions:
        for version in versions[name]:
            key, known = key_of(name, version), constraints.of("maximum", name, version)
            low[key] = max(least.get(name, 1), int(constraints.of("minimum", name, version) or 1))
            if high_of := [count for count in (most.get(name), known) if count is not None]:
                high[key] = min(high_of)
    return replace(constraints, minimum=low, maximum=high)


def _reasons(least: Admissible, machine: Resources) -> str:
    """Say what makes the least count so large, and the nodes it takes if nobody else may use them."""
    reasons = [] if least.why == "minimum" else [least.why]
    if nodes := machine.whole_nodes_of(least.takes[0], least.name, least.version):
        reasons.append(plural(nodes, "whole node"))
    return f" ({', '.join(reasons)})" if reasons else ""
