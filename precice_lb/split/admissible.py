"""Which layouts each participant may have, and what each takes: bounds, lists and machine, or what of them clashes."""

from __future__ import annotations

import functools
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray

from precice_lb.case import AcceptedRanks
from precice_lb.case.coupling import UNBOUND
from precice_lb.case.machine import Constraints
from precice_lb.exceptions import InfeasibleError
from precice_lb.layout import Layouts
from precice_lb.split.resources import Resources
from precice_lb.text import key_of, plural

Integers = NDArray[np.int64]
_FREE = Constraints()
MOST = 10**6
"""Ranks up to which counts that cut a grid are looked for."""


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
        return replace(self, counts=self.counts[kept], takes=self.takes[kept]) if kept.any() else None


def _admissible(machine: Resources, name: str, version: str, known: int | None) -> Admissible:
    """List the layouts of one version of a participant, of which times up to so many ranks are known."""
    constraints = machine.constraints
    stated: Layouts | None = constraints.of("layouts", name, version)
    layouts, counted = stated or Layouts(), "rank" if stated is None else "core"
    accepted: AcceptedRanks = constraints.of("accepted_ranks", name, version) or AcceptedRanks()
    # Of ranks; of who is split by these they bound the counts.
    needed = {accepted.least.why: accepted.least.ranks} if accepted.least.ranks > 1 else {}
    memory, of_rank = constraints.of("memory", name, version), constraints.of("memory_per_rank", name, version)
    if memory is not None and of_rank is not None:
        # Whole quotients must not become one more by rounding.
        needed["memory"] = math.ceil(memory / of_rank * (1 - 1e-12))
    lowest = {"minimum": int(constraints.of("minimum", name, version) or 1)}
    lowest |= {key: ranks * (layouts.constant_threads or 1) for key, ranks in needed.items()}
    most_ranks = {} if accepted.most == UNBOUND else {accepted.most.why: accepted.most.ranks}
    highest = {"maximum": constraints.of("maximum", name, version), "times known": known}
    highest |= most_ranks if stated is None else {}
    ends = [(int(count), key) for key, count in highest.items() if count is not None]
    # Of the same bounds the one that says more.
    why = max(lowest, key=lambda key: (lowest[key], lowest[key] > 1 and key != "minimum"))
    low, high = lowest[why], min(ends, default=None, key=lambda end: end[0])
    multiple = int(constraints.of("multiple", name, version) or 1)
    allowed, grid = constraints.of("allow", name, version), constraints.of("grid", name, version)
    step = math.lcm(multiple, layouts.step or 1)
    # As far as the machine reaches, or to the first one where that is further: of a grid there is one per octave.
    last = max(machine.cores_in_all, 2 * low if grid else low + step, *(allowed or (0,)))
    last = last if high is None else min(last, high[0])
    counts, ranks, threads = layouts.rows(low, last)
    kept = _on_node(machine, name, version, threads)
    rules: list[tuple[str, str, NDArray[np.bool_]]] = []
    if multiple > 1:
        rules.append((f"multiples of {multiple}", f"multiples of {multiple}", counts % multiple == 0))
    if stated is not None:
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
        limit = "" if high is None else high[1]
        texts = [f"{low} at least ({why})", *([] if high is None else [f"{high[0]} at most ({limit})"])]
        bounds = [bound for bound in (accepted.least, accepted.most) if bound.why in (why, limit)]
        remedies = [f", or {bound.remedy}" for bound in bounds if bound.remedy]
        raise InfeasibleError(
            f'expected a number of {counted}s of "{key_of(name, version)}" that satisfies all of its constraints, '
            f"found that these clash whatever the budget: {'; '.join([*texts, *(text for _, text, _ in rules)])}; "
            f"change one of them{''.join(remedies)}"
        )
    first = int(kept.argmax())
    if counts[first] > low:
        why = next((rule for rule, _, mask in rules if first and not mask[:first].any()), f"multiples of {step}")
    takes = machine.takes(ranks[kept], threads[kept], name, version)
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
        rows = {name: rows[0] for name, rows in self.rows.items()}
        places = {name: int(np.searchsorted(row.counts, split[name])) for name, row in rows.items()}
        if any(row.counts[places[name] : places[name] + 1].tolist() != [split[name]] for name, row in rows.items()):
            return None
        return np.stack([row.takes[places[name]] for name, row in rows.items()])

    def require_budget(self) -> None:
        """Refuse a budget below what everyone needs at least."""
        able: list[tuple[int, tuple[Admissible, ...]]] = []
        for chosen in product(*self.rows.values()):
            uses = np.stack([row.takes[0] for row in chosen])
            if self.machine.fits(uses):
                return
            if (needed := self.machine.budget_for(self.machine.total(uses))) is not None:
                able.append((needed, chosen))
        if not able:
            least = [np.stack([row.takes[0] for row in rows]) for rows in self.rows.values()]
            raise InfeasibleError(f"{self.machine.want(least)} or let a participant choose a version without")
        needed, chosen = min(able, key=lambda entry: entry[0])
        minima = ", ".join(f"{row.name} {row.counts[0]}{_reasons(row, self.machine)}" for row in chosen)
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
    # Numbers are checked as those of constraints are.
    asked = Constraints(minimum=minimum, maximum=maximum or {})
    for one in (asked, constraints):
        one.require_names(versions)
    every = [(name, version) for name in versions for version in versions[name]]
    low, high = (
        {
            key_of(*one): best(counts)
            for one in every
            if (counts := [count for bounds in (asked, constraints) if (count := bounds.of(key, *one)) is not None])
        }
        for key, best in (("minimum", max), ("maximum", min))
    )
    constraints = replace(constraints, minimum=low, maximum=high)
    machine = Resources(constraints, budget, versions)
    rows: dict[str, list[Admissible]] = {}
    for name, of_name in versions.items():
        problems, rows[name] = [], []
        for version in of_name:
            try:
                rows[name].append(_admissible(machine, name, version, (lengths or {}).get((name, version))))
            except InfeasibleError as problem:
                problems.append(problem)
        if not rows[name]:
            raise problems[0]
    limits = Limits(machine, rows)
    limits.require_budget()
    return limits


def _reasons(least: Admissible, machine: Resources) -> str:
    """Say what makes the least count so large, and the nodes it takes if nobody else may use them."""
    reasons = [] if least.why == "minimum" else [least.why]
    if nodes := machine.whole_nodes_of(least.takes[0], least.name, least.version):
        reasons.append(plural(nodes, "whole node"))
    return f" ({', '.join(reasons)})" if reasons else ""


def grid_text(grid: Sequence[int]) -> str:
    """Write a grid: 720 x 360."""
    return " x ".join(map(str, grid))


@functools.lru_cache(maxsize=64)
def good_counts(grid: tuple[int, ...], most: int) -> Integers:
    """Find the counts up to ``most`` whose largest part, a layer of neighbours included, is smaller than of any fewer.

    Of each count the best of its factorisations into as many numbers as the grid has axes counts. 215 ranks on a grid
    of 720 x 360 can only be 43 x 5, with parts of 17 x 72 points; 210 ranks have 48 x 26, and less to exchange.
    """
    most = min(most, MOST)
    smallest = np.where(np.arange(most + 1) == 1, 1.0, np.inf)
    for points in grid:
        extent = np.ceil(points / np.maximum(np.arange(most + 1), 1)) + 2
        before, smallest = smallest, np.full(most + 1, np.inf)
        for first in range(1, math.isqrt(most) + 1):
            other = np.arange(first, most // first + 1)
            parts = np.minimum(extent[first] * before[other], extent[other] * before[first])
            smallest[first * other] = np.minimum(smallest[first * other], parts)
    fewer = np.minimum.accumulate(smallest)[:-1]
    return np.asarray(np.flatnonzero(smallest[1:] < fewer) + 1, dtype=np.int64)
