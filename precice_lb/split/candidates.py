"""Which rank counts are possible: bounds, multiples, lists and the machine, or what among them clashes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import InfeasibleError
from precice_lb.plural import counts_text, plural
from precice_lb.precice_xml.ranks import UNBOUND, AcceptedRanks
from precice_lb.split.constraints import Constraints
from precice_lb.split.decomposition import MOST, good_counts, grid_text
from precice_lb.split.nodes import cores_for, cores_up_to, listed_cores, most_cores
from precice_lb.split.resources import Layout, Resources

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Candidates:
    """Counts of ranks, or of cores, of one version of a participant that everything but the budget admits."""

    name: str
    version: str
    # Bounds; `high` is None where nothing bounds from above.
    low: int
    high: int | None
    # Of what they are multiples.
    multiple: int
    # The only counts possible, rising, already within all of that; None where there is no list.
    listed: Integers | None
    # What the least count comes from.
    why: str

    @property
    def first(self) -> int:
        """The least count."""
        return int(self.listed[0]) if self.listed is not None else self.low

    def up_to(self, most: int) -> Integers:
        """All counts up to so many."""
        if self.listed is not None:
            return self.listed[self.listed <= most]
        return np.arange(self.low, (most if self.high is None else min(most, self.high)) + 1, self.multiple)


def minima_of(names: Sequence[str], minimum: int | Mapping[str, int], budget: int) -> dict[str, int]:
    """Ranks that each participant gets at least."""
    minima = {name: int(minimum.get(name, 1) if isinstance(minimum, Mapping) else minimum) for name in names}
    for name, ranks in minima.items():
        if ranks < 1:
            raise InfeasibleError(f'expected at least 1 rank as minimum of "{name}", found {ranks}')
    needed = sum(minima.values())
    if budget < needed:
        raise InfeasibleError(
            f"expected a budget of at least {needed} ranks for {len(minima)} participants "
            f"(minima: {counts_text(minima)}), found {budget}; give {needed} ranks or more"
        )
    return minima


def lower_bounds(constraints: Constraints, name: str, version: str = "") -> dict[str, int]:
    """Bounds from below of what a split counts, by what they come from."""
    layouts = constraints.of("layouts", name, version)
    bounds = {"minimum": int(constraints.of("minimum", name, version) or 1)}
    for key, ranks in _needed_ranks(constraints, name, version).items():
        bounds[key] = ranks if layouts is None else cores_for(layouts, ranks, f"{name} ({key})")
    return bounds


def _needed_ranks(constraints: Constraints, name: str, version: str) -> dict[str, int]:
    needed = {}
    if (least := _accepted(constraints, name, version).least).ranks > 1:
        needed[least.why] = least.ranks
    for key in ("memory", "elements"):
        total, limit = constraints.of(key, name, version), constraints.of(f"{key}_per_rank", name, version)
        if total is not None and limit is not None:
            # Whole quotients must not become one more by rounding.
            needed[key] = math.ceil(total / limit * (1 - 1e-12))
    return needed


def upper_bounds(constraints: Constraints, name: str, version: str = "") -> dict[str, int]:
    """Bounds from above of what a split counts, by what they come from."""
    layouts, node = constraints.of("layouts", name, version), _node_cores(constraints, name, version)
    accepted = _accepted(constraints, name, version).most
    bounds = {"maximum of the constraints": constraints.of("maximum", name, version)}
    if accepted != UNBOUND:
        bounds[accepted.why] = accepted.ranks if layouts is None else cores_up_to(layouts, accepted.ranks)
    if layouts is not None and node is not None:
        bounds["threads on one node"] = most_cores(layouts, node)
    return {key: int(value) for key, value in bounds.items() if value is not None}


def _accepted(constraints: Constraints, name: str, version: str) -> AcceptedRanks:
    accepted: AcceptedRanks | None = constraints.of("accepted_ranks", name, version)
    return accepted or AcceptedRanks()


def _node_cores(constraints: Constraints, name: str, version: str) -> int | None:
    return constraints.kind_of(name, version).cores_per_node if constraints.kinds else constraints.cores_per_node


def candidates_of(
    name: str, version: str, constraints: Constraints, minimum: int, maximum: int | None, length: int | None
) -> Candidates:
    """Collect what bounds one version of a participant."""
    bounds = lower_bounds(constraints, name, version)
    bounds["minimum"] = max(bounds["minimum"], minimum)
    # Of the same bounds the one that says more.
    why = max(bounds, key=lambda key: (bounds[key], bounds[key] > 1 and key != "minimum"))
    low = bounds[why]
    known = {key: value for key, value in {"maximum": maximum, "times known": length}.items() if value is not None}
    known |= upper_bounds(constraints, name, version)
    layouts = constraints.of("layouts", name, version)
    node, accepted = _node_cores(constraints, name, version), _accepted(constraints, name, version)
    counted = "rank" if layouts is None else "core"
    high = min(known.values()) if known else None
    limit = min(known, key=lambda key: known[key]) if known else ""
    if high is not None and high < low:
        asked = "the minimum" if why == "minimum" else f"needed for {why}"
        remedies = [f", or {bound.remedy}" for bound in (accepted.least, accepted.most) if bound.why in (why, limit)]
        raise InfeasibleError(
            f'expected at least {plural(low, counted)}, {asked}, as maximum of "{name}", found {high} '
            f"({limit}); correct the bounds{''.join(remedies)}"
        )
    multiple = int(constraints.of("multiple", name, version) or 1)
    fixed, allowed = constraints.of("fixed", name, version), constraints.of("allow", name, version)
    rules = {"minimum": f"{low} at least ({why})", "maximum": f"{high} at most ({limit})" if high is not None else ""}
    rules["multiple"] = f"multiples of {multiple}" if multiple > 1 else ""
    listed = None
    if layouts is not None:
        on_node = "" if node is None else f", those of a rank on a node of {plural(node, 'core')}"
        rules["layouts"] = f"{layouts} cores for its threads{on_node}"
        multiple = math.lcm(multiple, layouts.step or 1)
        needed = max(_needed_ranks(constraints, name, version).values(), default=1)
        listed = listed_cores(layouts, needed, accepted.most.ranks, node)
    if allowed is not None or fixed is not None:
        only = np.unique(np.asarray(allowed if allowed is not None else [fixed], dtype=np.int64))
        listed = only if listed is None else np.intersect1d(listed, only)
        rules["allowed"] = f"one of {', '.join(map(str, only[:8]))}" if allowed is not None else ""
        if fixed is not None:
            rules["fixed"] = f"fixed at {fixed}"
            listed = listed[listed == fixed]
    if (grid := constraints.of("grid", name, version)) is not None:
        good = good_counts(tuple(grid), high or MOST)
        rules["grid"] = f"counts that cut its grid of {grid_text(grid)} evenly"
        if layouts is not None:
            cores = [c for c in layouts.allowed(low, high or MOST) if layouts.of(c).ranks in set(good.tolist())]
            good = np.array(cores, dtype=np.int64)
        listed = good if listed is None else np.intersect1d(listed, good)
    if listed is not None:
        listed = listed[(listed >= low) & (listed % multiple == 0)]
        listed = listed if high is None else listed[listed <= high]
    start = -(-low // multiple) * multiple
    if (listed is not None and not len(listed)) or (listed is None and high is not None and start > high):
        raise InfeasibleError(
            f'expected a number of {counted}s of "{name}{":" if version else ""}{version}" that satisfies all of its '
            f"constraints, found that these clash whatever the budget: {'; '.join(r for r in rules.values() if r)}"
        )
    if fixed is not None:
        why = "fixed"
    elif listed is not None and listed[0] > low:
        why = "allowed" if grid is None else "grid"
    elif listed is None and start > low:
        why = f"multiples of {multiple}"
    return Candidates(name, version, start, high, multiple, listed, why)


def admitted_counts(
    candidates: Mapping[str, list[Candidates]], machine: Resources, layout: Layout
) -> dict[tuple[str, str], Integers]:
    """List the counts of each version that the budget admits while everyone else gets the least."""
    least = {
        name: np.stack([machine.uses(np.array([c.first]), name, c.version)[0] for c in own])
        for name, own in candidates.items()
    }
    _require_budget(candidates, least, machine, layout)
    # Of each resource the least over the versions: at most what anybody really takes.
    lowest = np.stack([uses.min(axis=0) for uses in least.values()])
    room = layout.allowance(lowest)
    counts = {}
    for index, (name, own) in enumerate(candidates.items()):
        for candidate in own:
            ranks = candidate.up_to(machine.most_ranks(room[index], name, candidate.version))
            ranks = ranks[(machine.uses(ranks, name, candidate.version) <= room[index]).all(axis=-1)]
            if len(ranks):
                counts[name, candidate.version] = ranks
    return counts


def _require_budget(
    candidates: Mapping[str, list[Candidates]],
    least: Mapping[str, Integers],
    machine: Resources,
    layout: Layout,
) -> None:
    best: tuple[int, tuple[int, ...]] | None = None
    for choice in product(*(range(len(own)) for own in candidates.values())):
        uses = np.stack([least[name][k] for name, k in zip(candidates, choice, strict=True)])
        if layout.fits(uses):
            return
        needed = machine.budget_for(layout.total(uses))
        if needed is not None and (best is None or needed < best[0]):
            best = needed, choice
    if best is None:
        raise InfeasibleError(f"{machine.want(least.values())} or let a participant choose a version without")
    needed, choice = best
    chosen = [own[k] for own, k in zip(candidates.values(), choice, strict=True)]
    each = ", ".join(f"{c.name} {c.first}{_reasons(c, machine)}" for c in chosen)
    unit = machine.unit
    raise InfeasibleError(
        f"expected a budget of at least {needed} {unit} for {len(chosen)} participants (minima: {each}), "
        f"found {machine.budget}; give {needed} {unit} or more"
    )


def _reasons(candidates: Candidates, machine: Resources) -> str:
    """Say what makes the least count so large, and the nodes it takes if nobody else may use them."""
    reasons = [] if candidates.why == "minimum" else [candidates.why]
    nodes = machine.whole_nodes_of(candidates.first, candidates.name, candidates.version)
    if nodes:
        reasons.append(plural(nodes, "whole node"))
    return f" ({', '.join(reasons)})" if reasons else ""


def proportional_split(
    weights: Mapping[str, float],
    budget: int,
    minimum: int | Mapping[str, int] = 1,
    maximum: Mapping[str, int] | None = None,
) -> dict[str, int]:
    """Give ranks in proportion to positive weights, such as degrees of freedom, within bounds; by largest remainder."""
    wrong = [name for name, weight in weights.items() if not (weight > 0 and math.isfinite(weight))]
    if wrong or not weights:
        found = f'{weights[wrong[0]]} for "{wrong[0]}"' if wrong else "no participants"
        raise InfeasibleError(f"expected positive weights, found {found}")
    minima = minima_of(list(weights), minimum, budget)
    maxima = {name: int((maximum or {}).get(name, budget)) for name in weights}
    if clash := [name for name in weights if maxima[name] < minima[name]]:
        name = clash[0]
        raise InfeasibleError(f'expected at most {minima[name]} ranks as minimum of "{name}", found {maxima[name]}')
    free, left = dict(weights), budget
    split = {}
    while free:
        shares = {name: weight / sum(free.values()) * left for name, weight in free.items()}
        bound = {name: min(max(share, minima[name]), maxima[name]) for name, share in shares.items()}
        # Whoever is bound on the side that weighs more leaves the sharing, which may bring the next to a bound.
        more = sum(bound.values()) - left
        leaving = [n for n in free if bound[n] > shares[n]] if more >= 0 else []
        leaving = leaving or [n for n in free if bound[n] < shares[n]]
        if not leaving:
            break
        for name in leaving:
            split[name] = int(bound[name])
            left -= split[name]
            del free[name]
    if free:
        split |= {name: math.floor(shares[name]) for name in free}
        by_remainder = sorted(free, key=lambda name: math.floor(shares[name]) - shares[name])
        for name in by_remainder[: left - sum(split[name] for name in free)]:
            split[name] += 1
    return {name: split[name] for name in weights}
