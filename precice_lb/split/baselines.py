"""Splits that ask no performance model: what users do by hand, to compare with."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from precice_lb.exceptions import InfeasibleError
from precice_lb.split.candidates import minima_of

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
    weights: Mapping[str, float],
    budget: int,
    minimum: int | Mapping[str, int] = 1,
    maximum: Mapping[str, int] | None = None,
) -> dict[str, int]:
    """Give every participant ranks in proportion to its weight, such as its degrees of freedom.

    Whole numbers come by the largest remainder; participants whose share is below their minimum get the minimum, those
    whose share is above their maximum the maximum, and the rest is shared among the others.

    Parameters
    ----------
    weights
        Positive weights by participant.
    budget
        Ranks to give out, all of them where the maxima allow it.
    minimum
        Ranks that a participant gets at least, one number for all or one for each.
    maximum
        Ranks that a participant gets at most, where there is a bound.

    Returns
    -------
    dict of str to int
        Ranks.

    Raises
    ------
    InfeasibleError
        If the budget is below the sum of the minima, a maximum is below its minimum, or if a weight is not positive.
    """
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
