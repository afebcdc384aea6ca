"""Modified golden-section search over hypotheses sorted by their slope (Calotoiu et al. 2016, section IV-A)."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

__all__ = ["golden_section", "slope_order"]

Array = NDArray[np.float64]

GOLDEN = (1 + math.sqrt(5)) / 2
# Places to either side of the found one that are looked at as well. Terms with different powers of the logarithm take
# turns in the order of slopes; much alike ones, x^0.75 and x^0.25 log2(x)^2 say, stand up to 4 places apart.
NEIGHBOURS = 5


def slope_order(pairs: Array, largest: float, log_base: float = 2.0) -> NDArray[np.intp]:
    """Sort terms x^i log(x)^j, exponents (T, 2), by the size of their slope at the largest measured x > 1.

    Indices, shape (T,), the flattest first; of equal slopes the first stays first.
    """
    i, j = pairs.T
    logarithm = math.log(largest) / math.log(log_base)
    # Product rule (Schröder 2019, equation 2.13); in logarithms, so that large powers do not overflow.
    inner = np.abs(i * logarithm + j / math.log(log_base))
    with np.errstate(divide="ignore"):
        slope = (i - 1) * math.log(largest) + (j - 1) * math.log(logarithm) + np.log(inner)
    return np.argsort(slope, kind="stable")


def golden_section(evaluate: Callable[[int], float], count: int) -> tuple[int, dict[int, float]]:
    """Find where a function falls no more and rises, over 0 … count - 1: the index, and all that was evaluated.

    The interval shrinks by the golden ratio; points are rounded to integers. At the end the neighbours of the best
    point are looked at, and theirs as long as they are better: a ranking of hypotheses is unimodal only nearly. Of
    equal values the lowest index wins.
    """
    seen: dict[int, float] = {}

    def value(index: int) -> float:
        if index not in seen:
            seen[index] = evaluate(index)
        return seen[index]

    low, high = 0, count - 1
    value(low), value(high)
    while high - low > 2:
        step = (high - low) / GOLDEN
        left, right = round(high - step), round(low + step)
        if left >= right:
            left, right = (low + high) // 2, (low + high) // 2 + 1
        if value(right) >= value(left):
            high = right
        else:
            low = left
    for index in range(low, high + 1):
        value(index)
    while True:
        best = min(seen, key=lambda index: (seen[index], index))
        around = range(max(0, best - NEIGHBOURS), min(count, best + NEIGHBOURS + 1))
        if all(index in seen for index in around):
            return best, seen
        for index in around:
            value(index)
