"""The exact optimum where the slowest participant sets the window time, and so on for the next slowest.

This is problem 1.6 of Schröder (2019) with the parallel entries of his table 1.1 (problem 3.10 of Totounferoush, 2022),
which both solve by trying all splits. Here by bisection: for a makespan T every participant needs a smallest number of
ranks, which never rises with T; the optimum is the shortest T whose needs fit on the machine, and it is one of the
times on the curves. Neither falling times nor a spent budget (their equation 3.13) are assumed. Cores that are shared
in turns change only what fits; where there are several kinds of resource, so that there is no smallest need among the
versions of a participant, all combinations of versions are tried.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.typing import NDArray

from precice_lb.split.problem import Choice, Curve, Curves, uses_of
from precice_lb.split.resources import Layout

__all__ = ["minimax_split"]

Integers = NDArray[np.int64]


def minimax_split(curves: Curves, layout: Layout, only_slowest: bool = False) -> tuple[Choice, list[Integers]]:
    """Minimise the slowest participant's seconds, then the next slowest's; prove it by what less needs."""
    choice: Choice = {}
    # Any shorter makespan needs one entry at least; none if nothing can make the slowest participant faster.
    proof: list[Integers] = []
    while len(choice) < len(curves):
        search = _Search(curves, layout, choice)
        makespan, needed = search.shortest()
        if not choice:
            proof = needed
        found = search.fitting(makespan)
        assert found is not None
        if only_slowest:
            return found, proof
        # At equal times the one whose next step costs most stays behind.
        open_names = [name for name in curves if name not in choice]
        slowest = max(
            (name for name in open_names if _seconds(curves, found, name) == makespan),
            key=lambda name: _next_step(curves[name][found[name][0]], found[name][1]),
        )
        choice = {name: found[name] for name in curves if name in choice or name == slowest}
    return choice, proof


def _seconds(curves: Curves, choice: Choice, name: str) -> float:
    version, index = choice[name]
    return float(curves[name][version].seconds[index])


def _next_step(curve: Curve, index: int) -> float:
    return float(curve.uses[index + 1, 0] - curve.uses[index, 0]) if index + 1 < len(curve.ranks) else np.inf


class _Search:
    """Shortest makespan of the participants that have nothing yet."""

    def __init__(self, curves: Curves, layout: Layout, given: Choice) -> None:
        self._curves = curves
        self._layout = layout
        self._given = given
        self._open = [name for name in curves if name not in given]

    def needs(self, makespan: float) -> list[Choice]:
        """Smallest counts with which everyone is that fast, one entry for each combination of versions that counts."""
        reaching: dict[str, list[tuple[int, int]]] = {}
        for name, own in self._curves.items():
            if name in self._given:
                reaching[name] = [self._given[name]]
                continue
            found = [(v, curve.index_reaching(makespan)) for v, curve in enumerate(own)]
            found = [(v, index) for v, index in found if index < len(own[v].ranks)]
            if len(self._layout.capacity) == 1 and found:
                found = [min(found, key=lambda at, own=own: int(own[at[0]].uses[at[1], 0]))]  # type: ignore[misc]
            reaching[name] = found
        return [dict(zip(reaching, choice, strict=True)) for choice in product(*reaching.values())]

    def _total(self, choice: Choice) -> Integers:
        return self._layout.total(uses_of(self._curves, choice))

    def fitting(self, makespan: float) -> Choice | None:
        """Find a choice that is that fast and fits, the one that takes the least cores; None where there is none."""
        fitting = [c for c in self.needs(makespan) if self._layout.fits(uses_of(self._curves, c))]
        return min(fitting, key=lambda choice: int(self._total(choice)[0])) if fitting else None

    def shortest(self) -> tuple[float, list[Integers]]:
        """Shortest makespan that fits, and what the next shorter one needs."""
        own = [self._curves[name] for name in self._open]
        # Nobody can be faster than at the end of its curve.
        low = max(min(float(curve.seconds[-1]) for curve in versions) for versions in own)
        if self.fitting(low) is not None:
            return low, []
        high = max(max(float(curve.seconds[0]) for curve in versions) for versions in own)
        while low < (middle := 0.5 * (low + high)) < high:
            found = self.fitting(middle)
            if found is not None:
                # Always a time on one of the curves.
                high = max(_seconds(self._curves, found, name) for name in self._open)
            else:
                low = middle
        return high, [self._total(choice) for choice in self.needs(low)]
