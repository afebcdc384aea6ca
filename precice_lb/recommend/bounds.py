"""Rank bounds: what the caller asks for, and what the models leave of it."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from typing import Any

from precice_lb.exceptions import InfeasibleError
from precice_lb.plural import plural

__all__ = ["outside", "rank_bounds", "require_room", "whole_number"]


def whole_number(value: Any, what: str, least: int) -> int:
    """Check a number that may be of any integer type."""
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if isinstance(value, bool) or number < least:
        raise InfeasibleError(f"expected {what} as a whole number of at least {least}, found {value!r}")
    return number


def outside(ranks: int, measured: Iterable[float]) -> tuple[int, int] | None:
    """Fewest and most ranks that were measured, where some are outside of them; None where they are not."""
    known = [int(count) for count in measured]
    low, high = min(known), max(known)
    return None if low <= ranks <= high else (low, high)


def rank_bounds(
    names: tuple[str, ...], budget: int, minimum: int | Mapping[str, int], maximum: Mapping[str, int] | None
) -> tuple[dict[str, int], dict[str, int]]:
    """Lowest and highest ranks of each participant within the budget."""
    given = minimum if isinstance(minimum, Mapping) else dict.fromkeys(names, minimum)
    for unknown in [*given, *(maximum or {})]:
        if unknown not in names:
            raise InfeasibleError(f"expected bounds of {', '.join(names)}, found one of {unknown!r}")
    lowest = {name: whole_number(given.get(name, 1), f"minimum ranks of {name}", 1) for name in names}
    needed = sum(lowest.values())
    if budget < needed:
        raise InfeasibleError(
            f"expected at least {plural(needed, 'rank')} for {len(names)} participants and their minima, found "
            f"{budget}; give {needed} or more"
        )
    highest = {}
    for name in names:
        room = budget - needed + lowest[name]
        highest[name] = min(room, whole_number((maximum or {}).get(name, room), f"maximum ranks of {name}", 1))
        if highest[name] < lowest[name]:
            raise InfeasibleError(
                f"expected a maximum of at least {plural(lowest[name], 'rank')} for {name}, its minimum, found "
                f"{highest[name]}"
            )
    return lowest, highest


def require_room(first: Mapping[str, int], last: Mapping[str, int], lowest: Mapping[str, int], budget: int) -> None:
    """Refuse where the ranges in which models can be believed leave no split."""
    remedy = "measure at the rank counts in question or choose another learner"
    for name in first:
        if first[name] > last[name]:
            raise InfeasibleError(
                f"the model of {name} can be believed from {first[name]} to {plural(last[name], 'rank')} only, which "
                f"leaves no choice within its bounds; {remedy}"
            )
    if sum(first.values()) > budget:
        raised = ", ".join(f"{name} from {plural(first[name], 'rank')}" for name in first if first[name] > lowest[name])
        raise InfeasibleError(f"the models can be believed only for {raised}, more than {budget} in all; {remedy}")
