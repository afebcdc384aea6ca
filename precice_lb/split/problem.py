"""The optimisation problem: what each participant costs at each admissible number of ranks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import InfeasibleError, ModelError

__all__ = ["Curve", "Times", "curves_of", "minima_of"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Times = NDArray[np.float64] | Sequence[float] | Callable[[Integers], NDArray[np.float64]]


@dataclass(frozen=True)
class Curve:
    """The running minimum of a participant's times: the rank counts at which it gets faster than with any fewer.

    More ranks than that cost budget and gain nothing, so that an optimum is found among these counts alone. This is
    what makes times that do not fall everywhere (a poor decomposition, communication that outweighs the work) harmless.

    Attributes
    ----------
    ranks : ndarray of int
        Rising, from the smallest admissible count.
    seconds : ndarray
        Strictly falling seconds per window.
    """

    ranks: Integers
    seconds: Floats

    @cached_property
    def _rising(self) -> Floats:
        return -self.seconds

    def index_within(self, ranks: Integers | int) -> Integers:
        """Index of the largest count that is at most `ranks`; -1 where even the smallest is too many."""
        return np.asarray(np.searchsorted(self.ranks, ranks, side="right") - 1)

    def index_reaching(self, seconds: float) -> int:
        """Index of the smallest count that needs at most `seconds`; the length of the curve where none does."""
        return int(np.searchsorted(self._rising, -seconds))

    def cut(self, first: int, last: int) -> Curve:
        """Keep the counts with indices from `first` to `last`, both included."""
        return Curve(self.ranks[first : last + 1], self.seconds[first : last + 1])


def minima_of(names: Sequence[str], minimum: int | Mapping[str, int], budget: int) -> dict[str, int]:
    """Ranks that each participant gets at least.

    Raises
    ------
    InfeasibleError
        If a minimum is below 1, or if the budget does not suffice for all of them; then with the smallest that does.
    """
    minima = {name: int(minimum if isinstance(minimum, int) else minimum.get(name, 1)) for name in names}
    for name, ranks in minima.items():
        if ranks < 1:
            raise InfeasibleError(f'expected at least 1 rank as minimum of "{name}", found {ranks}')
    needed = sum(minima.values())
    if budget < needed:
        each = ", ".join(f"{name} {ranks}" for name, ranks in minima.items())
        raise InfeasibleError(
            f"expected a budget of at least {needed} ranks for {len(minima)} participants (minima: {each}), "
            f"found {budget}; give {needed} ranks or more"
        )
    return minima


def curves_of(
    times: Mapping[str, Times],
    budget: int,
    minimum_ranks: int | Mapping[str, int],
    maximum_ranks: Mapping[str, int] | None,
) -> dict[str, Curve]:
    """Evaluate and check the times of all participants on the counts that the budget and the bounds admit.

    Raises
    ------
    InfeasibleError
        If no split satisfies the bounds.
    ModelError
        If a time in that range is not finite or not positive, or if times are missing.
    """
    minima = minima_of(list(times), minimum_ranks, budget)
    spare = budget - sum(minima.values())
    curves = {}
    for name, values in times.items():
        low = minima[name]
        high = min(low + spare, (maximum_ranks or {}).get(name, low + spare))
        if high < low:
            raise InfeasibleError(
                f'expected at least {low} ranks, the minimum, as maximum of "{name}", found {high}; correct the bounds'
            )
        curves[name] = _curve(name, values, low, high)
    return curves


def _curve(name: str, values: Times, low: int, high: int) -> Curve:
    if callable(values):
        ranks = np.arange(low, high + 1)
        seconds = np.asarray(values(ranks), dtype=np.float64)
    else:
        known = np.asarray(values, dtype=np.float64)
        ranks = np.arange(low, min(high, len(known)) + 1)
        seconds = known[low - 1 : high]
    if seconds.shape != ranks.shape or not len(ranks):
        raise ModelError(
            f'expected one time for each number of ranks from {low} for "{name}", '
            f"found an array of shape {np.shape(seconds)}"
        )
    wrong = ~(np.isfinite(seconds) & (seconds > 0))
    if wrong.any():
        first = int(np.argmax(wrong))
        raise ModelError(
            f'expected positive, finite seconds per window of "{name}", found {seconds[first]} at {ranks[first]} '
            "ranks; bound the ranks or use another model"
        )
    envelope = np.minimum.accumulate(seconds)
    falls = np.concatenate(([True], envelope[1:] < envelope[:-1]))
    return Curve(ranks[falls], seconds[falls])
