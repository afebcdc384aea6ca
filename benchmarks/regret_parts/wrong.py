"""Families that no smooth curve fits, planted to see whether a model that is wrong is noticed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from regret_parts.families import Family, between

__all__ = ["WRONG", "jumps", "plateaus", "uneven"]

Array = NDArray[np.float64]


def jumps(points: Array, ranks: Array) -> Array:
    """Give p^-α, α in U(0.7, 1), that takes 2 to 4 times as long from 2^U(4, 6) ranks on, as when memory is swapped."""
    alpha, factor = between(0.7, 1.0, points[:, :1]), between(2.0, 4.0, points[:, 1:2])
    return np.asarray(ranks**-alpha * np.where(ranks >= 2 ** between(4, 6, points[:, 2:3]), factor, 1.0))


def plateaus(points: Array, ranks: Array) -> Array:
    """Give times that do not fall between 2^U(3.5, 4.5) and 2^U(5.5, 6.5) ranks and as 1/p outside of that."""
    low, high = 2 ** between(3.5, 4.5, points[:, :1]), 2 ** between(5.5, 6.5, points[:, 1:2])
    return np.asarray(np.where(ranks < low, 1 / ranks, np.where(ranks < high, 1 / low, high / low / ranks)))


def uneven(points: Array, ranks: Array) -> Array:
    """Give 1/p, slowed by 1.5 to 2.5 where ranks do not divide a grid of blocks: in every second octave."""
    factor, shift = between(1.5, 2.5, points[:, :1]), between(0, 2, points[:, 1:2])
    return np.asarray(np.where((np.log2(ranks) + shift) % 2 < 1, factor, 1.0) / ranks)


WRONG: tuple[Family, ...] = (
    Family("jumps", 3, jumps, 21),
    Family("plateaus", 2, plateaus, 22),
    Family("uneven", 2, uneven, 23),
)
