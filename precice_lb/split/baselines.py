"""Splits that ask no performance model: what users do by hand, to compare with."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from precice_lb.exceptions import InfeasibleError
from precice_lb.split.problem import minima_of

__all__ = ["equal_split", "proportional_split"]


def equal_split(names: Sequence[str], budget: int, minimum: int | Mapping[str, int] = 1) -> dict[str, int]:
    """Give every participant the same number of ranks; what is left over goes to the first ones.

    Parameters
    ----------
    names
        The participants.
    budget
        Ranks to give out, all of them.
    minimum
        Ranks that a participant gets at least, one number for all or one for each.

    Returns
    -------
    dict of str to int
        Ranks.

    Raises
    ------
    InfeasibleError
        If the budget is below the sum of the minima.
    """
    return proportional_split(dict.fromkeys(names, 1.0), budget, minimum)


def proportional_split(
    weights: Mapping[str, float], budget: int, minimum: int | Mapping[str, int] = 1
) -> dict[str, int]:
    """Give every participant ranks in proportion to its weight, such as its degrees of freedom.

    Whole numbers come by the largest remainder; participants whose share is below the minimum get the minimum and the
    rest is shared among the others.

    Parameters
    ----------
    weights
        Positive weights by participant.
    budget
        Ranks to give out, all of them.
    minimum
        Ranks that a participant gets at least, one number for all or one for each.

    Returns
    -------
    dict of str to int
        Ranks.

    Raises
    ------
    InfeasibleError
        If the budget is below the sum of the minima, or if a weight is not positive.
    """
    wrong = [name for name, weight in weights.items() if not (weight > 0 and math.isfinite(weight))]
    if wrong or not weights:
        found = f'{weights[wrong[0]]} for "{wrong[0]}"' if wrong else "no participants"
        raise InfeasibleError(f"expected positive weights, found {found}")
    minima = minima_of(list(weights), minimum, budget)
    free, left = dict(weights), budget
    split = {}
    # Whoever falls below the minimum leaves the sharing, which may push the next one below its own.
    while small := [n for n, w in free.items() if w / sum(free.values()) * left < minima[n]]:
        for name in small:
            split[name] = minima[name]
            left -= minima[name]
            del free[name]
    total = sum(free.values())
    shares = {name: weight / total * left for name, weight in free.items()}
    split |= {name: math.floor(share) for name, share in shares.items()}
    by_remainder = sorted(shares, key=lambda name: math.floor(shares[name]) - shares[name])
    for name in by_remainder[: left - sum(split[name] for name in free)]:
        split[name] += 1
    return {name: split[name] for name in weights}
