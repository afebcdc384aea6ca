"""Splits that must not be chosen: all others, as problems whose counts are free of each other.

A split that is left out takes a corner out of the product of the participants' counts. What is left is divided into
products again: the first participant has another count, or the first has this one and the second another, and so on
(as Lawler 1972 and Murty 1968 divide the solutions that are left when the best one is taken out). So every method that
solves a problem exactly serves, and the best of their answers is the best split that is not left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from precice_lb.exceptions import InfeasibleError
from precice_lb.plural import counts_text
from precice_lb.split.problem import Options, Problem

__all__ = ["without_excluded"]


def without_excluded(problem: Problem) -> list[Problem]:
    """Divide a problem into such that have no excluded split and every other one once."""
    parts = [problem]
    for split in problem.constraints.excluded:
        parts = [rest for part in parts for rest in _without(part, split)]
    if not parts:
        splits = "; ".join(map(counts_text, problem.constraints.excluded))
        raise InfeasibleError(
            f"expected a split beside those that must not be chosen ({splits}), found none within the bounds and the "
            "budget; give more ranks or wider bounds"
        )
    return parts


def _without(problem: Problem, split: Mapping[str, int]) -> list[Problem]:
    if not split or not all(any(ranks in o.ranks for o in problem.options[name]) for name, ranks in split.items()):
        return [problem]
    parts = []
    given: dict[str, tuple[Options, ...]] = {}
    for name, ranks in split.items():
        own = problem.options[name]
        parts.append(replace(problem, options={**problem.options, **given, name: _where(own, ranks, equal=False)}))
        given[name] = _where(own, ranks, equal=True)
    return [part for part in parts if any(part.layout.fits(uses) for uses in part.least_uses())]


def _where(options: tuple[Options, ...], ranks: int, *, equal: bool) -> tuple[Options, ...]:
    """Keep one count, or all others, of those versions that have any left."""
    kept = []
    for each in options:
        chosen = (each.ranks == ranks) if equal else (each.ranks != ranks)
        if chosen.any():
            kept.append(
                replace(each, ranks=each.ranks[chosen], uses=each.uses[chosen], seconds=each.seconds[:, chosen])
            )
    return tuple(kept)
