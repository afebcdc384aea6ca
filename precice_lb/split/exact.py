"""Exact optima over running-minimum curves."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import InfeasibleError
from precice_lb.split.problem import Curve

__all__ = ["MAXIMUM_BOXES", "branch_and_bound_split", "minimax_split"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

#: More boxes of splits than this are refused by `branch_and_bound_split` rather than bounded for minutes.
MAXIMUM_BOXES = 5_000_000


def minimax_split(curves: Mapping[str, Curve], budget: int) -> tuple[dict[str, int], int | None]:
    """Minimise the slowest participant's seconds, then the next slowest's, and so on.

    This is problem 1.6 of Schröder (2019) with the parallel entries of his table 1.1 (problem 3.10 of Totounferoush,
    2022), which both solve by trying all splits. Here by bisection: for a makespan T every participant needs a smallest
    number of ranks, which never rises with T; the optimum is the shortest T whose needs fit into the budget, and it is
    one of the times on the curves. Neither falling times nor a spent budget (their equation 3.13) are assumed.

    Parameters
    ----------
    curves
        Running-minimum curves; `curves[name].ranks[0]` is the least that a participant gets.
    budget
        Ranks that may be given out in all; enough for the least of everyone.

    Returns
    -------
    split : dict of int
        Ranks by participant. Ranks that would make nobody faster stay unused.
    needed : int or None
        Ranks that any shorter makespan needs, which is the proof that this one is the optimum; None if more ranks
        cannot make the slowest participant faster.
    """
    split: dict[str, int] = {}
    proof: int | None = None
    active, left = dict(curves), budget
    while active:
        makespan, needed = _shortest(active, left)
        if not split:
            proof = needed
        reached = {name: curve.index_reaching(makespan) for name, curve in active.items()}
        # At equal times the one whose next step costs most stays behind.
        slowest = max(
            (name for name, curve in active.items() if curve.seconds[reached[name]] == makespan),
            key=lambda name: _next_step(active[name], reached[name]),
        )
        split[slowest] = int(active[slowest].ranks[reached[slowest]])
        left -= split[slowest]
        del active[slowest]
    return {name: split[name] for name in curves}, proof


def _next_step(curve: Curve, index: int) -> float:
    return float(curve.ranks[index + 1] - curve.ranks[index]) if index + 1 < len(curve.ranks) else np.inf


def _shortest(curves: Mapping[str, Curve], budget: int) -> tuple[float, int | None]:
    """Shortest makespan within the budget, and the ranks that the next shorter one needs."""

    def needed(makespan: float) -> int:
        return sum(int(curve.ranks[curve.index_reaching(makespan)]) for curve in curves.values())

    def reached(makespan: float) -> float:
        return max(float(curve.seconds[curve.index_reaching(makespan)]) for curve in curves.values())

    # Nobody can be faster than at the end of its curve.
    low = max(float(curve.seconds[-1]) for curve in curves.values())
    if needed(low) <= budget:
        return low, None
    high = max(float(curve.seconds[0]) for curve in curves.values())
    while low < (middle := 0.5 * (low + high)) < high:
        if needed(middle) <= budget:
            # Always a time on one of the curves.
            high = reached(middle)
        else:
            low = middle
    shorter = max(float(c.seconds[c.index_reaching(low)]) for c in curves.values() if c.seconds[-1] <= low)
    return high, needed(shorter)


def branch_and_bound_split(
    curves: Mapping[str, Curve],
    budget: int,
    window_seconds: Callable[[dict[str, Floats]], Floats],
    start: Mapping[str, int],
) -> tuple[dict[str, int], int]:
    """Minimise any window time that never falls when a cost rises.

    Sums (the serial entries of Schröder's table 1.1; problem 3.12 of Totounferoush, who names branch and bound for it)
    and mixtures of sums and maxima. All participants but one span boxes of counts; the last one gets what they leave.
    No split in a box is better than the window time of its most ranks for everyone, with only its fewest taken from the
    last one. Boxes for which that is no better than a split already found are dropped, the others halved down to
    single splits.

    Parameters
    ----------
    curves, budget
        As for `minimax_split`.
    window_seconds
        Seconds per window for own seconds of each participant, arrays of one shape. Never below any of them.
    start
        A split within the budget whose counts are on the curves.

    Returns
    -------
    split : dict of int
        Ranks by participant.
    boxes : int
        How many boxes of splits were bounded.

    Raises
    ------
    InfeasibleError
        If there are more than `MAXIMUM_BOXES`.
    """
    own = {name: np.array([curve.seconds[curve.index_within(start[name])]]) for name, curve in curves.items()}
    best, split = float(window_seconds(own)[0]), dict(start)
    # Counts with which a participant alone takes longer than that window, or leaves too few to the others, are out.
    limit = best * (1 + 1e-9)
    least = {name: int(curve.ranks[curve.index_reaching(limit)]) for name, curve in curves.items()}
    spare = budget - sum(least.values())
    useful = {n: c.cut(c.index_reaching(limit), int(c.index_within(least[n] + spare))) for n, c in curves.items()}
    *free, last = sorted(useful, key=lambda name: len(useful[name].ranks))
    low = np.zeros((1, len(free)), dtype=np.int64)
    high = np.array([[len(useful[name].ranks) - 1 for name in free]], dtype=np.int64)
    boxes = 0
    while len(low):
        boxes += len(low)
        if boxes > MAXIMUM_BOXES:
            raise InfeasibleError(
                f"expected a coupling and times for which {MAXIMUM_BOXES} bounds prove a split the best, found "
                f"{len(low)} boxes of splits still open; bound the ranks of the participants"
            )
        taken = sum((useful[name].ranks[low[:, i]] for i, name in enumerate(free)), np.zeros(len(low), dtype=np.int64))
        rest = useful[last].index_within(budget - taken)
        low, high, rest = low[rest >= 0], high[rest >= 0], rest[rest >= 0]
        fewest, most = (
            {name: useful[name].seconds[corner[:, i]] for i, name in enumerate(free)}
            | {last: useful[last].seconds[rest]}
            for corner in (low, high)
        )
        # Everyone's fewest ranks are a split: the only one in a box of one.
        seconds = window_seconds(fewest)
        at = int(np.argmin(seconds)) if len(seconds) else 0
        # Rounding must not decide between equal splits.
        if len(seconds) and seconds[at] < best * (1 - 1e-12):
            best = float(seconds[at])
            split = {name: int(useful[name].ranks[low[at, i]]) for i, name in enumerate(free)}
            split[last] = int(useful[last].ranks[rest[at]])
        is_open = (window_seconds(most) < best * (1 - 1e-12)) & (low < high).any(axis=1)
        low, high = _halves(low[is_open], high[is_open])
    return {name: split[name] for name in curves}, boxes


def _halves(low: Integers, high: Integers) -> tuple[Integers, Integers]:
    """Split every box in its longest direction."""
    rows = np.arange(len(low))
    longest = np.argmax(high - low, axis=1)
    middle = (low[rows, longest] + high[rows, longest]) // 2
    first_high, second_low = high.copy(), low.copy()
    first_high[rows, longest] = middle
    second_low[rows, longest] = middle + 1
    return np.concatenate((low, second_low)), np.concatenate((first_high, high))
